//! Column mappings record the meaning of the column ids in a segment.
//!
//! A column id is valid only while the process runs; a column's name is in the schema. In each
//! segment, a record with the names of the columns therefore precedes the first mutation of each
//! table version. So a replay can read the segment after any later schema change.
//!
//! ```text
//! body  kind 2, vint mapping number, table id 16 bytes, keyspace, table, vint count, columns
//! column vint id, kind u8 (0 static, 1 regular), name, type as CQL text
//! ```

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::{
    Row,
    encoding::body::{self, BodyError, BodyReader},
    reconcile::remove_dropped,
    schema::{ColumnId, ColumnKind, TableId, TableMetadata},
};
use hashbrown::HashMap;
use uuid::Uuid;

use super::layout::KIND_COLUMNS;

/// The record that describes one version of a table.
#[derive(Clone, Debug)]
pub struct ColumnMapping {
    /// Number of the mapping within the log of a shard, unique for the life of the process. A
    /// stored batch numbers its mappings from 0.
    pub number: u32,
    /// The record's body.
    pub body: Bytes,
}

impl ColumnMapping {
    /// Encodes the columns of `table` as the mapping with this number.
    pub fn new(number: u32, table: &TableMetadata) -> Self {
        let mut out = vec![KIND_COLUMNS];
        body::put_vint(u64::from(number), &mut out);
        out.extend_from_slice(table.id.0.as_bytes());
        body::put_bytes(table.keyspace.as_bytes(), &mut out);
        body::put_bytes(table.name.as_bytes(), &mut out);
        let columns = || table.static_columns().iter().chain(table.regular_columns());
        body::put_vint(columns().count() as u64, &mut out);
        for column in columns() {
            body::put_vint(u64::from(column.id.0), &mut out);
            out.push(u8::from(column.kind == ColumnKind::Regular));
            body::put_bytes(column.name.as_bytes(), &mut out);
            body::put_bytes(column.column_type.cql_name().as_bytes(), &mut out);
        }
        Self { number, body: out.into() }
    }
}

/// Returns the id of the table in the body of a record; `None` if the body is no mapping.
pub(crate) fn table_of_mapping(body: &mut [u8]) -> Option<&mut [u8; 16]> {
    let (kind, rest) = body.split_first_mut()?;
    // The highest bit of a byte of the number says whether another byte follows.
    let number_bytes = 1 + rest.iter().take_while(|byte| **byte >= 0x80).count();
    if *kind == KIND_COLUMNS { rest.get_mut(number_bytes..)?.first_chunk_mut() } else { None }
}

/// A mapping read from a segment, and its translation to the current schema.
pub struct Translation {
    /// Id of the table.
    pub table: TableId,
    /// The current table; `None` if it was dropped.
    pub metadata: Option<Arc<TableMetadata>>,
    /// The current table with its dropped columns, because the replay keeps cells whose timestamp
    /// is later than the drop of their column.
    with_dropped: Option<Arc<TableMetadata>>,
    /// Current column id by the id in the segment. Cells of ids that are missing here are
    /// discarded.
    columns: HashMap<ColumnId, ColumnId, foldhash::fast::FixedState>,
    /// True if every id still means the same column, and none of these columns was ever dropped.
    is_identity: bool,
}

impl Translation {
    /// Decodes a mapping's body after the byte of the kind. Returns the mapping's number too.
    ///
    /// # Errors
    ///
    /// Fails if the body is malformed.
    pub fn decode(
        reader: &mut BodyReader,
        table_by_id: impl FnOnce(TableId) -> Option<Arc<TableMetadata>>,
    ) -> Result<(u32, Translation), BodyError> {
        let number = reader.vint_u32()?;
        let table = TableId(Uuid::from_bytes(reader.array()?));
        let (_keyspace, _name) = (reader.bytes()?, reader.bytes()?);
        let metadata = table_by_id(table);
        let with_dropped = metadata
            .as_ref()
            .map(|table| table.with_dropped(|_, _| true).map_or_else(|| table.clone(), Arc::new));
        let count = reader.count()?;
        let mut columns = HashMap::default();
        let mut is_identity = true;
        for _ in 0..count {
            let id = ColumnId(reader.vint_u32()?);
            let kind = match reader.byte()? {
                0 => ColumnKind::Static,
                1 => ColumnKind::Regular,
                _ => return Err(reader.error("an unknown kind of column")),
            };
            let name = reader.text()?;
            let _type = reader.bytes()?;
            let now = with_dropped.as_ref().and_then(|table| table.column(&name));
            match now.filter(|column| column.kind == kind) {
                Some(column) => {
                    is_identity &= column.id == id
                        && metadata.as_ref().is_none_or(|t| !t.dropped_columns.contains_key(&name));
                    columns.insert(id, column.id);
                }
                // The table or the column is gone, or a column of another kind has its name.
                None => is_identity = false,
            }
        }
        Ok((number, Translation { table, metadata, with_dropped, columns, is_identity }))
    }

    /// Replaces a row's column ids by the current ids. Removes the cells of unknown ids, and those
    /// that the drop of their column covers.
    pub(crate) fn translate(&self, row: &mut Row) {
        if self.is_identity {
            // A statement that was planned before a column was dropped, and written after it, has
            // cells whose id the mapping lacks.
            row.columns.retain(|(id, _)| self.columns.contains_key(id));
            return;
        }
        let Some(table) = &self.with_dropped else { return };
        row.columns.retain_mut(|(id, _)| {
            let Some(now) = self.columns.get(id) else { return false };
            *id = *now;
            true
        });
        row.columns.sort_by_key(|(id, _)| *id);
        remove_dropped(table, row);
    }
}
