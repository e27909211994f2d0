//! The rows of `system.batches`, which hold logged batches.
//!
//! ```text
//! content  vint count of mappings, for each vint length and body of a columns record;
//!          vint length and body of a mutation record
//! ```

use bytes::Bytes;
use espalier_commitlog::{
    ColumnMapping, EncodedMutation, KIND_COLUMNS, KIND_MUTATION, Translation, decode_mutation,
};
use espalier_mutation::{
    Cell, Clustering, ColumnData, ComplexColumn, DecoratedKey, DeletionTime, Liveness, Mutation,
    PartitionUpdate, Row,
    encoding::body::{BodyError, BodyReader, put_bytes, put_vint},
    schema::{Schema, TableMetadata},
};
use espalier_runtime::{random, time};
use hashbrown::HashMap;

use crate::StorageError;

const CONTENT_COLUMN: &str = "mutations";

/// Builds the row of `system.batches` that holds a batch.
pub(super) fn entry(table: &TableMetadata, key: &DecoratedKey, content: Bytes) -> PartitionUpdate {
    let timestamp = time::next_timestamp_micros();
    let mut row = Row::empty(Clustering::empty());
    row.liveness = Liveness::live(timestamp);
    if let Some(column) = table.column(CONTENT_COLUMN) {
        let cell = Cell::live(timestamp, content);
        let data = if !column.is_complex() {
            ColumnData::Simple(cell)
        } else {
            let path = Bytes::copy_from_slice(random::timeuuid_now().as_bytes());
            let cells = vec![(path, cell)];
            ColumnData::Complex(ComplexColumn { deletion: DeletionTime::LIVE, cells })
        };
        row.columns.push((column.id, data));
    }
    let mut update = PartitionUpdate::new(table.id, key.clone());
    update.rows.push(row);
    update
}

/// Returns whether a row holds a batch of another node. Only such a row has a version.
pub(super) fn is_of_ring(table: &TableMetadata, row: &Row) -> bool {
    table.column("version").is_some_and(|column| row.column(column.id).is_some())
}

pub(super) fn content(table: &TableMetadata, row: &Row) -> Option<Bytes> {
    match row.column(table.column(CONTENT_COLUMN)?.id)? {
        ColumnData::Simple(cell) => Some(cell.value.clone()),
        ColumnData::Complex(column) => column.cells.first().map(|(_, cell)| cell.value.clone()),
    }
}

/// Encodes a batch as the content of its row.
///
/// # Errors
/// A table is unknown, or the mutation's record would have more than `maximum` bytes.
pub(super) fn encode(
    mutation: &Mutation,
    schema: &Schema,
    maximum: usize,
) -> Result<Bytes, StorageError> {
    let mut content = Vec::new();
    put_vint(mutation.updates.len() as u64, &mut content);
    for (index, update) in mutation.updates.iter().enumerate() {
        let table =
            schema.table_by_id(update.table).ok_or(StorageError::UnknownTable(update.table))?;
        put_bytes(&ColumnMapping::new(index as u32, table).body, &mut content);
    }
    let mut encoded = EncodedMutation::default();
    encoded.encode(mutation, maximum, |index| index as u32)?;
    put_bytes(&encoded.body, &mut content);
    Ok(content.into())
}

/// Decodes a stored batch. Leaves out writes to tables that were dropped or that the node cannot
/// read. The flag is false if the node cannot read some table.
pub(super) fn decode(content: Bytes, schema: &Schema) -> Result<(Mutation, bool), BodyError> {
    let mut reader = BodyReader::new(content);
    let mut translations = HashMap::new();
    let mut is_whole = true;
    for _ in 0..reader.count()? {
        let mut mapping = BodyReader::new(reader.bytes()?);
        if mapping.byte()? != KIND_COLUMNS {
            return Err(mapping.error("something else than a column mapping"));
        }
        let table_by_id = |id| {
            is_whole &= !schema.is_unreadable(id);
            schema.table_by_id(id).cloned()
        };
        let (number, translation) = Translation::decode(&mut mapping, table_by_id)?;
        translations.insert(number, translation);
    }
    let mut body = BodyReader::new(reader.bytes()?);
    if body.byte()? != KIND_MUTATION {
        return Err(body.error("something else than a mutation"));
    }
    decode_mutation(&mut body, |number| translations.get(&number))
        .map(|(mutation, _)| (mutation, is_whole))
}
