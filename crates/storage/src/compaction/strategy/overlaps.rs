//! Files that overlap, directly or through others.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::FileFacts;

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
    // Ends of the files of the last set that reach to where the walk is.
    let mut open: BinaryHeap<Reverse<i64>> = BinaryHeap::new();
    for index in order {
        let file = &files[index];
        while open.peek().is_some_and(|Reverse(end)| *end < file.first_token) {
            open.pop();
        }
        match sets.last_mut().filter(|_| !open.is_empty()) {
            Some(set) => set.files.push(index),
            None => sets.push(OverlapSet { files: vec![index], most: 0 }),
        }
        open.push(Reverse(file.last_token));
        if let Some(set) = sets.last_mut() {
            set.most = set.most.max(open.len());
        }
    }
    sets
}
