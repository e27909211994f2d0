//! Reads rows out of consecutive bytes in memory. Values are slices of the bytes, not copies.
//!
//! The bytes may end inside a row, because the next chunk is not loaded yet: [`Malformed::Ended`]
//! distinguishes that from malformed bytes.

use bytes::Bytes;
use espalier_types::vint;

/// The reason why a read failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// More bytes are needed than there are.
    Ended,
    /// The bytes do not follow the format.
    Wrong(&'static str),
}

impl Malformed {
    /// The reason as text, if all bytes were available.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Ended => "it ends too early",
            Self::Wrong(reason) => reason,
        }
    }
}

/// The outcome of a read.
pub type Decoded<T> = std::result::Result<T, Malformed>;

/// The longest value, path or key of a cell, in bytes. Cassandra refuses to write longer ones, too.
pub const MAX_VALUE_LENGTH: u64 = 256 * 1024 * 1024;

/// The longest row, in bytes. A row is read into memory whole, and Cassandra could not hold a
/// longer one in an array.
pub const MAX_ROW_LENGTH: u64 = i32::MAX as u64;

/// The longest row that is written, in bytes. Two numbers of a row, of up to 9 bytes each, may be
/// longer in a copy of the row in another file. The limit leaves room for them, so that no copy is
/// longer than [`MAX_ROW_LENGTH`].
pub const MAX_WRITTEN_ROW_LENGTH: u64 = MAX_ROW_LENGTH - 2 * 9;

/// A reading position in `bytes`.
#[derive(Clone, Debug)]
pub struct DataInput<'a> {
    bytes: &'a Bytes,
    offset: usize,
}

impl<'a> DataInput<'a> {
    /// Starts at `offset`.
    #[inline]
    pub fn new(bytes: &'a Bytes, offset: usize) -> Self {
        Self { bytes, offset: offset.min(bytes.len()) }
    }

    /// Returns the bytes, from their start.
    #[inline]
    pub fn bytes(&self) -> &'a Bytes {
        self.bytes
    }

    /// Returns the offset of the next byte.
    #[inline]
    pub fn offset(&self) -> usize {
        self.offset
    }

    #[inline]
    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.offset..).unwrap_or_default()
    }

    /// Reads a byte.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end before.
    #[inline]
    pub fn u8(&mut self) -> Decoded<u8> {
        let byte = *self.bytes.get(self.offset).ok_or(Malformed::Ended)?;
        self.offset += 1;
        Ok(byte)
    }

    /// Reads `N` bytes.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end before.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        let array = *self.rest().first_chunk().ok_or(Malformed::Ended)?;
        self.offset += N;
        Ok(array)
    }

    /// Reads a be16.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end before.
    #[inline]
    pub fn u16(&mut self) -> Decoded<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// Reads a be32.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end before.
    pub fn u32(&mut self) -> Decoded<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads a be64.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end before.
    pub fn i64(&mut self) -> Decoded<i64> {
        self.array().map(i64::from_be_bytes)
    }

    /// Reads an unsigned vint.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end before.
    #[inline]
    pub fn vint(&mut self) -> Decoded<u64> {
        let mut rest = self.rest();
        let before = rest.len();
        let value = vint::read_unsigned(&mut rest).map_err(|_| Malformed::Ended)?;
        self.offset += before - rest.len();
        Ok(value)
    }

    /// Steps over the next `length` bytes and returns their range.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end before.
    #[inline]
    pub fn span(&mut self, length: usize) -> Decoded<(usize, usize)> {
        let start = self.offset;
        let end = start.checked_add(length).ok_or(Malformed::Ended)?;
        if end > self.bytes.len() {
            return Err(Malformed::Ended);
        }
        self.offset = end;
        Ok((start, end))
    }

    /// Takes the next `length` bytes, sharing the memory.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end before.
    #[inline]
    pub fn take(&mut self, length: usize) -> Decoded<Bytes> {
        let (start, end) = self.span(length)?;
        Ok(self.bytes.slice(start..end))
    }

    /// Reads the length of the value that follows.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end before, or if the value is longer than [`MAX_VALUE_LENGTH`].
    #[inline]
    pub fn value_length(&mut self) -> Decoded<usize> {
        match self.vint()? {
            length if length <= MAX_VALUE_LENGTH => Ok(length as usize),
            _ => Err(Malformed::Wrong("a value is longer than 256 MiB")),
        }
    }
}
