//! This module computes a histogram of the seconds from which tombstones and expiring cells can be
//! dropped. Format: docs/formats/statistics.md.
//!
//! The builder rounds times up to minutes, and counts up to 131,000 different times exactly. If
//! there are more, and at the end, it adds them to the bins in the order of Cassandra's hash table,
//! so that equal data yields equal bytes. It joins the nearest bins until [`MAX_BINS`] remain.

use hashbrown::HashMap;

/// Maximum number of bins in the file.
pub const MAX_BINS: usize = 100;
const ROUND_S: u64 = 60;
/// Number of slots of Cassandra's spool: 100,000 rounded up to a power of two.
const SPOOL_SLOTS: u64 = 131_072;
/// Number of slots that are probed for a free one.
const SPOOL_PROBES: u64 = 100;
const MAX_DELETION_TIME_S: u64 = 0xFFFF_FFFD;

/// A finished histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DropTimes {
    /// Bins as (second, count), in ascending order.
    pub bins: Vec<(u64, u32)>,
}

/// A builder that collects deletion times.
#[derive(Clone, Debug, Default)]
pub struct DropTimesBuilder {
    /// Rounded times with their counts, and the slot in which Cassandra's spool would keep each
    /// time.
    spool: HashMap<u64, (u64, u32), foldhash::fast::FixedState>,
    slots: hashbrown::HashSet<u64, foldhash::fast::FixedState>,
    bins: Vec<(u64, u32)>,
}

fn round_up(time_s: u64) -> u64 {
    match time_s % ROUND_S {
        0 => time_s,
        rest => (time_s + ROUND_S - rest).min(MAX_DELETION_TIME_S),
    }
}

impl DropTimesBuilder {
    /// Counts a deletion or an expiry at second `time_s`.
    pub fn add(&mut self, time_s: u32) {
        let time = round_up(u64::from(time_s));
        if let Some((_, count)) = self.spool.get_mut(&time) {
            *count = count.saturating_add(1).min(i32::MAX as u32);
            return;
        }
        let slot = match self.free_slot(time) {
            Some(slot) => slot,
            None => {
                self.flush();
                slot_of(time)
            }
        };
        self.slots.insert(slot);
        self.spool.insert(time, (slot, 1));
    }

    fn free_slot(&self, time: u64) -> Option<u64> {
        if self.spool.len() as u64 > SPOOL_SLOTS {
            return None;
        }
        let first = slot_of(time);
        (first..first + SPOOL_PROBES).find(|slot| !self.slots.contains(slot))
    }

    fn flush(&mut self) {
        let mut entries: Vec<_> =
            self.spool.drain().map(|(time, (slot, count))| (slot, time, count)).collect();
        self.slots.clear();
        entries.sort_unstable();
        for (_, time, count) in entries {
            match self.bins.binary_search_by_key(&time, |(point, _)| *point) {
                Ok(index) => self.bins[index].1 = add_counts(self.bins[index].1, count),
                Err(index) => self.bins.insert(index, (time, count)),
            }
            if self.bins.len() > MAX_BINS {
                self.join_nearest();
            }
        }
    }

    /// Replaces the two bins with the smallest distance by one bin at their weighted mean. Of
    /// several such pairs, the first pair is replaced.
    fn join_nearest(&mut self) {
        let distance = |index: &usize| self.bins[index + 1].0 - self.bins[*index].0;
        let Some(index) = (0..self.bins.len().saturating_sub(1)).min_by_key(distance) else {
            return;
        };
        let ((low, low_count), (high, high_count)) = (self.bins[index], self.bins[index + 1]);
        let (low_weight, high_weight) = (u64::from(low_count), u64::from(high_count));
        let weighted =
            u128::from(low) * u128::from(low_weight) + u128::from(high) * u128::from(high_weight);
        let mean = (weighted.min(i64::MAX as u128) as u64) / (low_weight + high_weight).max(1);
        let mean = if mean <= low { low + 1 } else { mean };
        let mean = round_up(mean.min(MAX_DELETION_TIME_S).min(high));
        self.bins[index] = (mean, add_counts(low_count, high_count));
        self.bins.remove(index + 1);
    }

    /// Returns the histogram.
    pub fn build(mut self) -> DropTimes {
        self.flush();
        DropTimes { bins: self.bins }
    }
}

fn slot_of(time: u64) -> u64 {
    time.wrapping_mul(948_701_839) & (SPOOL_SLOTS - 1)
}

/// Adds two counts, limited to the signed 32-bit integers of the file.
fn add_counts(left: u32, right: u32) -> u32 {
    (u64::from(left) + u64::from(right)).min(i32::MAX as u64) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up_to_minutes_and_counted() {
        let mut builder = DropTimesBuilder::default();
        [1_750_000_000, 1_750_000_020, 1_750_000_021, 0].into_iter().for_each(|t| builder.add(t));
        let bins = builder.build().bins;
        assert_eq!(bins, [(0, 1), (1_750_000_020, 2), (1_750_000_080, 1)]);
    }

    #[test]
    fn bins_are_limited_and_nothing_is_lost() {
        let mut builder = DropTimesBuilder::default();
        (0..5000u32).for_each(|minute| builder.add(minute * 60));
        let bins = builder.build().bins;
        assert_eq!(bins.len(), MAX_BINS);
        assert!(bins.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert_eq!(bins.iter().map(|(_, count)| count).sum::<u32>(), 5000);
    }

    #[test]
    fn the_latest_times_do_not_overflow() {
        let mut builder = DropTimesBuilder::default();
        (0..300u32).for_each(|i| builder.add(u32::MAX - 2 - i * 7));
        assert!(builder.build().bins.iter().all(|(time, _)| *time <= MAX_DELETION_TIME_S));
    }
}
