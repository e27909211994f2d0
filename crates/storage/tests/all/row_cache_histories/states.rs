//! Records the states of each partition, one after each write, and checks that each page shows one
//! of the states that were current while it was read.
//!
//! There is one writer. After each write, the writer reads the partitions around the cache. These
//! reads give the next states of the partitions. A page that started when `n` writes to a partition
//! were done, and ended when `m` had started, must show the partition after one of the writes
//! `n..=m`, as a whole. The page must not show an older state than an earlier page of the same
//! reader has shown.

use std::{collections::BTreeMap, ops::RangeInclusive};

use espalier_mutation::{Clustering, DecoratedKey, Direction, schema::TableMetadata};
use espalier_storage::{
    ColumnSelection, PartitionRows, ReadCommand, ReadPosition, ReadResult, ReadTarget,
};

use crate::model::forget_liveness;

#[derive(Default)]
struct Partition {
    /// The state before all writes, and the state after each completed one.
    states: Vec<Option<PartitionRows>>,
    /// Number of writes that have started.
    begun: usize,
}

pub(super) struct States {
    partitions: BTreeMap<DecoratedKey, Partition>,
    /// Number of changes of the table that have started, and that are done.
    changes: (u64, u64),
}

/// A page, and the states that were visible while it was read.
pub(super) struct Page {
    command: ReadCommand,
    result: ReadResult,
    /// The visible states of each partition: from the last state that was complete when the page
    /// started, to the state of the last write that had started when the page ended.
    seen: BTreeMap<DecoratedKey, RangeInclusive<usize>>,
    /// True if the table was altered during the page, or after the command was made; the content of
    /// the page is not checked then.
    is_altered: bool,
}

impl States {
    pub(super) fn new(keys: impl Iterator<Item = DecoratedKey>) -> Self {
        let partition = || Partition { states: vec![None], begun: 0 };
        Self { partitions: keys.map(|key| (key, partition())).collect(), changes: (0, 0) }
    }

    pub(super) fn keys(&self) -> Vec<DecoratedKey> {
        self.partitions.keys().cloned().collect()
    }

    pub(super) fn begin(&mut self, key: &DecoratedKey) {
        self.partitions.get_mut(key).unwrap().begun += 1;
    }

    /// Adds the state after the write that was started.
    pub(super) fn end(&mut self, key: &DecoratedKey, state: Option<PartitionRows>) {
        let partition = self.partitions.get_mut(key).unwrap();
        partition.states.push(state);
        assert_eq!(partition.states.len(), partition.begun + 1);
    }

    pub(super) fn begin_change(&mut self) {
        self.changes.0 += 1;
    }

    pub(super) fn end_change(&mut self) {
        self.changes.1 += 1;
    }

    /// Drops all states but the last one of each partition. Without readers, no other state can be
    /// visible from here on.
    pub(super) fn forget_old(&mut self) {
        for partition in self.partitions.values_mut() {
            let last = partition.states.pop();
            partition.states = Vec::from_iter(last);
            partition.begun = 0;
        }
    }

    /// Returns the states that are visible to a page that starts at this point.
    pub(super) fn begin_page(&self) -> PageBegin {
        let done = self.partitions.values().map(|partition| partition.states.len() - 1);
        PageBegin { done: done.collect(), changes: self.changes }
    }

    pub(super) fn end_page(
        &self,
        begin: PageBegin,
        command: ReadCommand,
        result: ReadResult,
        table: &TableMetadata,
    ) -> Page {
        let seen = self.partitions.iter().zip(begin.done);
        let seen = seen.map(|((key, now), done)| (key.clone(), done..=now.begun)).collect();
        let is_altered = begin.changes.0 != begin.changes.1
            || self.changes != begin.changes
            || command.table.version != table.version;
        Page { command, result, seen, is_altered }
    }

    /// Panics if a page of a reader shows a state that it must not. Returns the number of
    /// partitions with more than one possible state.
    pub(super) fn judge(&self, pages: &[Page], context: &str) -> usize {
        let mut least: BTreeMap<&DecoratedKey, usize> = BTreeMap::new();
        let mut of_several = 0;
        for page in pages.iter().filter(|page| !page.is_altered) {
            page.check_form(context);
            for (key, seen) in &page.seen {
                let found = page.result.partitions.iter().find(|found| found.key == *key);
                if !page.covers(key) {
                    assert_eq!(found, None, "{context} {:?}", page.command);
                    continue;
                }
                let (first, last) = seen.clone().into_inner();
                let first = first.max(least.get(key).copied().unwrap_or(0));
                let states = &self.partitions[key].states;
                let shows = |at: &usize| page.expected(states[*at].as_ref()).as_ref() == found;
                let Some(shown) = (first..=last).find(shows) else {
                    let states: Vec<_> = states[first..=last]
                        .iter()
                        .map(|state| page.expected(state.as_ref()))
                        .collect();
                    panic!(
                        "{context}: {:?}\nnext {:?}\ngave {found:?}\nand not one of {states:?}",
                        page.command, page.result.next
                    );
                };
                least.insert(key, shown);
                of_several += usize::from(last > first);
            }
        }
        of_several
    }
}

/// The states when a page started.
pub(super) struct PageBegin {
    done: Vec<usize>,
    changes: (u64, u64),
}

impl Page {
    pub(super) fn is_altered(&self) -> bool {
        self.is_altered
    }

    fn check_form(&self, context: &str) {
        let Self { command, result, .. } = self;
        let (partitions, limits) = (&result.partitions, &command.limits);
        assert!(partitions.is_sorted_by(|a, b| a.key < b.key), "{context} {command:?}");
        let rows: usize = partitions.iter().map(|partition| partition.rows.len().max(1)).sum();
        assert!(rows <= limits.rows, "{context}: {rows} rows {command:?}");
        let is_full = rows == limits.rows || limits.bytes < usize::MAX;
        let may_end = is_full || limits.tombstones < usize::MAX || result.next.is_none();
        assert!(may_end, "{context}: a page of {rows} rows {command:?}");
    }

    /// Returns true if the page includes a partition.
    fn covers(&self, key: &DecoratedKey) -> bool {
        let is_target = match &self.command.target {
            ReadTarget::Partition(target) => target == key,
            ReadTarget::Range(range) => range.contains(key),
        };
        let is_ahead = self.command.resume.as_ref().is_none_or(|resume| {
            *key > resume.key || (*key == resume.key && resume.clustering.is_some())
        });
        is_target && is_ahead && self.result.next.as_ref().is_none_or(|next| *key <= next.key)
    }

    /// Returns the content of the page for a partition in this state.
    fn expected(&self, state: Option<&PartitionRows>) -> Option<PartitionRows> {
        let state = state?;
        let Self { command, result, .. } = self;
        let comparator = command.table.comparator();
        let of_here = |position: &Option<ReadPosition>| {
            position.clone().filter(|position| position.key == state.key)
        };
        let (resume, next) = (of_here(&command.resume), of_here(&result.next));
        let mut rows = state.rows.clone();
        if command.direction == Direction::Reverse {
            rows.reverse();
        }
        let is_before = |left: &Clustering, right: &Clustering| {
            let order = comparator.compare(left.position(), right.position());
            match command.direction {
                Direction::Forward => order.is_lt(),
                Direction::Reverse => order.is_gt(),
            }
        };
        rows.retain(|row| command.slices.contains(comparator, row.clustering.position()));
        if let Some(last) = resume.as_ref().and_then(|resume| resume.clustering.as_ref()) {
            rows.retain(|row| is_before(last, &row.clustering));
        }
        let returned = resume.map_or(0, |resume| resume.rows_of_partition);
        rows.truncate(command.limits.rows_per_partition - returned);
        let end = next.and_then(|next| next.clustering);
        if let Some(end) = &end {
            rows.retain(|row| !is_before(end, &row.clustering));
        }
        let has_static = state.static_row.is_some() && command.slices.is_all();
        if rows.is_empty() && (!has_static || returned > 0 || end.is_some()) {
            return None;
        }
        let mut expected =
            PartitionRows { key: state.key.clone(), static_row: state.static_row.clone(), rows };
        if let ColumnSelection::Only(_) = command.columns {
            let all = expected.rows.iter_mut().chain(&mut expected.static_row);
            all.for_each(|row| row.columns.retain(|(id, _)| command.columns.contains(*id)));
        }
        forget_liveness(std::slice::from_mut(&mut expected));
        Some(expected)
    }
}
