//! Limits on the bytes that statements read before they write. Such a statement holds all rows that
//! it reads in memory, and a short text may name many large rows. One limit is for a statement, and
//! one for all statements of a shard together.

use std::cell::Cell;

use espalier_storage::{Node, PartitionRows, ReadCommand, ReadLimits};

use crate::{Error, ErrorCode, Result};

/// Maximum bytes that one statement or batch may read before it writes, and that its answer may
/// have (arbitrary; drivers accept no longer answer).
const MAX_BYTES: usize = 256 << 20;

/// Maximum bytes of all statements of a shard, after which further ones are refused (arbitrary).
const MAX_SHARD_BYTES: usize = 2 * MAX_BYTES;

thread_local! {
    /// Bytes that the statements of this shard have read and hold.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// The bytes that a statement may still read. It lives as long as the rows.
#[derive(Debug)]
pub struct ReadBudget {
    held: usize,
}

impl Drop for ReadBudget {
    fn drop(&mut self) {
        HELD.set(HELD.get().saturating_sub(self.held));
    }
}

impl ReadBudget {
    /// Creates the budget of a statement or batch.
    pub fn new() -> Self {
        Self { held: 0 }
    }

    /// Reads, and takes the bytes of the rows from the budget.
    ///
    /// # Errors
    /// The rows exceed the budget, other statements of the shard hold too many rows, or the storage
    /// fails.
    pub async fn read(
        &mut self,
        database: &Node,
        command: ReadCommand,
    ) -> Result<Vec<PartitionRows>> {
        let left = MAX_BYTES.saturating_sub(self.held);
        let left_of_shard = MAX_SHARD_BYTES.saturating_sub(HELD.get());
        if left_of_shard == 0 {
            return Err(crowded());
        }
        // The row that reaches the limit is the last one of a read.
        let limits = ReadLimits { bytes: left.min(left_of_shard), ..command.limits };
        let partitions = database.read(ReadCommand { limits, ..command }).await?.partitions;
        let bytes: usize = partitions.iter().map(PartitionRows::bytes).sum();
        self.held += bytes;
        HELD.set(HELD.get() + bytes);
        if bytes >= left {
            return Err(too_large("The rows that the statement reads"));
        }
        if bytes >= left_of_shard {
            return Err(crowded());
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

#[cold]
fn crowded() -> Error {
    let maximum = MAX_SHARD_BYTES >> 20;
    Error::new(
        ErrorCode::Overloaded,
        format!(
            "Statements that read rows before they write them hold {maximum} MiB on this shard; \
             try again later"
        ),
    )
}

#[cold]
fn too_large(what: &str) -> Error {
    let maximum = MAX_BYTES >> 20;
    Error::invalid(format!("{what} are larger than {maximum} MiB; name fewer rows at a time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_held_until_the_statement_ends() {
        let budget = ReadBudget { held: 5 };
        HELD.set(7);
        drop(budget);
        assert_eq!(HELD.get(), 2);
    }
}
