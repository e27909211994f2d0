//! This module measures the backlog of a shard's compactions, and the progress of the running ones.

use std::{rc::Rc, time::Duration};

use espalier_compaction::{
    CompactionBacklog, CompactionProgress, Running, flush_pause as pause_of_score,
};

use espalier_runtime::{scheduling::shares_of_part, time::Instant};

use super::{candidates::candidates_of, scheduler::pending};
use crate::{ShardStore, table::Table};

/// Maximum read-ahead of one compaction, in bytes.
const MAX_READ_AHEAD_BYTES: usize = 64 << 20;

/// Maximum age of the backlog from which [`shares`] computes the shares.
const BACKLOG_PERIOD: Duration = Duration::from_secs(1);

/// Shares of compactions beside a flush that lacks memory: a slice in five milliseconds.
const SHARES_BESIDE_URGENT_FLUSH: u32 = 40;

/// Returns the running compactions of a shard, each with its table.
pub(crate) fn running(store: &ShardStore) -> Vec<(Rc<Table>, Rc<Running>)> {
    let running = store.tables.all().into_iter().flat_map(|table| {
        let running = table.compactions.running();
        running.into_iter().map(move |running| (table.clone(), running))
    });
    running.collect()
}

/// Returns the progress of the compactions that run on a shard.
pub(crate) fn progress(store: &ShardStore) -> Vec<CompactionProgress> {
    let running = running(store).into_iter().map(|(table, running)| {
        let metadata = table.metadata();
        CompactionProgress {
            id: running.id,
            shard: store.shard().index,
            kind: running.kind,
            keyspace: metadata.keyspace.clone(),
            table: metadata.name.clone(),
            table_id: metadata.id,
            sstables: running.inputs.len(),
            completed_bytes: running.completed_bytes.get(),
            remaining: running.remaining(),
            total_bytes: running.total_bytes.get(),
            total_stored_bytes: running.total_stored_bytes(),
            target_directory: table.home.directory.display().to_string(),
        }
    });
    running.collect()
}

/// Returns the backlog of the compactions of all tables on this shard.
pub(crate) fn backlog(store: &ShardStore) -> CompactionBacklog {
    let mut backlog = CompactionBacklog::default();
    for table in store.tables.all() {
        let (strategy, candidates) = (table.compaction_strategy(), candidates_of(store, &table));
        // SSTables that cannot be compacted stay where they are, and no flush waits for them.
        let candidates = candidates.without_suspects();
        backlog.pending += pending(store, &table, &candidates);
        if strategy.is_enabled() {
            backlog.score = backlog.score.max(strategy.score(&candidates.facts()));
        }
    }
    backlog
}

/// Returns the shares of the shard's compactions: few beside a flush that lacks memory, and
/// otherwise by their backlog.
pub(crate) fn shares(store: &ShardStore) -> u32 {
    if store.memtables.is_flush_urgent() {
        return SHARES_BESIDE_URGENT_FLUSH;
    }
    let known = store.compactions.backlog.get();
    let fresh = known.filter(|(at, _)| at.elapsed() <= BACKLOG_PERIOD);
    let backlog = fresh.map_or_else(|| backlog(store), |(_, backlog)| backlog);
    if fresh.is_none() {
        store.compactions.backlog.set(Some((Instant::now(), backlog)));
    }
    shares_of_part(backlog.share(store.memtables.is_flushing()))
}

/// Returns the number of pending compactions of a table on this shard.
pub(crate) fn pending_of(store: &ShardStore, table: &Rc<Table>) -> usize {
    pending(store, table, &candidates_of(store, table).without_suspects())
}

/// Returns the number of bytes of Data.db that one compaction may read ahead. This memory is
/// outside of all budgets, so the limit is derived from the size of the page cache.
pub(super) fn read_ahead_bytes(store: &ShardStore) -> usize {
    let shards = store.shard().count.max(1);
    (store.configuration.caches.page_cache_bytes / shards / 8).min(MAX_READ_AHEAD_BYTES)
}

/// Returns the time for which a flush pauses because compactions cannot keep up. Memtables fill up
/// meanwhile and writes wait for room in them, so that writes arrive as slowly as their SSTables
/// can be compacted.
pub(crate) fn flush_pause(store: &ShardStore, table: &Rc<Table>) -> Duration {
    let is_enabled =
        store.compactions.are_started.get() && table.compaction_strategy().is_enabled();
    // A pause gains nothing if compactions do not run, as before the log is replayed.
    if !is_enabled || table.compactions.is_undecided() {
        return Duration::ZERO;
    }
    let (strategy, candidates) = (table.compaction_strategy(), candidates_of(store, table));
    let candidates = candidates.without_suspects();
    let pause = pause_of_score(strategy.score(&candidates.facts()));
    // Nor does a pause help if there is nothing to compact, or nothing can be compacted for a
    // while.
    let has_failed = table.compactions.until_retry().is_some();
    let is_queued = || !has_failed && !strategy.picks(&candidates.facts()).is_empty();
    if pause.is_zero() || !table.compactions.running().is_empty() || is_queued() {
        pause
    } else {
        Duration::ZERO
    }
}
