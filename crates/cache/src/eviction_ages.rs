//! The eviction age of an entry: the time since its last use, in steps. The oldest entries are
//! evicted first.
//!
//! Time is counted in insertions: a step is 1/32 of the number of cached entries, so the order
//! among entries is exact to within a step. Entries that were used again after their insertion have
//! an order of their own. So a scan, which reads each row once, evicts only rows that were not used
//! again (docs/cache.md, rule 12). The two orders follow 2Q (T. Johnson and D. Shasha, VLDB 1994).
//!
//! Memory: each of the two orders has one counter for each step between its oldest entry and the
//! present, and at most [`MAX_STEPS`] counters.

use std::collections::VecDeque;

use super::entry::Entry;

/// A step lasts for as many insertions as 1/`STEPS` of the cached entries.
const STEPS: u64 = 32;
/// The minimum length of a step, in insertions.
const MIN_STEP: u64 = 64;
/// The maximum number of steps that are counted separately; older entries count as entries of the
/// oldest step.
const MAX_STEPS: usize = 512;
/// The clock hand looks for the oldest 1/8 of the entries, so it passes eight entries on average
/// for each entry that it evicts.
const VICTIM_PART: u64 = 8;
/// While entries used once are at most 1/`ONCE_PART` of all entries, none of them is evicted. This
/// gives a new row time to be used again.
const ONCE_PART: u64 = 8;

#[derive(Default)]
pub(super) struct EvictionAges {
    now: u32,
    insertions: u64,
    once: Histogram,
    again: Histogram,
}

/// The number of entries by the step of their last use.
#[derive(Default)]
struct Histogram {
    /// The step of the first counter.
    first: u32,
    counts: VecDeque<u64>,
    total: u64,
}

/// The entries that may be evicted. In each order, these are the entries whose last use was at the
/// given step or before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Victims {
    once: Option<u32>,
    again: Option<u32>,
}

impl Victims {
    pub(super) fn contain(&self, entry: &Entry) -> bool {
        let until = if entry.is_reused() { self.again } else { self.once };
        until.is_some_and(|until| entry.used_at() <= until)
    }
}

impl EvictionAges {
    fn of(&mut self, entry: &Entry) -> &mut Histogram {
        if entry.is_reused() { &mut self.again } else { &mut self.once }
    }

    /// Counts a new entry, used at the present step.
    pub(super) fn add(&mut self, entry: &Entry) {
        self.insertions += 1;
        if self.insertions >= (self.len() / STEPS).max(MIN_STEP) {
            self.insertions = 0;
            self.now += 1;
        }
        entry.set_used_at(self.now);
        let now = self.now;
        self.of(entry).add(now);
    }

    /// Removes an entry from the counts.
    pub(super) fn remove(&mut self, entry: &Entry) {
        let used_at = entry.used_at();
        self.of(entry).remove(used_at);
    }

    /// Records a use of an entry. Returns `false` if the entry was already marked as used again at
    /// the present step.
    #[inline]
    pub(super) fn touch(&mut self, entry: &Entry) -> bool {
        if entry.used_at() == self.now && entry.is_reused() {
            return false;
        }
        self.remove(entry);
        entry.set_reused();
        entry.set_used_at(self.now);
        self.again.add(self.now);
        true
    }

    /// Makes an entry as new as one that is inserted now. The entry stays in its order (used once,
    /// or used again). Returns `false` if the entry has the present step already.
    pub(super) fn renew(&mut self, entry: &Entry) -> bool {
        if entry.used_at() == self.now {
            return false;
        }
        self.remove(entry);
        entry.set_used_at(self.now);
        let now = self.now;
        self.of(entry).add(now);
        true
    }

    pub(super) fn len(&self) -> u64 {
        self.once.total + self.again.total
    }

    /// Returns the oldest entries among those used once, if entries used once are more than 1/8 of
    /// all; else the oldest among those used again.
    pub(super) fn victims(&self) -> Victims {
        let wanted = (self.len() / VICTIM_PART).max(1);
        let takes_once = self.once.total > self.len() / ONCE_PART;
        if takes_once {
            // At most about half of the entries used once may be evicted. This limit matters if
            // fewer than a quarter of all entries were used once.
            let wanted = wanted.min(self.once.total.div_ceil(2));
            Victims { once: self.once.reaching(wanted), again: None }
        } else {
            Victims { once: None, again: self.again.reaching(wanted) }
        }
    }
}

impl Histogram {
    fn index(&self, step: u32) -> usize {
        step.saturating_sub(self.first) as usize
    }

    fn add(&mut self, step: u32) {
        if self.counts.is_empty() {
            self.first = step;
        }
        let index = self.index(step);
        while self.counts.len() <= index {
            self.counts.push_back(0);
        }
        self.counts[index] += 1;
        self.total += 1;
        while self.counts.len() > MAX_STEPS {
            let oldest = self.counts.pop_front().unwrap_or(0);
            self.first += 1;
            self.counts[0] += oldest;
        }
    }

    fn remove(&mut self, step: u32) {
        let index = self.index(step);
        if let Some(count) = self.counts.get_mut(index)
            && *count > 0
        {
            *count -= 1;
            self.total -= 1;
        }
        while self.counts.front() == Some(&0) {
            self.counts.pop_front();
            self.first += 1;
        }
    }

    /// Returns the first step up to which there are `wanted` entries, or the last step if there are
    /// fewer.
    fn reaching(&self, wanted: u64) -> Option<u32> {
        let mut sum = 0;
        for (index, count) in self.counts.iter().enumerate() {
            sum += count;
            if sum >= wanted {
                return Some(self.first + index as u32);
            }
        }
        (sum > 0).then(|| self.first + self.counts.len() as u32 - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use espalier_mutation::DeletionTime;

    fn entry() -> Entry {
        Entry::bound(false, DeletionTime::LIVE)
    }

    #[test]
    fn the_least_recently_used_entries_are_evicted_first() {
        let mut eviction_ages = EvictionAges::default();
        let entries: Vec<Entry> = (0..64_000).map(|_| entry()).collect();
        entries.iter().for_each(|entry| eviction_ages.add(entry));
        let victims = eviction_ages.victims();
        let oldest = entries.iter().take_while(|entry| victims.contain(entry)).count();
        assert_eq!(oldest, entries.iter().filter(|entry| victims.contain(entry)).count());
        assert!((8_000..=12_000).contains(&oldest), "{oldest}");
        entries.iter().take(oldest).for_each(|entry| eviction_ages.remove(entry));
        assert_eq!(eviction_ages.len(), 64_000 - oldest as u64);
        assert!(!eviction_ages.victims().contain(&entries[63_999]));
    }

    #[test]
    fn entries_used_twice_stay_while_a_scan_adds_others() {
        let mut eviction_ages = EvictionAges::default();
        let hot: Vec<Entry> = (0..6_000).map(|_| entry()).collect();
        hot.iter().for_each(|entry| eviction_ages.add(entry));
        for entry in &hot {
            eviction_ages.touch(entry);
        }
        for _ in 0..20 {
            let scanned: Vec<Entry> = (0..4_000).map(|_| entry()).collect();
            scanned.iter().for_each(|entry| eviction_ages.add(entry));
            let victims = eviction_ages.victims();
            assert!(!hot.iter().any(|entry| victims.contain(entry)));
            scanned.iter().for_each(|entry| eviction_ages.remove(entry));
        }
        // Once few other entries are left, the oldest of the hot ones go.
        assert!(hot.iter().any(|entry| eviction_ages.victims().contain(entry)));
    }

    #[test]
    fn counts_are_zero_after_all_entries_are_removed() {
        let mut eviction_ages = EvictionAges::default();
        let entries: Vec<Entry> = (0..100_000).map(|_| entry()).collect();
        for entry in &entries {
            eviction_ages.add(entry);
        }
        for entry in entries.iter().step_by(3) {
            eviction_ages.touch(entry);
        }
        entries.iter().for_each(|entry| eviction_ages.remove(entry));
        assert_eq!(
            (
                eviction_ages.len(),
                eviction_ages.once.counts.len(),
                eviction_ages.again.counts.len()
            ),
            (0, 0, 0)
        );
        assert_eq!(eviction_ages.victims(), Victims { once: None, again: None });
    }
}
