//! When to flush: when memtables take too much memory, when they keep the commit log from giving up segments, and when time says so.

use std::{rc::Rc, time::Duration};

use espalier_runtime::time::{self, Instant};

use super::by_time;
use crate::{Database, table::Table};

/// Pause after a failed flush.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// A memtable that is not worth a file unless many of them fill the memory.
const SMALL_BYTES: usize = 64 << 10;

/// Flushes until the database closes.
pub(crate) async fn run(database: Database) {
    loop {
        let _ = time::timeout(by_time::TICK, database.flush_wanted().notified()).await;
        while !database.is_closing() {
            let Some(table) = victim(&database) else {
                // Segments may have been flushed before they were durable, and kept for that.
                database.reclaim_log();
                break;
            };
            let pause = database.flush_pause(&table);
            if !pause.is_zero() {
                database.count_delayed_flush();
                let _waiting = database.flush_estimate().begin(0);
                time::sleep(pause).await;
            }
            flush(&database, &table).await;
        }
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

/// The table to flush next, if one must be.
fn victim(database: &Database) -> Option<Rc<Table>> {
    // What failed before is tried again first: its memory and its segments are the oldest. A flush under way needs no second one, which
    // would write the little that has come meanwhile; if it fails, it says so.
    let mut tables = database.tables_here();
    let now = Instant::now();
    // One that is being dropped is not flushed any more, and may be there until a compaction of it has ended: asked for again and again it
    // would hold the core, which that compaction needs.
    tables.retain(|table| {
        !table.is_dropped() && table.flush_retry_at.get().is_none_or(|at| at <= now)
    });
    let is_free = |table: &Rc<Table>| table.flush_lock.available() > 0;
    let has_failed = |table: &&Rc<Table>| !table.view().flushing.is_empty() && is_free(table);
    if let Some(failed) = tables.iter().find(has_failed) {
        return Some(failed.clone());
    }
    // One whose turn somebody else has, who may wait for a compaction, comes last: others are flushed meanwhile.
    tables.sort_by_key(|table| !is_free(table));
    if let Some(full) = tables.iter().find(|table| table.memtable().wants_flush()) {
        return Some(full.clone());
    }
    if database.budget().wants_flush() {
        let active: usize = tables.iter().map(|table| table.memtable_bytes()).sum();
        let bytes = |table: &&Rc<Table>| table.memtable_bytes();
        let free = tables.iter().filter(|table| is_free(table)).max_by_key(bytes);
        let largest = free.filter(|table| table.memtable_bytes() > SMALL_BYTES);
        let largest = largest.or_else(|| tables.iter().max_by_key(bytes))?;
        // If the memory is that of flushed memtables which readers still hold, flushing small ones does not help.
        let helps = database.budget().is_flush_due(active)
            || (!database.budget().has_room() && largest.memtable_bytes() > SMALL_BYTES);
        if helps {
            return Some(largest.clone());
        }
    }
    database.logs().find_map(|log| {
        if !log.is_under_pressure() {
            return None;
        }
        let oldest = log.oldest_segment()?;
        let holds = |table: &&Rc<Table>| {
            is_free(table)
                && table.oldest_unflushed().is_some_and(|position| position.segment <= oldest)
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
