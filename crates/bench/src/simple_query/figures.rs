//! Figures of an iteration, and statistics of several.

use std::ops::AddAssign;
use std::time::Duration;

/// One iteration, of one shard or of all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Iteration {
    pub operations: u64,
    /// Time by the clock; of several shards the longest.
    pub clock: Duration,
    /// Time that threads were on a core, in total.
    pub core: Duration,
    pub allocations: u64,
    pub page_hits: u64,
    pub page_reads: u64,
    /// Instructions; `None` if the machine does not count them.
    pub instructions: Option<u64>,
}

impl AddAssign for Iteration {
    fn add_assign(&mut self, other: Self) {
        self.operations += other.operations;
        self.clock = self.clock.max(other.clock);
        self.core += other.core;
        self.allocations += other.allocations;
        self.page_hits += other.page_hits;
        self.page_reads += other.page_reads;
        self.instructions = self.instructions.zip(other.instructions).map(|(a, b)| a + b);
    }
}

impl Iteration {
    /// Returns operations a second.
    pub fn tps(&self) -> f64 {
        self.operations as f64 / self.clock.as_secs_f64().max(1e-9)
    }

    /// Returns `count` divided by the number of operations.
    pub fn per_operation(&self, count: u64) -> f64 {
        count as f64 / self.operations.max(1) as f64
    }

    /// Returns the part of the time that the threads were on a core.
    pub fn busy(&self, shards: usize) -> f64 {
        self.core.as_secs_f64() / (self.clock.as_secs_f64() * shards as f64).max(1e-9)
    }

    /// Returns the share of requested pages that were in memory.
    pub fn hit_rate(&self) -> f64 {
        match self.page_hits + self.page_reads {
            0 => 0.0,
            all => self.page_hits as f64 / all as f64,
        }
    }
}

/// Operations a second over several iterations, with perf-simple-query's statistics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throughput {
    pub median: f64,
    /// Median of the distances from the median.
    pub median_absolute_deviation: f64,
    pub maximum: f64,
    pub minimum: f64,
}

impl Throughput {
    /// Computes the statistics of at least one iteration.
    pub fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        let middle = median(&mut values);
        let (minimum, maximum) = (values.first().copied(), values.last().copied());
        let mut distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
        Self {
            median: middle,
            median_absolute_deviation: median(&mut distances),
            maximum: maximum.unwrap_or_default(),
            minimum: minimum.unwrap_or_default(),
        }
    }
}

/// Sorts the values, and returns the middle one, or the mean of the middle two.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match (values.len() % 2, half.checked_sub(1).and_then(|low| values.get(low)), values.get(half))
    {
        (0, Some(low), Some(high)) => (low + high) / 2.0,
        (_, _, Some(middle)) => *middle,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outlier_does_not_move_the_median() {
        let throughput = Throughput::of([100.0, 1.0, 104.0, 98.0, 101.0].into_iter());
        assert_eq!(
            throughput,
            Throughput {
                median: 100.0,
                median_absolute_deviation: 2.0,
                maximum: 104.0,
                minimum: 1.0
            }
        );
        assert_eq!(Throughput::of([3.0, 1.0].into_iter()).median, 2.0);
        assert_eq!(Throughput::of([7.0].into_iter()).median_absolute_deviation, 0.0);
    }
}
