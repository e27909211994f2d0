//! Scans the partitions of a range in the row cache, as far as the range is continuous there (rule
//! 15 of docs/cache.md), and merges them with those of the memtables.
//!
//! The sequence of partitions has no snapshot: each step reads the present state of the cache,
//! which agrees with the view's files as long as the ticket is valid. Each single partition shows
//! one state.

use std::rc::Rc;

use espalier_cache::{
    CacheAccess, CachedPartition, ContinuousEnd, ContinuousRange, KnownPartition,
};
use espalier_mutation::{DecoratedKey, KeyBound, KeyRange};
use espalier_runtime::maybe_yield;

use super::{cached_source::ReadView, shard_read::memtable_sources, source::Source};
use crate::{ReadCommand, StorageError, empty_ranges::EmptyRangeRecorder, table::TableView};

/// A scan of the partitions of a range in memory.
pub(crate) struct ContinuousScan<'a> {
    access: CacheAccess,
    view: &'a Rc<TableView>,
    command: &'a ReadCommand,
    range: KeyRange,
    /// The bound that the scan has reached.
    at: KeyBound,
    continuous_range: ContinuousRange,
}

/// The result of a step of the scan.
pub(crate) enum ContinuousStep {
    /// A partition.
    Partition(DecoratedKey, Vec<Source<'static>>),
    /// The range is at its end.
    End,
    /// The partitions behind this bound have to be read from the files.
    Unknown(KeyBound),
}

impl<'a> ContinuousScan<'a> {
    /// Creates a scan of `range`. It reads gaps within a partition from files, and bypasses the
    /// page cache if `command` says so.
    pub(crate) fn new(
        access: &CacheAccess,
        view: &'a Rc<TableView>,
        command: &'a ReadCommand,
        range: KeyRange,
    ) -> Self {
        let at = range.start.clone();
        let continuous_range = ContinuousRange::to_be_read();
        Self { access: access.clone(), view, command, range, at, continuous_range }
    }

    /// Returns the bound behind which the scan looks for the next partition.
    pub(crate) fn at(&self) -> &KeyBound {
        &self.at
    }

    /// Moves the scan forward to a later bound.
    pub(crate) fn skip_to(&mut self, bound: KeyBound) {
        self.at = bound;
        self.continuous_range = ContinuousRange::to_be_read();
    }

    /// Returns the next partition of the cache or the memtables.
    pub(crate) async fn next(
        &mut self,
        recorder: &mut EmptyRangeRecorder<'_>,
    ) -> Result<ContinuousStep, StorageError> {
        let CacheAccess { cache, ticket, scan } = &self.access;
        // After a look-up of one partition had to read the files, the caller scans the files for
        // the rest of the range, because look-ups of the following partitions one by one would cost
        // more.
        let has_missed = scan.as_ref().is_some_and(|scan| scan.has_missed.get());
        while self.continuous_range.partitions.is_empty()
            && self.continuous_range.end == ContinuousEnd::More
            && !has_missed
        {
            let from = match self.continuous_range.passed.take() {
                Some(passed) => {
                    maybe_yield().await;
                    passed
                }
                None => self.at.clone(),
            };
            self.continuous_range =
                cache.continuous_range(*ticket, &self.command.table, &self.range, &from)?;
        }
        let is_continuous = match self.continuous_range.partitions.front() {
            Some(first) => first.only_row.is_some() || !has_missed,
            None => self.continuous_range.end == ContinuousEnd::Range,
        };
        if !is_continuous {
            return Ok(ContinuousStep::Unknown(self.at.clone()));
        }
        // The recorder enters the partition in the same poll. Otherwise a write could add an
        // earlier partition in between: the recorder would not know this partition, and the
        // recorded range would hide it.
        let of_memtables = self.view.next_in_memory(&self.at, &self.range)?.map(|next| next.key);
        let partitions = &mut self.continuous_range.partitions;
        let in_memory = of_memtables.as_ref();
        let is_next = |known: &KnownPartition| in_memory.is_none_or(|key| known.key <= *key);
        let known =
            if partitions.front().is_some_and(is_next) { partitions.pop_front() } else { None };
        let key = match (&known, of_memtables) {
            (None, None) => return Ok(ContinuousStep::End),
            (None, Some(key)) => key,
            (Some(known), _) => known.key.clone(),
        };
        self.at = KeyBound::AfterKey(key.clone());
        let slices = &self.command.slices;
        recorder.enter(&key);
        let mut sources = memtable_sources(self.view, self.command, &key, slices)?;
        if let Some(known) = known {
            sources.extend(self.of_cache(known).await?);
        }
        Ok(ContinuousStep::Partition(key, sources))
    }

    async fn of_cache(
        &self,
        known: KnownPartition,
    ) -> Result<Option<Source<'static>>, StorageError> {
        let (access, command) = (&self.access, self.command);
        let key = known.key;
        if let Some(row) = known.only_row {
            access.cache.count(|metrics| {
                metrics.reads_without_misses += 1;
                metrics.row_hits += u64::from(row.is_some());
            });
            return Ok(Some(Source::only_row(key, row)));
        }
        let view = ReadView::new(self.view, command);
        let partition = CachedPartition::open(access, view, &key, &command.slices).await?;
        Ok(partition.map(|partition| Source::Cached(Box::new(partition))))
    }
}
