//! The list of empty ranges of a table.

use std::rc::Rc;

use super::Place;

/// The maximum number of ranges; beyond it the lightest is dropped.
pub(super) const MAX_RANGES: usize = 4096;

/// A range without a visible row.
#[derive(Clone, Debug)]
pub(super) struct EmptyRange {
    pub(super) start: Place,
    pub(super) end: Place,
    /// The approximate cost of walking the range, in dropped fragments.
    pub(super) weight: u64,
    /// The second at which the range was found: cells that had expired then were live before.
    as_of_s: u32,
}

/// Ranges in ascending order, which do not touch each other. A clone is cheap, and stays as it was.
#[derive(Clone, Default)]
pub(super) struct RangeList {
    ranges: Rc<Vec<EmptyRange>>,
}

impl RangeList {
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the range that contains a path at second `now_s`.
    pub(super) fn at(&self, path: &[u8], now_s: u32) -> Option<&EmptyRange> {
        let behind = self.ranges.partition_point(|range| range.start.path() <= path);
        let range = self.ranges.get(behind.checked_sub(1)?)?;
        (path < range.end.path() && range.as_of_s <= now_s).then_some(range)
    }

    /// Returns the last range that begins in front of a place.
    pub(super) fn last_before(&self, place: &Place) -> Option<&EmptyRange> {
        let behind = self.ranges.partition_point(|range| range.start < *place);
        self.ranges.get(behind.checked_sub(1)?)
    }

    /// Returns the start of the range that ends between two places, if there is one.
    pub(super) fn start_of_end_within(&self, before: &Place, behind: &Place) -> Option<Place> {
        let last = self.ranges.partition_point(|range| range.start <= *behind);
        let range = self.ranges.get(last.checked_sub(1)?)?;
        (range.end >= *before && range.end < *behind).then(|| range.start.clone())
    }

    /// Returns the start of the range that ends at a place and is valid at second `now_s`, if there
    /// is one.
    pub(super) fn start_of_end_at(&self, end: &Place, now_s: u32) -> Option<Place> {
        let range = self.last_before(end)?;
        (range.end == *end && range.as_of_s <= now_s).then(|| range.start.clone())
    }

    /// Cuts the part between two places out of the ranges.
    pub(super) fn take_out(&mut self, before: &Place, behind: &Place) {
        let first = self.ranges.partition_point(|range| range.end <= *before);
        let meets = |range: &EmptyRange| range.start < *behind;
        if !self.ranges.get(first).is_some_and(meets) {
            return;
        }
        let last = first + self.ranges[first..].partition_point(meets);
        let mut rest: Vec<EmptyRange> = Vec::with_capacity(2);
        for range in &self.ranges[first..last] {
            let weight = range.weight / 2;
            if range.start < *before {
                rest.push(EmptyRange { end: before.clone(), weight, ..range.clone() });
            }
            if range.end > *behind {
                rest.push(EmptyRange { start: behind.clone(), weight, ..range.clone() });
            }
        }
        Rc::make_mut(&mut self.ranges).splice(first..last, rest);
        self.shorten();
    }

    /// Adds a range and joins it with those that it touches. Returns `false` if a present range
    /// contains it.
    pub(super) fn insert(&mut self, start: Place, end: Place, weight: u64, as_of_s: u32) -> bool {
        let first = self.ranges.partition_point(|range| range.end < start);
        let is_known = |range: &EmptyRange| {
            range.start <= start && range.end >= end && range.as_of_s <= as_of_s
        };
        if self.ranges.get(first).is_some_and(is_known) {
            return false;
        }
        let last = first + self.ranges[first..].partition_point(|range| range.start <= end);
        let mut joined = EmptyRange { start, end, weight, as_of_s };
        for range in &self.ranges[first..last] {
            joined = EmptyRange {
                start: joined.start.min(range.start.clone()),
                end: joined.end.max(range.end.clone()),
                weight: joined.weight.max(range.weight),
                as_of_s: joined.as_of_s.max(range.as_of_s),
            };
        }
        Rc::make_mut(&mut self.ranges).splice(first..last, [joined]);
        self.shorten();
        true
    }

    fn shorten(&mut self) {
        if self.ranges.len() > MAX_RANGES {
            let ranges = Rc::make_mut(&mut self.ranges);
            let lightest = (0..ranges.len()).min_by_key(|index| ranges[*index].weight);
            if let Some(lightest) = lightest {
                ranges.remove(lightest);
            }
        }
    }
}
