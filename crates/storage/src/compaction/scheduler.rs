//! When to compact: after every flush and every compaction the strategies are asked again, and now and then besides, for
//! time alone lets things expire.

use std::{collections::HashMap, rc::Rc, time::Duration};

use espalier_mutation::schema::TableId;

use espalier_runtime::{
    spawn_local,
    time::{self, Instant},
    token_range_of_shard,
};

use super::{
    CompactionKind, Job, compaction_id,
    outcome::Outcome,
    overlap::Outside,
    strategy::{Arena, CompactionStrategy, FileFacts, Pick, Split, depth},
    task,
};
use crate::{
    Database, StorageError,
    purge::PurgeLimits,
    table::{Droppable, SSTable, SSTableSet, Table},
};

/// Pause between two questions without a cause.
const TICK: Duration = Duration::from_secs(60);
/// Pause of a table after a compaction of it has failed, or had no room.
const RETRY_PAUSE: Duration = Duration::from_secs(30);
/// Compactions of a shard at once: a long one must not keep the files of flushes waiting. Nor must two long ones, so that beside these there may be more
/// that are short: of a part of the bytes of the shortest that runs.
const CONCURRENT: usize = 2;
const CONCURRENT_WITH_SHORT: usize = 4;
const SHORT_PART: u64 = 4;
/// Files that a short one has at least where it is a part of a longer one that is wanted: with fewer, each byte would be written more often.
const LEAST_OF_PART: usize = 4;
/// What stays free on the disk, for flushes and the commit log.
pub(crate) const RESERVED_BYTES: u64 = 64 << 20;

/// Compacts until the database closes.
pub(crate) async fn run(database: Database) {
    loop {
        if database.is_closing() {
            return;
        }
        begin_wanted(&database).await;
        let tables = database.tables_here().into_iter();
        let retries = tables.filter_map(|table| table.compactions.until_retry());
        let pause = retries.min().unwrap_or(TICK).min(TICK);
        let _ = time::timeout(pause, database.compaction_wanted().notified()).await;
    }
}

/// What a compaction may take.
#[derive(Clone, Copy)]
struct Room<'a> {
    /// Bytes that are free for a table, of which it leaves inputs out that do not fit.
    available: &'a dyn Fn(&Table) -> u64,
    /// Bytes of all of its inputs: it leaves the larger ones out, or does not begin.
    most_bytes: u64,
}

/// How many bytes of files the next compaction of the shard may have; `None` if there may be none.
fn most_bytes_of_next(database: &Database) -> Option<u64> {
    let running = database.running_compactions();
    match running.len() {
        _ if database.is_closing() => None,
        ..CONCURRENT => Some(u64::MAX),
        CONCURRENT..CONCURRENT_WITH_SHORT => {
            let bytes = running.iter().map(|(_, running)| running.total_stored_bytes());
            bytes.min().map(|bytes| bytes / SHORT_PART)
        }
        _ => None,
    }
}

/// What is free on the disk of each table that has files: there may be several disks, each of which is asked once.
async fn available_by_table(database: &Database) -> HashMap<TableId, u64> {
    let mut of_devices: HashMap<u64, u64> = HashMap::new();
    let mut of_tables = HashMap::new();
    for table in database.tables_here() {
        if table.borrow_view().sstables.is_empty() {
            continue;
        }
        let device = database.device_of(&table).await;
        let available = match of_devices.get(&device) {
            Some(available) => *available,
            None => database.bytes_for_compactions(&table).await,
        };
        of_devices.insert(device, available);
        of_tables.insert(table.borrow_metadata().id, available);
    }
    of_tables
}

async fn begin_wanted(database: &Database) {
    // All shards are asked for what is free: not for nothing.
    while most_bytes_of_next(database).is_some() {
        let available = available_by_table(database).await;
        // Asked again behind the wait.
        let Some(most_bytes) = most_bytes_of_next(database) else { return };
        // Of one that has come meanwhile nothing is known, and that one has next to nothing.
        let available =
            |table: &Table| available.get(&table.borrow_metadata().id).copied().unwrap_or_default();
        let room = Room { available: &available, most_bytes };
        let Some((table, job)) = next_job(database, room) else { return };
        // Other shards may have begun something since then.
        if let Err(error) = database.check_room(&table, &job.guard.running).await {
            tell_of_room(&table, &error.to_string());
            table.compactions.retry_at.set(Some(Instant::now() + RETRY_PAUSE));
            continue;
        }
        let database = database.clone();
        spawn_local(async move {
            let inputs = job.guard.running.inputs.clone();
            if let Err(error) = perform(&database, &table, job).await {
                let name = &table.metadata().name;
                let suspects = inputs.iter().filter(|input| input.suspect(&error));
                let suspects: Vec<String> =
                    suspects.map(|input| input.descriptor().to_string()).collect();
                if suspects.is_empty() {
                    tracing::error!(%error, table = name, "a compaction failed");
                    table.compactions.retry_at.set(Some(Instant::now() + RETRY_PAUSE));
                } else {
                    // The others go on without them.
                    let left_out = suspects.join(", ");
                    tracing::error!(%error, table = name, "a compaction failed: left out of them until scrubbed, or until the node starts again: {left_out}");
                }
            }
            database.compaction_wanted().notify_one();
        })
        .detach();
    }
}

/// Runs a compaction and takes note of it. Gives whether it was done, and not stopped.
pub(crate) async fn perform(
    database: &Database,
    table: &Rc<Table>,
    job: Job,
) -> Result<bool, StorageError> {
    // In a box: it is large, and there is one of it in a long while.
    let outcome = Box::pin(task::run(database, table, job)).await;
    match &outcome {
        Ok(Outcome::Done(outcome)) => {
            tracing::debug!(
                keyspace = outcome.keyspace,
                table = outcome.table,
                kind = outcome.kind.name(),
                sstables_in = outcome.sstables_in,
                sstables_out = outcome.sstables_out,
                bytes_in = outcome.bytes_in,
                bytes_out = outcome.bytes_out,
                duration_ms = outcome.duration.as_millis(),
                "compacted"
            );
            database.note_compaction(outcome);
        }
        Ok(Outcome::Stopped) => database.count_stopped_compaction(),
        Err(_) => database.count_failed_compaction(),
    }
    outcome.map(|outcome| matches!(outcome, Outcome::Done(_)))
}

/// The most pressing compaction of all tables, with its files taken.
fn next_job(database: &Database, room: Room<'_>) -> Option<(Rc<Table>, Job)> {
    let mut tables = database.tables_here();
    tables.retain(|table| {
        let waits = table.compactions.until_retry().is_some();
        !waits && !table.is_dropped() && !table.borrow_view().sstables.is_empty()
    });
    let arenas = tables.into_iter().map(|table| {
        let arena = arena_of(database, &table).without_suspects();
        (backlog(database, &table, &arena), table, arena)
    });
    let mut arenas: Vec<_> = arenas.collect();
    arenas.sort_by_key(|(backlog, ..)| std::cmp::Reverse(*backlog));
    arenas.into_iter().find_map(|(_, table, arena)| {
        let job = next_of(database, &table, &arena, room)?;
        Some((table, job))
    })
}

/// How much reads and flushes of a table wait for its compactions. How many files there are, or lie over each other, says little: there are
/// kinds of compaction that leave thousands side by side, and some that leave one for each day.
fn backlog(database: &Database, table: &Table, arena: &TableArena) -> usize {
    let (view, tokens) = (table.borrow_view(), tokens_of(database, table));
    let to_split = view.sstables.iter().filter(|sstable| !is_inside(sstable, tokens));
    let to_split = depth(to_split.map(|sstable| sstable.tokens()));
    let (strategy, facts) = (table.compaction_strategy(), arena.facts());
    strategy.surplus(&facts) + strategy.overfull(&facts) + to_split
}

fn next_of(
    database: &Database,
    table: &Rc<Table>,
    arena: &TableArena,
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
    if let Some(job) = split_job(database, table, room) {
        return Some(job);
    }
    let limits = PurgeLimits::of(&table.metadata());
    let may_be_expired =
        |file: &&Rc<SSTable>| file.maximum_local_deletion_time() < limits.gc_before_s;
    let candidates: Vec<_> = arena.idle.iter().filter(may_be_expired).cloned().collect();
    if !candidates.is_empty() {
        let expired = Outside::new(table, &candidates).expired_inputs(limits.gc_before_s);
        if !expired.is_empty() {
            let job = begin(expired, 0, Split::Never);
            job.iter().for_each(|job| job.guard.running.reads_only(&[]));
            return job;
        }
    }
    let bytes_of = |index: usize| arena.idle[index].bytes_rewritten();
    let available_bytes = (room.available)(table);
    strategy.picks(&arena.facts()).into_iter().find_map(|pick| {
        let bytes: u64 = pick.files.iter().map(|index| bytes_of(*index)).sum();
        // Beside long ones a part of what lies over each other is better than nothing: the larger files wait.
        let may_be_part = pick.level == 0 && pick.garbage.is_none();
        if bytes > room.most_bytes && !may_be_part {
            return None;
        }
        let wanted = pick.files.len();
        let pick = within(pick, bytes_of, available_bytes.min(room.most_bytes));
        let is_cut = pick.files.len() < wanted;
        let tokens = pick.files.iter().map(|index| arena.idle[*index].tokens());
        // Files that do not lie over each other would only be written again as they are.
        let is_useless = pick.split != Split::Never && depth(tokens) < 2;
        let least = if bytes > available_bytes { 2 } else { LEAST_OF_PART };
        if is_cut && (pick.files.len() < least || is_useless) {
            if bytes > available_bytes {
                let what = format!("{available_bytes} bytes are free for a compaction");
                tell_of_room(table, &what);
            }
            return None;
        }
        let inputs = pick.files.iter().map(|index| arena.idle[*index].clone()).collect();
        begin(inputs, pick.level, pick.split)
    })
}

/// Tells, now and then, that the disk has no room.
fn tell_of_room(table: &Table, what: &str) {
    let (now, tell_at) = (Instant::now(), &table.compactions.tell_at);
    if tell_at.get().is_none_or(|at| at <= now) {
        tell_at.set(Some(now + TICK));
        let table = &table.borrow_metadata().name;
        tracing::warn!(table, "there is no room on the disk: {what}");
    }
}

/// The split of a file of which other shards have a part, if there is one that this shard leads and that the disk has room for.
fn split_job(database: &Database, table: &Rc<Table>, room: Room<'_>) -> Option<Job> {
    let (view, available_bytes) = (table.view(), (room.available)(table));
    let has_room = |sstable: &SSTable| {
        let needed_bytes = sstable.bytes_rewritten();
        if needed_bytes > available_bytes {
            let name = sstable.descriptor();
            let what = format!("{name} has to be split, which takes {needed_bytes} bytes");
            tell_of_room(table, &format!("{what}, and {available_bytes} are free"));
        }
        needed_bytes <= available_bytes
    };
    let (sstable, (level, split)) = view.sstables.iter().find_map(|sstable| {
        let plan = split_plan(database, table, sstable).filter(|_| is_free(table, sstable))?;
        let is_short = sstable.reader().bytes_on_disk() <= room.most_bytes;
        (is_short && has_room(sstable)).then_some((sstable, plan))
    })?;
    let kind = CompactionKind::Split;
    let guard = table.compactions.begin(compaction_id(), kind, vec![sstable.clone()])?;
    Some(Job { guard, level, split, scrub: None })
}

fn is_free(table: &Table, sstable: &Rc<SSTable>) -> bool {
    !sstable.is_suspect() && !table.compactions.is_busy(sstable)
}

/// How many compactions a table waits for on this shard: those that its strategy wants, and splits. `arena`: of its files.
pub(crate) fn pending(database: &Database, table: &Rc<Table>, arena: &TableArena) -> usize {
    let strategy = table.compaction_strategy();
    if !strategy.is_enabled() {
        return 0;
    }
    let view = table.borrow_view();
    let is_to_split = |sstable: &&Rc<SSTable>| {
        is_free(table, sstable) && split_plan(database, table, sstable).is_some()
    };
    strategy.pending(&arena.facts()) + view.sstables.iter().filter(is_to_split).count()
}

/// How a file of which other shards have a part is split, if this shard leads that: the one that owns the first partition does.
pub(crate) fn split_plan(
    database: &Database,
    table: &Table,
    sstable: &SSTable,
) -> Option<(u32, Split)> {
    let own = database.own_tokens();
    let (first, last) = sstable.tokens();
    if table.is_schema() || !(own.0..=own.1).contains(&first) || last <= own.1 {
        return None;
    }
    let count = database.shard().count;
    let ends = (0..count).map(|shard| token_range_of_shard(shard, count).1);
    let split = Split::Tokens(ends.filter(|end| (first..last).contains(end)).collect());
    Some((sstable.level(), split))
}

/// The pick without as many of its largest files as the disk has no room for. One of a levelled compaction has all its
/// files or none, or the levels would come to overlap; and one for garbage has that, or nothing of it could go.
fn within(mut pick: Pick, bytes_of: impl Fn(usize) -> u64, available_bytes: u64) -> Pick {
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

/// The files of a table that this shard may compact, and what a strategy is told of them.
pub(crate) struct TableArena {
    pub(crate) idle: Vec<Rc<SSTable>>,
    idle_facts: Vec<FileFacts>,
    busy_facts: Vec<FileFacts>,
    suspect_facts: Vec<FileFacts>,
    tokens: (i64, i64),
    shards: usize,
    flush_bytes: u64,
}

impl TableArena {
    pub(crate) fn facts(&self) -> Arena<'_> {
        Arena {
            idle: &self.idle_facts,
            busy: &self.busy_facts,
            left_out: &self.suspect_facts,
            tokens: self.tokens,
            shards: self.shards,
            flush_bytes: self.flush_bytes,
            now_s: u64::try_from(time::now_seconds()).unwrap_or(0),
        }
    }

    /// Without the files that compactions of their own accord cannot read.
    pub(crate) fn without_suspects(mut self) -> Self {
        let idle = std::mem::take(&mut self.idle).into_iter();
        for (sstable, facts) in idle.zip(std::mem::take(&mut self.idle_facts)) {
            if sstable.is_suspect() {
                self.suspect_facts.push(facts);
            } else {
                self.idle.push(sstable);
                self.idle_facts.push(facts);
            }
        }
        self
    }

    /// How some of the idle files are compacted into one run.
    pub(crate) fn one_run(
        &self,
        strategy: &CompactionStrategy,
        inputs: &[Rc<SSTable>],
    ) -> (u32, Split) {
        let inputs = SSTableSet::of(inputs);
        let files = (0..self.idle.len()).filter(|index| inputs.has(&self.idle[*index])).collect();
        let pick = strategy.one_run(&self.facts(), files);
        (pick.level, pick.split)
    }
}

/// How a file is written anew; `None` if other shards have a part of it.
pub(crate) fn rewrite_plan(
    database: &Database,
    table: &Table,
    sstable: &SSTable,
) -> Option<(u32, Split)> {
    let rewrite = || table.compaction_strategy().rewrite(sstable.level());
    is_inside(sstable, tokens_of(database, table)).then(rewrite)
}

/// The tokens that a shard has of a table.
fn tokens_of(database: &Database, table: &Table) -> (i64, i64) {
    if table.is_schema() { (i64::MIN, i64::MAX) } else { database.own_tokens() }
}

/// Looks at the files of a table. Those that other shards have a part of are not compacted before they are split.
pub(crate) fn arena_of(database: &Database, table: &Rc<Table>) -> TableArena {
    let view = table.view();
    let tokens = tokens_of(database, table);
    let limits = PurgeLimits::of(&table.metadata());
    let mut arena = TableArena {
        idle: Vec::new(),
        idle_facts: Vec::new(),
        busy_facts: Vec::new(),
        suspect_facts: Vec::new(),
        tokens,
        shards: if table.is_schema() { 1 } else { database.shard().count },
        flush_bytes: table.flush_bytes(),
    };
    for sstable in view.sstables.iter().filter(|sstable| is_inside(sstable, tokens)) {
        let facts = facts_of(sstable, limits.gc_before_s);
        if table.compactions.is_busy(sstable) {
            arena.busy_facts.push(facts);
        } else {
            arena.idle.push(sstable.clone());
            arena.idle_facts.push(facts);
        }
    }
    arena
}

pub(crate) fn is_inside(sstable: &SSTable, tokens: (i64, i64)) -> bool {
    let (first, last) = sstable.tokens();
    tokens.0 <= first && last <= tokens.1
}

fn facts_of(sstable: &SSTable, gc_before_s: u32) -> FileFacts {
    let (first_token, last_token) = sstable.tokens();
    let Droppable { cells, ratio, row_deletions, partition_deletions } =
        sstable.droppable(gc_before_s);
    FileFacts {
        number: sstable.number(),
        bytes: sstable.reader().stored_data_length(),
        plain_bytes: sstable.reader().data_length(),
        level: sstable.level(),
        first_token,
        last_token,
        minimum_timestamp: sstable.minimum_timestamp(),
        maximum_timestamp: sstable.maximum_timestamp(),
        cells,
        droppable_ratio: ratio,
        row_deletions,
        partition_deletions,
        rows: sstable.row_count(),
        partitions: sstable.reader().partition_count().max(1),
        age_s: sstable.age_s(),
    }
}

#[cfg(test)]
mod tests;
