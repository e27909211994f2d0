//! Index.db has an entry for each partition, in the order of Data.db.
//!
//! ```text
//! entry   be16 key length, key, vint position in Data.db, vint length of the promoted index,
//!         promoted index
//! ```
//!
//! No mark shows where an entry begins, so a reader must know its position from the entry before it
//! or from a sample in Summary.db. Format: docs/formats/big-index.md.

mod layout;
mod reader;
mod writer;

/// Decodes an entry without a promoted index at an offset, and returns its key, its position in
/// Data.db and its end.
#[cfg(test)]
pub(super) fn decode_head_for_test(
    bytes: &bytes::Bytes,
    at: usize,
) -> ((usize, usize), u64, usize) {
    let head = layout::decode_head(bytes, at).unwrap();
    (head.key, head.data_position, head.end)
}

pub(super) use layout::MAX_ENTRY_OVERHEAD;
pub use layout::{IndexEntry, PromotedLocation};
pub(super) use reader::SteppedOver;
pub use reader::{Entries, EntryCursor};
pub use writer::PartitionIndexWriter;
