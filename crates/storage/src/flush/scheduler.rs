//! The scheduler decides when to flush: when memtables take too much memory, when a trie is nearly
//! full, when memtables keep the commit log from freeing segments, and when time requires it
//! although memory is free.

use std::{rc::Rc, time::Duration};

use espalier_commitlog::CommitLog;
use espalier_mutation::purge::PurgeLimits;
use espalier_runtime::time::{self, Instant};

use super::flush_in_background;
use crate::{ShardStore, compaction::flush_pause, shard::FlushProgress, table::Table};

/// Pause before a failed flush is retried.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Size in bytes up to which a memtable is not worth a file of its own, unless many such memtables
/// fill the memory.
const SMALL_BYTES: usize = 64 << 10;

/// While the largest memtable waits for compaction or a truncation holds it, another memtable is
/// flushed only if it holds at least 1/8 of the flush threshold (arbitrary).
const PART_WORTH_A_FILE: usize = 8;

/// Interval of the check whether a flush must still wait for compactions.
const PAUSE_LOOK: Duration = Duration::from_secs(1);
/// Minimum interval between two passes while a flush waits, because each write wakes the scheduler
/// then.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Interval of the check whether time requires flushes.
const TICK: Duration = Duration::from_secs(1);
/// A memtable without writes for this long is idle (arbitrary: the pauses of queue workloads are
/// shorter).
const REST: Duration = Duration::from_secs(30);

/// A table with a flush that waits for compactions. Other tables are flushed meanwhile.
struct Paused<'a> {
    table: Rc<Table>,
    since: Instant,
    /// Time of the next check.
    until: Instant,
    /// Counts the pause as a flush: writes are throttled meanwhile, and the measured flush rate
    /// includes the pause.
    _waiting: FlushProgress<'a>,
}

/// Flushes until the store closes.
pub(crate) async fn run(store: Rc<ShardStore>) {
    let mut paused: Vec<Paused<'_>> = Vec::new();
    loop {
        if !paused.is_empty() {
            time::sleep(POLL_INTERVAL).await;
        }
        let now = Instant::now();
        let waits = paused.iter().map(|paused| paused.until.since(now));
        let longest = waits.min().map_or(TICK, |wait| wait.min(TICK));
        let _ = time::timeout(longest, store.wakers.flush.notified()).await;
        while !store.is_closing() {
            let now = Instant::now();
            let waits = |table: &Rc<Table>| {
                let paused = paused.iter().find(|paused| Rc::ptr_eq(&paused.table, table));
                paused.is_some_and(|paused| now < paused.until)
            };
            let Some(table) = victim(&store, waits) else {
                // Free segments here too, because a flush cannot free a segment that is not yet
                // durable.
                store.logs.reclaim(&store.tables);
                break;
            };
            let at = paused.iter().position(|paused| Rc::ptr_eq(&paused.table, &table));
            let since = at.map_or(now, |at| paused[at].since);
            let pause = pause_of(&store, &table);
            // If the log needs segments that this table may hold, the flush waits only briefly: a
            // full log blocks the writes to all tables.
            let over = if store.logs.all().any(CommitLog::is_under_pressure) {
                since + pause.min(PAUSE_LOOK)
            } else {
                since + pause
            };
            if now < over {
                let until = over.min(now + PAUSE_LOOK);
                match at {
                    Some(at) => paused[at].until = until,
                    None => {
                        let _waiting = store.memtables.flush_estimate.begin(0);
                        paused.push(Paused { table, since, until, _waiting });
                    }
                }
                continue;
            }
            if at.is_some() {
                store.counters.flushes.count_delay(now.since(since));
            }
            flush(&store, &table).await;
            paused.retain(|paused| !Rc::ptr_eq(&paused.table, &table));
        }
        // A paused table that was not chosen again needs no flush any more.
        let now = Instant::now();
        paused.retain(|paused| now < paused.until);
        for table in store.tables.all() {
            // Check again for each table, because the flushes before it took time.
            let autocompaction = store.configuration.autocompaction;
            if !store.is_closing() && is_free(&table) && is_due(&table, autocompaction) {
                flush(&store, &table).await;
            }
        }
        if store.is_closing() {
            return;
        }
    }
}

/// Flushes a table. A failed flush is retried after [`RETRY_PAUSE`]. Other tables are flushed
/// during the pause, because their disk may be another one.
async fn flush(store: &Rc<ShardStore>, table: &Rc<Table>) {
    let outcome = flush_in_background(store, table).await;
    table.flushes.retry_at.set(outcome.is_err().then(|| Instant::now() + RETRY_PAUSE));
}

/// Returns the time for which the flush of a table must wait for compactions. A failed flush does
/// not wait: its retry pause is over, and [`victim`] returns it again and again, so a pause would
/// occupy the core.
fn pause_of(store: &ShardStore, table: &Rc<Table>) -> Duration {
    if has_failed(table) { Duration::ZERO } else { flush_pause(store, table) }
}

/// Returns whether a flush failed and left a frozen memtable that no flush is writing. While a
/// flush is under way, a second one would only write the few rows that arrived meanwhile; if the
/// flush under way fails, it wakes the scheduler.
fn has_failed(table: &Rc<Table>) -> bool {
    !table.view().flushing.is_empty() && is_free(table)
}

fn is_free(table: &Rc<Table>) -> bool {
    table.flushes.lock.available() > 0
}

/// Returns the bytes of memory of the memtable that takes writes.
fn memtable_bytes(table: &Table) -> usize {
    table.borrow_view().memtable.memory_bytes()
}

/// Returns the table to flush next, if any. Tables whose flush lock is held are excluded, and
/// tables that wait for compactions, except after a failed flush.
fn victim(store: &ShardStore, waits: impl Fn(&Rc<Table>) -> bool) -> Option<Rc<Table>> {
    let mut tables = store.tables.all();
    let now = Instant::now();
    // A table that is being dropped is not flushed. It may stay in the list until its compaction
    // has ended, and choosing it again and again would occupy the core that the compaction needs.
    tables.retain(|table| {
        !table.is_dropped() && table.flushes.retry_at.get().is_none_or(|at| at <= now)
    });
    // Failed flushes come first: their memtables and segments are the oldest.
    if let Some(failed) = tables.iter().find(|table| has_failed(table)) {
        return Some(failed.clone());
    }
    // The holder of a flush lock may be a truncation that waits for another shard. No flush waits
    // for it here, because the flushes of all other tables would wait too.
    let free = || tables.iter().filter(|table| is_free(table) && !waits(table));
    if let Some(full) = free().find(|table| table.memtable().wants_flush()) {
        return Some(full.clone());
    }
    let budget = &store.memtables.budget;
    if budget.wants_flush() {
        let active: usize = tables.iter().map(|table| memtable_bytes(table)).sum();
        let not_held = tables.iter().filter(|table| is_free(table));
        let flushable: usize = not_held.map(|table| memtable_bytes(table)).sum();
        let does_one_wait = tables.iter().any(&waits);
        let is_due_without_held = budget.is_flush_due(flushable);
        // While a large memtable waits, small ones are not flushed: that would hardly free memory.
        let part = (budget.flush_bytes() / PART_WORTH_A_FILE).max(SMALL_BYTES);
        let least = if does_one_wait { part } else { SMALL_BYTES };
        // If readers still hold the memory of flushed memtables, or a truncation holds a large
        // memtable, a flush of small ones does not help.
        let helps = |table: &&Rc<Table>| {
            let bytes = memtable_bytes(table);
            if bytes > least {
                is_due_without_held
                    || !budget.has_room()
                    || (bytes > part && budget.is_flush_due(active))
            } else {
                !does_one_wait && is_due_without_held
            }
        };
        let largest = free().max_by_key(|table| memtable_bytes(table));
        if let Some(largest) = largest.filter(helps) {
            return Some(largest.clone());
        }
    }
    store.logs.all().find_map(|log| {
        let last = log.segment_to_give_up()?;
        let holds = |table: &&Rc<Table>| {
            store.logs.of_table(table).is_some_and(|its| its.is_same(log))
                && table.oldest_unflushed().is_some_and(|position| position.segment <= last)
        };
        free().find(holds).cloned()
    })
}

/// Returns whether a table must be flushed although memory is free: its memtable has reached the
/// table's `memtable_flush_period_in_ms`, or it is idle and has tombstones or expired data that a
/// compaction could purge. `autocompaction` is true if compactions start automatically.
fn is_due(table: &Table, autocompaction: bool) -> bool {
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

#[cfg(test)]
mod tests;
