//! What a verification found.

use std::fmt;

use crate::error::{FileName, Result, SSTableError};

/// After so many problems of one severity in one file only their number grows: what is wrong with a whole file is wrong in
/// many places.
const MOST_SHOWN_OF_FILE: u64 = 20;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Odd, but nothing that is read is wrong: an estimate that is off, a filter of another size.
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
        write!(f, "{}: {}", self.severity, self.what)
    }
}

/// How many problems a file has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileProblems {
    /// Which file.
    pub file: FileName,
    /// How bad they are.
    pub severity: Severity,
    /// How many of them are in [`VerifyReport::problems`].
    pub shown: u64,
    /// How many are not.
    pub hidden: u64,
}

/// What was looked at, and what was wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// The first problems found in each file.
    pub problems: Vec<Problem>,
    /// The number of problems of each file that has some.
    pub files: Vec<FileProblems>,
    /// How many failures there were.
    pub failures: u64,
    /// How many warnings there were.
    pub warnings: u64,
    /// Partitions read.
    pub partitions: u64,
    /// Rows read, static ones included.
    pub rows: u64,
    /// How many of them are static.
    pub static_rows: u64,
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

    /// `what` names file and place. What was found before, on another way, is not found again.
    pub(super) fn add(&mut self, severity: Severity, file: &FileName, what: impl fmt::Display) {
        let known = self.files.iter().position(|of| of.severity == severity && of.file == *file);
        let index = known.unwrap_or_else(|| {
            self.files.push(FileProblems { file: file.clone(), severity, shown: 0, hidden: 0 });
            self.files.len() - 1
        });
        let of_file = &mut self.files[index];
        match of_file.shown < MOST_SHOWN_OF_FILE {
            true => {
                let problem = Problem { severity, what: what.to_string() };
                if self.problems.contains(&problem) {
                    return;
                }
                self.problems.push(problem);
                of_file.shown += 1;
            }
            false => of_file.hidden += 1,
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

    /// Corruption is a finding; what is not supported, or a failing disk, ends the verification.
    pub(super) fn take_error(&mut self, error: SSTableError) -> Result<()> {
        match &error {
            SSTableError::Corrupt { file, .. } => {
                self.add(Severity::Failure, file, &error);
                Ok(())
            }
            SSTableError::Io(source) if source.is_not_found() => {
                let file = FileName::new(&source.path);
                // It is said already if a list has it that is not there.
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
    fn of_each_file_the_first_problems_are_shown_each_once() {
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
