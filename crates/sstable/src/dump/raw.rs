//! Prints the stored bytes in hex.
//!
//! ```text
//! {"kind":"partition","key":"0004","token":5,"deleted":{"ts":3000,"ldt":1795210853}}
//! {"kind":"row","ck":["00000001"],"live":{"ts":1000},"cells":[{"n":"v","v":"68","ts":1000}]}
//! {"kind":"marker","bound":"INCL_START_BOUND","ck":["02"],"deleted":{"ts":3000,"ldt":1795210853}}
//! ```
//! Cells carry `ttl` and `ldt` if they expire, `dead` and `ldt` if they are tombstones, and `p` for
//! the path in a collection or UDT. An entry with only `n` and `deleted` deletes a whole
//! collection. A boundary has `closes` and `opens`. `shadowable` says that a row's deletion is void
//! once the row has a newer liveness; beside an ordinary deletion, the shadowable deletion is
//! `shadowable_deleted`.

use std::sync::Arc;

use espalier_mutation::{
    BoundKind, CellRef, ColumnRef, DeletionTime, Liveness, PartitionHeader, RangeTombstoneMarker,
    Row, RowContent, Unfiltered,
    schema::{ColumnDefinition, ColumnId, TableMetadata},
};
use smallvec::SmallVec;

use super::{
    text::{Remembered, push_hex, push_i64, push_u64},
    value::by_column,
};
use crate::{
    data::{clustering_values::values_in, decode::RawRowContent},
    statistics::serialization_header::compare_names,
};

/// The longest value that is shown, in bytes. Longer values are shown as length and CRC-32, unless
/// the caller wants all bytes.
pub const MAX_SHOWN: usize = 4096;

/// Prints lines of a table's content.
#[derive(Clone, Copy, Debug)]
pub struct Dump<'table> {
    /// The table that names the columns.
    pub table: &'table TableMetadata,
    /// True if values longer than [`MAX_SHOWN`] are shown in full.
    pub full_values: bool,
}

impl Dump<'_> {
    /// Returns the line of a partition and the line of its static row, if it has one.
    pub fn header(&self, header: &PartitionHeader) -> Vec<String> {
        let mut text = Vec::new();
        self.write_header(header, &mut text);
        String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
    }

    /// Returns the line of a row or marker.
    pub fn unfiltered(&self, unfiltered: &Unfiltered) -> String {
        let mut text = Vec::new();
        self.write_unfiltered(unfiltered, &mut text);
        String::from_utf8_lossy(&text).trim_end_matches('\n').to_owned()
    }

    /// Appends the line of a partition and the line of its static row, if it has one.
    pub fn write_header(&self, header: &PartitionHeader, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"kind\":\"partition\",\"key\":");
        self.value(&header.key.key, out);
        out.extend_from_slice(b",\"token\":");
        push_i64(header.key.token.0, out);
        if !header.deletion.is_live() {
            write_deletion("deleted", header.deletion, out);
        }
        out.extend_from_slice(b"}\n");
        if let Some(row) = &header.static_row {
            self.row(row, true, out);
        }
    }

    /// Appends the line of a row or marker.
    pub fn write_unfiltered(&self, unfiltered: &Unfiltered, out: &mut Vec<u8>) {
        match unfiltered {
            Unfiltered::Row(row) => self.row(row, false, out),
            Unfiltered::Marker(marker) => self.marker(marker, out),
        }
    }

    fn row(&self, row: &Row, is_static: bool, out: &mut Vec<u8>) {
        if is_static {
            out.extend_from_slice(b"{\"kind\":\"static\"");
        } else {
            self.row_start(row.clustering.values.iter().map(Option::as_deref), out);
        }
        let mut columns: SmallVec<[(ColumnId, ColumnRef<'_>); 8]> = row.columns().collect();
        // Files have multi-cell columns last. A table that was made from the file already has
        // this order.
        let compare = |(left, _): &(ColumnId, _), (right, _): &(ColumnId, _)| match (
            self.table.column_by_id(*left),
            self.table.column_by_id(*right),
        ) {
            (Some(left), Some(right)) => file_order(left, right),
            (left, right) => left.is_some().cmp(&right.is_some()),
        };
        if !columns.is_sorted_by(|left, right| compare(left, right).is_le()) {
            columns.sort_by(compare);
        }
        let open = |id, out: &mut Vec<u8>| {
            open_cell(self.table.column_by_id(id).map_or("?", |column| &column.name), out);
        };
        self.content(row, columns.into_iter(), open, &mut push_i64, out);
    }

    fn row_start<'a>(&self, values: impl Iterator<Item = Option<&'a [u8]>>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"kind\":\"row\",");
        self.clustering(values, out);
    }

    /// Appends the parts of a row behind its clustering. `open` begins the entry of a cell, and
    /// `push` prints a timestamp.
    fn content<'a>(
        &self,
        row: &impl RowContent,
        columns: impl Iterator<Item = (ColumnId, ColumnRef<'a>)>,
        open: impl Fn(ColumnId, &mut Vec<u8>),
        push: &mut impl FnMut(i64, &mut Vec<u8>),
        out: &mut Vec<u8>,
    ) {
        write_liveness(&row.liveness(), &mut *push, out);
        write_row_deletions(row, out);
        out.extend_from_slice(b",\"cells\":[");
        let start = out.len();
        let begin = |id, out: &mut Vec<u8>| {
            if out.len() > start {
                out.push(b',');
            }
            open(id, out);
        };
        for (id, data) in columns {
            match data {
                ColumnRef::Simple(cell) => {
                    begin(id, out);
                    self.cell(cell, push, out);
                }
                ColumnRef::Complex(column) => {
                    if !column.deletion.is_live() {
                        begin(id, out);
                        write_deletion("deleted", column.deletion, out);
                        out.push(b'}');
                    }
                    for (path, cell) in &column.cells {
                        begin(id, out);
                        out.extend_from_slice(b",\"p\":");
                        self.value(path, out);
                        self.cell(cell.into(), push, out);
                    }
                }
            }
        }
        out.extend_from_slice(b"]}\n");
    }

    /// Appends the part of a cell that follows its name and path.
    fn cell(&self, cell: CellRef<'_>, push: &mut impl FnMut(i64, &mut Vec<u8>), out: &mut Vec<u8>) {
        if cell.is_tombstone() {
            out.extend_from_slice(b",\"dead\":true");
        } else {
            out.extend_from_slice(b",\"v\":");
            self.value(cell.value, out);
        }
        out.extend_from_slice(b",\"ts\":");
        push(cell.timestamp, out);
        if cell.is_expiring() {
            write_expiry(cell.ttl, cell.local_deletion_time, out);
        } else if cell.is_tombstone() {
            out.extend_from_slice(b",\"ldt\":");
            push_u64(cell.local_deletion_time.into(), out);
        }
        out.push(b'}');
    }

    fn marker(&self, marker: &RangeTombstoneMarker, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"kind\":\"marker\",\"bound\":\"");
        out.extend_from_slice(bound_name(marker.position.kind).as_bytes());
        out.extend_from_slice(b"\",");
        self.clustering(marker.position.values.iter().map(Option::as_deref), out);
        write_marker_deletions(marker, out);
        out.extend_from_slice(b"}\n");
    }

    fn clustering<'a>(&self, values: impl Iterator<Item = Option<&'a [u8]>>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\"ck\":[");
        for (index, value) in values.enumerate() {
            if index > 0 {
                out.push(b',');
            }
            match value {
                Some(value) => self.value(value, out),
                None => out.extend_from_slice(b"null"),
            }
        }
        out.push(b']');
    }

    fn value(&self, value: &[u8], out: &mut Vec<u8>) {
        if value.len() > MAX_SHOWN && !self.full_values {
            return write_length_and_checksum(value, out);
        }
        out.push(b'"');
        push_hex(value, out);
        out.push(b'"');
    }
}

/// A [`Dump`] that owns its table and also prints raw rows.
#[derive(Clone, Debug)]
pub(crate) struct RawDump {
    table: Arc<TableMetadata>,
    full_values: bool,
    /// `{"n":"name"` of each column, by id.
    openings: Vec<Vec<u8>>,
    /// The timestamp that was printed last, since most cells have that of their row.
    timestamp: Remembered,
}

impl RawDump {
    pub(super) fn new(table: Arc<TableMetadata>, full_values: bool) -> Self {
        let openings = by_column(&table, open_cell);
        Self { table, full_values, openings, timestamp: Remembered::default() }
    }

    pub(super) fn as_dump(&self) -> Dump<'_> {
        Dump { table: &self.table, full_values: self.full_values }
    }

    /// Appends the line of a raw row.
    pub(super) fn write_raw(&mut self, row: &RawRowContent<'_>, out: &mut Vec<u8>) {
        let Self { table, full_values, openings, timestamp } = self;
        let dump = Dump { table, full_values: *full_values };
        dump.row_start(values_in(row.bytes, &row.view.clustering), out);
        let open = |id: ColumnId, out: &mut Vec<u8>| {
            out.extend_from_slice(openings.get(id.0 as usize).map_or(b"", Vec::as_slice));
        };
        dump.content(row, row.columns(), open, &mut |at, out| timestamp.push(at, out), out);
    }
}

/// Appends length and checksum of a value that is too long to be shown.
pub(super) fn write_length_and_checksum(value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"len\":");
    push_u64(value.len() as u64, out);
    out.extend_from_slice(b",\"crc32\":\"");
    push_hex(&crc32fast::hash(value).to_be_bytes(), out);
    out.extend_from_slice(b"\"}");
}

/// Compares columns in the order of files.
pub(super) fn file_order(left: &ColumnDefinition, right: &ColumnDefinition) -> std::cmp::Ordering {
    let by_kind = left.is_complex().cmp(&right.is_complex());
    by_kind.then_with(|| compare_names(&left.name, &right.name))
}

/// Begins the entry of a cell.
fn open_cell(name: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"n\":\"");
    let is_plain = |byte: &u8| (0x20..0x7F).contains(byte) && *byte != b'"' && *byte != b'\\';
    if name.as_bytes().iter().all(is_plain) {
        out.extend_from_slice(name.as_bytes());
    } else {
        for character in name.chars() {
            match character {
                '"' | '\\' => out.extend_from_slice(&[b'\\', character as u8]),
                control if control.is_control() => {
                    out.extend_from_slice(format!("\\u{:04x}", u32::from(control)).as_bytes());
                }
                other => out.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
    }
    out.push(b'"');
}

/// Appends the liveness of a row, if it has one; `push_timestamp` prints the timestamp.
pub(super) fn write_liveness(
    liveness: &Liveness,
    push_timestamp: impl FnOnce(i64, &mut Vec<u8>),
    out: &mut Vec<u8>,
) {
    if liveness.is_none() {
        return;
    }
    out.extend_from_slice(b",\"live\":{\"ts\":");
    push_timestamp(liveness.timestamp, out);
    if liveness.is_expiring() {
        write_expiry(liveness.ttl, liveness.local_expiration, out);
    }
    out.push(b'}');
}

/// Appends the deletions that end and begin at a marker.
pub(super) fn write_marker_deletions(marker: &RangeTombstoneMarker, out: &mut Vec<u8>) {
    match (marker.before.is_live(), marker.after.is_live()) {
        (false, false) => {
            write_deletion("closes", marker.before, out);
            write_deletion("opens", marker.after, out);
        }
        (true, _) => write_deletion("deleted", marker.after, out),
        (false, true) => write_deletion("deleted", marker.before, out),
    }
}

/// Appends the deletion of a row and its shadowable deletion. A shadowable deletion without an
/// ordinary one has the name `deleted` and a mark; beside an ordinary one it has a name of its own.
pub(super) fn write_row_deletions(row: &impl RowContent, out: &mut Vec<u8>) {
    let (deletion, shadowable) = (row.deletion(), row.shadowable_deletion());
    if !deletion.is_live() {
        write_deletion("deleted", deletion, out);
    }
    if shadowable.is_live() {
        return;
    }
    if deletion.is_live() {
        write_deletion("deleted", shadowable, out);
        out.extend_from_slice(b",\"shadowable\":true");
    } else {
        write_deletion("shadowable_deleted", shadowable, out);
    }
}

pub(super) fn write_deletion(field: &str, deletion: DeletionTime, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(field.as_bytes());
    out.extend_from_slice(b"\":{\"ts\":");
    push_i64(deletion.marked_for_delete_at, out);
    out.extend_from_slice(b",\"ldt\":");
    push_u64(deletion.local_deletion_time.into(), out);
    out.push(b'}');
}

pub(super) fn write_expiry(ttl: u32, time: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"ttl\":");
    push_u64(ttl.into(), out);
    out.extend_from_slice(b",\"ldt\":");
    push_u64(time.into(), out);
}

/// Returns Cassandra's name of a bound.
pub fn bound_name(kind: BoundKind) -> &'static str {
    match kind {
        BoundKind::ExclusiveEnd => "EXCL_END_BOUND",
        BoundKind::InclusiveStart => "INCL_START_BOUND",
        BoundKind::ExclusiveEndInclusiveStart => "EXCL_END_INCL_START_BOUNDARY",
        BoundKind::InclusiveEndExclusiveStart => "INCL_END_EXCL_START_BOUNDARY",
        BoundKind::InclusiveEnd => "INCL_END_BOUND",
        BoundKind::ExclusiveStart => "EXCL_START_BOUND",
    }
}
