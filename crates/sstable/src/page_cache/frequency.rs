//! Counts the recent uses of a page, also for pages that are not cached any more.
//!
//! Time is counted in ticks; a tick lasts for as many misses as there are pages. Counts are halved
//! with every eighth tick, and the count of a page that was not used for five ticks is zero. So a
//! page that is no longer used often is evicted soon. No task updates all counts for that, because
//! each count is stored with the tick at which it was right.

use super::PageKey;

/// The greatest count (arbitrary).
const HOTTEST: u8 = 15;

/// Number of ticks without a use after which the frequency of a page is zero.
const IDLE_TICKS: u8 = 5;

/// A page was used recently if its last use is at most this number of ticks ago.
const RECENT_TICKS: u8 = 1;

/// Counts are halved every 2^3 ticks.
const HALVING_SHIFT: u32 = 3;

/// The access frequency of a page, as it was at a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Frequency {
    count: u8,
    tick: u8,
}

impl Frequency {
    /// Returns the frequency at `tick`. Ticks wrap after 256, but the clock hand evicts an idle
    /// page long before.
    #[inline]
    pub(super) fn now(self, tick: u8) -> u8 {
        if tick.wrapping_sub(self.tick) >= IDLE_TICKS {
            return 0;
        }
        // The last use is less than eight ticks ago, so the count is halved once at most.
        let is_halved = (tick ^ self.tick) >> HALVING_SHIFT != 0;
        self.count >> u32::from(is_halved)
    }

    /// Returns whether the page was used within about as many misses as there are pages.
    #[inline]
    pub(super) fn is_recent(self, tick: u8) -> bool {
        self.count > 0 && tick.wrapping_sub(self.tick) <= RECENT_TICKS
    }

    /// Returns the frequency after another use.
    #[inline]
    pub(super) fn used(self, tick: u8) -> Self {
        Self { count: (self.now(tick) + 1).min(HOTTEST), tick }
    }

    /// Returns the frequency, at least 1, so that the page is not idle.
    #[inline]
    pub(super) fn seen(self, tick: u8) -> Self {
        Self { count: self.now(tick).max(1), tick }
    }
}

/// The frequencies of pages that were cached, by a hash of their keys. Memory: 4 bytes for each
/// place.
///
/// If two pages have the same place, the place keeps the higher frequency.
pub(super) struct Remembered {
    /// The count, the tick, and 16 bits of the hash.
    places: Vec<u32>,
}

impl Remembered {
    /// Makes a table for the frequencies of `pages` evicted pages, with more than half as many
    /// places. Its memory is not touched before it is used.
    pub(super) fn new(pages: usize) -> Self {
        Self { places: vec![0; (pages / 2 + 1).next_power_of_two()] }
    }

    /// Returns the frequency of a page that is cached again.
    pub(super) fn recall(&self, key: PageKey) -> Frequency {
        let (place, tag) = self.place(key);
        let [count, tick, high, low] = self.places[place].to_be_bytes();
        if u16::from_be_bytes([high, low]) == tag {
            Frequency { count, tick }
        } else {
            Frequency::default()
        }
    }

    /// Records the frequency of a page that is evicted.
    pub(super) fn note(&mut self, key: PageKey, frequency: Frequency, tick: u8) {
        let (place, tag) = self.place(key);
        let [count, of, high, low] = self.places[place].to_be_bytes();
        let is_same = u16::from_be_bytes([high, low]) == tag;
        let other = Frequency { count, tick: of };
        if !is_same && other.now(tick) > frequency.now(tick) {
            return;
        }
        let [high, low] = tag.to_be_bytes();
        self.places[place] = u32::from_be_bytes([frequency.count, frequency.tick, high, low]);
    }

    fn place(&self, key: PageKey) -> (usize, u16) {
        // The multipliers are odd and arbitrary; their bits are well mixed.
        let mixed = key.page.wrapping_mul(0x9E37_79B9_7F4A_7C15)
            ^ key.file.wrapping_mul(0xD1B5_4A32_D192_ED03).rotate_left(32);
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        // There is at least one place, and the number of places is a power of two.
        ((mixed >> 16) as usize & (self.places.len() - 1), mixed as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_halve_with_every_eighth_tick_and_idle_pages_are_cold() {
        let mut frequency = Frequency::default();
        assert_eq!(frequency.now(7), 0);
        for _ in 0..100 {
            frequency = frequency.used(14);
        }
        assert_eq!([14, 15, 16, 18, 19, 200].map(|tick| frequency.now(tick)), [15, 15, 7, 7, 0, 0]);
        assert_eq!(frequency.used(16).now(16), 8);
        assert_eq!((frequency.seen(16).now(20), frequency.seen(30).now(30)), (7, 1));
        // After tick 255 comes tick 0.
        assert_eq!(Frequency { count: 8, tick: 255 }.now(1), 4);
    }

    #[test]
    fn cold_pages_do_not_replace_the_frequencies_of_hot_pages() {
        let mut remembered = Remembered::new(2000);
        let key = |page| PageKey { file: 3, page };
        let frequency = |count| Frequency { count, tick: 1 };
        (0..100).for_each(|page| remembered.note(key(page), frequency(9), 1));
        let known = |remembered: &Remembered| {
            (0..100).filter(|page| remembered.recall(key(*page)) == frequency(9)).count()
        };
        assert!(known(&remembered) > 80, "{}", known(&remembered));
        let before = known(&remembered);
        (1000..9000).for_each(|page| remembered.note(key(page), frequency(1), 1));
        assert_eq!(known(&remembered), before);
        // Some ticks later the frequencies of those pages have dropped.
        (1000..9000)
            .for_each(|page| remembered.note(key(page), Frequency { count: 1, tick: 6 }, 6));
        assert!(known(&remembered) < 5);
        assert_eq!(remembered.recall(key(77_777_777)), Frequency::default());
    }
}
