//! When to flush: when memtables take too much memory, and when they keep the commit log from giving up segments.

use std::{rc::Rc, time::Duration};

use espalier_runtime::time;

use crate::{Database, table::Table};

/// Pause after a failed flush.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Flushes until the database closes.
pub(crate) async fn run(database: Database) {
    loop {
        database.flush_wanted().notified().await;
        while !database.is_closing() {
            let Some(table) = victim(&database) else { break };
            if database.flush_table(&table).await.is_err() {
                time::sleep(RETRY_PAUSE).await;
            }
        }
        if database.is_closing() {
            return;
        }
    }
}

/// The table to flush next, if one must be.
fn victim(database: &Database) -> Option<Rc<Table>> {
    // What failed before is tried again first: its memory and its segments are the oldest.
    let tables = database.tables_here();
    if let Some(failed) = tables.iter().find(|table| !table.view().flushing.is_empty()) {
        return Some(failed.clone());
    }
    if database.budget().wants_flush() {
        let largest = tables.iter().max_by_key(|table| table.memtable_bytes())?;
        // What readers still hold of flushed memtables cannot be helped by flushing small ones.
        let worth = database.budget().limit_bytes() / 64;
        if largest.memtable_bytes() > worth.max(1) {
            return Some(largest.clone());
        }
    }
    database.logs().find_map(|log| {
        if !log.is_under_pressure() {
            return None;
        }
        let oldest = log.oldest_segment()?;
        let holds = |table: &&Rc<Table>| {
            table.oldest_unflushed().is_some_and(|position| position.segment <= oldest)
        };
        tables
            .iter()
            .filter(|table| database.log_for(table).is_some_and(|its| its.is_same(log)))
            .find(holds)
            .cloned()
    })
}
