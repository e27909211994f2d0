//! Writes and reads the parts of the commit log's record bodies. Memtables store clustering values,
//! and the numbers, bytes and deletions of packed rows, in the same form.
//!
//! A number is a vint of 7 bits a byte, the lowest first. The reader checks every length against
//! the remaining bytes before it uses it.

use bytes::Bytes;

use crate::{BoundKind, Clustering, ClusteringBound, DeletionTime};

/// Error: the body of a record is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed record: {what} at byte {offset} of {length} bytes")]
pub struct BodyError {
    /// Describes the fault.
    pub what: &'static str,
    /// Offset in bytes where reading stopped.
    pub offset: usize,
    /// Length of the record's body in bytes.
    pub length: usize,
}

/// Appends a number.
#[inline]
pub fn put_vint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the length of `bytes` and the bytes.
#[inline]
pub fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_vint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Appends the values of a clustering or of a bound. A value's length is stored plus one; 0 means
/// null.
pub fn put_values<V: AsRef<[u8]>>(values: &[Option<V>], out: &mut Vec<u8>) {
    put_vint(values.len() as u64, out);
    for value in values {
        match value {
            None => out.push(0),
            Some(value) => {
                let value = value.as_ref();
                put_vint(value.len() as u64 + 1, out);
                out.extend_from_slice(value);
            }
        }
    }
}

/// Appends a deletion: timestamp i64, local deletion time u32, little-endian.
#[inline]
pub fn put_deletion(deletion: DeletionTime, out: &mut Vec<u8>) {
    out.extend_from_slice(&deletion.marked_for_delete_at.to_le_bytes());
    out.extend_from_slice(&deletion.local_deletion_time.to_le_bytes());
}

/// Appends a bound: its kind u8 and its values.
#[inline]
pub fn put_bound(bound: &ClusteringBound, out: &mut Vec<u8>) {
    out.push(bound.kind as u8);
    put_values(&bound.values, out);
}

/// Reads a body from its start. Returned bytes share the body's memory.
pub struct BodyReader {
    body: Bytes,
    offset: usize,
}

impl BodyReader {
    /// Starts at the first byte of `body`.
    #[inline]
    pub fn new(body: Bytes) -> Self {
        Self { body, offset: 0 }
    }

    /// Returns the error that names the present offset.
    pub fn error(&self, what: &'static str) -> BodyError {
        BodyError { what, offset: self.offset, length: self.body.len() }
    }

    /// Returns whether all bytes were read.
    #[inline]
    pub fn is_at_end(&self) -> bool {
        self.offset == self.body.len()
    }

    /// Returns the number of bytes that were not read yet.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.body.len() - self.offset
    }

    /// Returns the next `count` bytes.
    ///
    /// # Errors
    ///
    /// Fails if fewer bytes remain.
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<Bytes, BodyError> {
        if count > self.remaining() {
            return Err(self.error("a length beyond the end"));
        }
        let taken = self.body.slice(self.offset..self.offset + count);
        self.offset += count;
        Ok(taken)
    }

    /// Reads `N` bytes.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end before.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], BodyError> {
        let rest = self.body.get(self.offset..).unwrap_or_default();
        let Some(array) = rest.first_chunk::<N>() else {
            return Err(self.error("an end too early"));
        };
        self.offset += N;
        Ok(*array)
    }

    /// Reads a byte.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end before.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, BodyError> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Reads a little-endian u32.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end before.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, BodyError> {
        self.array().map(u32::from_le_bytes)
    }

    /// Reads a number.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end before, or the number has more than ten bytes.
    #[inline]
    pub fn vint(&mut self) -> Result<u64, BodyError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.error("an endless number"))
    }

    /// Reads a number of up to 32 bits.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end before, or the number is larger or has more than ten bytes.
    #[inline]
    pub fn vint_u32(&mut self) -> Result<u32, BodyError> {
        u32::try_from(self.vint()?).map_err(|_| self.error("a number over 32 bits"))
    }

    /// Reads a count of items that take at least one byte each. The check against the remaining
    /// bytes bounds the memory that the caller reserves.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end before, or the count is malformed or larger than the number of
    /// remaining bytes.
    #[inline]
    pub fn count(&mut self) -> Result<usize, BodyError> {
        match usize::try_from(self.vint()?) {
            Ok(count) if count <= self.remaining() => Ok(count),
            _ => Err(self.error("a count beyond the end")),
        }
    }

    /// Reads a length and that many bytes.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end before, or the length is malformed.
    #[inline]
    pub fn bytes(&mut self) -> Result<Bytes, BodyError> {
        let length = self.count()?;
        self.take(length)
    }

    /// Reads a length and that many bytes of text.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end before, the length is malformed, or the text is not UTF-8.
    pub fn text(&mut self) -> Result<String, BodyError> {
        let bytes = self.bytes()?;
        match std::str::from_utf8(&bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(self.error("a name that is not UTF-8")),
        }
    }

    /// Reads a deletion.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end before.
    pub fn deletion(&mut self) -> Result<DeletionTime, BodyError> {
        let timestamp = i64::from_le_bytes(self.array()?);
        Ok(DeletionTime::new(timestamp, self.u32()?))
    }

    /// Reads the values of a clustering or of a bound.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end before, or a number is malformed.
    pub fn values(&mut self) -> Result<Box<[Option<Bytes>]>, BodyError> {
        let count = self.count()?;
        (0..count)
            .map(|_| match self.vint()? {
                0 => Ok(None),
                more => {
                    let length = usize::try_from(more - 1).unwrap_or(usize::MAX);
                    self.take(length).map(Some)
                }
            })
            .collect()
    }

    /// Reads a clustering.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end before, or a number is malformed.
    pub fn clustering(&mut self) -> Result<Clustering, BodyError> {
        Ok(Clustering { values: self.values()? })
    }

    /// Reads a bound.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end before, a number is malformed, or the kind is unknown.
    pub fn bound(&mut self) -> Result<ClusteringBound, BodyError> {
        let number = self.byte()?;
        let kind =
            BoundKind::from_number(number).ok_or_else(|| self.error("an unknown kind of bound"))?;
        Ok(ClusteringBound { kind, values: self.values()? })
    }
}
