//! Counts failures, so that a failure of one SSTable does not end a command for several.

use std::path::PathBuf;

use espalier_sstable::Descriptor;

use super::ToolError;
use super::output::report;
use super::paths::Found;

/// The part of a command's work that was not done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shortfall {
    /// Number of SSTables that failed, perhaps after a part of their content.
    pub failed: usize,
    /// Number of SSTables that could not be checked at all.
    pub not_verified: usize,
    /// Number of SSTables of the command.
    pub looked_at: usize,
    /// Number of directories that could not be listed, so that their SSTables are unknown.
    pub unread_directories: usize,
}

impl Shortfall {
    /// Returns whether nothing is missing.
    pub fn is_none(&self) -> bool {
        self.failed == 0 && self.not_verified == 0 && self.unread_directories == 0
    }

    /// Returns the command's last line. `of_one` and `of_several` are the verbs for one failed
    /// SSTable and for several.
    pub fn in_words(&self, of_one: &str, of_several: &str) -> String {
        let Self { failed, not_verified, looked_at, unread_directories } = *self;
        let by = |count, of_one, of_several| if count == 1 { of_one } else { of_several };
        let mut parts = Vec::new();
        if failed > 0 {
            let happened = by(failed, of_one, of_several);
            parts.push(format!("{failed} of {looked_at} SSTables {happened}"));
        }
        if not_verified > 0 {
            let was = by(not_verified, "was", "were");
            parts.push(format!("{not_verified} of {looked_at} SSTables {was} not verified"));
        }
        if unread_directories > 0 {
            let directories = by(unread_directories, "directory", "directories");
            parts.push(format!("{unread_directories} {directories} could not be read"));
        }
        parts.join(", ")
    }
}

/// Counts the failures of a command.
pub struct Failures(Shortfall);

impl Failures {
    /// Starts with the directories that could not be listed.
    pub fn of(found: &Found) -> Self {
        Self(Shortfall {
            looked_at: found.descriptors.len(),
            unread_directories: found.unread_directories,
            ..Shortfall::default()
        })
    }

    /// Reports and counts the failure of one of several SSTables.
    ///
    /// # Errors
    /// Fails with `error` if the command has only one SSTable, or if the error does not concern a
    /// single SSTable, such as an error of an argument or of the output.
    pub fn take(&mut self, error: ToolError) -> Result<(), ToolError> {
        match error {
            ToolError::SSTable(_) | ToolError::Path { .. } | ToolError::Schema(_)
                if self.0.looked_at > 1 =>
            {
                self.0.failed += 1;
                report(format_args!("{error}"));
                Ok(())
            }
            error => Err(error),
        }
    }

    /// Returns the number of failures so far.
    pub fn count(&self) -> usize {
        self.0.failed
    }

    /// Returns the result of the command.
    ///
    /// # Errors
    /// Fails if an SSTable failed or a directory could not be listed.
    pub fn result(&self) -> Result<(), ToolError> {
        match self.0 {
            shortfall if shortfall.is_none() => Ok(()),
            shortfall => Err(ToolError::Failed(shortfall)),
        }
    }
}

/// Arguments that do not fit some of several SSTables but may fit others, such as a key of another
/// table.
#[derive(Default)]
pub struct Misfits(Vec<Misfit>);

/// A reason, the first SSTable that it concerns, and the number of SSTables that it concerns.
struct Misfit {
    error: ToolError,
    first: PathBuf,
    count: usize,
}

impl Misfits {
    /// Records that the arguments do not fit this SSTable.
    pub fn add(&mut self, descriptor: &Descriptor, error: ToolError) {
        let reason = error.to_string();
        match self.0.iter_mut().find(|misfit| misfit.error.to_string() == reason) {
            Some(misfit) => misfit.count += 1,
            None => {
                let first = descriptor.directory.join(descriptor.to_string());
                self.0.push(Misfit { error, first, count: 1 });
            }
        }
    }

    /// Reports each reason once, unless all SSTables share one reason.
    ///
    /// # Errors
    /// Fails with the reason that all SSTables share.
    pub fn settle(mut self, failures: &mut Failures) -> Result<(), ToolError> {
        if self.0.len() == 1
            && let Some(Misfit { error, .. }) =
                self.0.pop_if(|misfit| misfit.count == failures.0.looked_at)
        {
            return Err(error);
        }
        for Misfit { error, first, count } in self.0 {
            failures.0.failed += count;
            match count - 1 {
                0 => report(format_args!("{}: {error}", first.display())),
                more => report(format_args!("{} and {more} more: {error}", first.display())),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortfall_is_printed_with_its_counts() {
        let words = |failed, not_verified, unread_directories| {
            let shortfall = Shortfall { failed, not_verified, looked_at: 9, unread_directories };
            shortfall.in_words("is damaged", "are damaged")
        };
        assert_eq!(words(1, 0, 0), "1 of 9 SSTables is damaged");
        assert_eq!(words(2, 0, 1), "2 of 9 SSTables are damaged, 1 directory could not be read");
        assert_eq!(words(0, 1, 0), "1 of 9 SSTables was not verified");
        let all = "3 of 9 SSTables are damaged, 2 of 9 SSTables were not verified, 2 directories could not be read";
        assert_eq!(words(3, 2, 2), all);
    }
}
