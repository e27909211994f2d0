//! Compactions on demand: of all files, of the files that meet a token range, of files by name.

use std::{
    path::{Path, PathBuf},
    rc::Rc,
};

use espalier_compaction::{CompactionKind, compaction_id, strategy::Split};
use espalier_mutation::schema::TableId;
use espalier_sstable::{Component, SSTable};
use futures_util::future::LocalBoxFuture;

use super::{Database, compaction::StopRequests, first_failure::FirstFailure, one_file::Taken};
use crate::{
    StorageError,
    compaction::{Job, candidates_of, perform, split_plan},
    table::Table,
};

/// A range of tokens behind `after`, up to and including `through`, on the ring. If
/// `through` does not exceed `after`, the range wraps around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenRange {
    /// Token before the range (exclusive).
    pub after: i64,
    /// Last token of the range (inclusive).
    pub through: i64,
}

impl TokenRange {
    /// Returns whether some token from `first` to `last` is in the range.
    fn meets(self, (first, last): (i64, i64)) -> bool {
        let Self { after, through } = self;
        let (is_behind, is_within) = (last > after, first <= through);
        if after < through { is_behind && is_within } else { is_behind || is_within }
    }
}

impl Database {
    /// Compacts a keyspace, or one table of it, on all shards into one sorted run each. With
    /// `with_memtables`, memtables are flushed first. Compactions under way are stopped.
    ///
    /// # Errors
    ///
    /// Fails if the keyspace or table is unknown, if the compaction is stopped, or with the first
    /// failure of a flush, split or compaction.
    pub fn compact<'a>(
        &'a self,
        keyspace: &'a str,
        table: Option<&'a str>,
        with_memtables: bool,
    ) -> LocalBoxFuture<'a, Result<(), StorageError>> {
        Box::pin(async move { self.compact_where(keyspace, table, with_memtables, |_| true).await })
    }

    /// Compacts only the files that have, or may have, partitions in a range.
    ///
    /// # Errors
    ///
    /// Fails as [`Database::compact`] does.
    pub fn compact_range<'a>(
        &'a self,
        keyspace: &'a str,
        table: Option<&'a str>,
        range: TokenRange,
        with_memtables: bool,
    ) -> LocalBoxFuture<'a, Result<(), StorageError>> {
        Box::pin(async move {
            let is_queued = move |sstable: &SSTable| range.meets(sstable.tokens());
            self.compact_where(keyspace, table, with_memtables, is_queued).await
        })
    }

    async fn compact_where(
        &self,
        keyspace: &str,
        table: Option<&str>,
        with_memtables: bool,
        is_queued: impl Fn(&SSTable) -> bool + Copy + Send + 'static,
    ) -> Result<(), StorageError> {
        let ids = self.tables_named(keyspace, table)?;
        let seen = self.stop_requests().await;
        let mut failure = FirstFailure::none();
        if with_memtables {
            failure.keep(self.flush(keyspace, table).await)?;
        }
        let of_all = (ids.clone(), seen.clone());
        let split = self.on_all_shards(move |database| {
            let (ids, seen) = of_all.clone();
            async move { database.split_shared_files(ids, &seen).await }
        });
        failure.keep(FirstFailure::of_shards(split.await))?;
        let compacted = self.for_tables(ids, move |database, table| {
            let seen = seen.clone();
            async move { database.compact_those_of(&table, is_queued, &seen).await }
        });
        // A failed flush or split is reported when all else is done.
        failure.keep(compacted.await)?;
        failure.into_result()
    }

    /// Compacts some files, each given by the name of its Data.db or by the end of its path. The
    /// files of each table become one sorted run.
    ///
    /// # Errors
    ///
    /// Fails, with nothing done, if a file is unknown, ambiguous, or cannot be compacted at the
    /// moment; otherwise with the first failure of a compaction.
    pub fn compact_data_files(
        &self,
        files: Vec<PathBuf>,
    ) -> LocalBoxFuture<'_, Result<(), StorageError>> {
        Box::pin(async move {
            let wanted = files.clone();
            let found = self.on_all_shards(move |database| {
                let wanted = wanted.clone();
                async move { database.named_files(&wanted) }
            });
            let mut found: Vec<NamedFile> = found.await.concat();
            found.sort();
            found.dedup();
            for file in &files {
                let those = || found.iter().filter(|found| is_named(&found.path, file));
                let Some(first) = those().next() else {
                    return Err(StorageError::UnknownSSTable(file.clone()));
                };
                if those().any(|other| other.path != first.path) {
                    return Err(StorageError::AmbiguousSSTable(file.clone()));
                }
                if those().any(|other| !other.is_idle) {
                    return Err(StorageError::BusySSTable(first.path.clone()));
                }
            }
            let mut failure = FirstFailure::none();
            for group in found.chunk_by(|left, right| left.table == right.table) {
                let Some(id) = group.first().map(|file| file.table) else { continue };
                let group = group.to_vec();
                let compacted = self.for_tables(vec![id], move |database, table| {
                    let here = database.shard().index;
                    let mut paths: Vec<PathBuf> = Vec::new();
                    paths.extend(group.iter().filter(|f| f.shard == here).map(|f| f.path.clone()));
                    async move {
                        let path_of =
                            |sstable: &SSTable| sstable.descriptor().path(&Component::Data);
                        let inputs =
                            idle_of(&database, &table, |sstable| paths.contains(&path_of(sstable)));
                        // Another compaction may have taken a file meanwhile, and even have
                        // removed it.
                        let is_there =
                            |path: &&PathBuf| inputs.iter().any(|input| path_of(input) == **path);
                        match paths.iter().find(|path| !is_there(path)) {
                            Some(path) => Err(StorageError::BusySSTable(path.clone())),
                            None => database.compact_as_one(&table, inputs).await,
                        }
                    }
                });
                failure.keep(compacted.await)?;
            }
            failure.into_result()
        })
    }

    fn named_files(&self, wanted: &[PathBuf]) -> Vec<NamedFile> {
        let mut found = Vec::new();
        for table in self.tables_here() {
            let idle = candidates_of(self, &table).idle;
            for sstable in table.view().sstables.iter() {
                let path = sstable.descriptor().path(&Component::Data);
                if wanted.iter().any(|wanted| is_named(&path, wanted)) {
                    let is_idle = idle.iter().any(|idle| Rc::ptr_eq(idle, sstable));
                    let (table, shard) = (table.metadata().id, self.shard().index);
                    found.push(NamedFile { table, path, shard, is_idle });
                }
            }
        }
        found
    }

    /// Compacts some files of a table, named like `da-17-bti`, into one sorted run. Skips files
    /// that are missing or being compacted. Returns whether anything was compacted.
    ///
    /// # Errors
    ///
    /// Fails if the table is unknown or if a compaction fails.
    pub fn compact_sstables<'a>(
        &'a self,
        keyspace: &'a str,
        table: &'a str,
        names: Vec<String>,
    ) -> LocalBoxFuture<'a, Result<bool, StorageError>> {
        Box::pin(async move {
            let ids = self.tables_named(keyspace, Some(table))?;
            let done = self.on_all_shards(move |database| {
                let (ids, names) = (ids.clone(), names.clone());
                async move {
                    let mut is_done = false;
                    for id in ids {
                        let Ok(table) = database.table(id) else { continue };
                        let inputs = idle_of(&database, &table, |sstable| {
                            names.contains(&sstable.descriptor().to_string())
                        });
                        is_done |= !inputs.is_empty();
                        database.compact_files(&table, inputs, (0, Split::Never)).await?;
                    }
                    Ok::<bool, StorageError>(is_done)
                }
            });
            let done: Vec<bool> = done.await.into_iter().collect::<Result<_, _>>()?;
            Ok(done.contains(&true))
        })
    }

    /// Splits the files that several shards share, because no shard can compact such a file. If
    /// another shard splits a file already, waits for it. A file that cannot be split stays as it
    /// is. Returns the error of the first such file.
    async fn split_shared_files(
        &self,
        ids: Vec<TableId>,
        seen: &StopRequests,
    ) -> Result<(), StorageError> {
        let mut failure = FirstFailure::none();
        // The table was dropped meanwhile, or belongs to another shard alone.
        for table in ids.into_iter().filter_map(|id| self.table(id).ok()) {
            let mut shared = table.view().sstables.to_vec();
            shared.retain(|sstable| split_plan(self, &table, sstable).is_some());
            for sstable in shared {
                let wanted = CompactionKind::Major;
                failure.keep(self.compact_one(&table, &sstable, wanted, seen).await)?;
            }
        }
        failure.into_result()
    }

    /// Rewrites a single file, if the table still has it and this shard leads.
    pub(super) async fn compact_one(
        &self,
        table: &Rc<Table>,
        sstable: &Rc<SSTable>,
        kind: CompactionKind,
        seen: &StopRequests,
    ) -> Result<(), StorageError> {
        match self.take_one(table, sstable, kind, seen).await? {
            Taken::All(guard, (level, split)) => {
                self.compact_taken(table, Job { guard, level, split, scrub: None }).await
            }
            Taken::Stopped => Err(self.stopped(table)),
            Taken::Nothing => Ok(()),
        }
    }

    async fn compact_those_of(
        &self,
        table: &Rc<Table>,
        is_queued: impl Fn(&SSTable) -> bool,
        seen: &StopRequests,
    ) -> Result<(), StorageError> {
        let is_stopped = || self.is_stopped_since(seen, table, CompactionKind::Major);
        if is_stopped() {
            return Err(self.stopped(table));
        }
        // Pausing ends the running compactions, so that all files are free. None starts before this
        // one has its files.
        drop(table.compactions.pause().await);
        if is_stopped() {
            self.compaction_wanted().notify_one();
            return Err(self.stopped(table));
        }
        let inputs = idle_of(self, table, is_queued);
        self.compact_as_one(table, inputs).await
    }

    /// Compacts files into one sorted run, in the shape that the table's strategy writes.
    async fn compact_as_one(
        &self,
        table: &Rc<Table>,
        inputs: Vec<Rc<SSTable>>,
    ) -> Result<(), StorageError> {
        let plan = candidates_of(self, table).one_run(&table.compaction_strategy(), &inputs);
        self.compact_files(table, inputs, plan).await
    }

    /// Compacts idle files into one sorted run; does nothing if there are none.
    async fn compact_files(
        &self,
        table: &Rc<Table>,
        inputs: Vec<Rc<SSTable>>,
        (level, split): (u32, Split),
    ) -> Result<(), StorageError> {
        if inputs.is_empty() {
            // Compactions that were stopped for this one may go on.
            self.compaction_wanted().notify_one();
            return Ok(());
        }
        let guard = table.compactions.begin(compaction_id(), CompactionKind::Major, inputs);
        let guard = guard.ok_or_else(|| self.stopped(table))?;
        self.compact_taken(table, Job { guard, level, split, scrub: None }).await
    }

    /// Compacts if the disk has room. A stop request is an error.
    pub(super) async fn compact_taken(
        &self,
        table: &Rc<Table>,
        job: Job,
    ) -> Result<(), StorageError> {
        if self.is_closing() {
            return Err(StorageError::ShuttingDown);
        }
        let is_done = match self.check_room(table, &job.guard.running).await {
            Ok(()) => perform(self, table, job).await,
            Err(error) => Err(error),
        };
        self.compaction_wanted().notify_one();
        if is_done? { Ok(()) } else { Err(self.stopped(table)) }
    }

    /// Returns the error for a compaction on demand that was not done.
    pub(super) fn stopped(&self, table: &Rc<Table>) -> StorageError {
        let metadata = table.metadata();
        let name = format!("{}.{}", metadata.keyspace, metadata.name);
        match table.compactions.is_undecided() {
            _ if self.is_closing() => StorageError::ShuttingDown,
            true => StorageError::CompactionUndecided(name),
            false => StorageError::CompactionStopped(name),
        }
    }
}

/// A file that a caller named.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NamedFile {
    table: TableId,
    path: PathBuf,
    shard: usize,
    /// `false` if a compaction has the file, or if other shards have a part of it.
    is_idle: bool,
}

/// Returns whether `path` is the file that `name` names. Each may be relative to a different
/// directory, so either may be longer.
fn is_named(path: &Path, name: &Path) -> bool {
    path.ends_with(name) || path.is_relative() && name.ends_with(path)
}

fn idle_of(
    database: &Database,
    table: &Rc<Table>,
    is_queued: impl Fn(&SSTable) -> bool,
) -> Vec<Rc<SSTable>> {
    let mut idle = candidates_of(database, table).idle;
    idle.retain(|sstable| is_queued(sstable));
    idle
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_their_end_and_not_their_start_and_go_round() {
        let range = TokenRange { after: 10, through: 20 };
        for (tokens, expected) in [
            ((0, 10), false),
            ((0, 11), true),
            ((20, 30), true),
            ((21, 30), false),
            ((0, 30), true),
            ((12, 13), true),
        ] {
            assert_eq!(range.meets(tokens), expected, "{tokens:?}");
        }
        let round = TokenRange { after: 20, through: 10 };
        for (tokens, expected) in
            [((11, 20), false), ((11, 21), true), ((10, 15), true), ((-5, -4), true)]
        {
            assert_eq!(round.meets(tokens), expected, "{tokens:?}");
        }
        assert!(TokenRange { after: 5, through: 5 }.meets((i64::MIN, i64::MIN)), "the whole ring");
    }
}
