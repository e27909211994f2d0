//! Compactions for what may go, where nothing else is to be done: a file of which enough is past its grace, alone or with what it covers in
//! others.

use super::{
    Arena, CompactionStrategy, FileFacts, Kind, Pick, Split,
    overlaps::{Amounts, met_older},
};

/// Picks of a kind: where the disk has no room for the best, a lesser one may go. More would not fit either, most likely.
pub(super) const MOST_PICKS: usize = 8;

impl CompactionStrategy {
    /// The best first.
    pub(super) fn garbage_picks(&self, arena: &Arena<'_>) -> Vec<Pick> {
        let garbage: Vec<usize> =
            (0..arena.idle.len()).filter(|index| self.is_garbage(&arena.idle[*index])).collect();
        if garbage.is_empty() {
            return Vec::new();
        }
        // What is in older files keeps deletions from going. The idle ones come first there.
        let older = met_older(&arena.all().collect::<Vec<_>>(), arena.idle.len());
        let (covering, mut alone): (Vec<usize>, Vec<usize>) =
            garbage.iter().copied().partition(|index| older[*index].files > 0);
        if self.common.unchecked_tombstones {
            alone = garbage;
        }
        let mut picks = self.alone(arena, alone);
        picks.extend(self.with_covered(arena, &covering, &older));
        picks
    }

    /// Whether enough of a file may go, and it has waited for it.
    fn is_garbage(&self, file: &FileFacts) -> bool {
        file.droppable_ratio > self.common.tombstone_threshold
            && file.age_s >= self.common.tombstone_interval_s
    }

    /// Each of some files by itself, for what may go of it.
    fn alone(&self, arena: &Arena<'_>, mut garbage: Vec<usize>) -> Vec<Pick> {
        // A window goes as a whole when all of it has expired: before that it is written anew only for a table that asks for it.
        if matches!(self.kind, Kind::TimeWindow(_)) && !self.common.names_tombstones {
            return Vec::new();
        }
        let ratio = |index: &usize| arena.idle[*index].droppable_ratio;
        garbage.sort_by(|left, right| ratio(right).total_cmp(&ratio(left)));
        let picks = garbage.into_iter().take(MOST_PICKS).map(|index| {
            let (level, split) = self.rewrite(arena.idle[index].level);
            Pick::new(vec![index], level, split)
        });
        picks.collect()
    }

    /// Files with what they may cover in others, so that both can go: where that is as large a share of all of them as a file alone must
    /// have. Cassandra waits until as many files as for any other compaction are there, and so never ends with a table of which all
    /// was deleted. In levels one goes down with what it meets there. Time windows stay apart.
    fn with_covered(&self, arena: &Arena<'_>, garbage: &[usize], older: &[Amounts]) -> Vec<Pick> {
        let is_worth = |share: f64| share > self.common.tombstone_threshold;
        match &self.kind {
            Kind::TimeWindow(_) => return Vec::new(),
            Kind::Leveled(strategy) => {
                return strategy.downwards(arena, garbage, older, |all, index| {
                    let garbage = &arena.idle[index];
                    is_worth(dead_share(all.without(&Amounts::of(garbage, true)), garbage))
                });
            }
            Kind::SizeTiered(_) | Kind::Unified(_) => {}
        }
        let sets = garbage.iter().filter_map(|at| {
            let (at, older) = (*at, older[*at]);
            let share = dead_share(older, &arena.idle[at]);
            (older.taken == 0 && is_worth(share)).then_some((share, at))
        });
        let mut sets: Vec<(f64, usize)> = sets.collect();
        sets.sort_by(|(left, _), (right, _)| right.total_cmp(left));
        let picks = sets.into_iter().take(MOST_PICKS).map(|(_, at)| {
            let garbage = &arena.idle[at];
            let is_in =
                |index: &usize| *index == at || arena.idle[*index].may_be_covered_by(garbage);
            let files = (0..arena.idle.len()).filter(is_in).collect();
            let pick = match &self.kind {
                Kind::Unified(strategy) => strategy.one_run(arena, files),
                _ => Pick::new(files, 0, Split::Never),
            };
            Pick { garbage: Some(at), ..pick }
        });
        picks.collect()
    }
}

/// The share of the cells of a file and of others that may go if they are compacted together: those that are old enough, and what the
/// deletions of the file are likely to cover in the others: one of a row as many as a row has there, one of a partition as many as a partition.
fn dead_share(others: Amounts, garbage: &FileFacts) -> f64 {
    let cells = others.cells + garbage.cells as f64;
    let old = others.old_cells + garbage.old_cells();
    let covered = garbage.row_deletions as f64 * others.cells / others.rows.max(1.0)
        + garbage.partition_deletions as f64 * others.cells / others.partitions.max(1.0);
    (old + covered.min(others.cells)).min(cells) / cells.max(1.0)
}

impl FileFacts {
    /// How many cells and deletions may go.
    pub(super) fn old_cells(&self) -> f64 {
        self.droppable_ratio.clamp(0.0, 1.0) * self.cells as f64
    }
}
