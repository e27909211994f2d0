//! This module encodes and decodes the blocks of a promoted index and the head before them.

use bytes::Bytes;
use espalier_mutation::DeletionTime;
use espalier_types::vint;

use super::position::{BlockPosition, PositionFormat, PositionSpans};
use crate::{
    data::{
        deletion_time,
        input::{DataInput, Decoded, Malformed},
    },
    versions::DeletionTimeForm,
};

/// The usual length of a block in bytes. The format stores the difference of a block's length from
/// this length.
const USUAL_LENGTH: i64 = 64 * 1024;

/// Maximum length of the head before the blocks in bytes: two integers and a deletion.
pub(super) const MAX_HEAD_BYTES: usize = 9 + 12 + 9;

/// Minimum length of a block in bytes, its place included: two kinds without values, two integers,
/// a flag and the place.
pub(super) const MIN_BLOCK_BYTES: u64 = 2 + 2 + 1 + 4;

/// Length of a block's place in bytes.
pub(super) const PLACE_BYTES: u64 = 4;

/// Maximum length of the blocks in bytes. Places are signed in Cassandra.
pub(super) const MAX_BLOCKS_BYTES: usize = i32::MAX as usize;

/// A block of rows and markers, as the index stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromotedBlock {
    /// Position of its first row or marker.
    pub first: BlockPosition,
    /// Position of its last row or marker.
    pub last: BlockPosition,
    /// Offset of its first byte from the start of the partition.
    pub offset: u64,
    /// Length in bytes. Cassandra's last block includes the byte that ends the partition, unless
    /// its last row filled it. ScyllaDB's does not, in files with bit 6 in their features.
    pub length: u64,
    /// The range deletion that is open at the end of the block, or [`DeletionTime::LIVE`].
    pub open_at_end: DeletionTime,
}

/// Appends the part of a block after its positions.
pub(super) fn encode_block_tail(
    offset: u64,
    length: u64,
    open_at_end: DeletionTime,
    form: DeletionTimeForm,
    out: &mut Vec<u8>,
) {
    vint::write_unsigned(offset, out);
    vint::write_signed((length as i64).wrapping_sub(USUAL_LENGTH), out);
    if open_at_end.is_live() {
        out.push(0)
    } else {
        out.push(1);
        deletion_time::write(open_at_end, form, out);
    }
}

/// Appends the head before the blocks.
pub(super) fn encode_head(
    header_length: u64,
    partition_deletion: DeletionTime,
    block_count: u64,
    form: DeletionTimeForm,
    out: &mut Vec<u8>,
) {
    vint::write_unsigned(header_length, out);
    deletion_time::write(partition_deletion, form, out);
    vint::write_unsigned(block_count, out);
}

/// The head before the blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) header_length: u64,
    pub(super) partition_deletion: DeletionTime,
    pub(super) block_count: u64,
    /// Length of the head in bytes.
    pub(super) length: usize,
}

pub(super) fn decode_head(bytes: &Bytes, form: DeletionTimeForm) -> Decoded<Head> {
    let mut input = DataInput::new(bytes, 0);
    let header_length = input.vint()?;
    let partition_deletion = deletion_time::read(&mut input, form)?;
    let block_count = input.vint()?;
    Ok(Head { header_length, partition_deletion, block_count, length: input.offset() })
}

/// A block, as spans of the bytes that it was read from.
#[derive(Clone, Debug)]
pub(super) struct BlockSpans {
    pub(super) bytes: Bytes,
    pub(super) first: PositionSpans,
    pub(super) last: PositionSpans,
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) open_at_end: DeletionTime,
}

impl BlockSpans {
    /// Decodes a block that takes all of `bytes`.
    pub(super) fn decode(
        bytes: Bytes,
        format: &PositionFormat,
        form: DeletionTimeForm,
    ) -> Decoded<Self> {
        let mut input = DataInput::new(&bytes, 0);
        let first = PositionSpans::read(&mut input, format)?;
        let last = PositionSpans::read(&mut input, format)?;
        let offset = input.vint()?;
        let folded = input.vint()?;
        let difference = (folded >> 1) as i64 ^ -((folded & 1) as i64);
        let length = difference
            .checked_add(USUAL_LENGTH)
            .and_then(|length| u64::try_from(length).ok())
            .filter(|length| *length > 0 && offset.checked_add(*length).is_some())
            .ok_or(Malformed::Wrong("a block's length is not possible"))?;
        let open_at_end = match input.u8()? {
            0 => DeletionTime::LIVE,
            1 => deletion_time::read(&mut input, form)?,
            _ => return Err(Malformed::Wrong("a block's flag must be 0 or 1")),
        };
        if input.offset() == bytes.len() {
            Ok(Self { first, last, offset, length, open_at_end, bytes })
        } else {
            Err(Malformed::Wrong("a block is shorter than the offsets of the blocks say"))
        }
    }

    pub(super) fn to_block(&self) -> PromotedBlock {
        PromotedBlock {
            first: self.first.to_position(&self.bytes),
            last: self.last.to_position(&self.bytes),
            offset: self.offset,
            length: self.length,
            open_at_end: self.open_at_end,
        }
    }
}
