//! Compactions on demand: of all files, of the files that overlap a token range, of files by name.

use std::path::PathBuf;

use espalier_compaction::strategy::Split;
use espalier_sstable::{Component, SSTable};
use futures_util::future::LocalBoxFuture;

use super::Node;
use crate::{
    FirstFailure, StorageError,
    compaction::{NamedFile, RequestedCompactions, is_named, named_files},
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

/// The compactions of all shards of a node.
#[derive(Clone, Copy)]
pub struct Compactions<'n> {
    pub(in crate::node) node: &'n Node,
}

impl Node {
    /// Returns the compactions of all shards of a node.
    pub fn compactions(&self) -> Compactions<'_> {
        Compactions { node: self }
    }
}

impl<'n> Compactions<'n> {
    /// Compacts each table of a keyspace, or one table of it, into one sorted run on each shard.
    /// With `with_memtables`, memtables are flushed first. Compactions under way are stopped.
    ///
    /// # Errors
    ///
    /// Fails if the keyspace or table is unknown, if the compaction is stopped, or with the first
    /// failure of a flush, split or compaction.
    pub fn compact(
        self,
        keyspace: &'n str,
        table: Option<&'n str>,
        with_memtables: bool,
    ) -> LocalBoxFuture<'n, Result<(), StorageError>> {
        Box::pin(async move { self.compact_where(keyspace, table, with_memtables, |_| true).await })
    }

    /// Compacts only the files that have, or may have, partitions in a range.
    ///
    /// # Errors
    ///
    /// Fails as [`Compactions::compact`] does.
    pub fn compact_range(
        self,
        keyspace: &'n str,
        table: Option<&'n str>,
        range: TokenRange,
        with_memtables: bool,
    ) -> LocalBoxFuture<'n, Result<(), StorageError>> {
        Box::pin(async move {
            let is_queued = move |sstable: &SSTable| range.meets(sstable.tokens());
            self.compact_where(keyspace, table, with_memtables, is_queued).await
        })
    }

    async fn compact_where(
        self,
        keyspace: &str,
        table: Option<&str>,
        with_memtables: bool,
        is_queued: impl Fn(&SSTable) -> bool + Copy + Send + 'static,
    ) -> Result<(), StorageError> {
        let ids = self.node.store().tables.named(keyspace, table)?;
        let seen = self.stop_requests().await;
        let mut failure = FirstFailure::none();
        if with_memtables {
            failure.keep(self.node.flush(keyspace, table).await)?;
        }
        let split = async |requests: RequestedCompactions<'_>| requests.split_shared_files().await;
        failure.keep(self.perform(ids.clone(), &seen, split).await)?;
        let compact =
            async move |requests: RequestedCompactions<'_>| requests.compact_where(is_queued).await;
        // A failed flush or split is reported when all else is done.
        failure.keep(self.perform(ids, &seen, compact).await)?;
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
        self,
        files: Vec<PathBuf>,
    ) -> LocalBoxFuture<'n, Result<(), StorageError>> {
        Box::pin(async move {
            let wanted = files.clone();
            let found = self
                .node
                .on_all_shards(move |node| async move { named_files(node.store(), &wanted) });
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
            let seen = self.stop_requests().await;
            let mut failure = FirstFailure::none();
            for group in found.chunk_by(|left, right| left.table == right.table) {
                let Some(id) = group.first().map(|file| file.table) else { continue };
                let group = group.to_vec();
                let compact = async move |requests: RequestedCompactions<'_>| {
                    let here = requests.store.shard().index;
                    let path_of = |sstable: &SSTable| sstable.descriptor().path(&Component::Data);
                    let paths: Vec<&PathBuf> =
                        group.iter().filter(|f| f.shard == here).map(|f| &f.path).collect();
                    let inputs = requests.idle_files(|sstable| paths.contains(&&path_of(sstable)));
                    // Another compaction may have taken a file meanwhile, and even have removed it.
                    let is_there = |path: &PathBuf| inputs.iter().any(|i| path_of(i) == *path);
                    match paths.iter().find(|path| !is_there(path)) {
                        Some(path) => Err(StorageError::BusySSTable(path.to_path_buf())),
                        None => requests.compact_as_one(inputs).await,
                    }
                };
                failure.keep(self.perform(vec![id], &seen, compact).await)?;
            }
            failure.into_result()
        })
    }

    /// Compacts some files of a table, named like `da-17-bti`, into one sorted run on each shard.
    /// Skips files that are missing or being compacted. Returns whether anything was compacted.
    ///
    /// # Errors
    ///
    /// Fails if the table is unknown or if a compaction fails.
    pub fn compact_sstables(
        self,
        keyspace: &'n str,
        table: &'n str,
        names: Vec<String>,
    ) -> LocalBoxFuture<'n, Result<bool, StorageError>> {
        Box::pin(async move {
            let ids = self.node.store().tables.named(keyspace, Some(table))?;
            let seen = self.stop_requests().await;
            let done = self.node.on_all_shards(move |node| async move {
                let mut is_done = false;
                for id in ids {
                    let Ok(table) = node.store().tables.get(id) else { continue };
                    let requests = seen.requests(&node, &table);
                    let inputs = requests
                        .idle_files(|sstable| names.contains(&sstable.descriptor().to_string()));
                    is_done |= !inputs.is_empty();
                    requests.compact_files(inputs, (0, Split::Never)).await?;
                }
                Ok::<bool, StorageError>(is_done)
            });
            let done: Vec<bool> = done.await.into_iter().collect::<Result<_, _>>()?;
            Ok(done.contains(&true))
        })
    }
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
