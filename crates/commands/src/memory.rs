//! The memory budget: the node's memory and its parts (decision 0011).
//!
//! Memtables get half of the budget. The page cache and the row cache share three eighths. Requests
//! in flight get a tenth. No measurement supports these shares yet. The rest is for memory that the
//! node does not account for: connections, the schema, prepared statements.

use crate::units::display_size;

/// Minimum budget. With a smaller one, every shard would flush its memtable all the time.
const MIN_BYTES: u64 = 64 << 20;

/// Upper limit of the default budget, because other programs on a laptop need memory too.
const DEFAULT_MAX_BYTES: u64 = 4 << 30;

/// The parts of the budget, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryBudget {
    /// The whole budget.
    pub total: u64,
    /// The bytes of the memtables of all shards.
    pub memtables: u64,
    /// The bytes of the page caches and row caches of all shards.
    pub page_cache: u64,
}

/// The error of a budget that a node cannot have, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// The budget is smaller than 64 MiB.
    #[error(
        "--memory {} is too little: give at least {}",
        display_size(*given),
        display_size(MIN_BYTES)
    )]
    TooLittle {
        /// The budget that was asked for.
        given: u64,
    },
    /// The budget is larger than the memory that exists.
    #[error(
        "--memory {} is more than this machine or its control group has; give at most {}",
        display_size(*given),
        display_size(*available)
    )]
    TooMuch {
        /// The budget that was asked for.
        given: u64,
        /// The memory that the node may use.
        available: u64,
    },
}

impl MemoryBudget {
    /// Splits `total`. Without `total`, the budget is a quarter of the `available` memory, at least
    /// 64 MiB and at most 4 GiB.
    ///
    /// # Errors
    /// Fails if `total` is less than 64 MiB or more than `available`.
    pub fn new(total: Option<u64>, available: u64) -> Result<Self, MemoryError> {
        let total = match total {
            Some(given) if given < MIN_BYTES => return Err(MemoryError::TooLittle { given }),
            Some(given) if given > available => {
                return Err(MemoryError::TooMuch { given, available });
            }
            Some(total) => total,
            None => (available / 4).clamp(MIN_BYTES, DEFAULT_MAX_BYTES),
        };
        Ok(Self { total, memtables: total / 2, page_cache: total / 8 * 3 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn a_quarter_within_limits_is_the_default() {
        let total = |available| MemoryBudget::new(None, available).unwrap().total;
        assert_eq!(total(8 * GIB), 2 * GIB);
        assert_eq!(total(256 * GIB), 4 * GIB);
        assert_eq!(total(GIB / 16), GIB / 16);
    }

    #[test]
    fn the_parts_leave_room() {
        let budget = MemoryBudget::new(Some(GIB), 8 * GIB).unwrap();
        assert_eq!(
            budget,
            MemoryBudget { total: GIB, memtables: GIB / 2, page_cache: GIB / 8 * 3 }
        );
    }

    #[test]
    fn too_little_and_too_much_are_refused() {
        let message = |total| MemoryBudget::new(Some(total), 2 * GIB).unwrap_err().to_string();
        assert_eq!(message(GIB / 1024), "--memory 1 MiB is too little: give at least 64 MiB");
        assert!(message(3 * GIB).contains("3 GiB is more than"));
    }
}
