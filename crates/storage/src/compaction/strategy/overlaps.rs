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
