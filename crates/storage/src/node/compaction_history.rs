//! Reads `system.compaction_history`, the finished compactions.
//!
//! Memory bound: the newest [`MAX_ENTRIES`] entries and one page of rows.

use std::collections::BTreeMap;

use espalier_mutation::{KeyRange, schema::TableMetadata};
use espalier_runtime::{maybe_yield, time};
use uuid::Uuid;

use super::Compactions;
use crate::{
    PartitionRows, ReadCommand, ReadLimits, ReadTarget, StorageError,
    system::{Fields, SYSTEM_KEYSPACE, table},
};

/// Maximum entries; older ones are left out. Arbitrary: some megabytes, and more than a user reads.
const MAX_ENTRIES: usize = 10_000;

/// Rows of a page. Few, because the rows of a page are processed without a yield.
const PAGE_ROWS: usize = 100;

/// A finished compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastCompaction {
    /// Id of the compaction.
    pub id: Uuid,
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
    /// Time at which the compaction finished, in ms since 1970.
    pub compacted_at_ms: i64,
    /// Bytes of Data.db read, as stored.
    pub bytes_in: i64,
    /// Bytes of Data.db written, as stored.
    pub bytes_out: i64,
    /// Number of merged partitions by the number of files that they came from.
    pub rows_merged: Vec<(i32, i64)>,
    /// Further properties: names and values.
    pub properties: Vec<(String, String)>,
}

impl Compactions<'_> {
    /// Returns the compactions of the last week, the newest first.
    ///
    /// # Errors
    ///
    /// Fails if the table cannot be read.
    pub async fn history(self) -> Result<Vec<PastCompaction>, StorageError> {
        let table = table(SYSTEM_KEYSPACE, "compaction_history");
        let now_s = u32::try_from(time::now_seconds()).unwrap_or(0);
        let mut command = ReadCommand {
            limits: ReadLimits { rows: PAGE_ROWS, ..ReadLimits::NONE },
            bypass_cache: true,
            ..ReadCommand::of_all(table.clone(), ReadTarget::Range(KeyRange::full()), now_s)
        };
        let mut history = BTreeMap::new();
        loop {
            let page = self.node.read(command.clone()).await?;
            for past in page.partitions.iter().flat_map(|partition| entries(&table, partition)) {
                history.insert((past.compacted_at_ms, past.id), past);
                if history.len() > MAX_ENTRIES {
                    history.pop_first();
                }
            }
            command.resume = page.next;
            if command.resume.is_none() {
                return Ok(history.into_values().rev().collect());
            }
            maybe_yield().await;
        }
    }
}

/// Returns the entries of a partition, which has one row.
fn entries(
    table: &TableMetadata,
    partition: &PartitionRows,
) -> impl Iterator<Item = PastCompaction> {
    let id = Uuid::from_slice(&partition.key.key).unwrap_or_default();
    partition.rows.iter().map(move |row| {
        let fields = Fields::new(table, row);
        let text = |column| fields.text(column).unwrap_or_default().to_owned();
        let number = |column| fields.bigint(column).unwrap_or_default();
        let properties = fields.map("compaction_properties").unwrap_or_default().into_iter();
        let lossy = |value: Vec<u8>| String::from_utf8_lossy(&value).into_owned();
        PastCompaction {
            id,
            keyspace: text("keyspace_name"),
            table: text("columnfamily_name"),
            compacted_at_ms: number("compacted_at"),
            bytes_in: number("bytes_in"),
            bytes_out: number("bytes_out"),
            rows_merged: rows_merged(&fields),
            properties: properties.map(|(name, value)| (name, lossy(value))).collect(),
        }
    })
}

/// Decodes the cells of a map of ints to bigints.
fn rows_merged(fields: &Fields<'_>) -> Vec<(i32, i64)> {
    let entries = fields.cells("rows_merged").iter().filter_map(|(path, cell)| {
        let files = i32::from_be_bytes(path.as_ref().try_into().ok()?);
        Some((files, i64::from_be_bytes(cell.value.as_ref().try_into().ok()?)))
    });
    entries.collect()
}
