//! The scheduler decides when to compact. It asks the strategies after every flush and every
//! compaction, and once in each [`TICK`], because data also expires without writes.

use std::{collections::HashMap, rc::Rc, time::Duration};

use espalier_compaction::{
    CompactionKind, Outside, compaction_id,
    strategy::{PickedCompaction, Split, depth},
};
use espalier_mutation::{purge::PurgeLimits, schema::TableId};
use espalier_runtime::{
    SchedulingGroup, spawn_local,
    time::{self, Instant},
    token_range_of_shard,
};
use espalier_sstable::SSTable;

use super::{
    backlog::running,
    candidates::{TableCandidates, candidates_of, is_inside, tokens_of},
    exchange::{self, Job},
    room::{bytes_for_compactions, check_room, device_of},
};
use crate::{ShardStore, StorageError, shard::add, table::Table};

/// Maximum time between two checks.
const TICK: Duration = Duration::from_secs(60);
/// Time for which a table starts no compaction after one failed or found no disk space.
const RETRY_PAUSE: Duration = Duration::from_secs(30);
/// Number of compactions of any size that a shard runs at once: 2, so that a long one does not
/// delay newly flushed files. The shard runs up to [`CONCURRENT_WITH_SHORT`] if the additional ones
/// are short: each of these reads at most 1/[`SHORT_PART`] of the bytes of the smallest running
/// one.
const CONCURRENT: usize = 2;
const CONCURRENT_WITH_SHORT: usize = 4;
const SHORT_PART: u64 = 4;
/// Minimum number of files of a pick that was cut to stay short. Merges of fewer files rewrite each
/// byte more often. A pick that was cut to fit on the disk needs only 2.
const MIN_FILES_OF_PART: usize = 4;
/// Bytes that stay free on the disk, for flushes and the commit log.
pub(crate) const RESERVED_BYTES: u64 = 64 << 20;

/// Starts compactions until the store closes.
pub(crate) async fn run(store: Rc<ShardStore>) {
    loop {
        if store.is_closing() {
            return;
        }
        begin_wanted(&store).await;
        let tables = store.tables.all().into_iter();
        let retries = tables.filter_map(|table| table.compactions.until_retry());
        let pause = retries.min().unwrap_or(TICK).min(TICK);
        let _ = time::timeout(pause, store.wakers.compaction.notified()).await;
    }
}

/// The limits of the next compaction.
#[derive(Clone, Copy)]
struct Room<'a> {
    /// Bytes that a compaction of a table may write to the disk. A pick that needs more is cut.
    available: &'a dyn Fn(&Table) -> u64,
    /// Maximum number of bytes of all inputs. A pick that has more is cut or does not start.
    max_bytes: u64,
}

/// Returns the number of bytes that the next compaction of the shard may read; `None` if none may
/// begin.
fn max_bytes_of_next(store: &ShardStore) -> Option<u64> {
    let running = running(store);
    match running.len() {
        _ if store.is_closing() => None,
        ..CONCURRENT => Some(u64::MAX),
        CONCURRENT..CONCURRENT_WITH_SHORT => {
            let bytes = running.iter().map(|(_, running)| running.total_stored_bytes());
            bytes.min().map(|bytes| bytes / SHORT_PART)
        }
        _ => None,
    }
}

/// Returns, for each table with files, the free bytes of its disk, less [`RESERVED_BYTES`] and less
/// the bytes that running compactions will still write. Queries each disk once.
async fn available_by_table(store: &ShardStore) -> HashMap<TableId, u64> {
    let mut of_devices: HashMap<u64, u64> = HashMap::new();
    let mut of_tables = HashMap::new();
    for table in store.tables.all() {
        if table.borrow_view().sstables.is_empty() {
            continue;
        }
        let device = device_of(store, &table).await;
        let available = match of_devices.get(&device) {
            Some(available) => *available,
            None => bytes_for_compactions(store, &table, None).await,
        };
        of_devices.insert(device, available);
        of_tables.insert(table.borrow_metadata().id, available);
    }
    of_tables
}

async fn begin_wanted(store: &Rc<ShardStore>) {
    // Check first, because determining the free space takes a message to every shard.
    while max_bytes_of_next(store).is_some() {
        let available = available_by_table(store).await;
        // Check again after the wait.
        let Some(max_bytes) = max_bytes_of_next(store) else { return };
        // The map lacks a table that had no SSTables at the query. It counts as 0 free bytes now;
        // the next query includes it.
        let available =
            |table: &Table| available.get(&table.borrow_metadata().id).copied().unwrap_or_default();
        let room = Room { available: &available, max_bytes };
        let Some((table, job)) = next_job(store, room) else { return };
        // Other shards may have begun compactions meanwhile.
        let running = &job.guard.running;
        if check_room(store, &table, running).await.is_err() {
            warn_of_room(&table, running.bytes_to_come(), None, None);
            table.compactions.retry_at.set(Some(Instant::now() + RETRY_PAUSE));
            continue;
        }
        let store = store.clone();
        spawn_local(async move {
            let inputs = job.guard.running.inputs.clone();
            if let Err(error) = perform(&store, &table, job).await {
                let name = &table.metadata().name;
                let is_suspect = |input: &&Rc<SSTable>| match &error {
                    StorageError::SSTable(error) => input.suspect(error),
                    _ => false,
                };
                let suspects = inputs.iter().filter(is_suspect);
                let suspects: Vec<String> =
                    suspects.map(|input| input.descriptor().to_string()).collect();
                if suspects.is_empty() {
                    tracing::error!(
                        %error,
                        table = name,
                        pause_s = RETRY_PAUSE.as_secs(),
                        "compaction failed, retrying after a pause; check the disk if this repeats"
                    );
                    table.compactions.retry_at.set(Some(Instant::now() + RETRY_PAUSE));
                } else {
                    // The table's other files are still compacted.
                    let left_out = suspects.join(", ");
                    tracing::error!(
                        %error,
                        table = name,
                        sstables = %left_out,
                        "compaction failed because of its inputs, excluding them until a scrub or \
                        a restart; scrub the table"
                    );
                }
            }
            store.wakers.compaction.notify_one();
        })
        .detach();
    }
}

/// Runs a compaction and records its outcome. Returns false if it was stopped.
pub(crate) async fn perform(
    store: &Rc<ShardStore>,
    table: &Rc<Table>,
    job: Job,
) -> Result<bool, StorageError> {
    let (of_store, of_table) = (store.clone(), table.clone());
    // Boxed because the future is large and rarely created.
    let compaction = async move { Box::pin(exchange::run(&of_store, &of_table, job)).await };
    let outcome = SchedulingGroup::Compaction.run(compaction).await;
    match &outcome {
        Ok(Some(outcome)) => {
            tracing::debug!(
                keyspace = outcome.keyspace,
                table = outcome.table,
                kind = outcome.kind.name(),
                sstables_in = outcome.sstables_in,
                sstables_out = outcome.sstables_out,
                bytes_in = outcome.bytes_in,
                bytes_out = outcome.bytes_out,
                duration_ms = outcome.duration.as_millis(),
                "compaction finished"
            );
            store.counters.compactions.count(outcome);
            if let Some(peers) = store.peers() {
                peers.record_compaction(outcome);
            }
        }
        Ok(None) => add(&store.counters.compactions.stopped, 1),
        Err(_) => add(&store.counters.compactions.failed, 1),
    }
    outcome.map(|outcome| outcome.is_some())
}

/// Returns the most urgent compaction of all tables, with its files reserved.
fn next_job(store: &ShardStore, room: Room<'_>) -> Option<(Rc<Table>, Job)> {
    let mut tables = store.tables.all();
    tables.retain(|table| {
        let waits = table.compactions.until_retry().is_some();
        !waits && !table.is_dropped() && !table.borrow_view().sstables.is_empty()
    });
    let candidate_sets = tables.into_iter().map(|table| {
        let candidates = candidates_of(store, &table).without_suspects();
        (backlog(store, &table, &candidates), table, candidates)
    });
    let mut candidate_sets: Vec<_> = candidate_sets.collect();
    candidate_sets.sort_by_key(|(backlog, ..)| std::cmp::Reverse(*backlog));
    candidate_sets.into_iter().find_map(|(_, table, candidates)| {
        let job = next_of(store, &table, &candidates, room)?;
        Some((table, job))
    })
}

/// Returns the score of a table: how much its reads and flushes suffer from pending compactions.
/// It is the sum of the strategy's score, its level score, and the depth of the files that must
/// still be split. A number of files would say little: some strategies leave thousands side by
/// side.
fn backlog(store: &ShardStore, table: &Table, candidates: &TableCandidates) -> usize {
    let (view, tokens) = (table.borrow_view(), tokens_of(store, table));
    let to_split = view.sstables.iter().filter(|sstable| !is_inside(sstable, tokens));
    let to_split = depth(to_split.map(|sstable| sstable.tokens()));
    let (strategy, facts) = (table.compaction_strategy(), candidates.facts());
    strategy.score(&facts) + strategy.level_score(&facts) + to_split
}

fn next_of(
    store: &ShardStore,
    table: &Rc<Table>,
    candidates: &TableCandidates,
    room: Room<'_>,
) -> Option<Job> {
    let begin = |inputs, level, split| {
        let guard = table.compactions.begin(compaction_id(), CompactionKind::Compaction, inputs)?;
        Some(Job { guard, level, split, scrub: None })
    };
    let strategy = table.compaction_strategy();
    if !strategy.is_enabled() {
        return None;
    }
    if let Some(job) = split_job(store, table, room) {
        return Some(job);
    }
    let limits = PurgeLimits::at(&table.metadata(), time::now_seconds());
    let may_be_expired =
        |file: &&Rc<SSTable>| file.maximum_local_deletion_time() < limits.gc_before_s;
    let old: Vec<_> = candidates.idle.iter().filter(may_be_expired).cloned().collect();
    if !old.is_empty() {
        let expired = Outside::new(table.clone(), &old, table.metadata().is_counter())
            .expired_inputs(limits.gc_before_s);
        if !expired.is_empty() {
            let job = begin(expired, 0, Split::Never);
            job.iter().for_each(|job| job.guard.running.reads_only(&[]));
            return job;
        }
    }
    let bytes_of = |index: usize| candidates.idle[index].bytes_rewritten();
    let available_bytes = (room.available)(table);
    strategy.picks(&candidates.facts()).into_iter().find_map(|pick| {
        let bytes: u64 = pick.files.iter().map(|index| bytes_of(*index)).sum();
        // While long compactions run, a level-0 pick that is no garbage pick may be cut to its
        // smaller files. The larger files wait.
        let may_be_part = pick.level == 0 && pick.garbage.is_none();
        if bytes > room.max_bytes && !may_be_part {
            return None;
        }
        let wanted = pick.files.len();
        let pick = within(pick, bytes_of, available_bytes.min(room.max_bytes));
        let is_cut = pick.files.len() < wanted;
        let tokens = pick.files.iter().map(|index| candidates.idle[*index].tokens());
        // Merging files without overlap only copies them.
        let is_useless = pick.split != Split::Never && depth(tokens) < 2;
        let least = if bytes > available_bytes { 2 } else { MIN_FILES_OF_PART };
        if is_cut && (pick.files.len() < least || is_useless) {
            if bytes > available_bytes {
                warn_of_room(table, bytes, Some(available_bytes), None);
            }
            return None;
        }
        let inputs = pick.files.iter().map(|index| candidates.idle[*index].clone()).collect();
        begin(inputs, pick.level, pick.split)
    })
}

/// Logs that the disk has no room for a compaction, at most once in each [`TICK`] for a table.
/// `sstable` is the file to split, if the compaction is a split.
fn warn_of_room(
    table: &Table,
    needed_bytes: u64,
    available_bytes: Option<u64>,
    sstable: Option<&SSTable>,
) {
    let (now, next_warning_at) = (Instant::now(), &table.compactions.next_warning_at);
    if next_warning_at.get().is_none_or(|at| at <= now) {
        next_warning_at.set(Some(now + TICK));
        let table = &table.borrow_metadata().name;
        tracing::warn!(
            table,
            needed_bytes,
            available_bytes,
            sstable = sstable.map(|sstable| tracing::field::display(sstable.descriptor())),
            "compaction postponed, no room on the disk; free disk space"
        );
    }
}

/// Returns the split of a file that spans several shards. Returns `None` if this shard has no such
/// file to split that fits into `room`.
fn split_job(store: &ShardStore, table: &Rc<Table>, room: Room<'_>) -> Option<Job> {
    let (view, available_bytes) = (table.view(), (room.available)(table));
    let has_room = |sstable: &SSTable| {
        let needed_bytes = sstable.bytes_rewritten();
        if needed_bytes > available_bytes {
            warn_of_room(table, needed_bytes, Some(available_bytes), Some(sstable));
        }
        needed_bytes <= available_bytes
    };
    let (sstable, (level, split)) = view.sstables.iter().find_map(|sstable| {
        let plan = split_plan(store, table, sstable).filter(|_| is_free(table, sstable))?;
        let is_short = sstable.reader().bytes_on_disk() <= room.max_bytes;
        (is_short && has_room(sstable)).then_some((sstable, plan))
    })?;
    let kind = CompactionKind::Split;
    let guard = table.compactions.begin(compaction_id(), kind, vec![sstable.clone()])?;
    Some(Job { guard, level, split, scrub: None })
}

fn is_free(table: &Table, sstable: &Rc<SSTable>) -> bool {
    !sstable.is_suspect() && !table.compactions.is_busy(sstable)
}

/// Returns the number of pending compactions of a table on this shard: picks of its strategy, and
/// splits.
pub(crate) fn pending(
    store: &ShardStore,
    table: &Rc<Table>,
    candidates: &TableCandidates,
) -> usize {
    let strategy = table.compaction_strategy();
    if !strategy.is_enabled() {
        return 0;
    }
    let view = table.borrow_view();
    let is_to_split = |sstable: &&Rc<SSTable>| {
        is_free(table, sstable) && split_plan(store, table, sstable).is_some()
    };
    strategy.pending(&candidates.facts()) + view.sstables.iter().filter(is_to_split).count()
}

/// Returns the output level and split for a file that spans several shards. The shard that owns the
/// file's first token splits it. Returns `None` on other shards, and for files that need no split.
pub(crate) fn split_plan(
    store: &ShardStore,
    table: &Table,
    sstable: &SSTable,
) -> Option<(u32, Split)> {
    let own = store.routing.own_tokens();
    let (first, last) = sstable.tokens();
    if table.is_schema() || !(own.0..=own.1).contains(&first) || last <= own.1 {
        return None;
    }
    let count = store.shard().count;
    let ends = (0..count).map(|shard| token_range_of_shard(shard, count).1);
    let split = Split::Tokens(ends.filter(|end| (first..last).contains(end)).collect());
    Some((sstable.level(), split))
}

/// Removes the largest files from a pick until it fits into the available bytes. A leveled pick
/// that does not fit is dropped whole, because otherwise files of a level would overlap. A garbage
/// pick is dropped whole once its garbage file is the largest one, because a compaction without
/// that file would purge nothing.
fn within(
    mut pick: PickedCompaction,
    bytes_of: impl Fn(usize) -> u64,
    available_bytes: u64,
) -> PickedCompaction {
    let bytes_of = |index: &usize| bytes_of(*index);
    while pick.files.iter().map(bytes_of).sum::<u64>() > available_bytes {
        if pick.level > 0 {
            pick.files.clear();
        }
        let largest = (0..pick.files.len()).max_by_key(|at| bytes_of(&pick.files[*at]));
        match largest.map(|at| pick.files.remove(at)) {
            Some(index) if pick.garbage == Some(index) => pick.files.clear(),
            Some(_) => {}
            None => break,
        }
    }
    pick
}

/// Returns the output level and split of a compaction that rewrites one file. Returns `None` if the
/// file spans several shards.
pub(crate) fn rewrite_plan(
    store: &ShardStore,
    table: &Table,
    sstable: &SSTable,
) -> Option<(u32, Split)> {
    let rewrite = || table.compaction_strategy().rewrite(sstable.level());
    is_inside(sstable, tokens_of(store, table)).then(rewrite)
}

#[cfg(test)]
mod tests;
