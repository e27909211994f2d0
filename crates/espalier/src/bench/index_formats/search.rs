//! The highest rate that is good enough: steps until one that is and one that is not are near each other.
//!
//! A disk or a hypervisor that holds everything up for a tenth of a second once makes any rate a bad one: a rate counts as bad when
//! it was so several times in a row.

/// The two are as near as that.
const PRECISION: f64 = 1.04;

/// A step up, or down, while nothing is known beyond.
const STRIDE: f64 = 1.25;

/// So often a rate is tried before it counts as bad.
const TRIES: u32 = 3;

/// Bounds the time of a search whose outcomes contradict each other.
const MOST_STEPS: u32 = 36;

/// A search under way.
#[derive(Clone, Debug)]
pub struct RateSearch {
    next: f64,
    good: Option<f64>,
    bad: Option<f64>,
    /// How often the next one has been bad so far.
    failures: u32,
    steps: u32,
}

impl RateSearch {
    /// Begins at an estimate, above 0.
    pub fn new(estimate: f64) -> Self {
        Self { next: estimate.max(1.0), good: None, bad: None, failures: 0, steps: 0 }
    }

    /// What to try now; `None` if it is over.
    pub fn next(&self) -> Option<f64> {
        let is_near = self.good.zip(self.bad).is_some_and(|(good, bad)| bad <= good * PRECISION);
        (!is_near && self.steps < MOST_STEPS && self.next >= 1.0).then_some(self.next)
    }

    /// What came of it.
    pub fn record(&mut self, rate: f64, is_good: bool) {
        self.steps += 1;
        self.failures = if is_good { 0 } else { self.failures + 1 };
        if (1..TRIES).contains(&self.failures) {
            return;
        }
        self.failures = 0;
        match is_good {
            true => {
                self.good = Some(self.good.unwrap_or(0.0).max(rate));
                // What was bad below was bad luck.
                self.bad = self.bad.filter(|bad| *bad > rate);
            }
            false => self.bad = Some(self.bad.unwrap_or(f64::MAX).min(rate)),
        }
        self.next = match (self.good, self.bad) {
            (Some(good), Some(bad)) => (good * bad).sqrt(),
            (Some(good), None) => good * STRIDE,
            (None, Some(bad)) => bad / STRIDE,
            (None, None) => self.next,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_found_from_above_and_from_below() {
        for estimate in [10.0, 900.0, 1000.0, 1500.0, 4000.0] {
            let mut search = RateSearch::new(estimate);
            let mut best: f64 = 0.0;
            while let Some(rate) = search.next() {
                let is_good = rate <= 1000.0;
                if is_good {
                    best = best.max(rate);
                }
                search.record(rate, is_good);
            }
            let found = estimate < 100.0 || best > 960.0;
            assert!(found && best <= 1000.0, "{best} from {estimate}");
        }
    }

    #[test]
    fn a_rate_that_is_bad_now_and_then_is_good_enough() {
        let mut search = RateSearch::new(900.0);
        let (mut best, mut step): (f64, u32) = (0.0, 0);
        while let Some(rate) = search.next() {
            step += 1;
            let is_good = rate <= 1000.0 && !step.is_multiple_of(3);
            best = if is_good { best.max(rate) } else { best };
            search.record(rate, is_good);
        }
        assert!(best > 960.0, "{best}");
    }

    #[test]
    fn it_ends_where_nothing_is_good_enough() {
        let mut search = RateSearch::new(1000.0);
        let mut steps = 0;
        while let Some(rate) = search.next() {
            search.record(rate, false);
            steps += 1;
        }
        assert_eq!(steps, MOST_STEPS);
    }
}
