//! This module encodes and decodes the bytes of Rows.db outside the trie's nodes: payload and
//! entry.

use espalier_mutation::DeletionTime;
use espalier_trie::page::Node;
use espalier_types::vint;

use super::super::error::{IndexWriteError, MalformedIndex};
use super::deletion_time;

/// The payload bit that is set if a deletion is open. The other three bits are the length of the
/// offset.
const OPEN_DELETION_FLAG: u8 = 8;

/// Maximum length of an offset in bytes, its sign included.
const MAX_OFFSET_SIZE: usize = 7;

/// Maximum length of an entry after the key in bytes: three integers and a deletion.
pub(super) const MAX_ENTRY_TAIL_SIZE: usize = 3 * 9 + 1 + deletion_time::RAW_SIZE;

/// The form of a deletion with a negative timestamp in a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NegativeDeletions {
    /// `da` cannot store it. Cassandra 5.0.9 writes it and fails to read it.
    Refused,
    /// `ms` and `mt` store it in ScyllaDB's extension.
    Extended,
}

impl NegativeDeletions {
    pub(super) fn check(self, deletion: DeletionTime) -> Result<(), IndexWriteError> {
        let timestamp = deletion.marked_for_delete_at;
        if timestamp < 0 && !deletion.is_live() && self == NegativeDeletions::Refused {
            return Err(IndexWriteError::NegativeDeletion { timestamp });
        }
        Ok(())
    }
}

/// The start of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockStart {
    /// Offset from the start of the partition in Data.db, in bytes.
    pub offset: u64,
    /// The range deletion that is open before the block's first row, or live if there is none.
    pub open_deletion: DeletionTime,
}

/// Appends the payload of a block and returns its bits.
pub(super) fn encode_block(
    block: BlockStart,
    negative: NegativeDeletions,
    output: &mut Vec<u8>,
) -> Result<u8, IndexWriteError> {
    // The format stores the offset as a signed number, which wastes one bit.
    let size = (64 - block.offset.leading_zeros() as usize) / 8 + 1;
    if size > MAX_OFFSET_SIZE {
        return Err(IndexWriteError::PositionTooLarge { position: block.offset });
    }
    output.extend_from_slice(&block.offset.to_be_bytes()[8 - size..]);
    if block.open_deletion.is_live() {
        return Ok(size as u8);
    }
    negative.check(block.open_deletion)?;
    deletion_time::write_raw(block.open_deletion, output);
    Ok(size as u8 | OPEN_DELETION_FLAG)
}

/// Returns the length in bytes of a payload with these bits.
pub(in crate::index::bti) fn block_payload_size(bits: u8) -> usize {
    let deletion = if bits & OPEN_DELETION_FLAG == 0 { 0 } else { deletion_time::RAW_SIZE };
    usize::from(bits & !OPEN_DELETION_FLAG) + deletion
}

pub(in crate::index::bti) fn decode_block(node: &Node<'_>) -> Result<BlockStart, MalformedIndex> {
    let malformed = |reason| MalformedIndex { position: node.position(), reason };
    let bits = node.payload_bits();
    let size = usize::from(bits & !OPEN_DELETION_FLAG);
    let (offset, rest) = node
        .payload()
        .split_at_checked(size)
        .ok_or(malformed("a payload does not fit in its page"))?;
    if offset.first().is_none_or(|&first| first >= 0x80) {
        return Err(malformed("a block has no offset, or a negative one"));
    }
    let offset = offset.iter().fold(0, |offset, &byte| offset << 8 | u64::from(byte));
    let open_deletion = if bits & OPEN_DELETION_FLAG == 0 {
        DeletionTime::LIVE
    } else {
        deletion_time::read_raw(rest).ok_or(malformed("a payload does not fit in its page"))?
    };
    Ok(BlockStart { offset, open_deletion })
}

/// An entry of Rows.db for one partition. The key is owned or borrowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowIndexEntry<K = Vec<u8>> {
    /// The serialized partition key.
    pub key: K,
    /// Position of the partition in Data.db, in uncompressed bytes.
    pub data_position: u64,
    /// Position of the trie's root in Rows.db.
    pub root: u64,
    /// Number of blocks, without the final separator.
    pub block_count: u64,
    /// Deletion of the whole partition.
    pub partition_deletion: DeletionTime,
}

impl<'a> RowIndexEntry<&'a [u8]> {
    /// Appends the entry, which begins at `position` and comes after its root. The key must have at
    /// most 65,535 bytes.
    pub(super) fn encode(
        &self,
        position: u64,
        negative: NegativeDeletions,
        output: &mut Vec<u8>,
    ) -> Result<(), IndexWriteError> {
        output.extend_from_slice(&(self.key.len() as u16).to_be_bytes());
        output.extend_from_slice(self.key);
        let base = position + 2 + self.key.len() as u64;
        vint::write_unsigned(self.data_position, output);
        vint::write_signed(self.root.wrapping_sub(base) as i64, output);
        vint::write_unsigned(self.block_count, output);
        deletion_time::write(self.partition_deletion, negative, output)
    }

    /// Decodes the entry at `position`. `bytes` begin with the entry. If they end before the entry
    /// does, the result is an error.
    pub(super) fn decode(bytes: &'a [u8], position: u64) -> Result<Self, MalformedIndex> {
        let malformed = |reason| MalformedIndex { position, reason };
        let cut = malformed("an entry is cut off");
        let (length, rest) = bytes.split_first_chunk::<2>().ok_or(cut.clone())?;
        let length = usize::from(u16::from_be_bytes(*length));
        let (key, mut rest) = rest.split_at_checked(length).ok_or(cut.clone())?;
        let base = position.saturating_add(2 + length as u64);
        let data_position = vint::read_unsigned(&mut rest).map_err(|_| cut.clone())?;
        let root_offset = vint::read_signed(&mut rest).map_err(|_| cut.clone())?;
        let block_count = vint::read_unsigned(&mut rest).map_err(|_| cut)?;
        let partition_deletion = deletion_time::read(rest)
            .ok_or(malformed("an entry's deletion is malformed or cut off"))?;
        let root = base
            .checked_add_signed(root_offset)
            .filter(|&root| root < position)
            .ok_or(malformed("an entry's root does not lie before it"))?;
        Ok(Self { key, data_position, root, block_count, partition_deletion })
    }

    /// Copies the key.
    pub(super) fn into_owned(self) -> RowIndexEntry {
        let Self { key, data_position, root, block_count, partition_deletion } = self;
        RowIndexEntry { key: key.to_vec(), data_position, root, block_count, partition_deletion }
    }
}
