//! How often a page was used lately, and the same of pages that are not cached any more.
//!
//! Counts are halved every so many misses, which is when an epoch ends; nobody goes through all of them for that: each says of
//! which epoch it is.

use super::PageKey;

/// Counts end here: what is used more often than that stays in any case. An arbitrary choice among small numbers.
const HOTTEST: u8 = 15;

/// Uses, as they counted in an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Heat {
    count: u8,
    epoch: u8,
}

impl Heat {
    /// What is left of the count.
    #[inline]
    pub(super) fn now(self, epoch: u8) -> u8 {
        let epochs = u32::from(epoch.wrapping_sub(self.epoch));
        self.count.checked_shr(epochs).unwrap_or(0)
    }

    /// With a use more.
    #[inline]
    pub(super) fn used(self, epoch: u8) -> Self {
        Self { count: (self.now(epoch) + 1).min(HOTTEST), epoch }
    }
}

/// The heat of pages that were cached, by a hash of their names: 4 bytes for each.
///
/// Two that fall on the same place fight for it, and the hotter one stays.
pub(super) struct Remembered {
    /// Half of the hash, the count, the epoch.
    places: Vec<u32>,
}

impl Remembered {
    /// Of about so many pages. Its memory is not touched before it is used.
    pub(super) fn new(pages: usize) -> Self {
        Self { places: vec![0; pages.next_power_of_two()] }
    }

    /// What is known of a page that comes back.
    pub(super) fn recall(&self, key: PageKey) -> Heat {
        let (place, tag) = self.place(key);
        let [count, epoch, high, low] = self.places[place].to_be_bytes();
        if u16::from_be_bytes([high, low]) == tag { Heat { count, epoch } } else { Heat::default() }
    }

    /// Of a page that goes.
    pub(super) fn note(&mut self, key: PageKey, heat: Heat, epoch: u8) {
        let (place, tag) = self.place(key);
        let [count, of, high, low] = self.places[place].to_be_bytes();
        let is_same = u16::from_be_bytes([high, low]) == tag;
        let other = Heat { count, epoch: of };
        if !is_same && other.now(epoch) > heat.now(epoch) {
            return;
        }
        let [high, low] = tag.to_be_bytes();
        self.places[place] = u32::from_be_bytes([heat.count, heat.epoch, high, low]);
    }

    fn place(&self, key: PageKey) -> (usize, u16) {
        // Multipliers are odd and arbitrary, their bits well mixed.
        let mixed = key.page.wrapping_mul(0x9E37_79B9_7F4A_7C15)
            ^ key.file.wrapping_mul(0xD1B5_4A32_D192_ED03).rotate_left(32);
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        // There is at least one place, and their number is a power of two.
        ((mixed >> 16) as usize & (self.places.len() - 1), mixed as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_halve_with_every_epoch_and_end_somewhere() {
        let mut heat = Heat::default();
        assert_eq!(heat.now(7), 0);
        for _ in 0..100 {
            heat = heat.used(7);
        }
        assert_eq!([7, 8, 9, 10, 11, 15, 200].map(|epoch| heat.now(epoch)), [15, 7, 3, 1, 0, 0, 0]);
        assert_eq!(heat.used(9).now(9), 4);
        // Epochs begin anew after 255.
        assert_eq!(Heat { count: 8, epoch: 255 }.now(1), 2);
    }

    #[test]
    fn pages_that_come_back_are_known_and_hot_ones_are_not_overwritten_by_cold_ones() {
        let mut remembered = Remembered::new(1000);
        let key = |page| PageKey { file: 3, page };
        let heat = |count| Heat { count, epoch: 1 };
        (0..100).for_each(|page| remembered.note(key(page), heat(9), 1));
        let known = |remembered: &Remembered| {
            (0..100).filter(|page| remembered.recall(key(*page)) == heat(9)).count()
        };
        assert!(known(&remembered) > 80, "{}", known(&remembered));
        let before = known(&remembered);
        (1000..9000).for_each(|page| remembered.note(key(page), heat(1), 1));
        assert_eq!(known(&remembered), before);
        // Some epochs later the cold ones are as hot.
        (1000..9000).for_each(|page| remembered.note(key(page), Heat { count: 1, epoch: 5 }, 5));
        assert!(known(&remembered) < 5);
        assert_eq!(remembered.recall(key(77_777_777)), Heat::default());
    }
}
