//! The report of a verification.

use std::fmt;

use crate::error::{FileName, Result, SSTableError};

/// The most problems of one severity in one file that are listed; further ones are only counted. A
/// fault of a whole file shows up in many places.
const MAX_SHOWN_PER_FILE: u64 = 20;

/// The severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Unusual, but reads are right: an inexact estimate, or a filter with superfluous bits.
    Warning,
    /// Data is lost, wrong, or may not be found.
    Failure,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Warning => "warning",
            Severity::Failure => "failure",
        })
    }
}

/// A problem of the SSTable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The severity.
    pub severity: Severity,
    /// The place and the fault.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.severity, self.what)
    }
}

/// The number of problems of one severity in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileProblems {
    /// The file.
    pub file: FileName,
    /// The severity of the problems.
    pub severity: Severity,
    /// The number of problems that [`VerifyReport::problems`] lists.
    pub shown: u64,
    /// The number of problems that it does not list.
    pub hidden: u64,
}

/// The items that were checked, and the problems that were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// The first problems found in each file.
    pub problems: Vec<Problem>,
    /// The number of problems of each severity in each file that has some.
    pub files: Vec<FileProblems>,
    /// Number of failures.
    pub failures: u64,
    /// Number of warnings.
    pub warnings: u64,
    /// Partitions read.
    pub partitions: u64,
    /// Rows read, including static ones.
    pub rows: u64,
    /// Static rows read.
    pub static_rows: u64,
    /// Range tombstone markers read.
    pub markers: u64,
    /// Cells read.
    pub cells: u64,
    /// Blocks of row indexes checked.
    pub blocks: u64,
}

impl VerifyReport {
    /// Returns whether the data has no fault.
    pub fn is_ok(&self) -> bool {
        self.failures == 0
    }

    /// Adds a problem. `what` names the file and the place. Omits a problem that another check
    /// found before.
    pub(super) fn add(&mut self, severity: Severity, file: &FileName, what: impl fmt::Display) {
        let known = self.files.iter().position(|of| of.severity == severity && of.file == *file);
        let index = known.unwrap_or_else(|| {
            self.files.push(FileProblems { file: file.clone(), severity, shown: 0, hidden: 0 });
            self.files.len() - 1
        });
        let of_file = &mut self.files[index];
        if of_file.shown < MAX_SHOWN_PER_FILE {
            let problem = Problem { severity, what: what.to_string() };
            if self.problems.contains(&problem) {
                return;
            }
            self.problems.push(problem);
            of_file.shown += 1;
        } else {
            of_file.hidden += 1
        }
        match severity {
            Severity::Warning => self.warnings += 1,
            Severity::Failure => self.failures += 1,
        }
    }

    pub(super) fn fail(&mut self, file: &FileName, offset: u64, what: impl fmt::Display) {
        self.add(Severity::Failure, file, format_args!("{file} at byte {offset}: {what}"));
    }

    pub(super) fn check(&mut self, holds: bool, file: &FileName, offset: u64, what: &str) {
        if !holds {
            self.fail(file, offset, what);
        }
    }

    /// Records corruption or a missing file as a problem. Returns any other error (an unsupported
    /// format, a failing disk), which ends the verification.
    pub(super) fn take_error(&mut self, error: SSTableError) -> Result<()> {
        match &error {
            SSTableError::Corrupt { file, .. } => {
                self.add(Severity::Failure, file, &error);
                Ok(())
            }
            SSTableError::Io(source) if source.is_not_found() => {
                let file = FileName::new(&source.path);
                // A missing file that TOC.txt lists is reported already.
                if !self.files.iter().any(|of| of.file == file) {
                    self.add(Severity::Failure, &file, &error);
                }
                Ok(())
            }
            _ => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_report_shows_the_first_problems_of_each_file_once() {
        let (data, rows) =
            (FileName::new(Path::new("a-Data.db")), FileName::new(Path::new("a-Rows.db")));
        let mut report = VerifyReport::default();
        for offset in 0..50 {
            report.fail(&data, offset, "wrong");
            report.fail(&data, offset.min(5), "wrong");
        }
        report.fail(&rows, 7, "wrong");
        report.add(Severity::Warning, &data, "odd");
        let shown = |text: &str| report.problems.iter().filter(|p| p.what.contains(text)).count();
        assert_eq!((shown("a-Data.db at"), shown("a-Rows.db"), shown("odd")), (20, 1, 1));
        let of_data = &report.files[0];
        assert_eq!((of_data.shown, &of_data.file), (20, &data));
        assert_eq!(report.failures, 21 + of_data.hidden);
        assert_eq!(report.warnings, 1);
    }
}
