//! Computes the size of a batch, and refuses a batch that is too large.
//!
//! The size is Cassandra's `dataSize`: the bytes of values and clusterings, with a fixed size for
//! each timestamp and deletion. So this node refuses the batches that Cassandra refuses. A row
//! without liveness or deletion counts as one with both, and so does an absent static row.

use std::collections::BTreeSet;

use espalier_mutation::{
    Cell, ColumnData, Mutation, PartitionUpdate, Row,
    schema::{Schema, TableMetadata},
};
use espalier_storage::guardrails::{Level, Limit};
use hashbrown::HashSet;

use crate::{Error, Result, guard::Guard};

/// Bytes of a partition's deletion.
const PARTITION: u64 = 8;
/// Bytes of a row's liveness and deletion. An absent static row counts with these bytes, too.
const ROW: u64 = 8 + 13;
/// Bytes of a liveness's time to live and expiry.
const EXPIRY: u64 = 4 + 8;
/// Bytes of a cell's timestamp, time to live and expiry.
const CELL: u64 = 8 + 4 + 8;
/// Bytes of Cassandra's context of a counter with the change of one node.
const COUNTER: u64 = 36;
/// Bytes of a deletion of a collection.
const COMPLEX: u64 = 12;
/// Bytes of the number of deleted ranges, and bytes of the times of each range.
const RANGES: u64 = 4;
const RANGE: u64 = 12;

/// Warns about a batch of several partitions that is larger than `batch_size_warn_threshold`, and
/// refuses one that is larger than `batch_size_fail_threshold`. `is_counter` is true for a batch of
/// counters, whose values are larger in Cassandra.
///
/// # Errors
/// The batch is too large.
pub fn check_size(
    batch: &Mutation,
    is_counter: bool,
    schema: &Schema,
    guard: Guard<'_>,
) -> Result<()> {
    let Some(first) = batch.updates.first() else { return Ok(()) };
    if batch.updates.iter().all(|update| update.key == first.key) {
        return Ok(());
    }
    let size: u64 = batch.updates.iter().map(|update| size_of_update(update, is_counter)).sum();
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    match guard.guardrails.exceeded(Limit::BatchSize, size) {
        None => Ok(()),
        Some((Level::Warn, threshold)) => {
            guard.warn(format!(
                "Batch for [{}] is of size {size}, exceeding specified threshold of {threshold} by {}.",
                names_of_tables(batch, schema, |_| true).join(", "),
                size - threshold
            ));
            Ok(())
        }
        Some((Level::Fail, limit)) => Err(Error::invalid(format!(
            "Batch too large: {size} bytes in {} updates, the limit (batch_size_fail_threshold) is {limit}",
            batch.updates.len()
        ))),
    }
}

/// Warns about an unlogged batch of more partitions than
/// `unlogged_batch_across_partitions_warn_threshold`.
pub fn warn_of_partitions(batch: &Mutation, schema: &Schema, guard: Guard<'_>) {
    let keys: HashSet<&[u8]> = batch.updates.iter().map(|update| &update.key.key[..]).collect();
    let count = i64::try_from(keys.len()).unwrap_or(i64::MAX);
    if guard.guardrails.exceeded(Limit::UnloggedBatchAcrossPartitions, count).is_none() {
        return;
    }
    guard.warn(format!(
        "Unlogged batch covering {count} partitions detected against {}. You should use a logged batch for atomicity, or asynchronous writes for performance.",
        list_of_tables(&names_of_tables(batch, schema, |_| true))
    ));
}

/// Warns about a logged batch on tables with `gc_grace_seconds = 0`. As in Cassandra, the warning
/// says that the batch log may drop such a batch before it is replayed; this node drops none in the
/// first hour.
pub fn warn_of_no_grace(batch: &Mutation, schema: &Schema, guard: Guard<'_>) {
    let has_no_grace = |table: &TableMetadata| table.options.gc_grace_seconds == 0;
    // Every logged batch comes here, so the check allocates nothing.
    let mut last = None;
    let is_named = batch.updates.iter().any(|update| {
        last.replace(update.table) != Some(update.table)
            && schema.table_by_id(update.table).is_some_and(|table| has_no_grace(table))
    });
    if !is_named {
        return;
    }
    guard.warn(format!(
        "Executing a LOGGED BATCH on {}, configured with a gc_grace_seconds of 0. The \
         gc_grace_seconds is used to TTL batchlog entries, so setting gc_grace_seconds too low on \
         tables involved in an atomic batch might cause batchlog entries to expire before being \
         replayed.",
        list_of_tables(&names_of_tables(batch, schema, has_no_grace))
    ));
}

/// Returns `table [name]` or `tables [name, name]`.
fn list_of_tables(names: &[String]) -> String {
    format!("table{} [{}]", if names.len() == 1 { "" } else { "s" }, names.join(", "))
}

/// Returns the tables of a batch for which `is_named` is true, each once.
fn names_of_tables(
    batch: &Mutation,
    schema: &Schema,
    is_named: impl Fn(&TableMetadata) -> bool,
) -> Vec<String> {
    let tables: BTreeSet<_> = batch.updates.iter().map(|update| update.table).collect();
    let tables = tables.into_iter().filter_map(|id| schema.table_by_id(id));
    let mut names: Vec<String> = tables
        .filter(|table| is_named(table))
        .map(|table| format!("{}.{}", table.keyspace, table.name))
        .collect();
    names.sort_unstable();
    names
}

fn size_of_update(update: &PartitionUpdate, is_counter: bool) -> u64 {
    let size_of_row = |row| size_of_row(row, is_counter);
    let ranges: u64 = update
        .range_tombstones
        .iter()
        .map(|range| values(&range.start.values) + values(&range.end.values) + RANGE)
        .sum();
    let has_ranges = !update.range_tombstones.is_empty();
    let static_row = update.static_row.as_ref().map_or(ROW, size_of_row);
    let rows: u64 = update.rows.iter().map(size_of_row).sum();
    PARTITION + if has_ranges { RANGES + ranges } else { 0 } + static_row + rows
}

fn size_of_row(row: &Row, is_counter: bool) -> u64 {
    let columns: u64 = row
        .columns
        .iter()
        .map(|(_, data)| match data {
            ColumnData::Simple(cell) if is_counter && !cell.is_tombstone() => CELL + COUNTER,
            ColumnData::Simple(cell) => size_of_cell(cell),
            ColumnData::Complex(complex) => {
                let cells = complex.cells.iter();
                COMPLEX
                    + cells.map(|(path, cell)| size_of_cell(cell) + path.len() as u64).sum::<u64>()
            }
        })
        .sum();
    let expiry = if row.liveness.is_expiring() { EXPIRY } else { 0 };
    ROW + expiry + values(&row.clustering.values) + columns
}

fn size_of_cell(cell: &Cell) -> u64 {
    CELL + cell.value.len() as u64
}

fn values(values: &[Option<bytes::Bytes>]) -> u64 {
    values.iter().flatten().map(|value| value.len() as u64).sum()
}
