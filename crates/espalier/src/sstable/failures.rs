//! What is wrong with one of several SSTables keeps none of the others from being looked at.

use std::path::PathBuf;

use espalier_sstable::Descriptor;

use super::ToolError;
use super::output::tell;
use super::paths::Found;

/// What a command could not do of all that it was to do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shortfall {
    /// SSTables that it could not deal with, or not to their end.
    pub failed: usize,
    /// SSTables of which it cannot say anything.
    pub not_verified: usize,
    /// Of how many.
    pub looked_at: usize,
    /// Directories of which nobody knows what is in them.
    pub unread_directories: usize,
}

impl Shortfall {
    /// Whether it could do all.
    pub fn is_none(&self) -> bool {
        self.failed == 0 && self.not_verified == 0 && self.unread_directories == 0
    }

    /// As the command's last line; what became of one that failed, and of several.
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

/// Counts what a command could not do.
pub struct Failures(Shortfall);

impl Failures {
    /// None yet, but directories that could not be read.
    pub fn of(found: &Found) -> Self {
        Self(Shortfall {
            looked_at: found.descriptors.len(),
            unread_directories: found.unread_directories,
            ..Shortfall::default()
        })
    }

    /// Tells it and goes on if there are others; what has to do with the arguments would be the same with all.
    pub fn take(&mut self, error: ToolError) -> Result<(), ToolError> {
        match error {
            ToolError::SSTable(_) | ToolError::Path { .. } | ToolError::Schema(_)
                if self.0.looked_at > 1 =>
            {
                self.0.failed += 1;
                tell(format_args!("{error}"));
                Ok(())
            }
            error => Err(error),
        }
    }

    /// How many there are so far.
    pub fn count(&self) -> usize {
        self.0.failed
    }

    /// What the command ends with.
    pub fn told(&self) -> Result<(), ToolError> {
        match self.0 {
            shortfall if shortfall.is_none() => Ok(()),
            shortfall => Err(ToolError::Failed(shortfall)),
        }
    }
}

/// Arguments that mean nothing for some of several SSTables, and perhaps something for others.
#[derive(Default)]
pub struct Misfits(Vec<Misfit>);

/// Why, of which SSTable first, and of how many.
struct Misfit {
    error: ToolError,
    first: PathBuf,
    count: usize,
}

impl Misfits {
    /// They mean nothing for this one.
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

    /// Tells each reason once. One that all have is that of the command.
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
                0 => tell(format_args!("{}: {error}", first.display())),
                more => tell(format_args!("{} and {more} more: {error}", first.display())),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortfall_tells_its_parts() {
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
