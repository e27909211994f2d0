//! The errors of the row cache.

use espalier_memtable::MemtableError;
use espalier_types::DecodeError;

/// Damaged data in the row cache, by a defect of this program or of the machine.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CacheError {
    /// A damaged row; rows have the form of memtables.
    #[error("{0}")]
    Row(#[from] MemtableError),
    /// A damaged partition key.
    #[error("a partition key in a row cache: {0}")]
    Key(DecodeError),
}
