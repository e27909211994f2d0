//! The digest of a read: the MD5 of keys, columns, rows and deletions, bit for bit as Cassandra
//! computes it.
//!
//! A coordinator compares the digests of its replicas. If they differ, it asks all replicas for
//! data. So a replica whose digest differs for equal rows makes each read twice as expensive. Some
//! details of the form:
//!
//! - Only the timestamp of a deletion counts, because the wall clocks of replicas differ.
//! - A boolean is a byte: 0 for true, and 1 for false.
//! - The digest of a partition without static row includes an empty static row, but no static
//!   columns.

use std::sync::Arc;

use espalier_mutation::{
    Cell, Clustering, ColumnData, DeletionTime, Liveness, RangeTombstoneMarker, Row, Unfiltered,
    counter, schema::TableMetadata,
};
use md5::{Digest as _, Md5};

use crate::payload::{ColumnList, Partition};

/// Cassandra's numbers for the two kinds of clusterings that are not bounds.
const STATIC_CLUSTERING: u8 = 3;
const CLUSTERING: u8 = 4;
/// Cassandra's number for the kind of a partition's item that is a row.
const ROW: u8 = 0;

/// Returns the digest of the partitions of an answer.
pub fn digest_of(table: &Arc<TableMetadata>, partitions: &[Partition]) -> [u8; 16] {
    let mut digest = ReadDigest::new(Arc::clone(table));
    for partition in partitions {
        let content = partition.content.as_ref();
        let deletion = content.map_or(DeletionTime::LIVE, |content| content.deletion);
        let none = ColumnList::default();
        let regulars = content.map_or(&none, |content| &content.regulars);
        let static_row = content.and_then(|content| content.static_row.as_ref());
        let static_row = static_row.map(|(columns, row)| (columns, row));
        digest.begin(&partition.key, deletion, regulars, static_row, partition.is_reversed);
        for item in content.into_iter().flat_map(|content| &content.unfiltered) {
            digest.add(item, regulars);
        }
    }
    digest.finish()
}

/// Returns whether a row holds neither liveness, deletion, cells nor deletions of columns.
/// Cassandra skips such a row when it reads a message.
fn holds_nothing(row: &Row) -> bool {
    let is_empty = |data: &ColumnData| match data {
        ColumnData::Simple(_) => false,
        ColumnData::Complex(column) => column.deletion.is_live() && column.cells.is_empty(),
    };
    row.liveness.is_none()
        && row.deletion.is_live()
        && row.shadowable_deletion.is_live()
        && row.columns.iter().all(|(_, data)| is_empty(data))
}

/// The digest of an answer under way.
pub struct ReadDigest {
    md5: Md5,
    table: Arc<TableMetadata>,
}

impl ReadDigest {
    /// Starts the digest of an answer without partitions.
    pub fn new(table: Arc<TableMetadata>) -> Self {
        Self { md5: Md5::new(), table }
    }

    /// Adds the head of the next partition. `regulars` are the columns that the answer lists for
    /// its rows; the static row has a list of its own.
    pub fn begin(
        &mut self,
        key: &[u8],
        deletion: DeletionTime,
        regulars: &ColumnList,
        static_row: Option<(&ColumnList, &Row)>,
        is_reversed: bool,
    ) {
        self.md5.update(key);
        self.add_deletion(deletion);
        regulars.names().iter().for_each(|name| self.md5.update(name));
        for name in static_row.into_iter().flat_map(|(columns, _)| columns.names()) {
            self.md5.update(name);
        }
        self.add_boolean(is_reversed);
        match static_row {
            Some((columns, row)) => self.add_row(row, Some(columns), true),
            None => self.add_row(&Row::empty(Clustering::empty()), None, true),
        }
    }

    /// Adds the next row or marker of the partition.
    pub fn add(&mut self, item: &Unfiltered, regulars: &ColumnList) {
        match item {
            Unfiltered::Row(row) if holds_nothing(row) => {}
            Unfiltered::Row(row) => self.add_row(row, Some(regulars), false),
            Unfiltered::Marker(marker) => self.add_marker(marker),
        }
    }

    /// Returns the digest.
    pub fn finish(self) -> [u8; 16] {
        self.md5.finalize().into()
    }

    fn add_boolean(&mut self, value: bool) {
        self.md5.update([u8::from(!value)]);
    }

    fn add_deletion(&mut self, deletion: DeletionTime) {
        self.md5.update(deletion.marked_for_delete_at.to_be_bytes());
    }

    fn add_row(&mut self, row: &Row, columns: Option<&ColumnList>, is_static: bool) {
        self.md5.update([ROW]);
        for value in row.clustering.values.iter().flatten() {
            self.md5.update(value);
        }
        self.md5.update([if is_static { STATIC_CLUSTERING } else { CLUSTERING }]);
        let is_shadowable = !row.shadowable_deletion.is_live();
        self.add_deletion(if is_shadowable { row.shadowable_deletion } else { row.deletion });
        self.add_boolean(is_shadowable);
        self.add_liveness(&row.liveness);
        // A row has its columns in the order of their ids, the digest in the order of the header.
        let mut present: Vec<_> = row.columns.iter().collect();
        present.sort_by_key(|(id, _)| columns.and_then(|columns| columns.encoded().index(*id)));
        for (id, data) in present {
            let column = self.table.column_by_id(*id);
            let is_counter = column.is_some_and(|column| column.column_type.is_counter());
            match data {
                ColumnData::Simple(cell) => self.add_cell(cell, is_counter, &[]),
                ColumnData::Complex(column) => {
                    if !column.deletion.is_live() {
                        self.add_deletion(column.deletion);
                    }
                    for (path, cell) in &column.cells {
                        self.add_cell(cell, false, path);
                    }
                }
            }
        }
    }

    fn add_liveness(&mut self, liveness: &Liveness) {
        self.md5.update(liveness.timestamp.to_be_bytes());
        if liveness.is_expiring() {
            self.md5.update(liveness.local_expiration.to_be_bytes());
            self.md5.update(liveness.ttl.to_be_bytes());
        }
    }

    fn add_cell(&mut self, cell: &Cell, is_counter: bool, path: &[u8]) {
        let is_counter = is_counter && !cell.is_tombstone();
        // The head of a counter says which counter shards are local; replicas differ in that.
        let head = if is_counter { counter::header_length(&cell.value) } else { 0 };
        self.md5.update(cell.value.get(head..).unwrap_or_default());
        self.md5.update(cell.timestamp.to_be_bytes());
        self.md5.update(cell.ttl.to_be_bytes());
        self.add_boolean(is_counter);
        self.md5.update(path);
    }

    fn add_marker(&mut self, marker: &RangeTombstoneMarker) {
        for value in marker.position.values.iter().flatten() {
            self.md5.update(value);
        }
        self.md5.update([marker.position.kind as u8]);
        for deletion in [marker.before, marker.after] {
            if !deletion.is_live() {
                self.add_deletion(deletion);
            }
        }
    }
}
