//! The memory budget: how much a node takes, and who gets which part of it (decision 9).
//!
//! Half goes to memtables, three eighths to the page cache (which the row cache will share), a tenth to requests in flight.
//! The shares are a choice that no measurement supports yet. What is left covers what is not accounted: connections, the
//! schema, prepared statements.

use super::error::ConfigurationError;
use super::units::display_size;

/// Less than this is refused: a memtable of every shard would be flushed all the time.
const MINIMUM_BYTES: u64 = 64 << 20;

/// Nobody who says nothing gets more: a node on somebody's laptop is a guest.
const DEFAULT_MAXIMUM_BYTES: u64 = 4 << 30;

/// The parts of the budget, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryBudget {
    /// All of it.
    pub total: u64,
    /// Memtables of all shards.
    pub memtables: u64,
    /// Pages of SSTables, of all shards.
    pub page_cache: u64,
}

impl MemoryBudget {
    /// Splits `total`, or if it is not given a quarter of the `available` memory, at most 4 GiB.
    pub fn new(total: Option<u64>, available: u64) -> Result<Self, ConfigurationError> {
        let total = match total {
            Some(total) if total < MINIMUM_BYTES => {
                return Err(ConfigurationError::Inconsistent(format!(
                    "--memory {} is too little: at least {} is needed",
                    display_size(total),
                    display_size(MINIMUM_BYTES)
                )));
            }
            Some(total) if total > available => {
                return Err(ConfigurationError::Inconsistent(format!(
                    "--memory {} is more than this machine or its control group has: {}",
                    display_size(total),
                    display_size(available)
                )));
            }
            Some(total) => total,
            None => (available / 4).clamp(MINIMUM_BYTES, DEFAULT_MAXIMUM_BYTES),
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
        assert_eq!(message(GIB / 1024), "--memory 1 MiB is too little: at least 64 MiB is needed");
        assert!(message(3 * GIB).contains("3 GiB is more than"));
    }
}
