//! Reads a small file, or a part of one, with bounds checks. The bytes are in memory.
//!
//! Every length is compared with the bytes that are left before memory of that size is allocated.
//! Errors name the file and the offset.

use espalier_types::vint;

use crate::error::{FileName, Result, SSTableError};

/// A reading position in bytes that begin at `base` of a file.
#[derive(Clone, Debug)]
pub(crate) struct Input<'a> {
    file: &'a FileName,
    bytes: &'a [u8],
    offset: usize,
    base: u64,
}

impl<'a> Input<'a> {
    pub(crate) fn new(file: &'a FileName, bytes: &'a [u8], base: u64) -> Self {
        Self { file, bytes, offset: 0, base }
    }

    /// Returns the offset of the next byte in the file.
    pub(crate) fn position(&self) -> u64 {
        self.base + self.offset as u64
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.offset
    }

    pub(crate) fn corrupt(&self, reason: impl Into<String>) -> SSTableError {
        SSTableError::corrupt(self.file, self.position(), reason)
    }

    pub(crate) fn take(&mut self, length: usize, what: &str) -> Result<&'a [u8]> {
        let rest = self.bytes.get(self.offset..).unwrap_or_default();
        let taken = rest.get(..length).ok_or_else(|| {
            self.corrupt(format!("{what} needs {length} bytes, {} are left", rest.len()))
        })?;
        self.offset += length;
        Ok(taken)
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        let rest = self.bytes.get(self.offset..).unwrap_or_default();
        self.offset = self.bytes.len();
        rest
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, what)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self, what: &str) -> Result<u8> {
        Ok(self.array::<1>(what)?[0])
    }

    /// Reads a byte that must be 0 or 1.
    pub(crate) fn flag(&mut self, what: &str) -> Result<bool> {
        match self.u8(what)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(self.corrupt(format!("{what} must be 0 or 1, not {other}"))),
        }
    }

    pub(crate) fn u16(&mut self, what: &str) -> Result<u16> {
        Ok(u16::from_be_bytes(self.array(what)?))
    }

    pub(crate) fn u32(&mut self, what: &str) -> Result<u32> {
        Ok(u32::from_be_bytes(self.array(what)?))
    }

    pub(crate) fn i32(&mut self, what: &str) -> Result<i32> {
        Ok(i32::from_be_bytes(self.array(what)?))
    }

    pub(crate) fn u64(&mut self, what: &str) -> Result<u64> {
        Ok(u64::from_be_bytes(self.array(what)?))
    }

    pub(crate) fn i64(&mut self, what: &str) -> Result<i64> {
        Ok(i64::from_be_bytes(self.array(what)?))
    }

    pub(crate) fn f64(&mut self, what: &str) -> Result<f64> {
        Ok(f64::from_be_bytes(self.array(what)?))
    }

    pub(crate) fn bytes16(&mut self, what: &str) -> Result<[u8; 16]> {
        self.array(what)
    }

    pub(crate) fn vint(&mut self, what: &str) -> Result<u64> {
        let mut rest = self.bytes.get(self.offset..).unwrap_or_default();
        let value = vint::read_unsigned(&mut rest)
            .map_err(|error| self.corrupt(format!("{what}: {error}")))?;
        self.offset = self.bytes.len() - rest.len();
        Ok(value)
    }

    /// Checks a count of items that take at least `least` bytes each: the rest must have room for
    /// them.
    pub(crate) fn checked_count(&self, count: u64, least: usize, what: &str) -> Result<usize> {
        let most = self.remaining() / least.max(1);
        match usize::try_from(count) {
            Ok(count) if count <= most => Ok(count),
            _ => {
                Err(self.corrupt(format!("{count} {what} cannot be in {} bytes", self.remaining())))
            }
        }
    }

    /// Reads bytes after a vint length.
    pub(crate) fn vint_bytes(&mut self, what: &str) -> Result<&'a [u8]> {
        let length = self.vint(what)?;
        let length = self.checked_count(length, 1, what)?;
        self.take(length, what)
    }

    /// Reads bytes after a be16 length.
    pub(crate) fn short_bytes(&mut self, what: &str) -> Result<&'a [u8]> {
        let length = self.u16(what)?;
        self.take(usize::from(length), what)
    }

    /// Reads UTF-8 after a be16 length.
    pub(crate) fn short_text(&mut self, what: &str) -> Result<&'a str> {
        let bytes = self.short_bytes(what)?;
        std::str::from_utf8(bytes).map_err(|_| self.corrupt(format!("{what} is not UTF-8")))
    }

    pub(crate) fn expect_end(&self, what: &str) -> Result<()> {
        match self.remaining() {
            0 => Ok(()),
            left => Err(self.corrupt(format!("{left} bytes behind the end of {what}"))),
        }
    }
}
