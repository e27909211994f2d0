//! Index.db: an entry for each partition, in the order of Data.db.
//!
//! ```text
//! entry   be16 key length, key, vint position in Data.db, vint length of the promoted index, promoted index
//! ```
//!
//! Entries do not say where they begin: only one that another leads to can be read. Source: reference 11.1.

mod layout;
mod reader;
mod writer;

/// Key, position in Data.db and end of the entry at an offset, which has no promoted index.
#[cfg(test)]
pub(super) fn decode_head_for_test(
    bytes: &bytes::Bytes,
    at: usize,
) -> ((usize, usize), u64, usize) {
    let head = layout::decode_head(bytes, at).unwrap();
    (head.key, head.data_position, head.end)
}

pub(super) use layout::MAXIMUM_ENTRY_OVERHEAD;
pub use layout::{IndexEntry, PromotedLocation};
pub use reader::{Entries, EntryCursor};
pub use writer::PartitionIndexWriter;
