//! Compactions for what may go, where nothing else is to be done: a file of which enough is past its grace, alone or with what it covers in
//! others.

use super::{Arena, CompactionStrategy, FileFacts, Kind, Pick, Split, overlaps::meet_older};

/// Picks of a kind: where the disk has no room for the best, a lesser one may go. More would not fit either, most likely.
pub(super) const MOST_PICKS: usize = 8;
/// Files for which is looked what they cover: each takes a walk over all files, and nobody else gets the core meanwhile. Those with the
/// most that may go are the likeliest to be worth it; the others wait until one of these is gone. The number is arbitrary.
const MOST_LOOKED_AT: usize = 32;

impl CompactionStrategy {
    /// The best first.
    pub(super) fn garbage_picks(&self, arena: &Arena<'_>) -> Vec<Pick> {
        let garbage: Vec<usize> =
            (0..arena.idle.len()).filter(|index| self.is_garbage(&arena.idle[*index])).collect();
        if garbage.is_empty() {
            return Vec::new();
        }
        // What is in older files keeps deletions from going. The idle ones come first there.
        let meets_older = meet_older(&arena.all().collect::<Vec<_>>());
        let (mut covering, mut alone): (Vec<usize>, Vec<usize>) =
            garbage.iter().copied().partition(|index| meets_older[*index]);
        if self.common.unchecked_tombstones {
            alone = garbage;
        }
        let mut picks = self.alone(arena, alone);
        let amount = |index: &usize| arena.idle[*index].old_cells();
        covering.sort_by(|left, right| amount(right).total_cmp(&amount(left)));
        covering.truncate(MOST_LOOKED_AT);
        picks.extend(self.with_covered(arena, &covering));
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
    fn with_covered(&self, arena: &Arena<'_>, garbage: &[usize]) -> Vec<Pick> {
        let is_worth = |share: f64| share > self.common.tombstone_threshold;
        match &self.kind {
            Kind::TimeWindow(_) => return Vec::new(),
            Kind::Leveled(strategy) => {
                return strategy.downwards(arena, garbage, |files, index| {
                    is_worth(dead_share(arena, files, index))
                });
            }
            Kind::SizeTiered(_) | Kind::Unified(_) => {}
        }
        let sets = garbage.iter().filter_map(|at| {
            let (at, garbage) = (*at, &arena.idle[*at]);
            let mut others = arena.busy.iter().chain(arena.left_out);
            if others.any(|other| other.may_be_covered_by(garbage)) {
                return None;
            }
            let is_in =
                |index: &usize| *index == at || arena.idle[*index].may_be_covered_by(garbage);
            let files: Vec<usize> = (0..arena.idle.len()).filter(is_in).collect();
            let share = dead_share(arena, &files, at);
            is_worth(share).then_some((share, at, files))
        });
        let mut sets: Vec<(f64, usize, Vec<usize>)> = sets.collect();
        sets.sort_by(|(left, ..), (right, ..)| right.total_cmp(left));
        let picks = sets.into_iter().take(MOST_PICKS).map(|(_, at, files)| {
            let pick = match &self.kind {
                Kind::Unified(strategy) => strategy.one_run(arena, files),
                _ => Pick::new(files, 0, Split::Never),
            };
            Pick { garbage: Some(at), ..pick }
        });
        picks.collect()
    }
}

/// The share of the cells of some files that may go if they are compacted together: those that are old enough, and what the deletions of
/// the one at `garbage` are likely to cover in the others: one of a row as many as a row has there, one of a partition as many as a partition.
fn dead_share(arena: &Arena<'_>, files: &[usize], garbage: usize) -> f64 {
    let of = |index: &usize| &arena.idle[*index];
    let sum =
        |count: fn(&FileFacts) -> f64| files.iter().map(|index| count(of(index))).sum::<f64>();
    let cells = sum(|file| file.cells as f64);
    let old = sum(FileFacts::old_cells);
    let garbage = of(&garbage);
    let others = (cells - garbage.cells as f64).max(0.0);
    let rows = sum(|file| file.rows as f64) - garbage.rows as f64;
    let partitions = sum(|file| file.partitions as f64) - garbage.partitions as f64;
    let covered = garbage.row_deletions as f64 * others / rows.max(1.0)
        + garbage.partition_deletions as f64 * others / partitions.max(1.0);
    (old + covered.min(others)).min(cells) / cells.max(1.0)
}

impl FileFacts {
    /// How many cells and deletions may go.
    fn old_cells(&self) -> f64 {
        self.droppable_ratio.clamp(0.0, 1.0) * self.cells as f64
    }
}
