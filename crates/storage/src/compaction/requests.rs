//! Compactions, rewrites and scrubs of a table's files on request.
//!
//! A rewrite, a split or a scrub of a single file waits for the compaction that has the file.
//! [`RequestedCompactions::compact_where`] stops the compactions under way instead. The shard that
//! owns the first token of a file that several shards share splits the file; the other shards leave
//! it alone.

use std::{
    path::{Path, PathBuf},
    rc::{Rc, Weak},
};

use espalier_compaction::{
    CompactionKind, RunningGuard, Scrub, ScrubMode, ScrubReport, ShardLoad, compaction_id,
    strategy::Split, validate,
};
use espalier_mutation::schema::TableId;
use espalier_runtime::SchedulingGroup;
use espalier_sstable::{Component, SSTable};

use super::{Job, candidates_of, check_room, perform, rewrite_plan, split_plan};
use crate::{FirstFailure, ShardStore, StorageError, table::Table};

/// The outcome of [`RequestedCompactions::take_one`].
enum Taken {
    /// The file, reserved until the guard is dropped, with the level and the split of its outputs.
    /// A file that several shards share is split at the borders of the shards.
    All(RunningGuard, (u32, Split)),
    /// An operator has stopped compactions of this kind since the request.
    Stopped,
    /// The table no longer has the file, or another shard splits it.
    Nothing,
}

/// Compactions of a table on this shard on request. Each ends if an operator stops compactions of
/// its kind after the request.
pub(crate) struct RequestedCompactions<'s> {
    pub(crate) store: &'s Rc<ShardStore>,
    pub(crate) table: &'s Rc<Table>,
    /// The number of stop requests of the shard at the time of the request.
    pub(crate) seen: u64,
}

impl RequestedCompactions<'_> {
    /// Stops the compactions under way, and compacts the files for which `is_wanted` returns true
    /// into one sorted run.
    pub(crate) async fn compact_where(
        &self,
        is_wanted: impl Fn(&SSTable) -> bool,
    ) -> Result<(), StorageError> {
        if self.is_stopped(CompactionKind::Major) {
            return Err(self.stopped());
        }
        // Pausing ends the running compactions, so that all files are free. No other compaction
        // starts before this one has its files.
        drop(self.table.compactions.pause().await);
        if self.is_stopped(CompactionKind::Major) {
            self.store.wakers.compaction.notify_one();
            return Err(self.stopped());
        }
        self.compact_as_one(self.idle_files(is_wanted)).await
    }

    /// Compacts files into one sorted run, in the shape that the table's strategy writes.
    pub(crate) async fn compact_as_one(
        &self,
        inputs: Vec<Rc<SSTable>>,
    ) -> Result<(), StorageError> {
        let plan = candidates_of(self.store, self.table)
            .one_run(&self.table.compaction_strategy(), &inputs);
        self.compact_files(inputs, plan).await
    }

    /// Compacts idle files into one sorted run; does nothing if there are none.
    pub(crate) async fn compact_files(
        &self,
        inputs: Vec<Rc<SSTable>>,
        (level, split): (u32, Split),
    ) -> Result<(), StorageError> {
        if inputs.is_empty() {
            // Compactions that were stopped for this one may go on.
            self.store.wakers.compaction.notify_one();
            return Ok(());
        }
        let guard = self.table.compactions.begin(compaction_id(), CompactionKind::Major, inputs);
        let guard = guard.ok_or_else(|| self.stopped())?;
        self.compact_taken(Job { guard, level, split, scrub: None }).await
    }

    /// Splits the files that several shards share and whose first token this shard owns, because no
    /// shard can compact such a file. Waits for a compaction that has a file. A file that cannot be
    /// split stays as it is. Returns the error of the first such file.
    pub(crate) async fn split_shared_files(&self) -> Result<(), StorageError> {
        let mut failure = FirstFailure::none();
        let mut shared = self.table.view().sstables.to_vec();
        shared.retain(|sstable| split_plan(self.store, self.table, sstable).is_some());
        for sstable in shared {
            failure.keep(self.compact_one(&sstable, CompactionKind::Major).await)?;
        }
        failure.into_result()
    }

    /// Rewrites each file; with `only_others`, only files of another version than the current one.
    /// A file that cannot be read does not keep the others from being rewritten.
    pub(crate) async fn upgrade_all(&self, only_others: bool) -> Result<(), StorageError> {
        let version = self.store.tables.features_of(self.table).version;
        let is_other = |sstable: &Rc<SSTable>| sstable.descriptor().version != version;
        // A snapshot of the current SSTables; newer ones already have the target version. Held
        // weakly, so that an SSTable compacted before its turn frees its disk space.
        let left: Vec<Weak<SSTable>> = {
            let view = self.table.view();
            let left = view.sstables.iter().filter(|its| !only_others || is_other(its));
            left.map(Rc::downgrade).rev().collect()
        };
        let mut failure = FirstFailure::none();
        for sstable in left {
            let Some(sstable) = sstable.upgrade() else { continue };
            failure.keep(self.compact_one(&sstable, CompactionKind::Upgrade).await)?;
        }
        failure.into_result()
    }

    /// Rewrites a single file, or splits it if several shards share it. Does nothing if the table
    /// no longer has the file or another shard splits it.
    pub(crate) async fn compact_one(
        &self,
        sstable: &Rc<SSTable>,
        kind: CompactionKind,
    ) -> Result<(), StorageError> {
        match self.take_one(sstable, kind).await? {
            Taken::All(guard, (level, split)) => {
                self.compact_taken(Job { guard, level, split, scrub: None }).await
            }
            Taken::Stopped => Err(self.stopped()),
            Taken::Nothing => Ok(()),
        }
    }

    /// Checks or rewrites all files, according to the mode.
    pub(crate) async fn scrub_all(&self, mode: ScrubMode) -> Result<ScrubReport, StorageError> {
        // A snapshot of the current SSTables; newer ones are sound. Held weakly, so that an SSTable
        // compacted before its turn frees its disk space.
        let sstables: Vec<Weak<SSTable>> =
            self.table.view().sstables.iter().map(Rc::downgrade).collect();
        let (mut report, mut failure) = (ScrubReport::default(), FirstFailure::none());
        for sstable in sstables {
            let Some(sstable) = sstable.upgrade() else { continue };
            match self.scrub_one(&sstable, mode).await {
                Ok(more) => report.add(more),
                Err(error) if mode == ScrubMode::Abort => return Err(error),
                Err(error) => failure.keep(Err(error))?,
            }
            if report.is_stopped {
                return Ok(report);
            }
        }
        failure.into_result().map(|()| report)
    }

    async fn scrub_one(
        &self,
        sstable: &Rc<SSTable>,
        mode: ScrubMode,
    ) -> Result<ScrubReport, StorageError> {
        let stopped = |report| ScrubReport { is_stopped: true, ..report };
        let taken = self.take_one(sstable, CompactionKind::Scrub).await?;
        let (guard, (level, split)) = match taken {
            Taken::All(guard, plan) => (guard, plan),
            Taken::Stopped => return Ok(stopped(ScrubReport::default())),
            Taken::Nothing => return Ok(ScrubReport::default()),
        };
        let metadata = self.table.metadata();
        let name = format!("{}.{}", metadata.keyspace, metadata.name);
        let scrub = Rc::new(Scrub::new(mode, name));
        let done = match mode {
            ScrubMode::Validate => {
                guard.running.writes_nothing();
                let load: Rc<dyn ShardLoad> = self.store.clone();
                let (files, scrub) = (self.store.file_system.clone(), scrub.clone());
                let check =
                    async move { Box::pin(validate(&files, &load, &guard.running, &scrub)).await };
                SchedulingGroup::Maintenance.run(check).await.map_err(StorageError::from)
            }
            ScrubMode::Abort | ScrubMode::Skip => {
                self.perform(Job { guard, level, split, scrub: Some(scrub.clone()) }).await
            }
        };
        self.store.wakers.compaction.notify_one();
        let report = scrub.report();
        if done? {
            let ScrubReport { partitions, left_out_partitions, .. } = report;
            if left_out_partitions > 0 {
                tracing::warn!(
                    sstable = %sstable.descriptor(),
                    left_out_partitions,
                    partitions,
                    "scrub left partitions out"
                );
            }
            Ok(report)
        } else {
            tracing::info!("scrub stopped, file left unchanged: sstable={}", sstable.descriptor());
            let report = ScrubReport { sstables: 0, partitions: 0, ..stopped(report) };
            Ok(ScrubReport { left_out_partitions: 0, ..report })
        }
    }

    /// Reserves a file, after waiting for the compaction that has it. Ends early if an operator
    /// stops compactions of this kind.
    async fn take_one(
        &self,
        sstable: &Rc<SSTable>,
        wanted: CompactionKind,
    ) -> Result<Taken, StorageError> {
        let Self { store, table, .. } = *self;
        loop {
            if store.is_closing() {
                return Err(StorageError::ShuttingDown);
            }
            if self.is_stopped(wanted) {
                return Ok(Taken::Stopped);
            }
            // There is nothing to do if another compaction has replaced the file meanwhile.
            let is_same = |other: &Rc<SSTable>| Rc::ptr_eq(other, sstable);
            if !table.view().sstables.iter().any(is_same) {
                return Ok(Taken::Nothing);
            }
            if table.compactions.is_busy(sstable) {
                table.compactions.wait_for_end().await;
                continue;
            }
            let (kind, plan) = match rewrite_plan(store, table, sstable) {
                Some(plan) => (wanted, plan),
                None => match split_plan(store, table, sstable) {
                    Some(plan) => (CompactionKind::Split, plan),
                    // Several shards have a part of the file, and another shard splits it.
                    None => return Ok(Taken::Nothing),
                },
            };
            match table.compactions.begin(compaction_id(), kind, vec![sstable.clone()]) {
                Some(guard) => {
                    guard.running.asked_for.set(Some(wanted));
                    return Ok(Taken::All(guard, plan));
                }
                None if table.compactions.is_undecided() => {
                    return Err(self.stopped());
                }
                None => table.compactions.wait_for_end().await,
            }
        }
    }

    /// Compacts if the disk has room. A stop request is an error.
    async fn compact_taken(&self, job: Job) -> Result<(), StorageError> {
        if self.store.is_closing() {
            return Err(StorageError::ShuttingDown);
        }
        let is_done = self.perform(job).await;
        self.store.wakers.compaction.notify_one();
        if is_done? { Ok(()) } else { Err(self.stopped()) }
    }

    /// Compacts if the disk has room. Returns false if the compaction was stopped.
    async fn perform(&self, job: Job) -> Result<bool, StorageError> {
        check_room(self.store, self.table, &job.guard.running).await?;
        perform(self.store, self.table, job).await
    }

    /// Returns whether a compaction of this kind was asked to stop since the request.
    fn is_stopped(&self, kind: CompactionKind) -> bool {
        self.table.compactions.is_stopped_since(self.seen, kind)
    }

    /// Returns the error for a compaction on demand that was not done.
    fn stopped(&self) -> StorageError {
        let metadata = self.table.metadata();
        let name = format!("{}.{}", metadata.keyspace, metadata.name);
        match self.table.compactions.is_undecided() {
            _ if self.store.is_closing() => StorageError::ShuttingDown,
            true => StorageError::CompactionUndecided(name),
            false => StorageError::CompactionStopped(name),
        }
    }

    /// Returns the files that no compaction has, and for which `is_wanted` returns true.
    pub(crate) fn idle_files(&self, is_wanted: impl Fn(&SSTable) -> bool) -> Vec<Rc<SSTable>> {
        let mut idle = candidates_of(self.store, self.table).idle;
        idle.retain(|sstable| is_wanted(sstable));
        idle
    }
}

/// Returns whether this shard may rewrite or split a file: it owns all tokens of the file, or the
/// first token of a file that several shards share.
pub(crate) fn may_take(store: &ShardStore, table: &Table, sstable: &SSTable) -> bool {
    rewrite_plan(store, table, sstable).is_some() || split_plan(store, table, sstable).is_some()
}

/// A file that a caller named.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NamedFile {
    pub(crate) table: TableId,
    pub(crate) path: PathBuf,
    pub(crate) shard: usize,
    /// `false` if a compaction has the file, or if other shards have a part of it.
    pub(crate) is_idle: bool,
}

/// Returns the files of a shard that a caller named.
pub(crate) fn named_files(store: &ShardStore, wanted: &[PathBuf]) -> Vec<NamedFile> {
    let mut found = Vec::new();
    for table in store.tables.all() {
        let idle = candidates_of(store, &table).idle;
        for sstable in table.view().sstables.iter() {
            let path = sstable.descriptor().path(&Component::Data);
            if wanted.iter().any(|wanted| is_named(&path, wanted)) {
                let is_idle = idle.iter().any(|idle| Rc::ptr_eq(idle, sstable));
                let (table, shard) = (table.metadata().id, store.shard().index);
                found.push(NamedFile { table, path, shard, is_idle });
            }
        }
    }
    found
}

/// Returns whether `path` is the file that `name` names. Each may be relative to a different
/// directory, so either may be longer.
pub(crate) fn is_named(path: &Path, name: &Path) -> bool {
    path.ends_with(name) || path.is_relative() && name.ends_with(path)
}
