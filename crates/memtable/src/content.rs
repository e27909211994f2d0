//! The contents of the memtable's trie.

use bytes::Bytes;
use espalier_mutation::DeletionTime;

/// Rows up to this length are stored in the trie's own block, longer ones on the heap.
const INLINE_BYTES: usize = 30;

/// The content of a trie key. It has 32 bytes: a block of the trie, half a cache line.
#[derive(Clone)]
pub(crate) enum Content {
    /// At the end of the partition key: the partition exists, perhaps with a deletion.
    Partition(DeletionTime),
    /// In the deletion branch: the range deletion in force behind this bound.
    Boundary(Boundary),
    /// A row or static row: the clustering values that the path does not preserve, then the packed
    /// row. In the branch of tombstone runs: the last position of a run.
    Inline { length: u8, bytes: [u8; INLINE_BYTES] },
    /// The bytes of [`Self::Inline`], if they are longer than [`INLINE_BYTES`].
    Heap(Box<[u8]>),
}

/// A boundary of range deletions: the deletion in force changes here.
#[derive(Clone)]
pub(crate) struct Boundary {
    pub(crate) after: DeletionTime,
    /// The bound's values as they were written first, if the path does not preserve them exactly.
    pub(crate) kept_values: Option<Box<Bytes>>,
}

const _: () = assert!(size_of::<Content>() == 32);

impl Content {
    /// Creates a row's content from the two parts of its bytes.
    #[inline]
    pub(crate) fn row(prefix: &[u8], packed: &[u8]) -> Content {
        let length = prefix.len() + packed.len();
        if length <= INLINE_BYTES {
            let mut bytes = [0; INLINE_BYTES];
            bytes[..prefix.len()].copy_from_slice(prefix);
            bytes[prefix.len()..length].copy_from_slice(packed);
            return Content::Inline { length: length as u8, bytes };
        }
        let mut bytes = Vec::with_capacity(length);
        bytes.extend_from_slice(prefix);
        bytes.extend_from_slice(packed);
        Content::Heap(bytes.into_boxed_slice())
    }

    /// Returns the bytes of a row; `None` if the content is no row.
    #[inline]
    pub(crate) fn row_bytes(&self) -> Option<&[u8]> {
        match self {
            Content::Inline { length, bytes } => bytes.get(..usize::from(*length)),
            Content::Heap(bytes) => Some(bytes),
            Content::Partition(_) | Content::Boundary(_) => None,
        }
    }

    /// Returns the bytes that the content takes besides its slot in the trie.
    #[inline]
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Content::Heap(bytes) => bytes.len(),
            Content::Boundary(Boundary { kept_values: Some(values), .. }) => {
                size_of::<Bytes>() + values.len()
            }
            _ => 0,
        }
    }
}
