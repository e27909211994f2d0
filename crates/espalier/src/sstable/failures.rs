//! What is wrong with one of several SSTables keeps none of the others from being looked at.

use super::ToolError;

/// SSTables that a command could not deal with, or not to their end.
pub struct Failures {
    looked_at: usize,
    failed: usize,
}

impl Failures {
    /// None yet, of so many.
    pub fn of(looked_at: usize) -> Self {
        Self { looked_at, failed: 0 }
    }

    /// Tells it and goes on if there are others; what has to do with the arguments would be the same with all.
    pub fn take(&mut self, error: ToolError) -> Result<(), ToolError> {
        match error {
            ToolError::SSTable(_) | ToolError::Path { .. } if self.looked_at > 1 => {
                self.failed += 1;
                eprintln!("espalier: {error}");
                Ok(())
            }
            error => Err(error),
        }
    }

    /// What the command ends with.
    pub fn told(&self) -> Result<(), ToolError> {
        match self.failed {
            0 => Ok(()),
            failed => Err(ToolError::Failed { failed, looked_at: self.looked_at }),
        }
    }
}
