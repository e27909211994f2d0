//! Collects the least places of a pass over a range.
//!
//! Places lie one behind the other in one piece of memory, so a place costs no allocation. From
//! time to time, the collection sorts them and drops the greater ones beyond the wanted number.
//!
//! Memory: two buffers of up to twice [`MAX_KEPT_BYTES`] each, or of 64 places if these are longer.

use super::candidates::FIRST_PLACES;

/// Maximum bytes of the places that a pass keeps (arbitrary): tens of thousands of short keys.
pub(super) const MAX_KEPT_BYTES: usize = 4 << 20;
/// Bytes of memory of a place besides its own, an estimate.
const PLACE_BYTES: usize = 48;
/// New places after which they are sorted (arbitrary): a sort of so many takes about 200 µs, and
/// the sort does not yield the core.
const MAX_NEW_PLACES: usize = 4096;

/// The least places that a pass has read so far.
pub(super) struct Kept {
    most: usize,
    places: Vec<Place>,
    /// The number of places, sorted, that the last [`Kept::cut`] has kept.
    sorted: usize,
    bytes: Vec<u8>,
    /// Memory for the next [`Kept::cut`].
    spare: Vec<u8>,
    /// True if the collection has dropped greater places.
    is_cut: bool,
    /// The greatest place that the last cut has kept. Places behind it may lie behind dropped ones.
    greatest: Vec<u8>,
}

/// A place among the bytes.
#[derive(Clone, Copy)]
struct Place {
    /// The first eight bytes, which nearly always decide a comparison.
    head: u64,
    start: usize,
    length: usize,
}

impl Kept {
    /// Creates a collection of at most `most` places.
    pub(super) fn new(most: usize) -> Self {
        let (places, bytes, spare, greatest) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { most, places, sorted: 0, bytes, spare, is_cut: false, greatest }
    }

    /// Returns whether the collection has dropped greater places.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Adds a place, unless it is greater than those that are kept.
    pub(super) fn add(&mut self, place: &[u8]) {
        if self.is_cut && place >= &*self.greatest {
            return;
        }
        let mut head = [0; 8];
        head.iter_mut().zip(place).for_each(|(head, byte)| *head = *byte);
        let (start, length) = (self.bytes.len(), place.len());
        self.places.push(Place { head: u64::from_be_bytes(head), start, length });
        self.bytes.extend_from_slice(place);
        let most_new = self.most.min(MAX_NEW_PLACES);
        let is_full =
            self.memory_bytes() > 2 * MAX_KEPT_BYTES && self.places.len() > 2 * FIRST_PLACES;
        if self.places.len() > self.sorted + most_new || is_full {
            self.cut();
        }
    }

    /// Leaves out all but the least places. Returns their number.
    pub(super) fn finish(&mut self) -> usize {
        self.cut();
        self.places.len()
    }

    /// Returns the places. They are in order, each once, after [`Kept::finish`].
    pub(super) fn places(&self) -> impl Iterator<Item = &[u8]> {
        self.places.iter().map(|place| &self.bytes[place.start..][..place.length])
    }

    /// Returns the approximate number of bytes of memory that the places take.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.len() + PLACE_BYTES * self.places.len()
    }

    /// Sorts the places, and leaves out the greater ones.
    fn cut(&mut self) {
        let Self { most, places, sorted, bytes, spare, is_cut, greatest } = self;
        let of = |place: &Place| &bytes[place.start..][..place.length];
        // This sort is fast where most of the places are sorted already.
        places.sort_by(|one, other| one.head.cmp(&other.head).then_with(|| of(one).cmp(of(other))));
        places.dedup_by(|one, other| one.head == other.head && of(one) == of(other));
        spare.clear();
        let mut count = 0;
        for place in places.iter_mut() {
            let memory = spare.len() + place.length + PLACE_BYTES * (count + 1);
            if count == *most || (count >= FIRST_PLACES && memory > MAX_KEPT_BYTES) {
                *is_cut = true;
                break;
            }
            let start = spare.len();
            spare.extend_from_slice(of(place));
            place.start = start;
            count += 1;
        }
        places.truncate(count);
        *sorted = count;
        std::mem::swap(bytes, spare);
        if *is_cut && let Some(last) = places.last() {
            greatest.clear();
            greatest.extend_from_slice(&bytes[last.start..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use espalier_runtime::random;

    use super::*;

    fn kept(most: usize, places: &[u8]) -> (Vec<u8>, bool) {
        let mut kept = Kept::new(most);
        places.iter().for_each(|place| kept.add(&[*place]));
        assert_eq!(kept.finish() * (1 + PLACE_BYTES), kept.memory_bytes());
        (kept.places().map(|place| place[0]).collect(), kept.is_cut())
    }

    #[test]
    fn a_pass_keeps_the_least_places_in_any_order() {
        assert_eq!(kept(3, &[5, 1, 4]), (vec![1, 4, 5], false));
        assert_eq!(kept(3, &[5, 1, 4, 1, 5]), (vec![1, 4, 5], false));
        assert_eq!(kept(3, &[5, 1, 4, 9]), (vec![1, 4, 5], true));
        // The pass dropped 9, so it must drop 8, too, although there is room after 1 came twice.
        assert_eq!(kept(3, &[9, 5, 4, 1, 1, 8]), (vec![1, 4, 5], true));
        assert_eq!(kept(2, &[9, 8, 7, 6, 5]), (vec![5, 6], true));
    }

    #[test]
    fn the_least_of_many_are_those_of_a_set() {
        for _ in 0..200 {
            let (most, count) = (1 + random::below(40) as usize, random::below(400));
            let (mut kept, mut expected) = (Kept::new(most), BTreeSet::new());
            for _ in 0..count {
                let length = 1 + random::below(12) as usize;
                let place: Vec<u8> = (0..length).map(|_| random::below(3) as u8).collect();
                kept.add(&place);
                expected.insert(place);
            }
            kept.finish();
            assert!(kept.places().eq(expected.iter().take(most)));
            assert_eq!(kept.is_cut(), expected.len() > most);
        }
    }

    #[test]
    fn long_places_are_kept_up_to_a_number_of_bytes() {
        let mut kept = Kept::new(10_000);
        for number in 0..1000u32 {
            kept.add(&[number.to_be_bytes().as_slice(), &[0; 60_000]].concat());
            assert!(kept.memory_bytes() <= 2 * MAX_KEPT_BYTES + 61_000);
        }
        assert_eq!(kept.finish(), MAX_KEPT_BYTES / (60_004 + PLACE_BYTES));
        assert!(kept.is_cut() && kept.memory_bytes() <= MAX_KEPT_BYTES);
        assert_eq!(kept.places().next().unwrap()[..4], [0; 4]);
    }
}
