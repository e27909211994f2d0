//! Reads the notations of the specification ([int], [string], [bytes], ...) from a body.
//!
//! All results borrow from the body, every length is checked against the remaining bytes, and every
//! error names the field.

use super::error::DecodeError;

/// A position in the body of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyReader<'a> {
    body: &'a [u8],
    rest: &'a [u8],
}

type Result<T> = std::result::Result<T, DecodeError>;

impl<'a> BodyReader<'a> {
    pub fn new(body: &'a [u8]) -> Self {
        Self { body, rest: body }
    }

    /// Returns the number of bytes read so far.
    pub fn offset(&self) -> usize {
        self.body.len() - self.rest.len()
    }

    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    fn take(&mut self, field: &'static str, length: usize) -> Result<&'a [u8]> {
        match self.rest.split_at_checked(length) {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(head)
            }
            None => Err(self.truncated(field, length)),
        }
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N]> {
        match self.rest.split_first_chunk::<N>() {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(*head)
            }
            None => Err(self.truncated(field, N)),
        }
    }

    #[cold]
    fn truncated(&self, field: &'static str, needed: usize) -> DecodeError {
        DecodeError::Truncated { field, needed, remaining: self.rest.len() }
    }

    pub fn byte(&mut self, field: &'static str) -> Result<u8> {
        self.array::<1>(field).map(|[byte]| byte)
    }

    pub fn short(&mut self, field: &'static str) -> Result<u16> {
        self.array(field).map(u16::from_be_bytes)
    }

    pub fn int(&mut self, field: &'static str) -> Result<i32> {
        self.array(field).map(i32::from_be_bytes)
    }

    pub fn long(&mut self, field: &'static str) -> Result<i64> {
        self.array(field).map(i64::from_be_bytes)
    }

    /// Reads a [string]: a short of length, then UTF-8.
    pub fn string(&mut self, field: &'static str) -> Result<&'a str> {
        let bytes = self.short_bytes(field)?;
        std::str::from_utf8(bytes).map_err(|_| DecodeError::NotUtf8 { field })
    }

    /// Reads a [long string]: an int of length, then UTF-8.
    pub fn long_string(&mut self, field: &'static str) -> Result<&'a str> {
        let length = self.int(field)?;
        let length =
            usize::try_from(length).map_err(|_| DecodeError::NegativeLength { field, length })?;
        let bytes = self.take(field, length)?;
        std::str::from_utf8(bytes).map_err(|_| DecodeError::NotUtf8 { field })
    }

    /// Reads [bytes]: an int of length, negative for null.
    pub fn bytes(&mut self, field: &'static str) -> Result<Option<&'a [u8]>> {
        match usize::try_from(self.int(field)?) {
            Ok(length) => self.take(field, length).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Reads [short bytes]: a short of length.
    pub fn short_bytes(&mut self, field: &'static str) -> Result<&'a [u8]> {
        let length = self.short(field)?;
        self.take(field, length as usize)
    }

    /// Reads the length of a [value], -1 for null, -2 for unset, and skips its bytes.
    pub fn value_length(&mut self, field: &'static str) -> Result<i32> {
        let length = self.int(field)?;
        match length {
            0.. => self.take(field, length as usize).map(|_| length),
            -1 | -2 => Ok(length),
            _ => Err(DecodeError::NegativeLength { field, length }),
        }
    }

    /// Reads a [short] that counts items of at least `min_item_length` bytes each. A body that
    /// cannot hold them is refused.
    pub fn count(&mut self, field: &'static str, min_item_length: usize) -> Result<usize> {
        let count = self.short(field)? as usize;
        match count * min_item_length {
            needed if needed > self.remaining() => Err(self.truncated(field, needed)),
            _ => Ok(count),
        }
    }
}
