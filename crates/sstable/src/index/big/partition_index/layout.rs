//! This module encodes and decodes an entry of Index.db, without its promoted index.

use bytes::Bytes;
use espalier_mutation::DecoratedKey;
use espalier_types::vint;

use crate::data::input::{DataInput, Decoded};

/// Maximum number of bytes of an entry besides its key and its promoted index.
pub(in super::super) const MAX_ENTRY_OVERHEAD: usize = 2 + 9 + 9;

/// Location of a promoted index in Index.db.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromotedLocation {
    /// Position of its first byte.
    pub start: u64,
    /// Length in bytes. The index ends inside the file.
    pub length: u64,
}

/// An entry of the index for one partition. The key shares the memory that it was read into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// The partition's key.
    pub key: DecoratedKey,
    /// Position in Data.db, in uncompressed bytes, at which the partition begins.
    pub data_position: u64,
    /// Position in Index.db at which the entry begins.
    pub position: u64,
    /// Location of the promoted index, if the partition is wide enough to have one.
    pub promoted: Option<PromotedLocation>,
    /// Position of the next entry, or the end of Index.db.
    pub next_position: u64,
}

/// The head of an entry, as offsets into the bytes that it was read from.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryHead {
    /// Start and end of the key.
    pub(super) key: (usize, usize),
    pub(super) data_position: u64,
    pub(super) promoted_length: u64,
    /// Offset after the head.
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

/// Appends the head of an entry. The key must have at most 65,535 bytes.
pub(super) fn encode_head(key: &[u8], data_position: u64, promoted_length: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&(key.len() as u16).to_be_bytes());
    out.extend_from_slice(key);
    vint::write_unsigned(data_position, out);
    vint::write_unsigned(promoted_length, out);
}
