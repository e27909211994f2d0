//! Where to look for more dead rows, in turn.

use std::{collections::BTreeSet, ops::Bound};

use super::{Place, ranges::MOST_RANGES};

/// One for each range, and some.
const MOST_PLACES: usize = 2 * MOST_RANGES;

/// Rows deleted in one partition after which its beginning is looked at, where something is known already.
const DELETIONS_IN_PARTITION: u32 = 512;

/// Counts of them, each of all partitions whose tokens end alike: where there are many, some are looked at early.
const COUNTS_BY_TOKEN: usize = 4096;

#[derive(Default)]
pub(super) struct Wanted {
    places: BTreeSet<Place>,
    /// Where it was looked last: all have their turn.
    looked: Option<Place>,
    /// Deletions by the end of their partition's token, since it was looked at; none yet if it is empty.
    deleted: Vec<u32>,
    /// What a count begins at.
    looks: u32,
}

impl Wanted {
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// `true` if it was not wanted before.
    pub(super) fn add(&mut self, place: Place) -> bool {
        self.places.len() < MOST_PLACES && self.places.insert(place)
    }

    /// The next one.
    pub(super) fn take(&mut self) -> Option<Place> {
        let behind = match &self.looked {
            Some(looked) => (Bound::Excluded(looked), Bound::Unbounded),
            None => (Bound::Unbounded, Bound::Unbounded),
        };
        let next = self.places.range(behind).next().or_else(|| self.places.first()).cloned()?;
        self.places.remove(&next);
        self.looked = Some(next.clone());
        Some(next)
    }

    /// A row of the partition is deleted: whether so many are that it should be looked at.
    pub(super) fn is_much_deleted(&mut self, partition: &[u8]) -> bool {
        let Some((_, token)) = partition.split_first() else { return false };
        let Some(token) = token.first_chunk::<8>() else { return false };
        self.deleted.resize(COUNTS_BY_TOKEN, 0);
        let place = u64::from_be_bytes(*token) as usize % COUNTS_BY_TOKEN;
        let Some(count) = self.deleted.get_mut(place) else { return false };
        *count += 1;
        let is_enough = *count >= DELETIONS_IN_PARTITION;
        if is_enough {
            // Not always the same, so that each of several partitions in turn is the one at which it is enough.
            self.looks ^= 1;
            *count = self.looks;
        }
        is_enough
    }
}
