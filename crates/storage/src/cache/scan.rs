//! A range of partitions from memory, as far as it is known which there are (rule 15), with what memtables have.
//!
//! There is no snapshot of the line of partitions: at each look what is known is known of the files of the view, as long as the ticket is
//! valid. Each partition on its own shows one state.

use std::{cell::Cell, rc::Rc};

use espalier_mutation::{DecoratedKey, KeyBound, KeyRange};
use espalier_runtime::maybe_yield;

use super::{
    TableCache, Ticket,
    partition::CachedPartition,
    partitions::{KnownPartition, Standing, Stretch, StretchEnd},
};
use crate::{
    StorageError,
    dead_ranges::DeadAccess,
    read::{Opened, ReadCommand, Source, memtable_sources},
    table::TableView,
};

/// The row cache of a table, and what a read that begins now may add to it.
#[derive(Clone)]
pub(crate) struct CacheAccess {
    pub(crate) cache: Rc<TableCache>,
    pub(crate) ticket: Ticket,
    /// The read is part of a scan.
    pub(crate) scan: Option<ScanAccess>,
}

/// How a scan of partitions treats the cache: what it finds does not count as used.
#[derive(Clone)]
pub(crate) struct ScanAccess {
    /// Whether it may add what it reads.
    pub(crate) adds: bool,
    /// Whether a partition had to be asked for in the files.
    pub(crate) has_missed: Rc<Cell<bool>>,
}

impl CacheAccess {
    pub(crate) fn of_scan(&self, adds: bool) -> Self {
        let scan = Some(ScanAccess { adds, has_missed: Rc::default() });
        Self { scan, ..self.clone() }
    }

    /// Whether a partition is known, or would be added.
    pub(crate) fn knows_or_adds(&self, key: &DecoratedKey) -> bool {
        self.may_add()
            || (self.cache.is_valid(self.ticket)
                && matches!(self.cache.standing(key), Ok(Standing::Known)))
    }

    /// Whether what the read finds counts as used.
    pub(super) fn is_use(&self) -> bool {
        self.scan.is_none()
    }

    /// Whether what is read may be added now.
    pub(super) fn may_add(&self) -> bool {
        self.cache.is_valid(self.ticket) && self.scan.as_ref().is_none_or(|scan| scan.adds)
    }
}

/// A walk over the partitions of a range in memory.
pub(crate) struct KnownScan<'a> {
    access: CacheAccess,
    view: &'a Rc<TableView>,
    command: &'a ReadCommand,
    range: KeyRange,
    /// How far it came.
    at: KeyBound,
    stretch: Stretch,
    /// The next key of the memtables, if it was looked for and is still to come.
    of_memtables: Option<Option<DecoratedKey>>,
}

/// What comes next.
pub(crate) enum KnownStep {
    /// A partition.
    Partition(DecoratedKey, Opened<'static>),
    /// The range is at its end.
    End,
    /// From here on the files have to be asked.
    Unknown(KeyBound),
}

impl<'a> KnownScan<'a> {
    /// What is missing of a partition that is there is read from files, around the pages if `command` says so.
    pub(crate) fn new(
        access: &CacheAccess,
        view: &'a Rc<TableView>,
        command: &'a ReadCommand,
        range: KeyRange,
    ) -> Self {
        let at = range.start.clone();
        let stretch = Stretch::to_be_read();
        Self { access: access.clone(), view, command, range, at, stretch, of_memtables: None }
    }

    /// The bound behind which the next partition is looked for.
    pub(crate) fn at(&self) -> &KeyBound {
        &self.at
    }

    /// Goes on at a bound that lies behind.
    pub(crate) fn skip_to(&mut self, bound: KeyBound) {
        self.at = bound;
        self.stretch = Stretch::to_be_read();
        self.of_memtables = None;
    }

    /// The next partition of any source.
    pub(crate) async fn next(
        &mut self,
        dead: Option<&DeadAccess>,
    ) -> Result<KnownStep, StorageError> {
        let CacheAccess { cache, ticket, scan } = &self.access;
        // One partition is less to ask for than all that follow.
        let has_missed = scan.as_ref().is_some_and(|scan| scan.has_missed.get());
        while self.stretch.partitions.is_empty()
            && self.stretch.end == StretchEnd::More
            && !has_missed
        {
            let from = match self.stretch.passed.take() {
                Some(passed) => {
                    maybe_yield().await;
                    passed
                }
                None => self.at.clone(),
            };
            self.stretch = cache.stretch(*ticket, &self.command.table, &self.range, &from)?;
        }
        let is_known = match self.stretch.partitions.front() {
            Some(first) => first.only_row.is_some() || !has_missed,
            None => self.stretch.end == StretchEnd::Range,
        };
        if !is_known {
            return Ok(KnownStep::Unknown(self.at.clone()));
        }
        let of_memtables = match self.of_memtables.take() {
            Some(next) => next,
            None => self.view.next_in_memory(&self.at, &self.range)?.map(|next| next.key),
        };
        let is_of_files = match (&of_memtables, self.stretch.partitions.front()) {
            (None, None) => return Ok(KnownStep::End),
            (Some(key), Some(known)) => known.key <= *key,
            (_, known) => known.is_some(),
        };
        let known = is_of_files.then(|| self.stretch.partitions.pop_front()).flatten();
        let key = match (&known, of_memtables) {
            (None, None) => return Ok(KnownStep::End),
            (None, Some(key)) => key,
            (Some(known), of_memtables) => {
                if of_memtables.as_ref() != Some(&known.key) {
                    self.of_memtables = Some(of_memtables);
                }
                known.key.clone()
            }
        };
        self.at = KeyBound::AfterKey(key.clone());
        let slices = &self.command.slices;
        // In the moment when the memtables are opened.
        let dead = dead.map(|dead| dead.at_opening(self.command, &key)).unwrap_or_default();
        let mut sources = memtable_sources(self.view, self.command, &key, slices)?;
        if let Some(known) = known {
            sources.extend(self.of_cache(known).await?);
        }
        Ok(KnownStep::Partition(key, Opened { sources, dead }))
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
        let partition =
            CachedPartition::open(access, self.view, command, &key, &command.slices).await?;
        Ok(partition.map(|partition| Source::Cached(Box::new(partition))))
    }
}
