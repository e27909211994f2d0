//! The end of SecondaryIndex_NAME.db, behind the blocks and the trie: the description, then its
//! position, the version and the magic.

use espalier_trie::page::PAGE_SIZE;

use crate::{
    error::{FileName, Result, SSTableError},
    vector_index::{MAGIC as MAGIC_OF_VECTORS, VERSION as VERSION_OF_VECTORS},
};

const MAGIC: [u8; 4] = *b"espx";
/// No release has written version 1, so the reader refuses it.
const VERSION: u32 = 2;
/// Bytes of the end of the file: position of the description, version, magic.
pub(super) const END_BYTES: usize = 16;

/// The contents of a component. The magic in its last bytes identifies them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    /// Blocks of entries.
    Entries,
    /// Vectors (`vector_index`).
    Vectors,
}

/// The description of the entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Description {
    /// The target of the index and the type of its column.
    pub(super) signature: String,
    /// The number of partitions of the SSTable.
    pub(super) partitions: u64,
    /// The number of entries.
    pub(super) entries: u64,
    /// The number of pages of the blocks. The first block begins at position 0.
    pub(super) pages: u64,
    /// The position of the root of the trie, behind the blocks; 0 if there is no trie, as with a
    /// single block.
    pub(super) root: u64,
}

impl Description {
    /// Appends the description, which begins at `position`, and the end of the file.
    pub(super) fn encode(&self, position: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.signature.len() as u32).to_be_bytes());
        out.extend_from_slice(self.signature.as_bytes());
        for number in [self.partitions, self.entries, self.pages, self.root, position] {
            out.extend_from_slice(&number.to_be_bytes());
        }
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
            return Err(corrupt("its description begins behind its last 16 bytes"));
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
        let length = take(4)?.try_into().map_or(0, u32::from_be_bytes) as usize;
        let signature = String::from_utf8(take(length)?.to_vec())
            .map_err(|_| corrupt("its signature is no UTF-8"))?;
        let mut number = || take(8).map(|part| part.try_into().map_or(0, u64::from_be_bytes));
        let (partitions, entries) = (number()?, number()?);
        let (pages, root) = (number()?, number()?);
        let blocks_end = pages.saturating_mul(PAGE_SIZE as u64);
        if blocks_end > position || (root != 0 && !(blocks_end..position).contains(&root)) {
            return Err(corrupt(
                "the root of its trie is not between its blocks and its description",
            ));
        }
        if rest.is_empty() {
            Ok(Self { signature, partitions, entries, pages, root })
        } else {
            Err(corrupt("there are bytes behind its description"))
        }
    }
}
