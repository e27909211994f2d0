//! Compression of bodies before version 5, and LZ4 blocks for the segments of version 5. LZ4 bodies
//! begin with their plain length (be32); the Snappy format includes it.
//!
//! Memory: before the node allocates anything for a body, it refuses a body that claims to be
//! larger than the frame limit.

use bytes::Bytes;

use super::error::DecodeError;
use super::writer::WireWrite;

/// Minimum length, in bytes, of a body that is compressed. Shorter ones gain too little.
const MIN_COMPRESSED_BODY: usize = 512;

/// The compression that a client requests under `COMPRESSION` in STARTUP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compression {
    /// `lz4`, the only compression of version 5.
    Lz4,
    /// `snappy`, only before version 5.
    Snappy,
}

impl Compression {
    /// The names that SUPPORTED lists under `COMPRESSION`.
    pub const NAMES: [&'static str; 2] = ["lz4", "snappy"];

    /// Returns the compression of a name. Case does not matter, because drivers differ in it.
    pub fn from_name(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("lz4") {
            Some(Self::Lz4)
        } else if name.eq_ignore_ascii_case("snappy") {
            Some(Self::Snappy)
        } else {
            None
        }
    }

    /// Returns the plain body, or an error if `body` is broken or expands to more than `max_length`
    /// bytes.
    pub(super) fn decompress(self, body: &[u8], max_length: usize) -> Result<Bytes, DecodeError> {
        match self {
            Self::Lz4 => {
                let (length, block) =
                    body.split_first_chunk::<4>().ok_or(DecodeError::BrokenCompression)?;
                let length = u32::from_be_bytes(*length) as usize;
                decompress_lz4(block, length, max_length)
            }
            Self::Snappy => {
                let length =
                    snap::raw::decompress_len(body).map_err(|_| DecodeError::BrokenCompression)?;
                if length > max_length {
                    return Err(DecodeError::TooLarge { length, limit: max_length });
                }
                let mut plain = vec![0; length];
                match snap::raw::Decoder::new().decompress(body, &mut plain) {
                    Ok(written) if written == length => Ok(plain.into()),
                    _ => Err(DecodeError::BrokenCompression),
                }
            }
        }
    }

    /// Replaces the body `out[start..]` by its compressed form if that is shorter. Returns whether
    /// it did.
    pub(super) fn compress_tail(
        self,
        out: &mut Vec<u8>,
        start: usize,
        scratch: &mut Vec<u8>,
    ) -> bool {
        let plain_length = out.len() - start;
        if plain_length < MIN_COMPRESSED_BODY {
            return false;
        }
        let plain = &out[start..];
        let compressed = match self {
            Self::Lz4 => {
                scratch.clear();
                scratch.put_u32(plain_length as u32);
                compress_lz4(plain, scratch)
            }
            Self::Snappy => {
                scratch.clear();
                scratch.resize(snap::raw::max_compress_len(plain_length), 0);
                snap::raw::Encoder::new().compress(plain, scratch).ok()
            }
        };
        let Some(length) = compressed.filter(|&length| length < plain_length) else {
            return false;
        };
        out.truncate(start);
        out.extend_from_slice(&scratch[..length]);
        true
    }
}

/// Expands one LZ4 block to `length` bytes, the plain length that the protocol sends with the
/// block.
pub(super) fn decompress_lz4(
    block: &[u8],
    length: usize,
    max_length: usize,
) -> Result<Bytes, DecodeError> {
    if length > max_length {
        return Err(DecodeError::TooLarge { length, limit: max_length });
    }
    // A block expands at most 255 times. A larger claim is broken, and not worth the allocation.
    if length / 255 > block.len() {
        return Err(DecodeError::BrokenCompression);
    }
    let Ok(most) = i32::try_from(length) else { return Err(DecodeError::BrokenCompression) };
    if i32::try_from(block.len()).is_err() {
        return Err(DecodeError::BrokenCompression);
    }
    let mut plain = vec![0; length];
    match lz4::block::decompress_to_buffer(block, Some(most), &mut plain) {
        Ok(written) if written == length => Ok(plain.into()),
        _ => Err(DecodeError::BrokenCompression),
    }
}

/// Appends one LZ4 block to `out` and returns the new length of `out`.
pub(super) fn compress_lz4(plain: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let start = out.len();
    out.resize(start + lz4::block::compress_bound(plain.len()).ok()?, 0);
    let written = lz4::block::compress_to_buffer(plain, None, false, &mut out[start..]).ok()?;
    out.truncate(start + written);
    Some(out.len())
}
