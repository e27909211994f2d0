//! This module counts sizes of partitions, and numbers of cells of partitions, in buckets. The
//! upper end of a bucket is 1.2 times the upper end of the bucket before, rounded, and at least 1
//! more. Format: docs/formats/statistics.md.

/// Number of buckets for partition sizes in bytes, without the overflow bucket.
pub const PARTITION_SIZE_BUCKETS: usize = 155;
/// Number of buckets for cells of a partition, without the overflow bucket.
pub const CELL_COUNT_BUCKETS: usize = 118;

/// A histogram. Bucket i counts values above `offsets[i-1]` and at most `offsets[i]`. The last
/// bucket counts the values above all offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EstimatedHistogram {
    /// Upper ends of the buckets, ascending.
    pub offsets: Vec<u64>,
    /// Counts of the buckets. There is one more count than there are offsets.
    pub counts: Vec<u64>,
}

impl EstimatedHistogram {
    /// Creates an empty histogram with `buckets` buckets and an overflow bucket.
    pub fn new(buckets: usize) -> Self {
        let mut offsets = Vec::with_capacity(buckets);
        let mut offset = 1u64;
        while offsets.len() < buckets {
            offsets.push(offset);
            let grown = (offset as f64 * 1.2).round() as u64;
            offset = grown.max(offset + 1);
        }
        Self { counts: vec![0; offsets.len() + 1], offsets }
    }

    /// Counts a value.
    pub fn add(&mut self, value: u64) {
        self.add_alike(value, &mut 0);
    }

    /// Counts a value that is probably similar to the previous one. `bucket` is the bucket of the
    /// previous value, and is updated.
    #[inline]
    pub(crate) fn add_alike(&mut self, value: u64, bucket: &mut usize) {
        let below = bucket.checked_sub(1).and_then(|below| self.offsets.get(below));
        let is_above = below.is_none_or(|offset| *offset < value);
        let is_there = is_above && self.offsets.get(*bucket).is_some_and(|offset| value <= *offset);
        if !is_there {
            *bucket = self.offsets.partition_point(|&offset| offset < value);
        }
        if let Some(count) = self.counts.get_mut(*bucket) {
            *count += 1;
        }
    }

    /// Returns the non-empty buckets with their upper end (`None` for the overflow bucket) and
    /// count.
    pub fn non_empty(&self) -> impl Iterator<Item = (Option<u64>, u64)> + '_ {
        let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(|(bucket, &count)| (self.offsets.get(bucket).copied(), count))
    }

    /// Returns the lower end of the first non-empty bucket.
    pub fn lower_end(&self) -> Option<u64> {
        let first = self.counts.iter().position(|count| *count > 0)?;
        let before = first.checked_sub(1).and_then(|bucket| self.offsets.get(bucket));
        Some(before.map_or(0, |offset| offset.saturating_add(1)))
    }

    /// Returns the upper end of the last non-empty bucket; it is `u64::MAX` for the overflow
    /// bucket.
    pub fn upper_end(&self) -> Option<u64> {
        self.non_empty().last().map(|(end, _)| end.unwrap_or(u64::MAX))
    }

    /// Returns an estimate of the sum of all values. Each value counts as the upper end of its
    /// bucket, and values in the overflow bucket as the last offset.
    pub fn sum(&self) -> u128 {
        let last = self.offsets.last().copied().unwrap_or(0);
        let sums = self
            .non_empty()
            .map(|(end, count)| u128::from(end.unwrap_or(last)) * u128::from(count));
        sums.fold(0, u128::saturating_add)
    }

    /// Returns the number of values counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().fold(0, |total, &count| total.saturating_add(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_those_of_cassandra() {
        let histogram = EstimatedHistogram::new(PARTITION_SIZE_BUCKETS);
        assert_eq!(histogram.offsets[..12], [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17]);
        assert!(histogram.offsets.windows(4).any(|offsets| offsets == [258, 310, 372, 446]));
        assert_eq!(histogram.offsets.last(), Some(&3_520_571_548_412));
    }

    #[test]
    fn values_fall_into_the_bucket_that_ends_at_or_behind_them() {
        let mut histogram = EstimatedHistogram::new(3);
        [0, 1, 2, 3, 4, u64::MAX].into_iter().for_each(|value| histogram.add(value));
        assert_eq!(histogram.counts, [2, 1, 1, 2]);
        assert_eq!(histogram.total(), 6);
        assert_eq!((histogram.lower_end(), histogram.upper_end()), (Some(0), Some(u64::MAX)));
    }

    #[test]
    fn ends_and_the_sum_are_those_of_buckets() {
        let mut histogram = EstimatedHistogram::new(12);
        assert_eq!(
            (histogram.lower_end(), histogram.upper_end(), histogram.sum()),
            (None, None, 0)
        );
        [9, 11, 16].into_iter().for_each(|value| histogram.add(value));
        assert_eq!((histogram.lower_end(), histogram.upper_end()), (Some(9), Some(17)));
        assert_eq!(histogram.sum(), 10 + 12 + 17);
    }
}
