//! The layout of a segment's header. The header is one little-endian number.
//!
//! ```text
//! plain, 6 bytes: payload length (17 bits) | self-contained (1) | zero (6) | CRC24 (24)
//! LZ4, 8 bytes:   payload length (17 bits) | plain length (17 bits) | self-contained (1) |
//!                 zero (5) | CRC24 (24)
//! ```
//! The payload follows, then its CRC32 (le32). A plain length of 0 means that the payload is not
//! compressed, because compression gained nothing.

use super::super::checksum::crc24;
use super::super::error::DecodeError;

/// Maximum bytes of a payload, compressed or not: the limit of the 17-bit length.
pub const MAX_PAYLOAD: usize = (1 << 17) - 1;

/// Length of the CRC32 after the payload, in bytes.
pub(super) const TRAILER_LENGTH: usize = 4;

const LENGTH_MASK: u64 = MAX_PAYLOAD as u64;

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    /// Bytes of the payload on the wire.
    pub payload_length: usize,
    /// Bytes of the payload once expanded; 0 if it is not compressed.
    pub plain_length: usize,
    /// True if the payload consists of whole envelopes.
    pub self_contained: bool,
}

/// Returns the length of a header in bytes.
pub(super) fn header_length(compressing: bool) -> usize {
    if compressing { 8 } else { 6 }
}

/// Returns the position of the bit that says that a segment is self-contained.
fn flag_position(compressing: bool) -> u32 {
    if compressing { 34 } else { 17 }
}

impl SegmentHeader {
    /// Writes the header into `out`, which has exactly its length.
    pub fn write(&self, compressing: bool, out: &mut [u8]) {
        debug_assert!(self.payload_length <= MAX_PAYLOAD && self.plain_length <= MAX_PAYLOAD);
        let mut bits = self.payload_length as u64;
        if compressing {
            bits |= (self.plain_length as u64) << 17;
        }
        bits |= u64::from(self.self_contained) << flag_position(compressing);
        let checked = header_length(compressing) - 3;
        let crc = crc24(&bits.to_le_bytes()[..checked]);
        bits |= u64::from(crc) << (8 * checked);
        out.copy_from_slice(&bits.to_le_bytes()[..checked + 3]);
    }

    /// Reads a header from the front of `bytes`. Returns `None` if there are too few bytes.
    ///
    /// # Errors
    ///
    /// Fails with [`DecodeError::HeaderChecksum`] if the header does not match its checksum.
    pub fn read(compressing: bool, bytes: &[u8]) -> Result<Option<Self>, DecodeError> {
        let length = header_length(compressing);
        let Some(bytes) = bytes.get(..length) else { return Ok(None) };
        let mut whole = [0; 8];
        whole[..length].copy_from_slice(bytes);
        let bits = u64::from_le_bytes(whole);
        let checked = length - 3;
        let found = (bits >> (8 * checked)) as u32 & 0x00FF_FFFF;
        let computed = crc24(&whole[..checked]);
        if found != computed {
            return Err(DecodeError::HeaderChecksum { found, computed });
        }
        Ok(Some(Self {
            payload_length: (bits & LENGTH_MASK) as usize,
            plain_length: if compressing { (bits >> 17 & LENGTH_MASK) as usize } else { 0 },
            self_contained: bits >> flag_position(compressing) & 1 == 1,
        }))
    }
}
