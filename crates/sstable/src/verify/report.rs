//! What a verification found.

use std::fmt;

use crate::error::{FileName, Result, SSTableError};

/// After so many problems of one kind only their number grows.
const MOST_SHOWN: usize = 100;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Odd, but nothing that is read is wrong: an estimate that is off, a filter of another size.
    Warning,
    /// Data is lost, wrong, or may not be found.
    Failure,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// How bad.
    pub severity: Severity,
    /// Where and what.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Warning => "warning",
            Severity::Failure => "failure",
        };
        write!(f, "{severity}: {}", self.what)
    }
}

/// What was looked at, and what was wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// The first problems found.
    pub problems: Vec<Problem>,
    /// How many failures there were.
    pub failures: u64,
    /// How many warnings there were.
    pub warnings: u64,
    /// Partitions read.
    pub partitions: u64,
    /// Rows read, static ones included.
    pub rows: u64,
    /// Range tombstone markers read.
    pub markers: u64,
    /// Cells read.
    pub cells: u64,
    /// Blocks of row indexes looked at.
    pub blocks: u64,
}

impl VerifyReport {
    /// Whether nothing is wrong with the data.
    pub fn is_ok(&self) -> bool {
        self.failures == 0
    }

    pub(super) fn add(&mut self, severity: Severity, what: impl fmt::Display) {
        let count = match severity {
            Severity::Warning => &mut self.warnings,
            Severity::Failure => &mut self.failures,
        };
        *count += 1;
        if self.problems.len() < MOST_SHOWN {
            self.problems.push(Problem { severity, what: what.to_string() });
        }
    }

    pub(super) fn fail(&mut self, file: &FileName, offset: u64, what: impl fmt::Display) {
        self.add(Severity::Failure, format_args!("{file} at byte {offset}: {what}"));
    }

    pub(super) fn check(&mut self, holds: bool, file: &FileName, offset: u64, what: &str) {
        if !holds {
            self.fail(file, offset, what);
        }
    }

    /// Corruption is a finding; what is not supported, or a failing disk, ends the verification.
    pub(super) fn take_error(&mut self, error: SSTableError) -> Result<()> {
        match &error {
            SSTableError::Corrupt { .. } => {
                self.add(Severity::Failure, &error);
                Ok(())
            }
            SSTableError::Io(source) if source.is_not_found() => {
                self.add(Severity::Failure, &error);
                Ok(())
            }
            _ => Err(error),
        }
    }
}
