//! Histograms of the latencies of reads and writes of one shard, from samples.
//!
//! Reading the clock costs a twentieth of the fastest read, so not every request is timed. The unit
//! of sampling is a group of requests that the reader took out of a receive buffer together. One
//! group in [`GROUPS_PER_SAMPLE`] on average is chosen at random, before it is known how long its
//! requests will take. So a request that has to wait is as likely to be timed as one that is
//! answered at once, and the percentiles are those of all requests that are not refused at once.
//! (If the node timed all requests that wait but only a few others, the latency of a cache miss
//! would be the median, even if only one request in a hundred is a miss.)
//!
//! The first group is always timed, so that a fresh node shows that the histograms work.
//!
//! Memory: about 100 numbers for each of the two histograms.

use std::cell::Cell;
use std::time::Duration;

use espalier_runtime::random;
use espalier_runtime::time::Instant;

use super::{Counter, Kind, Sample};

/// One group of requests in this many is timed, on average. Arbitrary: the clock then costs a few
/// nanoseconds a request.
const GROUPS_PER_SAMPLE: u64 = 16;

/// Number of buckets with an upper bound: four for each doubling, as in ScyllaDB, up to its
/// greatest bound of 2^25 µs (34 s). ScyllaDB's buckets begin at 512 µs, ours at 1 µs.
const BUCKETS: usize = 96;

/// The histogram in which the latency of a request is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// SELECT.
    Read,
    /// INSERT, UPDATE, DELETE, BATCH.
    Write,
}

/// The latencies of one shard's requests.
#[derive(Debug, Default)]
pub(crate) struct RequestLatencies {
    reads: LatencyHistogram,
    writes: LatencyHistogram,
    /// Groups that are skipped until one is timed.
    groups_left: Cell<u64>,
}

impl RequestLatencies {
    /// Returns the present time if the group of requests that the reader takes out of the receive
    /// buffer now is to be timed.
    #[inline]
    pub fn begin(&self) -> Option<Instant> {
        match self.groups_left.get() {
            0 => {
                // The number is random, because requests that clients send in a fixed order would
                // otherwise always be sampled at the same point of that order.
                self.groups_left.set(random::below(2 * GROUPS_PER_SAMPLE - 1));
                Some(Instant::now())
            }
            left => {
                self.groups_left.set(left - 1);
                None
            }
        }
    }

    /// Records the latency of an answered request. `taken_at` is the time at which the connection
    /// took the request out of the receive buffer, if the request is timed.
    #[inline]
    pub fn end(&self, kind: RequestKind, taken_at: Option<Instant>) {
        let Some(taken_at) = taken_at else { return };
        match kind {
            RequestKind::Read => self.reads.record(taken_at.elapsed()),
            RequestKind::Write => self.writes.record(taken_at.elapsed()),
        }
    }

    /// Appends the histograms as samples of shard `shard`.
    pub fn samples(&self, shard: usize, samples: &mut Vec<Sample>) {
        self.reads.samples(
            "scylla_storage_proxy_coordinator_read_latency",
            "Microseconds from when a SELECT is taken out of the receive buffer until its answer is in the send buffer. \
             Sampled: one group in 16 of requests that arrive together is timed, at random; the count is of samples.",
            shard,
            samples,
        );
        self.writes.samples(
            "scylla_storage_proxy_coordinator_write_latency",
            "Microseconds from when an INSERT, UPDATE, DELETE or BATCH is taken out of the receive buffer until its \
             acknowledgement is in the send buffer. \
             Sampled: one group in 16 of requests that arrive together is timed, at random; the count is of samples.",
            shard,
            samples,
        );
    }
}

/// Counts latencies by size.
#[derive(Debug)]
struct LatencyHistogram {
    /// The buckets with a bound, then one for the latencies above all bounds.
    buckets: [Counter; BUCKETS + 1],
    sum_ns: Counter,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        let buckets = std::array::from_fn(|_| Counter::default());
        Self { buckets, sum_ns: Counter::default() }
    }
}

impl LatencyHistogram {
    fn record(&self, latency: Duration) {
        let latency_ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.buckets.get(bucket_of(latency_ns.div_ceil(1000))) {
            bucket.increment();
        }
        self.sum_ns.add(latency_ns);
    }

    fn samples(
        &self,
        name: &'static str,
        help: &'static str,
        shard: usize,
        samples: &mut Vec<Sample>,
    ) {
        let kind = Kind::Histogram;
        let mut count = 0;
        for (bucket, counter) in self.buckets.iter().enumerate() {
            count += counter.get();
            let bound = match bucket {
                BUCKETS => "+Inf".to_owned(),
                _ => bound_us(bucket).to_string(),
            };
            let labels = format!("le=\"{bound}\",shard=\"{shard}\"");
            let value = count as f64;
            samples.push(Sample { name, suffix: "_bucket", help, kind, labels, value });
        }
        let sum_us = self.sum_ns.get() as f64 / 1000.0;
        for (suffix, value) in [("_sum", sum_us), ("_count", count as f64)] {
            let labels = format!("shard=\"{shard}\"");
            samples.push(Sample { name, suffix, help, kind, labels, value });
        }
    }
}

/// Returns the first bucket whose bound is not less than `latency_us`.
fn bucket_of(latency_us: u64) -> usize {
    let below = latency_us.saturating_sub(1);
    let bucket = match below.checked_ilog2() {
        None | Some(0 | 1) => below,
        Some(exponent) => 4 * u64::from(exponent - 1) + ((below >> (exponent - 2)) & 3),
    };
    usize::try_from(bucket).unwrap_or(BUCKETS).min(BUCKETS)
}

/// Returns the greatest latency in a bucket that has a bound: 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14,
/// 16, 20 µs and so on.
fn bound_us(bucket: usize) -> u64 {
    let (doublings, quarter) = (bucket / 4, bucket as u64 % 4);
    match doublings {
        0 => quarter + 1,
        _ => (5 + quarter) << (doublings - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_four_for_each_doubling() {
        let bounds: Vec<_> = (0..16).map(bound_us).collect();
        assert_eq!(bounds, [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32]);
        assert_eq!(bound_us(BUCKETS - 1), 33_554_432);
        let of_scylla = [640, 768, 896, 1024, 1280];
        assert!(of_scylla.iter().all(|bound| (0..BUCKETS).any(|it| bound_us(it) == *bound)));
    }

    #[test]
    fn a_latency_is_in_the_first_bucket_that_holds_it() {
        for bucket in 0..BUCKETS {
            assert_eq!(bucket_of(bound_us(bucket)), bucket);
            assert_eq!(bucket_of(bound_us(bucket) + 1), bucket + 1);
        }
        assert_eq!((bucket_of(0), bucket_of(u64::MAX)), (0, BUCKETS));
    }

    #[test]
    fn buckets_are_cumulative_and_the_sum_is_in_microseconds() {
        let histogram = LatencyHistogram::default();
        for latency in
            [Duration::from_nanos(800), Duration::from_micros(9), Duration::from_secs(60)]
        {
            histogram.record(latency);
        }
        let mut samples = Vec::new();
        histogram.samples("x", "Help.", 3, &mut samples);
        let value = |suffix, labels: &str| {
            let mut found = samples.iter().filter(|it| it.suffix == suffix && it.labels == labels);
            found.next().unwrap().value
        };
        let bucket = |bound: &str| value("_bucket", &format!("le=\"{bound}\",shard=\"3\""));
        let buckets = ["1", "8", "10", "33554432", "+Inf"].map(bucket);
        assert_eq!(buckets, [1.0, 1.0, 2.0, 2.0, 3.0]);
        assert_eq!(value("_count", "shard=\"3\""), 3.0);
        assert_eq!(value("_sum", "shard=\"3\""), 60_000_009.8);
    }

    #[test]
    fn one_group_in_sixteen_is_timed() {
        const GROUPS: u64 = 100_000;
        random::seed(1);
        let latencies = RequestLatencies::default();
        assert!(latencies.begin().is_some());
        let timed = (0..GROUPS).filter(|_| latencies.begin().is_some()).count() as u64;
        let expected = GROUPS / GROUPS_PER_SAMPLE;
        assert!(timed.abs_diff(expected) < expected / 10, "{timed} of {GROUPS}");
    }
}
