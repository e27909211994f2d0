//! A table view is an immutable snapshot of a table's memtables and SSTables. A read pins one;
//! flush, compaction and truncation replace it.

use std::rc::Rc;

use espalier_memtable::{Memtable, NextInMemory};
use espalier_mutation::{DecoratedKey, KeyBound, KeyRange};
use espalier_sstable::{SSTable, SSTableSet};

use super::CostlyRanges;
use crate::StorageError;

/// The memtables and SSTables of a table.
#[derive(Clone)]
pub(crate) struct TableView {
    /// The memtable that takes writes.
    pub(crate) memtable: Rc<Memtable>,
    /// The memtables being flushed, oldest first.
    pub(crate) flushing: Rc<[Rc<Memtable>]>,
    /// SSTables in descending order of their greatest write timestamp.
    pub(crate) sstables: Rc<[Rc<SSTable>]>,
    /// Searches by indexes that cost more than a scan of these memtables and SSTables.
    pub(crate) costly_ranges: Rc<CostlyRanges>,
}

impl TableView {
    pub(crate) fn new(memtable: Rc<Memtable>) -> Self {
        let costly_ranges = Rc::default();
        Self { memtable, flushing: Rc::new([]), sstables: Rc::new([]), costly_ranges }
    }

    /// Returns all memtables; the first one takes writes.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Rc<Memtable>> {
        std::iter::once(&self.memtable).chain(self.flushing.iter())
    }

    /// Returns the first partition behind `bound` and within `range` that a memtable has.
    pub(crate) fn next_in_memory(
        &self,
        bound: &KeyBound,
        range: &KeyRange,
    ) -> Result<Option<NextInMemory>, StorageError> {
        let mut least: Option<NextInMemory> = None;
        for memtable in self.memtables() {
            let Some(next) = memtable.next_partition(bound)? else { continue };
            if range.ends_before(&next.key) {
                continue;
            }
            match &mut least {
                Some(least) if next.key > least.key => {}
                Some(least) if next.key == least.key => least.join(&next),
                _ => least = Some(next),
            }
        }
        Ok(least)
    }

    /// Returns a lower limit in µs of the timestamps that memtables hold of a partition; `None` if
    /// they hold nothing of it. `path` is scratch space for paths in the trie.
    pub(crate) fn oldest_in_memory(&self, key: &DecoratedKey, path: &mut Vec<u8>) -> Option<i64> {
        let memtables = self.memtables().filter(|memtable| !memtable.is_empty());
        let holders = memtables.filter(|memtable| memtable.has(key.borrowed(), path));
        holders.map(|memtable| memtable.minimum_timestamp()).min()
    }

    /// Returns the approximate number of row versions in the memtables and SSTables.
    pub(crate) fn rows(&self) -> u64 {
        let in_memory = self.memtables().map(|memtable| memtable.statistics().rows);
        let stored =
            self.sstables.iter().map(|sstable| sstable.reader().statistics().stats.total_rows);
        in_memory.chain(stored).fold(0, u64::saturating_add)
    }

    /// Returns the number of components of secondary indexes that are left out because of damage.
    pub(crate) fn damaged_indexes(&self) -> usize {
        self.sstables.iter().map(|sstable| sstable.reader().forgotten_secondary_indexes()).sum()
    }

    pub(super) fn with_frozen_memtable(&self, fresh: Rc<Memtable>) -> Self {
        let flushing = self.flushing.iter().chain([&self.memtable]).cloned().collect();
        let (sstables, costly_ranges) = (self.sstables.clone(), Rc::default());
        Self { memtable: fresh, flushing, sstables, costly_ranges }
    }

    /// Returns a view with older memtables that a truncation had set aside.
    pub(super) fn with_memtables_back(&self, older: &[Rc<Memtable>]) -> Self {
        let flushing = older.iter().chain(self.flushing.iter()).cloned().collect();
        Self { flushing, costly_ranges: Rc::default(), ..self.clone() }
    }

    /// Returns a view with additional SSTables.
    pub(crate) fn with_sstables(&self, more: impl IntoIterator<Item = Rc<SSTable>>) -> Self {
        let mut sstables: Vec<Rc<SSTable>> = self.sstables.iter().cloned().chain(more).collect();
        sstables.sort_by_key(|sstable| std::cmp::Reverse(sstable.maximum_timestamp()));
        Self { sstables: sstables.into(), costly_ranges: Rc::default(), ..self.clone() }
    }

    /// Returns a view without the given SSTables and flushing memtables.
    pub(crate) fn without(&self, sstables: &[Rc<SSTable>], memtables: &[Rc<Memtable>]) -> Self {
        let gone = SSTableSet::of(sstables);
        let stays = |memtable: &&Rc<Memtable>| !memtables.iter().any(|g| Rc::ptr_eq(g, memtable));
        Self {
            memtable: self.memtable.clone(),
            flushing: self.flushing.iter().filter(stays).cloned().collect(),
            sstables: self.sstables.iter().filter(|sstable| !gone.has(sstable)).cloned().collect(),
            costly_ranges: Rc::default(),
        }
    }
}
