//! The part of the file behind its tries.

use crate::{
    error::{FileName, Result, SSTableError},
    vector_index::{MAGIC as MAGIC_OF_VECTORS, VERSION as VERSION_OF_VECTORS},
};

const MAGIC: [u8; 4] = *b"espx";
const VERSION: u32 = 1;
/// Bytes of the end of the file: position of the description, version, magic.
pub(super) const END_BYTES: usize = 16;
/// Maximum number of segments. Arbitrary: a writer makes one for each 32 MiB of entries.
const MAX_SEGMENTS: u32 = 1 << 20;

/// The payload bits of an entry. Its payload is empty.
pub(super) const ENTRY_BITS: u8 = 1;

/// One trie of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// The position of the root.
    pub(super) root: u64,
    /// The number of entries.
    pub(super) entries: u64,
}

/// The contents of a component, which its last bytes name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    /// Tries of entries.
    Entries,
    /// Vectors (`vector_index`).
    Vectors,
}

/// The description of the entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Description {
    /// The target of the index and the type of its column.
    pub(super) signature: String,
    pub(super) segments: Vec<Segment>,
}

impl Description {
    /// Appends the description, which begins at `position`, and the end of the file.
    pub(super) fn encode(&self, position: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.signature.len() as u32).to_be_bytes());
        out.extend_from_slice(self.signature.as_bytes());
        out.extend_from_slice(&(self.segments.len() as u32).to_be_bytes());
        for segment in &self.segments {
            out.extend_from_slice(&segment.root.to_be_bytes());
            out.extend_from_slice(&segment.entries.to_be_bytes());
        }
        out.extend_from_slice(&position.to_be_bytes());
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&MAGIC);
    }

    /// Decodes the end of a file of `length` bytes. Returns the position of the description, and
    /// the contents of the file.
    pub(super) fn position(name: &FileName, end: &[u8], length: u64) -> Result<(u64, Contents)> {
        let corrupt = |reason: &str| SSTableError::corrupt(name, length, reason);
        let (position, rest) =
            end.split_first_chunk::<8>().ok_or_else(|| corrupt("its end is too short"))?;
        let (version, magic) =
            rest.split_first_chunk::<4>().ok_or_else(|| corrupt("its end is too short"))?;
        let (contents, known) = match magic {
            magic if magic == MAGIC => (Contents::Entries, VERSION),
            magic if magic == MAGIC_OF_VECTORS => (Contents::Vectors, VERSION_OF_VECTORS),
            _ => return Err(corrupt("its last bytes are not those of a secondary index")),
        };
        if u32::from_be_bytes(*version) != known {
            return Err(SSTableError::unsupported(name, "this version of a secondary index is"));
        }
        let position = u64::from_be_bytes(*position);
        if length.checked_sub(END_BYTES as u64).is_none_or(|most| position > most) {
            return Err(corrupt("its description begins behind its end"));
        }
        Ok((position, contents))
    }

    /// Decodes the description, which begins at `position`.
    pub(super) fn decode(name: &FileName, bytes: &[u8], position: u64) -> Result<Self> {
        let corrupt = |reason: &str| SSTableError::corrupt(name, position, reason);
        let mut rest = bytes;
        let mut take = |count: usize| {
            let (part, behind) =
                rest.split_at_checked(count).ok_or_else(|| corrupt("its description is cut"))?;
            rest = behind;
            Ok::<&[u8], SSTableError>(part)
        };
        let be32 = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_be_bytes);
        let be64 = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_be_bytes);
        let length = be32(take(4)?) as usize;
        let signature = String::from_utf8(take(length)?.to_vec())
            .map_err(|_| corrupt("its signature is no UTF-8"))?;
        let count = be32(take(4)?);
        if count > MAX_SEGMENTS {
            return Err(corrupt("it has too many segments"));
        }
        let mut segments = Vec::new();
        for _ in 0..count {
            let (root, entries) = (be64(take(8)?), be64(take(8)?));
            if root >= position {
                return Err(corrupt("the root of a segment lies behind the tries"));
            }
            segments.push(Segment { root, entries });
        }
        if rest.is_empty() {
            Ok(Self { signature, segments })
        } else {
            Err(corrupt("there are bytes behind its last segment"))
        }
    }
}
