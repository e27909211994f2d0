//! Bytes of an entry of Index.db, without the promoted index.

use bytes::Bytes;
use espalier_mutation::DecoratedKey;
use espalier_types::vint;

use crate::data::input::{DataInput, Decoded};

/// The most that an entry takes besides its key and its promoted index.
pub(in super::super) const MAXIMUM_ENTRY_OVERHEAD: usize = 2 + 9 + 9;

/// Where a promoted index is in Index.db.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromotedLocation {
    /// Position of its first byte.
    pub start: u64,
    /// In bytes; it ends inside of the file.
    pub length: u64,
}

/// An entry: what the index says of one partition. The key shares the memory that it was read into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// The partition's key.
    pub key: DecoratedKey,
    /// Where the partition begins in Data.db, in the uncompressed bytes.
    pub data_position: u64,
    /// Where the entry begins in Index.db.
    pub position: u64,
    /// The index of its rows, if it is wide enough to have one.
    pub promoted: Option<PromotedLocation>,
    /// Where the next entry begins, or the end of Index.db.
    pub next_position: u64,
}

/// An entry in the bytes that it was read from.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryHead {
    /// Where the key begins and ends.
    pub(super) key: (usize, usize),
    pub(super) data_position: u64,
    pub(super) promoted_length: u64,
    /// Offset behind the head.
    pub(super) end: usize,
}

#[inline]
pub(super) fn decode_head(bytes: &Bytes, offset: usize) -> Decoded<EntryHead> {
    let mut input = DataInput::new(bytes, offset);
    let length = input.u16()?;
    let key = input.span(usize::from(length))?;
    let data_position = input.vint()?;
    let promoted_length = input.vint()?;
    Ok(EntryHead { key, data_position, promoted_length, end: input.offset() })
}

/// Appends an entry's head; the key has at most 65,535 bytes.
pub(super) fn encode_head(key: &[u8], data_position: u64, promoted_length: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&(key.len() as u16).to_be_bytes());
    out.extend_from_slice(key);
    vint::write_unsigned(data_position, out);
    vint::write_unsigned(promoted_length, out);
}
