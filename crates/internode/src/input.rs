//! Reads the parts of a message that are not rows.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use espalier_mutation::{Token, encoding::input::DataInput};
use uuid::Uuid;

use crate::error::{DecodeError, Result};

/// A reading position. Values that it returns share the memory of the message.
#[derive(Clone, Debug)]
pub(crate) struct Input<'a> {
    /// The position, for the parts that rows of SSTables have too.
    pub(crate) data: DataInput<'a>,
    /// The message.
    pub(crate) bytes: &'a Bytes,
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a Bytes) -> Self {
        Self { data: DataInput::new(bytes, 0), bytes }
    }

    /// Reads something that takes all of `bytes`.
    pub(crate) fn whole<T>(
        bytes: &'a Bytes,
        read: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let mut input = Self::new(bytes);
        let value = read(&mut input)?;
        input.end()?;
        Ok(value)
    }

    /// Reads the items of a list. The list grows as items are read, so that a length alone
    /// allocates no memory.
    pub(crate) fn list<T>(
        &mut self,
        length: u32,
        mut read: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut items = Vec::new();
        for _ in 0..length {
            items.push(read(self)?);
        }
        Ok(items)
    }

    pub(crate) fn offset(&self) -> usize {
        self.data.offset()
    }

    /// Returns the number of bytes that are left.
    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.data.offset()
    }

    /// Checks that no bytes are left.
    pub(crate) fn end(&self) -> Result<()> {
        match self.remaining() {
            0 => Ok(()),
            more => Err(DecodeError::Trailing(more)),
        }
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.data.u8()?)
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        Ok(self.data.u16()?)
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(self.data.u32()?)
    }

    pub(crate) fn i32(&mut self) -> Result<i32> {
        Ok(self.data.u32()? as i32)
    }

    pub(crate) fn i64(&mut self) -> Result<i64> {
        Ok(self.data.i64()?)
    }

    pub(crate) fn vint(&mut self) -> Result<u64> {
        Ok(self.data.vint()?)
    }

    /// Reads a vint that is a count, a length or a limit: from 0 to 2³¹ − 1.
    pub(crate) fn count(&mut self) -> Result<u32> {
        match self.vint()? {
            count if count <= i32::MAX as u64 => Ok(count as u32),
            _ => Err(DecodeError::Malformed("a number exceeds 31 bits")),
        }
    }

    /// Reads a byte that is a boolean, and refuses other bytes than 0 and 1, because Java writes
    /// only these.
    pub(crate) fn boolean(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::Malformed("a boolean that is neither 0 nor 1")),
        }
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<Bytes> {
        let (start, end) = self.data.span(length)?;
        Ok(self.bytes.slice(start..end))
    }

    /// Reads bytes after their vint length.
    pub(crate) fn vint_bytes(&mut self) -> Result<Bytes> {
        let length = self.count()?;
        self.take(length as usize)
    }

    /// Reads bytes after their be16 length.
    pub(crate) fn short_bytes(&mut self) -> Result<Bytes> {
        let length = self.u16()?;
        self.take(length.into())
    }

    pub(crate) fn uuid(&mut self) -> Result<Uuid> {
        Ok(Uuid::from_bytes(self.data.array()?))
    }

    /// Reads a token after its be32 length.
    pub(crate) fn token(&mut self) -> Result<Token> {
        match self.u32()? {
            8 => Ok(Token(self.i64()?)),
            _ => Err(DecodeError::Malformed("a token is not that of Murmur3Partitioner")),
        }
    }

    /// Reads an address with its port.
    pub(crate) fn address(&mut self) -> Result<SocketAddr> {
        let ip = match self.u8()? {
            6 => IpAddr::from(self.data.array::<4>()?),
            18 => IpAddr::from(self.data.array::<16>()?),
            _ => return Err(DecodeError::Malformed("an address of unknown length")),
        };
        Ok(SocketAddr::new(ip, self.u16()?))
    }

    /// Reads a string in Java's modified UTF-8, after its be16 length in bytes: the NUL character
    /// takes two bytes, and a character beyond 16 bits is a pair of surrogates of three bytes each.
    pub(crate) fn utf(&mut self) -> Result<String> {
        const WRONG: DecodeError = DecodeError::Malformed("a string is not modified UTF-8");
        let bytes = self.short_bytes()?;
        if bytes.is_ascii() {
            return Ok(bytes.iter().map(|&byte| char::from(byte)).collect());
        }
        let mut units = Vec::with_capacity(bytes.len());
        let mut rest = &bytes[..];
        let tail = |byte: u8| (byte & 0xC0 == 0x80).then_some(u16::from(byte & 0x3F)).ok_or(WRONG);
        loop {
            rest = match *rest {
                [] => break,
                [a, ref rest @ ..] if a < 0x80 => {
                    units.push(a.into());
                    rest
                }
                [a, b, ref rest @ ..] if a & 0xE0 == 0xC0 => {
                    units.push(u16::from(a & 0x1F) << 6 | tail(b)?);
                    rest
                }
                [a, b, c, ref rest @ ..] if a & 0xF0 == 0xE0 => {
                    units.push(u16::from(a & 0x0F) << 12 | tail(b)? << 6 | tail(c)?);
                    rest
                }
                _ => return Err(WRONG),
            };
        }
        String::from_utf16(&units).map_err(|_| WRONG)
    }
}
