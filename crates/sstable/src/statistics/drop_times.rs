//! This module computes a histogram of the seconds from which tombstones and expiring cells can be
//! dropped. Format: docs/formats/statistics.md.
//!
//! The builder rounds times up to minutes, and counts about 131,000 different times exactly, in a
//! copy of Cassandra's hash table, the spool. When the spool is full, and at the end, the builder
//! adds its times to the bins in the order of the spool, so that equal data yields equal bytes. It
//! joins the nearest bins until [`MAX_BINS`] remain.

use std::collections::VecDeque;

use espalier_runtime::maybe_yield;

/// Maximum number of bins in the file.
pub const MAX_BINS: usize = 100;
const ROUND_S: u64 = 60;
/// Number of slots of Cassandra's spool: 100,000 rounded up to a power of two.
const SPOOL_SLOTS: usize = 131_072;
/// Number of slots that are probed for a free one.
const SPOOL_PROBES: usize = 100;
/// Number of slots of a page of the spool. The times of a page move to the bins in one step of some
/// 10 µs.
const PAGE_SLOTS: usize = 64;
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
    spool: Spool,
    /// Pages of full spools, whose times move to the bins in this order. They are never more than
    /// the pages of one spool: each new time takes at most one new page, and empties one of these.
    draining: VecDeque<Page>,
    bins: Vec<(u64, u32)>,
}

/// Slots of the spool, each with a time and its count. A free slot has the count 0.
type Page = Box<[(u32, u32); PAGE_SLOTS]>;

/// Rounded times with their counts, each in the slot in which Cassandra's spool would keep it.
#[derive(Clone, Debug, Default)]
struct Spool {
    /// All pages, or none if the spool is empty. A page whose slots are all free is `None`.
    pages: Vec<Option<Page>>,
    /// Number of times.
    times: usize,
}

enum Added {
    NewTime,
    KnownTime,
    /// The time was not added, because the spool is full.
    Nothing,
}

impl Spool {
    fn add(&mut self, time: u64) -> Added {
        if self.pages.is_empty() {
            self.pages.resize((SPOOL_SLOTS + SPOOL_PROBES).div_ceil(PAGE_SLOTS), None);
        }
        let (time, first, is_full) = (time as u32, slot_of(time), self.times > SPOOL_SLOTS);
        for slot in first..first + SPOOL_PROBES {
            let page =
                self.pages[slot / PAGE_SLOTS].get_or_insert_with(|| Box::new([(0, 0); PAGE_SLOTS]));
            match &mut page[slot % PAGE_SLOTS] {
                (_, 0) if is_full => return Added::Nothing,
                free @ (_, 0) => {
                    *free = (time, 1);
                    self.times += 1;
                    return Added::NewTime;
                }
                (known, count) if *known == time => {
                    *count = add_counts(*count, 1);
                    return Added::KnownTime;
                }
                _ => {}
            }
        }
        Added::Nothing
    }
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
        match self.spool.add(time) {
            Added::KnownTime => return,
            Added::NewTime => {}
            Added::Nothing => {
                self.begin_drain();
                self.spool.add(time);
            }
        }
        // Each new time empties one page of full spools, so that no call takes long.
        self.drain_page();
    }

    /// Begins to move the times of the spool to the bins, after the times of earlier spools. Such
    /// times are left only if a client chose times that fill a new spool by collisions of their
    /// slots.
    fn begin_drain(&mut self) {
        self.draining.extend(std::mem::take(&mut self.spool).pages.into_iter().flatten());
    }

    /// Moves the times of a page to the bins. Returns false if there is no page left.
    fn drain_page(&mut self) -> bool {
        let Some(page) = self.draining.pop_front() else { return false };
        for (time, count) in *page {
            if count > 0 {
                self.add_to_bins(u64::from(time), count);
            }
        }
        true
    }

    fn add_to_bins(&mut self, time: u64, count: u32) {
        match self.bins.binary_search_by_key(&time, |(point, _)| *point) {
            Ok(index) => self.bins[index].1 = add_counts(self.bins[index].1, count),
            Err(index) => self.bins.insert(index, (time, count)),
        }
        if self.bins.len() > MAX_BINS {
            self.join_nearest();
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
    pub async fn build(mut self) -> DropTimes {
        self.begin_drain();
        while self.drain_page() {
            maybe_yield().await;
        }
        DropTimes { bins: self.bins }
    }
}

fn slot_of(time: u64) -> usize {
    time.wrapping_mul(948_701_839) as usize & (SPOOL_SLOTS - 1)
}

/// Adds two counts, limited to the signed 32-bit integers of the file.
fn add_counts(left: u32, right: u32) -> u32 {
    (u64::from(left) + u64::from(right)).min(i32::MAX as u64) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use espalier_runtime::{block_on, random::Generator};

    use super::*;

    fn build(times: impl IntoIterator<Item = u32>) -> Vec<(u64, u32)> {
        let mut builder = DropTimesBuilder::default();
        times.into_iter().for_each(|time| builder.add(time));
        block_on(builder.build()).bins
    }

    #[test]
    fn times_are_rounded_up_to_minutes_and_counted() {
        let bins = build([1_750_000_000, 1_750_000_020, 1_750_000_021, 0]);
        assert_eq!(bins, [(0, 1), (1_750_000_020, 2), (1_750_000_080, 1)]);
    }

    #[test]
    fn bins_are_limited_and_nothing_is_lost() {
        let bins = build((0..5000u32).map(|minute| minute * 60));
        assert_eq!(bins.len(), MAX_BINS);
        assert!(bins.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert_eq!(bins.iter().map(|(_, count)| count).sum::<u32>(), 5000);
    }

    #[test]
    fn the_latest_times_do_not_overflow() {
        let bins = build((0..300u32).map(|i| u32::MAX - 2 - i * 7));
        assert!(bins.iter().all(|(time, _)| *time <= MAX_DELETION_TIME_S));
    }

    /// Builds the bins as Cassandra does: a full spool moves to the bins as a whole.
    fn model(times: &[u32]) -> Vec<(u64, u32)> {
        let (mut slots, mut bins) = (BTreeMap::new(), DropTimesBuilder::default());
        let flush = |slots: &mut BTreeMap<usize, (u64, u32)>, bins: &mut DropTimesBuilder| {
            let all = std::mem::take(slots).into_values();
            all.for_each(|(time, count)| bins.add_to_bins(time, count));
        };
        for time in times.iter().map(|time| round_up(u64::from(*time))) {
            let mut probed = slot_of(time)..slot_of(time) + SPOOL_PROBES;
            let is_its = |slot: &usize| slots.get(slot).is_none_or(|(other, _)| *other == time);
            let found = probed
                .find(is_its)
                .filter(|slot| slots.contains_key(slot) || slots.len() <= SPOOL_SLOTS);
            let slot = found.unwrap_or_else(|| {
                flush(&mut slots, &mut bins);
                slot_of(time)
            });
            slots.entry(slot).or_insert((time, 0)).1 += 1;
        }
        flush(&mut slots, &mut bins);
        bins.bins
    }

    /// Returns times that have the same slot: multiples of 15 · 2^17 seconds.
    fn colliding() -> impl Iterator<Item = u32> {
        (0..250).map(|number| (number % 150) * 15 * SPOOL_SLOTS as u32)
    }

    /// Returns times that fill a spool, and times that fill the next spool by collisions while most
    /// of the first spool is left.
    fn two_full_spools() -> impl Iterator<Item = u32> {
        (0..SPOOL_SLOTS as u32 + 10).map(|minute| minute * 60).chain(colliding())
    }

    #[test]
    fn bins_are_those_of_a_spool_that_moves_as_a_whole() {
        let mut random = Generator::from_seed(7);
        let spread = (0..200_000).map(|_| random.below(u64::from(u32::MAX)) as u32);
        for times in
            [spread.collect::<Vec<_>>(), colliding().collect(), two_full_spools().collect()]
        {
            assert_eq!(build(times.clone()), model(&times));
        }
    }

    #[test]
    fn no_step_moves_more_than_a_page() {
        let mut builder = DropTimesBuilder::default();
        let (mut moved, mut steps) = (0, 0);
        let mut check = |builder: &DropTimesBuilder| {
            let now = builder.bins.iter().map(|(_, count)| *count as usize).sum::<usize>();
            // Each time occurs at most twice.
            assert!(now - moved <= 2 * PAGE_SLOTS, "{now} after {moved}");
            steps += usize::from(now > moved);
            moved = now;
        };
        let later = (0..300_000).map(|minute| 300_000_000 + minute * 60);
        let times: Vec<u32> = two_full_spools().chain(later).collect();
        for time in &times {
            builder.add(*time);
            check(&builder);
        }
        builder.begin_drain();
        check(&builder);
        while builder.drain_page() {
            check(&builder);
        }
        assert_eq!(moved, times.len());
        assert!(steps > 300_000 / PAGE_SLOTS);
    }
}
