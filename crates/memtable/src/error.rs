//! The errors of a memtable.

use espalier_mutation::{DecoratedKey, PackError, path, schema::TableMetadata};
use espalier_types::DecodeError;

/// A failed operation of a memtable.
#[derive(Clone, Debug, thiserror::Error)]
pub enum MemtableError {
    /// The memtable's trie has no room for the write.
    #[error("the memtable's trie is full ({bytes} bytes)")]
    Full {
        /// Bytes of memory that the memtable takes.
        bytes: usize,
    },
    /// A damaged row in memory, by a defect of this program or of the machine.
    #[error("damaged row in the memtable of {table}: {source}")]
    PackedRow {
        /// Keyspace and table.
        table: String,
        /// Description of the damage.
        source: PackError,
    },
    /// A damaged partition key in memory.
    #[error("a partition key in a memtable: {0}")]
    Key(DecodeError),
    /// Other damaged data in memory.
    #[error("the memtable of {table}: {reason}")]
    Corrupt {
        /// Keyspace and table.
        table: String,
        /// Description of the damage.
        reason: String,
    },
}

impl MemtableError {
    /// Returns the error for a table's data that cannot be decoded.
    pub fn corrupt(table: &TableMetadata, error: &dyn std::error::Error) -> Self {
        let table = format!("{}.{}", table.keyspace, table.name);
        Self::Corrupt { table, reason: error.to_string() }
    }

    /// Returns the error for a malformed row of a table.
    pub(crate) fn packed_row(table: &TableMetadata, source: PackError) -> Self {
        Self::PackedRow { table: format!("{}.{}", table.keyspace, table.name), source }
    }
}

/// Decodes the key of the partition to which the entry at `path` belongs.
pub(crate) fn partition_key(path: &[u8], is_own: bool) -> Result<DecoratedKey, MemtableError> {
    path::partition_key(path, is_own).map_err(MemtableError::Key)
}
