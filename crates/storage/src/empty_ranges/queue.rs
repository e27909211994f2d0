//! The queue of places from which the prefetcher looks for more dead rows.

use std::{collections::BTreeSet, ops::Bound};

use super::{Place, ranges::MAX_RANGES};

/// The maximum length of the queue: twice the maximum number of ranges.
const MAX_PLACES: usize = 2 * MAX_RANGES;

/// Rows deleted in one partition after which its beginning is queued, if the cache is not idle.
const DELETIONS_IN_PARTITION: u32 = 512;

/// The number of deletion counters. Partitions whose tokens end in the same bits share a counter,
/// so some are queued early if there are many partitions.
const COUNTS_BY_TOKEN: usize = 4096;

#[derive(Default)]
pub(super) struct Queue {
    places: BTreeSet<Place>,
    /// The place taken last: the next one is taken from behind it, so that each place has its turn.
    looked: Option<Place>,
    /// Counters of deletions, by the low bits of the partition's token. Empty until the first
    /// deletion.
    deleted: Vec<u32>,
    /// The value at which a counter restarts: 0 and 1 in turn.
    looks: u32,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Adds a place. Returns `true` if it was not in the queue and there was room.
    pub(super) fn add(&mut self, place: Place) -> bool {
        self.places.len() < MAX_PLACES && self.places.insert(place)
    }

    /// Takes the next place.
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

    /// Counts a deleted row of the partition. Returns whether the partition should be scanned for
    /// empty ranges.
    pub(super) fn is_much_deleted(&mut self, partition: &[u8]) -> bool {
        let Some((_, token)) = partition.split_first() else { return false };
        let Some(token) = token.first_chunk::<8>() else { return false };
        self.deleted.resize(COUNTS_BY_TOKEN, 0);
        let place = u64::from_be_bytes(*token) as usize % COUNTS_BY_TOKEN;
        let Some(count) = self.deleted.get_mut(place) else { return false };
        *count += 1;
        let is_enough = *count >= DELETIONS_IN_PARTITION;
        if is_enough {
            // The start value alternates. Otherwise, if partitions that share a counter take turns,
            // the same partition might fill it each time.
            self.looks ^= 1;
            *count = self.looks;
        }
        is_enough
    }
}
