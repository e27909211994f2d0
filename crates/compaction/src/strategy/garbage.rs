//! This module picks garbage compactions, if the strategy has no other picks. Such a pick compacts
//! a file with enough purgeable data, alone or with the files that it covers.

use super::{
    CompactionCandidates, CompactionStrategy, Kind, PickedCompaction, SSTableInfo,
    overlaps::{Amounts, met_older},
};

/// Maximum number of picks of single files, and of picks with covered files. If the disk has no
/// room for the best one, a lesser one may fit; more than these would most likely not fit either.
pub(super) const MAX_PICKS: usize = 8;

impl CompactionStrategy {
    /// Returns the picks of single files with garbage, the best one first, and then the picks with
    /// covered files.
    pub(super) fn garbage_picks(
        &self,
        candidates: &CompactionCandidates<'_>,
    ) -> Vec<PickedCompaction> {
        let garbage: Vec<usize> = (0..candidates.idle.len())
            .filter(|index| self.is_garbage(&candidates.idle[*index]))
            .collect();
        if garbage.is_empty() {
            return Vec::new();
        }
        // Data in older files keeps deletions from being purged. The idle files come first in the
        // list.
        let older = met_older(&candidates.all().collect::<Vec<_>>(), candidates.idle.len());
        let (covering, mut alone): (Vec<usize>, Vec<usize>) =
            garbage.iter().copied().partition(|index| older[*index].files > 0);
        if self.common.unchecked_tombstones {
            alone = garbage;
        }
        let mut picks = self.alone(candidates, alone);
        picks.extend(self.with_covered(candidates, &covering, &older));
        picks
    }

    /// Returns whether enough of a file can be purged, and the file is old enough.
    fn is_garbage(&self, file: &SSTableInfo) -> bool {
        file.droppable_ratio > self.common.tombstone_threshold
            && file.age_s >= self.common.tombstone_interval_s
    }

    /// Picks a compaction of each file alone.
    fn alone(
        &self,
        candidates: &CompactionCandidates<'_>,
        mut garbage: Vec<usize>,
    ) -> Vec<PickedCompaction> {
        // A window is dropped as a whole once all its data has expired. It is rewritten earlier
        // only if the table asks for it.
        if matches!(self.kind, Kind::TimeWindow(_)) && !self.common.names_tombstones {
            return Vec::new();
        }
        let ratio = |index: &usize| candidates.idle[*index].droppable_ratio;
        garbage.sort_by(|left, right| ratio(right).total_cmp(&ratio(left)));
        let picks = garbage.into_iter().take(MAX_PICKS).map(|index| {
            let (level, split) = self.rewrite(candidates.idle[index].level);
            PickedCompaction::new(vec![index], level, split)
        });
        picks.collect()
    }

    /// Picks files together with the files that they may cover, so that both deletions and covered
    /// data are purged. The purgeable share of all files of a pick must exceed
    /// `tombstone_threshold`, as that of a single file must.
    ///
    /// Cassandra waits until there are as many files as any other compaction needs, so it never
    /// purges a table in which all data was deleted. In leveled compaction a file moves down with
    /// the files that it overlaps there. Files of different time windows stay apart.
    fn with_covered(
        &self,
        candidates: &CompactionCandidates<'_>,
        garbage: &[usize],
        older: &[Amounts],
    ) -> Vec<PickedCompaction> {
        let is_worth = |share: f64| share > self.common.tombstone_threshold;
        match &self.kind {
            Kind::TimeWindow(_) => return Vec::new(),
            Kind::Leveled(strategy) => {
                return strategy.downwards(candidates, garbage, older, |all, index| {
                    let garbage = &candidates.idle[index];
                    is_worth(dead_share(all.without(&Amounts::of(garbage, true)), garbage))
                });
            }
            Kind::SizeTiered(_) | Kind::Unified(_) => {}
        }
        let sets = garbage.iter().filter_map(|at| {
            let (at, older) = (*at, older[*at]);
            let share = dead_share(older, &candidates.idle[at]);
            (older.taken == 0 && is_worth(share)).then_some((share, at))
        });
        let mut sets: Vec<(f64, usize)> = sets.collect();
        sets.sort_by(|(left, _), (right, _)| right.total_cmp(left));
        let picks = sets.into_iter().take(MAX_PICKS).map(|(_, at)| {
            let garbage = &candidates.idle[at];
            let is_in =
                |index: &usize| *index == at || candidates.idle[*index].may_be_covered_by(garbage);
            let files = (0..candidates.idle.len()).filter(is_in).collect();
            let pick = match &self.kind {
                Kind::Unified(strategy) => strategy.one_run(candidates, files),
                _ => PickedCompaction::into_one(files),
            };
            PickedCompaction { garbage: Some(at), ..pick }
        });
        picks.collect()
    }
}

/// Returns the estimated share of the cells of a file and of others that can be purged if they are
/// compacted together.
///
/// The purgeable cells are the cells that are old enough, and the cells of the other files that the
/// deletions of the file are likely to cover. A row deletion covers the average number of cells of
/// a row in the other files, a partition deletion that of a partition.
fn dead_share(others: Amounts, garbage: &SSTableInfo) -> f64 {
    let cells = others.cells + garbage.cells as f64;
    let old = others.old_cells + garbage.old_cells();
    let covered = garbage.row_deletions as f64 * others.cells / others.rows.max(1.0)
        + garbage.partition_deletions as f64 * others.cells / others.partitions.max(1.0);
    (old + covered.min(others.cells)).min(cells) / cells.max(1.0)
}

impl SSTableInfo {
    /// Returns the number of cells and deletions that are old enough to be purged.
    pub(super) fn old_cells(&self) -> f64 {
        self.droppable_ratio.clamp(0.0, 1.0) * self.cells as f64
    }
}
