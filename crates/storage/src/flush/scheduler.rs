//! When to flush: when memtables take too much memory, when they keep the commit log from giving up segments, and when time says so.

use std::{rc::Rc, time::Duration};

use espalier_runtime::time::{self, Instant};

use super::by_time;
use crate::{Database, commitlog::CommitLog, flush::FlushProgress, table::Table};

/// Pause after a failed flush.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// A memtable that is not worth a file unless many of them fill the memory.
const SMALL_BYTES: usize = 64 << 10;

/// Of what memtables hold when a flush begins, what one must hold to be flushed for that while a larger one waits for compactions: an arbitrary choice.
const PART_WORTH_A_FILE: usize = 8;

/// How often it is asked again whether a flush still has to wait for compactions.
const PAUSE_LOOK: Duration = Duration::from_secs(1);
/// While one waits, each write says that memory is wanted: for so long nobody listens.
const DEAF: Duration = Duration::from_millis(10);

/// A table whose flush waits for compactions; flushes of others go on.
struct Paused<'a> {
    table: Rc<Table>,
    since: Instant,
    /// Nobody asks again before this.
    until: Instant,
    /// Writers are slowed down meanwhile, and what flushes give back in a second is found with the pause.
    _waiting: FlushProgress<'a>,
}

/// Flushes until the database closes.
pub(crate) async fn run(database: Database) {
    let mut paused: Vec<Paused<'_>> = Vec::new();
    loop {
        if !paused.is_empty() {
            time::sleep(DEAF).await;
        }
        let now = Instant::now();
        let waits = paused.iter().map(|paused| paused.until.since(now));
        let longest = waits.min().map_or(by_time::TICK, |wait| wait.min(by_time::TICK));
        let _ = time::timeout(longest, database.flush_wanted().notified()).await;
        while !database.is_closing() {
            let now = Instant::now();
            let waits = |table: &Rc<Table>| {
                let paused = paused.iter().find(|paused| Rc::ptr_eq(&paused.table, table));
                paused.is_some_and(|paused| now < paused.until)
            };
            let Some(table) = victim(&database, waits) else {
                // Segments may have been flushed before they were durable, and kept for that.
                database.reclaim_log();
                break;
            };
            let at = paused.iter().position(|paused| Rc::ptr_eq(&paused.table, &table));
            let since = at.map_or(now, |at| paused[at].since);
            let pause = pause_of(&database, &table);
            // Where the log is full, writes of all tables wait for segments that this one holds.
            let over = match database.logs().any(CommitLog::is_under_pressure) {
                true => since + pause.min(PAUSE_LOOK),
                false => since + pause,
            };
            if now < over {
                let until = over.min(now + PAUSE_LOOK);
                match at {
                    Some(at) => paused[at].until = until,
                    None => {
                        let _waiting = database.flush_estimate().begin(0);
                        paused.push(Paused { table, since, until, _waiting });
                    }
                }
                continue;
            }
            if at.is_some() {
                database.count_delayed_flush(now.since(since));
            }
            flush(&database, &table).await;
            paused.retain(|paused| !Rc::ptr_eq(&paused.table, &table));
        }
        // Who was not chosen again need not be flushed any more.
        let now = Instant::now();
        paused.retain(|paused| now < paused.until);
        for table in database.tables_here() {
            // Asked here, since those before it took their time.
            if !database.is_closing() && by_time::is_due(&database, &table) {
                flush(&database, &table).await;
            }
        }
        if database.is_closing() {
            return;
        }
    }
}

/// One that fails is tried again after a pause, in which others have their turn: their disk may be another one.
async fn flush(database: &Database, table: &Table) {
    let outcome = database.flush_in_background(table).await;
    table.flush_retry_at.set(outcome.is_err().then(|| Instant::now() + RETRY_PAUSE));
}

/// A flush that has failed was let off its pause before; it is [`victim`] again and again, so the core would be held while it waits.
fn pause_of(database: &Database, table: &Rc<Table>) -> Duration {
    if has_failed(table) { Duration::ZERO } else { database.flush_pause(table) }
}

/// It left a memtable, and nobody is at it. A flush under way needs no second one, which would write the little that has come meanwhile;
/// if it fails, it says so.
fn has_failed(table: &Rc<Table>) -> bool {
    !table.view().flushing.is_empty() && is_free(table)
}

fn is_free(table: &Rc<Table>) -> bool {
    table.flush_lock.available() > 0
}

/// The table to flush next, if one must be; none of those that wait for compactions, but one whose flush has failed.
fn victim(database: &Database, waits: impl Fn(&Rc<Table>) -> bool) -> Option<Rc<Table>> {
    let mut tables = database.tables_here();
    let now = Instant::now();
    // One that is being dropped is not flushed any more, and may be there until a compaction of it has ended: asked for again and again it
    // would hold the core, which that compaction needs.
    tables.retain(|table| {
        !table.is_dropped() && table.flush_retry_at.get().is_none_or(|at| at <= now)
    });
    // What failed before is tried again first: its memory and its segments are the oldest.
    if let Some(failed) = tables.iter().find(|table| has_failed(table)) {
        return Some(failed.clone());
    }
    // One whose turn somebody else has, who may wait for a compaction, comes last: others are flushed meanwhile.
    tables.sort_by_key(|table| !is_free(table));
    let is_full = |table: &&Rc<Table>| table.memtable().wants_flush() && !waits(table);
    if let Some(full) = tables.iter().find(is_full) {
        return Some(full.clone());
    }
    if database.budget().wants_flush() {
        let active: usize = tables.iter().map(|table| table.memtable_bytes()).sum();
        let bytes = |table: &&Rc<Table>| table.memtable_bytes();
        let others = || tables.iter().filter(|table| !waits(table));
        let does_one_wait = others().count() < tables.len();
        // Beside a large one that waits small ones are left alone: memory would not be less full.
        let least = match does_one_wait {
            true => (database.budget().flush_bytes() / PART_WORTH_A_FILE).max(SMALL_BYTES),
            false => SMALL_BYTES,
        };
        let free = others().filter(|table| is_free(table)).max_by_key(bytes);
        let largest = free.filter(|table| table.memtable_bytes() > least);
        let any = || others().max_by_key(bytes).filter(|_| !does_one_wait);
        // If the memory is that of flushed memtables which readers still hold, flushing small ones does not help.
        let helps = |table: &&Rc<Table>| {
            database.budget().is_flush_due(active)
                || (!database.budget().has_room() && table.memtable_bytes() > SMALL_BYTES)
        };
        if let Some(largest) = largest.or_else(any).filter(helps) {
            return Some(largest.clone());
        }
    }
    database.logs().find_map(|log| {
        let last = log.segment_to_give_up()?;
        let holds = |table: &&Rc<Table>| {
            is_free(table)
                && !waits(table)
                && table.oldest_unflushed().is_some_and(|position| position.segment <= last)
        };
        tables
            .iter()
            .filter(|table| database.log_for(table).is_some_and(|its| its.is_same(log)))
            .find(holds)
            .cloned()
    })
}

#[cfg(test)]
mod tests;
