//! A path as the key of a list's node. Short paths are stored in the node, so that comparing them
//! takes no further memory access.

use std::{borrow::Borrow, cmp::Ordering};

/// Paths up to this length are stored in the node: a partition key and a clustering of 8 bytes
/// each.
pub(super) const INLINE_BYTES: usize = 30;

pub(super) enum Key {
    Short { length: u8, bytes: [u8; INLINE_BYTES] },
    Long(Box<[u8]>),
}

const _: () = assert!(size_of::<Key>() == 32);

impl Key {
    #[inline]
    pub(super) fn new(path: &[u8]) -> Self {
        if path.len() > INLINE_BYTES {
            return Self::Long(path.into());
        }
        let mut bytes = [0; INLINE_BYTES];
        bytes[..path.len()].copy_from_slice(path);
        Self::Short { length: path.len() as u8, bytes }
    }

    #[inline]
    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Short { length, bytes } => bytes.get(..usize::from(*length)).unwrap_or(bytes),
            Self::Long(bytes) => bytes,
        }
    }
}

/// Returns the bytes that a key of this path takes besides its node.
#[inline]
pub(super) fn heap_bytes(path: &[u8]) -> usize {
    if path.len() > INLINE_BYTES { path.len() } else { 0 }
}

impl Borrow<[u8]> for Key {
    #[inline]
    fn borrow(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Ord for Key {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl PartialOrd for Key {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Key {}
