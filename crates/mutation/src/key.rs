//! Defines tokens, partition keys and ranges of them.

use std::cmp::Ordering;

use bytes::{BufMut, Bytes, BytesMut};

use crate::murmur3;

/// The position of a partition on the ring: Murmur3Partitioner's signed 64-bit hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub i64);

impl Token {
    /// The minimum token. Only the empty key has it, so no partition with data does.
    pub const MIN: Token = Token(i64::MIN);
    /// The greatest token.
    pub const MAX: Token = Token(i64::MAX);

    /// Computes the token of a serialised partition key.
    #[inline]
    pub fn of(key: &[u8]) -> Token {
        if key.is_empty() {
            return Self::MIN;
        }
        Self::of_hash(murmur3::hash(key))
    }

    /// Computes the token of a key that is not empty from its Murmur3 hash.
    #[inline]
    fn of_hash(hash: (u64, u64)) -> Token {
        match hash.0 as i64 {
            i64::MIN => Self::MAX,
            token => Token(token),
        }
    }
}

/// A serialised partition key with its token. Keys are ordered by token, then by their unsigned
/// bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DecoratedKey {
    /// Murmur3 token of `key`.
    pub token: Token,
    /// The serialised key: the value itself for one column, the composite form for several columns.
    pub key: Bytes,
}

impl DecoratedKey {
    /// Computes the token of `key`.
    pub fn new(key: Bytes) -> Self {
        Self { token: Token::of(&key), key }
    }

    /// Computes the token of `key`. Also returns the Murmur3 hash of the key.
    pub fn with_hash(key: Bytes) -> (Self, (u64, u64)) {
        let hash = murmur3::hash(&key);
        let token = if key.is_empty() { Token::MIN } else { Token::of_hash(hash) };
        (Self { token, key }, hash)
    }

    /// Returns the byte that the trie index stores beside a position: the low byte of the hash's
    /// second half.
    pub fn hash_byte(&self) -> u8 {
        murmur3::hash(&self.key).1 as u8
    }
}

/// A [`DecoratedKey`] that borrows its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecoratedKeyRef<'a> {
    /// Murmur3 token of `key`.
    pub token: Token,
    /// The serialised key.
    pub key: &'a [u8],
}

impl<'a> DecoratedKeyRef<'a> {
    /// Computes the token of `key`.
    #[inline]
    pub fn new(key: &'a [u8]) -> Self {
        Self { token: Token::of(key), key }
    }

    /// Compares by token, then by key bytes, as [`DecoratedKey`]s do.
    #[inline]
    pub fn compare(&self, other: DecoratedKeyRef<'_>) -> Ordering {
        self.token.cmp(&other.token).then_with(|| self.key.cmp(other.key))
    }
}

impl DecoratedKey {
    /// Borrows the key.
    #[inline]
    pub fn borrowed(&self) -> DecoratedKeyRef<'_> {
        DecoratedKeyRef { token: self.token, key: &self.key }
    }
}

impl PartialOrd for DecoratedKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for DecoratedKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.borrowed().compare(other.borrowed())
    }
}

/// One end of a range of partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyBound {
    /// No bound on this side.
    Unbounded,
    /// Just before all keys of the token.
    BeforeToken(Token),
    /// Just after all keys of the token.
    AfterToken(Token),
    /// Just before the key.
    BeforeKey(DecoratedKey),
    /// Just after the key.
    AfterKey(DecoratedKey),
}

impl KeyBound {
    /// Returns whether this bound lies before `key`. `Unbounded` is taken as a left bound, which
    /// lies before every key.
    pub fn is_before(&self, key: &DecoratedKey) -> bool {
        match self {
            Self::Unbounded => true,
            Self::BeforeToken(token) => *token <= key.token,
            Self::AfterToken(token) => *token < key.token,
            Self::BeforeKey(bound) => bound <= key,
            Self::AfterKey(bound) => bound < key,
        }
    }

    /// Returns the token of the bound, if it has one.
    pub fn token(&self) -> Option<Token> {
        match self {
            Self::Unbounded => None,
            Self::BeforeToken(token) | Self::AfterToken(token) => Some(*token),
            Self::BeforeKey(key) | Self::AfterKey(key) => Some(key.token),
        }
    }
}

/// A contiguous range of partitions in ring order. It never wraps around.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// Left end.
    pub start: KeyBound,
    /// Right end.
    pub end: KeyBound,
}

impl KeyRange {
    /// Makes the range of every partition.
    pub fn full() -> Self {
        Self { start: KeyBound::Unbounded, end: KeyBound::Unbounded }
    }

    /// Makes the range of one partition.
    pub fn single(key: DecoratedKey) -> Self {
        Self { start: KeyBound::BeforeKey(key.clone()), end: KeyBound::AfterKey(key) }
    }

    /// Returns whether `key` lies behind the start.
    pub fn starts_before(&self, key: &DecoratedKey) -> bool {
        self.start.is_before(key)
    }

    /// Returns whether `key` lies beyond the end.
    pub fn ends_before(&self, key: &DecoratedKey) -> bool {
        !matches!(self.end, KeyBound::Unbounded) && self.end.is_before(key)
    }

    /// Returns whether `key` lies inside.
    pub fn contains(&self, key: &DecoratedKey) -> bool {
        self.starts_before(key) && !self.ends_before(key)
    }
}

/// The reason why a composite key is malformed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CompositeError {
    /// The bytes end inside component `component`.
    #[error("composite partition key ends inside component {component} of {expected}")]
    Truncated {
        /// The zero-based index of the component.
        component: usize,
        /// The number of components that the schema has.
        expected: usize,
    },
    /// Bytes follow the last component.
    #[error("composite partition key has {count} bytes after its last component")]
    Trailing {
        /// The number of bytes.
        count: usize,
    },
}

/// Serialises a partition key of several columns: for each component be16 length, bytes, 00.
///
/// A component over 65,535 bytes cannot be written; the caller checks that first.
pub fn build_composite<V: AsRef<[u8]>>(components: &[V]) -> Bytes {
    let mut key = BytesMut::with_capacity(components.iter().map(|c| c.as_ref().len() + 3).sum());
    components.iter().for_each(|component| put_composite_component(component.as_ref(), &mut key));
    key.freeze()
}

/// Appends the next component of a partition key of several columns; see [`build_composite`].
#[inline]
pub fn put_composite_component(component: &[u8], key: &mut impl BufMut) {
    debug_assert!(component.len() <= u16::MAX as usize);
    key.put_u16(component.len() as u16);
    key.put_slice(component);
    key.put_u8(0);
}

/// Splits a composite partition key of `count` components. The components share the key's memory.
///
/// # Errors
///
/// Returns an error if the bytes end inside a component or continue after the last one.
pub fn split_composite(key: &Bytes, count: usize) -> Result<Vec<Bytes>, CompositeError> {
    let mut components = Vec::with_capacity(count);
    let mut offset = 0;
    for component in 0..count {
        let truncated = CompositeError::Truncated { component, expected: count };
        let Some(&[high, low]) = key.get(offset..offset + 2) else { return Err(truncated) };
        let length = usize::from(u16::from_be_bytes([high, low]));
        let start = offset + 2;
        if start + length >= key.len() {
            return Err(truncated);
        }
        components.push(key.slice(start..start + length));
        offset = start + length + 1;
    }
    match key.len() - offset {
        0 => Ok(components),
        count => Err(CompositeError::Trailing { count }),
    }
}
