//! Memtables that are flushed though there is room: as old as their table says (`memtable_flush_period_in_ms`), or at rest and full of what may go.

use std::{cell::Cell, time::Duration};

use espalier_runtime::time::Instant;

use crate::{Database, purge::PurgeLimits, table::Table};

/// How often memtables are looked at.
pub(super) const TICK: Duration = Duration::from_secs(1);

/// A memtable that nobody has written to for so long is at rest. An arbitrary choice: no queue pauses so long.
const REST: Duration = Duration::from_secs(30);

/// Since when a table's memtable has been as it is.
#[derive(Default)]
pub(crate) struct FlushClock {
    /// Which memtable it is, and since when it holds something.
    dirty: Cell<Option<(u64, Instant)>>,
    /// How much was written, and since when no more.
    written: Cell<Option<(u64, Instant)>>,
}

/// The time since a value was met first.
fn since(clock: &Cell<Option<(u64, Instant)>>, value: u64, now: Instant) -> Duration {
    let first = match clock.get() {
        Some((met, first)) if met == value => first,
        _ => now,
    };
    clock.set(Some((value, first)));
    now.since(first)
}

/// Whether a table is to be flushed now.
pub(super) fn is_due(database: &Database, table: &Table) -> bool {
    let now = Instant::now();
    let autocompaction = database.configuration().autocompaction;
    let (clock, memtable) = (table.flush_clock(), table.memtable());
    if memtable.is_empty() {
        clock.dirty.set(None);
        return false;
    }
    let (memtables, writes) = table.dead_ranges().written();
    let age = since(&clock.dirty, memtables, now);
    let rest = since(&clock.written, writes, now);
    let metadata = table.metadata();
    let period = Duration::from_millis(u64::from(metadata.options.memtable_flush_period_in_ms));
    if !period.is_zero() && age >= period {
        return true;
    }
    // Compaction takes away what may go, but only from files.
    let is_compacted = autocompaction && table.compaction_strategy().is_enabled();
    let limits = PurgeLimits::of(&metadata);
    is_compacted
        && rest >= REST
        && !table.is_schema()
        && limits.are_old_enough(memtable.statistics().minimum_local_deletion_time)
}
