//! What is wrong with one of several SSTables keeps none of the others from being looked at.

use super::ToolError;
use super::output::tell;
use super::paths::Found;

/// What a command could not do of all that it was to do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shortfall {
    /// SSTables that it could not deal with, or not to their end.
    pub failed: usize,
    /// Of how many.
    pub looked_at: usize,
    /// Directories of which nobody knows what is in them.
    pub unread_directories: usize,
}

impl Shortfall {
    /// As the command's last line; `happened` is what became of those that failed.
    pub fn in_words(&self, happened: &str) -> String {
        let Self { failed, looked_at, unread_directories } = self;
        let sstables = format!("{failed} of {looked_at} SSTables {happened}");
        let directories = match unread_directories {
            1 => "1 directory could not be read".to_owned(),
            count => format!("{count} directories could not be read"),
        };
        match (failed, unread_directories) {
            (_, 0) => sstables,
            (0, _) => directories,
            _ => format!("{sstables}, {directories}"),
        }
    }
}

/// Counts what a command could not do.
pub struct Failures(Shortfall);

impl Failures {
    /// None yet, but directories that could not be read.
    pub fn of(found: &Found) -> Self {
        Self(Shortfall {
            failed: 0,
            looked_at: found.descriptors.len(),
            unread_directories: found.unread_directories,
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

    /// What the command ends with.
    pub fn told(&self) -> Result<(), ToolError> {
        match self.0 {
            Shortfall { failed: 0, unread_directories: 0, .. } => Ok(()),
            shortfall => Err(ToolError::Failed(shortfall)),
        }
    }
}
