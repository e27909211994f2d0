//! Look-ahead for statements that will be executed one after the other: prefetches memory for
//! several of them, so that their cache misses overlap.

use std::sync::Arc;

use espalier_mutation::schema::TableMetadata;
use espalier_storage::Node;

use crate::{options::Value, restrictions::PointKey};

/// A row that will be read or written.
pub struct Ahead<'a> {
    /// The row's table.
    pub table: &'a Arc<TableMetadata>,
    /// The terms of the row's primary key.
    pub key: &'a PointKey,
    /// The values of the statement.
    pub values: &'a [Value],
    /// True if the row will be written.
    pub is_write: bool,
}

impl Ahead<'_> {
    fn goes_with(&self, other: &Ahead<'_>) -> bool {
        self.is_write == other.is_write && Arc::ptr_eq(self.table, other.table)
    }
}

/// Prefetches the memory that these rows need, grouped by table. `buffer` is scratch space for
/// keys.
pub fn look_ahead(database: &Node, rows: &[Ahead<'_>], buffer: &mut Vec<u8>) {
    for (number, first) in rows.iter().enumerate() {
        let (before, from_here) = rows.split_at(number);
        if before.iter().any(|row| row.goes_with(first)) {
            continue;
        }
        let mut group = from_here.iter().filter(|row| row.goes_with(first)).peekable();
        while group.peek().is_some() {
            let Some(mut ahead) = database.store().look_ahead(first.table) else { break };
            for row in group.by_ref() {
                let Some(key) = row.key.partition(row.values, buffer) else { continue };
                let Some(clustering) = row.key.clustering(row.values) else { continue };
                if !ahead.add(first.table, key, &clustering) {
                    break;
                }
            }
            if first.is_write { ahead.for_writing() } else { ahead.for_reading() }
        }
    }
}
