//! This module finds files that overlap, directly or through others, and sums up the data that they
//! may cover in each other.

use std::{cmp::Reverse, collections::BinaryHeap, iter::Sum};

use super::SSTableInfo;

/// The token ranges that reach the current position of a walk along the ring.
#[derive(Default)]
pub(super) struct Reaching(BinaryHeap<Reverse<i64>>);

impl Reaching {
    /// Adds the next range in the order of first tokens. Returns the number of added ranges that
    /// contain its first token, this range included.
    pub(super) fn enter(&mut self, first: i64, last: i64) -> usize {
        while self.0.peek().is_some_and(|Reverse(end)| *end < first) {
            self.0.pop();
        }
        self.0.push(Reverse(last));
        self.0.len()
    }
}

/// Files that overlap directly or through others, and the maximum number of them over one token.
pub(super) struct OverlapSet {
    pub(super) files: Vec<usize>,
    pub(super) most: usize,
}

/// Returns the overlap sets of `among`, in the order of the ring.
pub(super) fn overlap_sets(files: &[SSTableInfo], among: &[usize]) -> Vec<OverlapSet> {
    let mut order = among.to_vec();
    order.sort_by_key(|index| (files[*index].first_token, files[*index].number));
    let mut sets: Vec<OverlapSet> = Vec::new();
    let mut reaching = Reaching::default();
    for index in order {
        let file = &files[index];
        let count = reaching.enter(file.first_token, file.last_token);
        match sets.last_mut().filter(|_| count > 1) {
            Some(set) => {
                set.files.push(index);
                set.most = set.most.max(count);
            }
            None => sets.push(OverlapSet { files: vec![index], most: count }),
        }
    }
    sets
}

/// Selects files in the order of `order`. Leaves out each file that would raise the number of files
/// over some token above `most`.
pub(super) fn within_depth(files: &[SSTableInfo], order: Vec<usize>, most: usize) -> Vec<usize> {
    // Tokens at which the number of files may change.
    let mut firsts: Vec<i64> = order.iter().map(|index| files[*index].first_token).collect();
    firsts.sort_unstable();
    firsts.dedup();
    let mut depths = vec![0; firsts.len()];
    let mut taken = order;
    taken.retain(|index| {
        let file = &files[*index];
        let from = firsts.partition_point(|first| *first < file.first_token);
        let to = firsts.partition_point(|first| *first <= file.last_token);
        let has_room = depths[from..to].iter().all(|depth| *depth < most);
        if has_room {
            depths[from..to].iter_mut().for_each(|depth| *depth += 1);
        }
        has_room
    });
    taken
}

/// Sums over some files.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Amounts {
    pub(super) files: usize,
    /// Number of files that are not idle.
    pub(super) taken: usize,
    pub(super) cells: f64,
    /// Cells and deletions that can be purged.
    pub(super) old_cells: f64,
    pub(super) rows: f64,
    pub(super) partitions: f64,
}

impl Amounts {
    pub(super) fn of(file: &SSTableInfo, is_idle: bool) -> Self {
        Self {
            files: 1,
            taken: usize::from(!is_idle),
            cells: file.cells as f64,
            old_cells: file.old_cells(),
            rows: file.rows as f64,
            partitions: file.partitions as f64,
        }
    }

    fn add(&mut self, other: &Self) {
        self.files += other.files;
        self.taken += other.taken;
        self.cells += other.cells;
        self.old_cells += other.old_cells;
        self.rows += other.rows;
        self.partitions += other.partitions;
    }

    /// Subtracts the amounts of a part of the files.
    pub(super) fn without(mut self, part: &Self) -> Self {
        self.files -= part.files;
        self.taken -= part.taken;
        for (amount, part) in [
            (&mut self.cells, part.cells),
            (&mut self.old_cells, part.old_cells),
            (&mut self.rows, part.rows),
            (&mut self.partitions, part.partitions),
        ] {
            *amount = (*amount - part).max(0.0);
        }
        self
    }
}

impl Sum for Amounts {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::default(), |mut sum, amounts| {
            sum.add(&amounts);
            sum
        })
    }
}

/// Returns for each file the amounts of the other files that it may cover: files that overlap it
/// and have data as old as its newest. The first `idle` files are idle.
///
/// One walk along time adds the files that are old enough to sums over first tokens and over last
/// tokens. A comparison of all pairs takes too long for thousands of files.
pub(super) fn met_older(files: &[&SSTableInfo], idle: usize) -> Vec<Amounts> {
    let sorted = |of: fn(&SSTableInfo) -> i64| {
        let mut values: Vec<i64> = files.iter().map(|file| of(file)).collect();
        values.sort_unstable();
        values
    };
    let (firsts, lasts) = (sorted(|file| file.first_token), sorted(|file| file.last_token));
    let in_order = |of: fn(&SSTableInfo) -> i64| {
        let mut order: Vec<usize> = (0..files.len()).collect();
        order.sort_by_key(|index| of(files[*index]));
        order
    };
    let amounts = |index: usize| Amounts::of(files[index], index < idle);
    let mut older = in_order(|file| file.minimum_timestamp).into_iter().peekable();
    let (mut begun, mut ended) = (Sums::new(files.len()), Sums::new(files.len()));
    let mut met = vec![Amounts::default(); files.len()];
    for index in in_order(|file| file.maximum_timestamp) {
        let file = files[index];
        let is_older = |other: &usize| files[*other].minimum_timestamp <= file.maximum_timestamp;
        while let Some(other) = older.next_if(is_older) {
            let amounts = amounts(other);
            let first = firsts.partition_point(|first| *first < files[other].first_token);
            begun.add(first, &amounts);
            let last = lasts.partition_point(|last| *last < files[other].last_token);
            ended.add(last, &amounts);
        }
        // The files that have begun and not ended overlap `file`, which may be one of them.
        let begun = begun.below(firsts.partition_point(|first| *first <= file.last_token));
        let ended = ended.below(lasts.partition_point(|last| *last < file.first_token));
        let itself = if is_older(&index) { amounts(index) } else { Amounts::default() };
        met[index] = begun.without(&ended).without(&itself);
    }
    met
}

/// A Fenwick tree of amounts. It returns the sum of the amounts below a place.
struct Sums(Vec<Amounts>);

impl Sums {
    fn new(places: usize) -> Self {
        Self(vec![Amounts::default(); places + 1])
    }

    fn add(&mut self, place: usize, amounts: &Amounts) {
        let mut node = place + 1;
        while let Some(sum) = self.0.get_mut(node) {
            sum.add(amounts);
            node += node & node.wrapping_neg();
        }
    }

    fn below(&self, place: usize) -> Amounts {
        let mut node = place;
        let mut sum = Amounts::default();
        while node > 0 {
            sum.add(&self.0[node]);
            node &= node - 1;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use espalier_runtime::random::Generator;

    use super::*;

    #[test]
    fn met_older_agrees_with_a_comparison_of_all_pairs() {
        let mut random = Generator::from_seed(1);
        for _ in 0..300 {
            let count = random.below(30);
            let mut range = |most: u64| {
                let first = random.below(most) as i64;
                (first, first + random.below(most) as i64)
            };
            let facts: Vec<SSTableInfo> = (0..count)
                .map(|_| {
                    let (tokens, timestamps) = (range(40), range(20));
                    SSTableInfo {
                        cells: 1 + tokens.0 as u64,
                        droppable_ratio: 0.5,
                        rows: 1 + timestamps.0 as u64,
                        partitions: 1,
                        first_token: tokens.0,
                        last_token: tokens.1,
                        minimum_timestamp: timestamps.0,
                        maximum_timestamp: timestamps.1,
                        ..SSTableInfo::default()
                    }
                })
                .collect();
            let files: Vec<&SSTableInfo> = facts.iter().collect();
            let idle = files.len() / 2;
            let of_pairs: Vec<Amounts> = files
                .iter()
                .map(|file| {
                    let others = files.iter().enumerate();
                    let met = others.filter(|(_, other)| other.may_be_covered_by(file));
                    met.map(|(index, other)| Amounts::of(other, index < idle)).sum()
                })
                .collect();
            assert_eq!(met_older(&files, idle), of_pairs);
        }
    }
}
