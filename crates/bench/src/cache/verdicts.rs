//! Compares figures with their bounds: each verdict is printed, and the command fails if a bound is
//! missed.

use std::fmt::{Display, Formatter};

use super::{super::print_line, BenchError};

/// Collects the figures that missed their bounds.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    not_met: Vec<String>,
}

/// A figure beside its bound.
struct Verdict<'a> {
    what: &'a str,
    figure: f64,
    /// Either "at least" or "at most".
    relation: &'static str,
    bound: f64,
}

impl Display for Verdict<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        let Self { what, figure, relation, bound } = self;
        write!(formatter, "{what}: {figure:.1}, {relation} {bound:.1}")
    }
}

impl Verdicts {
    pub(super) fn at_least(
        &mut self,
        what: &str,
        figure: f64,
        bound: f64,
    ) -> Result<(), BenchError> {
        let relation = "at least";
        self.look(figure >= bound, &Verdict { what, figure, relation, bound })
    }

    pub(super) fn at_most(
        &mut self,
        what: &str,
        figure: f64,
        bound: f64,
    ) -> Result<(), BenchError> {
        let relation = "at most";
        self.look(figure <= bound, &Verdict { what, figure, relation, bound })
    }

    fn look(&mut self, is_met: bool, verdict: &Verdict<'_>) -> Result<(), BenchError> {
        if !is_met {
            self.not_met.push(verdict.to_string());
        }
        print_line(format_args!("{} {verdict}", if is_met { "met:" } else { "NOT met:" }))
    }

    /// Returns an error if a figure missed its bound.
    pub(super) fn finish(self) -> Result<(), BenchError> {
        if self.not_met.is_empty() {
            Ok(())
        } else {
            Err(BenchError::NotMet(self.not_met.join("; ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_goal_is_an_error() {
        let mut verdicts = Verdicts::default();
        verdicts.at_least("reads", 10.0, 10.0).unwrap();
        verdicts.at_most("bytes", 120.0, 120.0).unwrap();
        verdicts.finish().unwrap();
        for is_least in [true, false] {
            let mut verdicts = Verdicts::default();
            if is_least {
                verdicts.at_least("reads", 9.9, 10.0).unwrap()
            } else {
                verdicts.at_most("bytes", 120.1, 120.0).unwrap()
            }
            verdicts.at_least("hits", 99.0, 95.0).unwrap();
            let error = verdicts.finish().unwrap_err().to_string();
            assert!(
                error.contains(if is_least { "reads: 9.9" } else { "bytes: 120.1" }),
                "{error}"
            );
            assert!(!error.contains("hits"), "{error}");
        }
        // A figure that could not be measured counts as missed.
        let mut verdicts = Verdicts::default();
        verdicts.at_most("bytes", f64::NAN, 120.0).unwrap();
        assert!(verdicts.finish().is_err());
    }
}
