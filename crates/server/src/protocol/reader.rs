//! Reads the notations of the specification ([int], [string], [bytes], ...) from a body.
//!
//! All results borrow from the body, every length is checked against the remaining bytes, and every
//! error names the field.

use super::error::DecodeError;

/// A position in the body of a request. A method that reads a field fails with
/// [`DecodeError::Truncated`] if the body ends before the field does.
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

    /// Reads a [byte].
    ///
    /// # Errors
    ///
    /// See [`BodyReader`].
    pub fn byte(&mut self, field: &'static str) -> Result<u8> {
        self.array::<1>(field).map(|[byte]| byte)
    }

    /// Reads a [short].
    ///
    /// # Errors
    ///
    /// See [`BodyReader`].
    pub fn short(&mut self, field: &'static str) -> Result<u16> {
        self.array(field).map(u16::from_be_bytes)
    }

    /// Reads an [int].
    ///
    /// # Errors
    ///
    /// See [`BodyReader`].
    pub fn int(&mut self, field: &'static str) -> Result<i32> {
        self.array(field).map(i32::from_be_bytes)
    }

    /// Reads a [long].
    ///
    /// # Errors
    ///
    /// See [`BodyReader`].
    pub fn long(&mut self, field: &'static str) -> Result<i64> {
        self.array(field).map(i64::from_be_bytes)
    }

    /// Reads a [string]: its length as a [short], then UTF-8.
    ///
    /// # Errors
    ///
    /// See [`BodyReader`]; also fails for bytes that are not UTF-8.
    pub fn string(&mut self, field: &'static str) -> Result<&'a str> {
        let bytes = self.short_bytes(field)?;
        std::str::from_utf8(bytes).map_err(|_| DecodeError::NotUtf8 { field })
    }

    /// Reads a [long string]: its length as an [int], then UTF-8.
    ///
    /// # Errors
    ///
    /// See [`BodyReader`]; also fails for a negative length and for bytes that are not UTF-8.
    pub fn long_string(&mut self, field: &'static str) -> Result<&'a str> {
        let length = self.int(field)?;
        let length =
            usize::try_from(length).map_err(|_| DecodeError::NegativeLength { field, length })?;
        let bytes = self.take(field, length)?;
        std::str::from_utf8(bytes).map_err(|_| DecodeError::NotUtf8 { field })
    }

    /// Reads [bytes]: their length as an [int], then the bytes. Returns `None` for a negative
    /// length, which means null.
    ///
    /// # Errors
    ///
    /// See [`BodyReader`].
    pub fn bytes(&mut self, field: &'static str) -> Result<Option<&'a [u8]>> {
        match usize::try_from(self.int(field)?) {
            Ok(length) => self.take(field, length).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Reads [short bytes]: their length as a [short], then the bytes.
    ///
    /// # Errors
    ///
    /// See [`BodyReader`].
    pub fn short_bytes(&mut self, field: &'static str) -> Result<&'a [u8]> {
        let length = self.short(field)?;
        self.take(field, length as usize)
    }

    /// Reads the length of a [value] and skips its bytes. The length is -1 for null and -2 for
    /// unset.
    ///
    /// # Errors
    ///
    /// See [`BodyReader`]; also fails for a length below -2.
    pub fn value_length(&mut self, field: &'static str) -> Result<i32> {
        let length = self.int(field)?;
        match length {
            0.. => self.take(field, length as usize).map(|_| length),
            -1 | -2 => Ok(length),
            _ => Err(DecodeError::NegativeLength { field, length }),
        }
    }

    /// Reads a [short] that counts items of at least `min_item_length` bytes each.
    ///
    /// # Errors
    ///
    /// See [`BodyReader`]; also fails if the rest of the body cannot hold the items.
    pub fn count(&mut self, field: &'static str, min_item_length: usize) -> Result<usize> {
        let count = self.short(field)? as usize;
        match count * min_item_length {
            needed if needed > self.remaining() => Err(self.truncated(field, needed)),
            _ => Ok(count),
        }
    }
}
