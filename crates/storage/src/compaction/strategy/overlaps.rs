//! Files that overlap, directly or through others.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::FileFacts;

/// The ranges of tokens that reach to where a walk along the ring is.
#[derive(Default)]
pub(super) struct Reaching(BinaryHeap<Reverse<i64>>);

impl Reaching {
    /// Goes on to the next range, by its first token. Gives how many reach there, with it.
    pub(super) fn enter(&mut self, first: i64, last: i64) -> usize {
        while self.0.peek().is_some_and(|Reverse(end)| *end < first) {
            self.0.pop();
        }
        self.0.push(Reverse(last));
        self.0.len()
    }
}

/// Files of which each overlaps some other, and how many of them at most hold one token.
pub(super) struct OverlapSet {
    pub(super) files: Vec<usize>,
    pub(super) most: usize,
}

/// The sets of `among`, in the order of the ring.
pub(super) fn overlap_sets(files: &[FileFacts], among: &[usize]) -> Vec<OverlapSet> {
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

/// Those of some files, taken in this order, that can be taken without more than `most` over one token.
pub(super) fn within_depth(files: &[FileFacts], order: Vec<usize>, most: usize) -> Vec<usize> {
    // Where the number of files over a token may change.
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

/// For each of some files whether another one that meets it has something as old as what it has newest. One walk along time, in which
/// those that are old enough are counted by where they begin and end: looking at each pair takes too long where there are thousands.
pub(super) fn meet_older(files: &[&FileFacts]) -> Vec<bool> {
    let sorted = |of: fn(&FileFacts) -> i64| {
        let mut values: Vec<i64> = files.iter().map(|file| of(file)).collect();
        values.sort_unstable();
        values
    };
    let (firsts, lasts) = (sorted(|file| file.first_token), sorted(|file| file.last_token));
    let in_order = |of: fn(&FileFacts) -> i64| {
        let mut order: Vec<usize> = (0..files.len()).collect();
        order.sort_by_key(|index| of(files[*index]));
        order
    };
    let mut older = in_order(|file| file.minimum_timestamp).into_iter().peekable();
    let (mut begun, mut ended) = (Counts::new(files.len()), Counts::new(files.len()));
    let mut meet = vec![false; files.len()];
    for index in in_order(|file| file.maximum_timestamp) {
        let file = files[index];
        let is_older = |other: &usize| files[*other].minimum_timestamp <= file.maximum_timestamp;
        while let Some(other) = older.next_if(is_older) {
            begun.add(firsts.partition_point(|first| *first < files[other].first_token));
            ended.add(lasts.partition_point(|last| *last < files[other].last_token));
        }
        // Those that have begun and not ended meet it, and one of them may be itself.
        let begun = begun.below(firsts.partition_point(|first| *first <= file.last_token));
        let ended = ended.below(lasts.partition_point(|last| *last < file.first_token));
        meet[index] = begun - ended > usize::from(is_older(&index));
    }
    meet
}

/// Counts at places, and how many there are below one: a Fenwick tree.
struct Counts(Vec<usize>);

impl Counts {
    fn new(places: usize) -> Self {
        Self(vec![0; places + 1])
    }

    fn add(&mut self, place: usize) {
        let mut node = place + 1;
        while let Some(count) = self.0.get_mut(node) {
            *count += 1;
            node += node & node.wrapping_neg();
        }
    }

    fn below(&self, place: usize) -> usize {
        let mut node = place;
        let mut sum = 0;
        while node > 0 {
            sum += self.0[node];
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
    fn older_files_are_met_as_pairs_tell() {
        let mut random = Generator::from_seed(1);
        for _ in 0..300 {
            let count = random.below(30);
            let mut range = |most: u64| {
                let first = random.below(most) as i64;
                (first, first + random.below(most) as i64)
            };
            let facts: Vec<FileFacts> = (0..count)
                .map(|_| {
                    let (tokens, timestamps) = (range(40), range(20));
                    FileFacts {
                        first_token: tokens.0,
                        last_token: tokens.1,
                        minimum_timestamp: timestamps.0,
                        maximum_timestamp: timestamps.1,
                        ..FileFacts::default()
                    }
                })
                .collect();
            let files: Vec<&FileFacts> = facts.iter().collect();
            let of_pairs: Vec<bool> = files
                .iter()
                .map(|file| files.iter().any(|other| other.may_be_covered_by(file)))
                .collect();
            assert_eq!(meet_older(&files), of_pairs);
        }
    }
}
