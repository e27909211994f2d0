//! Chooses the rows to read, as the published tests do.

use espalier_runtime::random::Generator;

use super::arguments::Test;

/// Standard deviations between the middle and an end of cassandra-stress's gaussian distribution.
const DEVIATIONS: f64 = 3.0;

/// An endless sequence of row numbers.
pub struct Accesses {
    test: Test,
    count: u64,
    random: Generator,
    next: u64,
    is_sequential: bool,
}

impl Accesses {
    /// Creates the sequence for a table of `count` rows.
    pub fn new(test: Test, count: u64, seed: u64) -> Self {
        let mut random = Generator::from_seed(seed);
        let next = random.below(count);
        Self { test, count, random, next, is_sequential: false }
    }

    /// Returns the number of the next row. The typical test alternates between the row that follows
    /// in order and a random row around the middle; the published test has a pair of loaders for
    /// each. All other tests choose uniformly.
    pub fn next(&mut self) -> u64 {
        if self.test != Test::Typical {
            return self.random.below(self.count);
        }
        self.is_sequential = !self.is_sequential;
        if self.is_sequential {
            self.next = (self.next + 1) % self.count;
            return self.next;
        }
        let half = self.count as f64 / 2.0;
        loop {
            let number = half + self.normal() * half / DEVIATIONS;
            if number >= 0.0 && (number as u64) < self.count {
                return number as u64;
            }
        }
    }

    /// Returns a normally distributed number, by the Box-Muller method.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.random.fraction()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.random.fraction()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_are_in_sequence_and_half_around_the_middle() {
        let mut accesses = Accesses::new(Test::Typical, 3000, 1);
        let (mut last, mut inner) = (None, 0);
        for _ in 0..10_000 {
            let number = accesses.next();
            if let Some(last) = last.replace(number) {
                assert_eq!(number, (last + 1) % 3000);
            }
            let around = accesses.next();
            assert!(around < 3000);
            // 68 of 100 rows are at most one standard deviation away from the middle.
            inner += u32::from((1000..2000).contains(&around));
        }
        assert!((6500..7200).contains(&inner), "{inner}");
    }

    #[test]
    fn all_rows_are_read_evenly() {
        let mut accesses = Accesses::new(Test::KeyValue, 10, 1);
        let mut seen = [0; 10];
        (0..10_000).for_each(|_| seen[accesses.next() as usize] += 1);
        assert!(seen.iter().all(|count| (850..1150).contains(count)), "{seen:?}");
    }
}
