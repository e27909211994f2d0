//! Searches the highest rate at which the latency is within its limit: tries rates until a good
//! rate and a bad rate are close to each other.
//!
//! If a disk or a hypervisor stalls everything once for a tenth of a second, the try of any rate is
//! bad. So a rate counts as bad only after [`TRIES`] bad tries in a row.

/// The search ends when the bad rate is at most this multiple of the good one.
const PRECISION: f64 = 1.04;

/// Factor of a step up or down while no bound is known on that side.
const STRIDE: f64 = 1.25;

/// Number of tries before a rate counts as bad.
const TRIES: u32 = 3;

/// Limit of the steps, for searches with contradictory outcomes.
const MAX_STEPS: u32 = 36;

/// A search under way.
#[derive(Clone, Debug)]
pub struct RateSearch {
    next: f64,
    good: Option<f64>,
    bad: Option<f64>,
    /// Number of bad tries of the next rate so far.
    failures: u32,
    steps: u32,
}

impl RateSearch {
    /// Begins the search at an estimate, which is raised to at least 1.
    pub fn new(estimate: f64) -> Self {
        Self { next: estimate.max(1.0), good: None, bad: None, failures: 0, steps: 0 }
    }

    /// Returns the rate to try next; `None` if the search is over.
    pub fn next(&self) -> Option<f64> {
        let is_near = self.good.zip(self.bad).is_some_and(|(good, bad)| bad <= good * PRECISION);
        (!is_near && self.steps < MAX_STEPS && self.next >= 1.0).then_some(self.next)
    }

    /// Records the outcome of a try.
    pub fn record(&mut self, rate: f64, is_good: bool) {
        self.steps += 1;
        self.failures = if is_good { 0 } else { self.failures + 1 };
        if (1..TRIES).contains(&self.failures) {
            return;
        }
        self.failures = 0;
        if is_good {
            self.good = Some(self.good.unwrap_or(0.0).max(rate));
            // A bad rate that is not higher than this good one was bad by chance.
            self.bad = self.bad.filter(|bad| *bad > rate);
        } else {
            self.bad = Some(self.bad.unwrap_or(f64::MAX).min(rate))
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
    fn a_search_without_a_good_rate_ends() {
        let mut search = RateSearch::new(1000.0);
        let mut steps = 0;
        while let Some(rate) = search.next() {
            search.record(rate, false);
            steps += 1;
        }
        assert_eq!(steps, MAX_STEPS);
    }
}
