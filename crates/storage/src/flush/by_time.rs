//! This module decides which memtables are flushed although memory is free: a memtable that has
//! reached its table's `memtable_flush_period_in_ms`, and an idle memtable with tombstones or
//! expired data that a compaction could purge.

use std::time::Duration;

use espalier_mutation::purge::PurgeLimits;
use espalier_runtime::time::{self, Instant};

use crate::table::Table;

/// Interval of the check.
pub(super) const TICK: Duration = Duration::from_secs(1);

/// A memtable without writes for this long is idle (arbitrary: the pauses of queue workloads are
/// shorter).
const REST: Duration = Duration::from_secs(30);

/// Returns whether a table must be flushed because of time. `autocompaction` is true if compactions
/// start automatically.
pub(super) fn is_due(table: &Table, autocompaction: bool) -> bool {
    let now = Instant::now();
    let (clock, memtable) = (&table.flushes.clock, table.memtable());
    if memtable.is_empty() {
        clock.record_empty();
        return false;
    }
    let (memtables, writes) = table.empty_ranges().written();
    let age = clock.dirty_time(memtables, now);
    let rest = clock.idle_time(writes, now);
    let metadata = table.metadata();
    let period = Duration::from_millis(u64::from(metadata.options.memtable_flush_period_in_ms));
    if !period.is_zero() && age >= period {
        return true;
    }
    // A compaction purges data, but only data in files.
    let is_compacted = autocompaction && table.compaction_strategy().is_enabled();
    let limits = PurgeLimits::at(&metadata, time::now_seconds());
    is_compacted
        && rest >= REST
        && !table.is_schema()
        && limits.are_old_enough(memtable.statistics().minimum_local_deletion_time)
}
