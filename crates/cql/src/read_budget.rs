//! A limit on the bytes that a statement reads before it writes. Such a statement holds all rows
//! that it reads in memory, and a short text may name many large rows.

use espalier_storage::{Database, PartitionRows, ReadCommand, ReadLimits};

use crate::{Error, Result};

/// Maximum bytes that one statement or batch may read before it writes, and that its answer may
/// have (arbitrary; drivers accept no longer answer).
const MAX_BYTES: usize = 256 << 20;

/// The bytes that a statement may still read.
#[derive(Debug)]
pub struct ReadBudget {
    left: usize,
}

impl ReadBudget {
    /// Creates the budget of a statement or batch.
    pub fn new() -> Self {
        Self { left: MAX_BYTES }
    }

    /// Reads, and takes the bytes of the rows from the budget.
    ///
    /// # Errors
    /// The rows exceed the budget, or the storage fails.
    pub async fn read(
        &mut self,
        database: &Database,
        command: ReadCommand,
    ) -> Result<Vec<PartitionRows>> {
        // The row that reaches the limit is the last one of a read.
        let limits = ReadLimits { bytes: self.left, ..command.limits };
        let partitions = database.read(ReadCommand { limits, ..command }).await?.partitions;
        let bytes = partitions.iter().map(PartitionRows::bytes).sum();
        match self.left.checked_sub(bytes).filter(|left| *left > 0) {
            Some(left) => self.left = left,
            None => return Err(too_large("The rows that the statement reads")),
        }
        Ok(partitions)
    }
}

/// Checks the length of an answer in bytes while it is made.
///
/// # Errors
/// It is too long.
pub fn check_answer(bytes: usize) -> Result<()> {
    if bytes > MAX_BYTES { Err(too_large("The rows of the answer")) } else { Ok(()) }
}

fn too_large(what: &str) -> Error {
    let maximum = MAX_BYTES >> 20;
    Error::invalid(format!("{what} are larger than {maximum} MiB; name fewer rows at a time"))
}
