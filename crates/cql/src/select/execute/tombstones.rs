//! Counts the tombstones of a read, and warns about a read that meets too many
//! (`tombstone_warn_threshold`) or refuses it (`tombstone_failure_threshold`).
//!
//! The storage counts the dead fragments that it drops, which is close to Cassandra's count. As in
//! Cassandra, the count is that of one page, or of one internal page if the statement aggregates or
//! filters. So the count restarts after a chunk that ended at a limit other than the tombstone
//! limit.

use std::collections::BTreeSet;

use espalier_mutation::{DecoratedKey, schema::TableMetadata};
use espalier_storage::{
    ReadResult, ReadTarget,
    guardrails::{Level, Limit},
};
use espalier_types::literal::to_cql_literal;

use super::{Execution, key_components};
use crate::{Error, ErrorCode, ErrorDetail, Result, ddl::is_system_keyspace};

/// The tombstones of a page.
#[derive(Default)]
pub struct TombstoneCount {
    /// The tombstones since the last chunk that ended at a limit other than the tombstone limit.
    current: u64,
    /// The largest count so far, and the live rows of the page up to then.
    largest: u64,
    rows: usize,
    /// The partition that the read had reached at the largest count, if the read had reached one.
    key: Option<DecoratedKey>,
    /// True if the statement names the partition.
    is_named: bool,
}

impl Execution<'_> {
    /// Adds the tombstones of a chunk, before its rows are consumed.
    ///
    /// # Errors
    /// The read has met more than `tombstone_failure_threshold`.
    pub(super) fn count_tombstones(
        &mut self,
        result: &ReadResult,
        target: &ReadTarget,
    ) -> Result<()> {
        let count = &mut self.tombstones;
        count.current += result.dropped;
        if count.current > count.largest {
            let last = result.last_key();
            let (key, is_named) = match target {
                ReadTarget::Partition(key) => (Some(key), true),
                ReadTarget::Range(_) => {
                    (last.or(result.next.as_ref().map(|next| &next.key)), false)
                }
            };
            (count.largest, count.key, count.is_named) = (count.current, key.cloned(), is_named);
            count.rows = self.output.row_count;
            self.refuse_tombstones()?;
            self.tombstones.rows += result.live_rows();
        }
        if result.next.is_some() && !result.is_cut_by_tombstones {
            self.tombstones.current = 0;
        }
        Ok(())
    }

    /// Restarts the count, because the statement reads its rows again.
    pub(super) fn restart_tombstones(&mut self) {
        self.tombstones.current = 0;
    }

    fn refuse_tombstones(&self) -> Result<()> {
        let largest = i64::try_from(self.tombstones.largest).unwrap_or(i64::MAX);
        let exceeded = self.guard.guardrails.exceeded(Limit::Tombstones, largest);
        if !matches!(exceeded, Some((Level::Fail, _)))
            || is_system_keyspace(&self.select.table.keyspace)
        {
            return Ok(());
        }
        self.guard.warn(self.tombstone_text());
        let message = "Operation failed - received 0 responses and 1 failures: READ_TOO_MANY_TOMBSTONES from /127.0.0.1:7000";
        Err(Error {
            code: ErrorCode::ReadFailure,
            message: message.into(),
            detail: ErrorDetail::TooManyTombstones,
        })
    }

    /// Warns about a page that met more than `tombstone_warn_threshold`.
    pub(super) fn warn_of_tombstones(&self) {
        let largest = i64::try_from(self.tombstones.largest).unwrap_or(i64::MAX);
        let exceeded = self.guard.guardrails.exceeded(Limit::Tombstones, largest);
        if exceeded.is_some() && !is_system_keyspace(&self.select.table.keyspace) {
            self.guard.warn(self.tombstone_text());
        }
    }

    fn tombstone_text(&self) -> String {
        let TombstoneCount { largest, rows, key, is_named, .. } = &self.tombstones;
        let table = &self.select.table;
        let mut read = BTreeSet::new();
        for selector in &self.select.selectors {
            selector.for_each_column(&mut |column| {
                read.insert(column.name.clone());
            });
        }
        let mut named = table.columns().iter().map(|column| column.name.as_str());
        let columns = if named.all(|name| read.contains(name)) {
            "*".to_owned()
        } else {
            let data = |name: &&String| table.column(name).is_some_and(|it| !it.is_primary_key());
            read.iter().filter(data).cloned().collect::<Vec<_>>().join(", ")
        };
        let named = key.as_ref().filter(|_| *is_named);
        let place = named.and_then(|key| place(table, key)).unwrap_or_default();
        let token = key.as_ref().map_or(i64::MIN, |key| key.token.0);
        format!(
            "Read {rows} live rows and {largest} tombstone cells for query SELECT {columns} FROM {}.{}{place} ALLOW FILTERING; token {token} (see tombstone_warn_threshold)",
            table.keyspace, table.name
        )
    }
}

/// Returns the condition that names a partition.
fn place(table: &TableMetadata, key: &DecoratedKey) -> Option<String> {
    let values = key_components(table, key).ok()?;
    let columns = table.partition_key_columns().iter().zip(&values);
    let equal = columns.map(|(column, value)| {
        format!("{} = {}", column.name, to_cql_literal(&column.column_type, value))
    });
    Some(format!(" WHERE {}", equal.collect::<Vec<_>>().join(" AND ")))
}
