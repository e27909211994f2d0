//! Reads rows out of consecutive bytes in memory. Values are ranges of the bytes.
//!
//! The bytes may end inside a row, because the next chunk is not loaded yet: [`Malformed::Ended`]
//! distinguishes that from malformed bytes.

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
    /// Returns the reason as text, for a reader that had all bytes.
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

/// A range of bytes: the offset of its first byte and the offset after its last.
pub type Span = (usize, usize);

/// A reading position in `bytes`.
#[derive(Clone, Debug)]
pub struct DataInput<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> DataInput<'a> {
    /// Starts at `offset`, which may lie after the bytes.
    #[inline]
    pub fn new(bytes: &'a [u8], offset: usize) -> Self {
        Self { bytes, offset }
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
        let first = *self.bytes.get(self.offset).ok_or(Malformed::Ended)?;
        if first < 0x80 {
            self.offset += 1;
            return Ok(u64::from(first));
        }
        // If eight more bytes exist, this reads all further bytes of the number at once.
        match self.bytes.get(self.offset + 1..).and_then(|rest| rest.first_chunk::<8>()) {
            Some(rest) => {
                let extra = first.leading_ones();
                let low = u64::from_be_bytes(*rest) >> (64 - 8 * extra);
                let high = match extra {
                    7 | 8 => 0,
                    _ => u64::from(first & (0x7F >> extra)) << (8 * extra),
                };
                self.offset += 1 + extra as usize;
                Ok(high | low)
            }
            None => self.last_vint(),
        }
    }

    #[cold]
    fn last_vint(&mut self) -> Decoded<u64> {
        let mut rest = self.rest();
        let before = rest.len();
        let value = vint::read_unsigned(&mut rest).map_err(|_| Malformed::Ended)?;
        self.offset += before - rest.len();
        Ok(value)
    }

    /// Reads an unsigned vint. If `is_exact`, refuses a vint that is longer than a writer makes it.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end before, or if the number is refused.
    #[inline(always)]
    pub fn number(&mut self, is_exact: bool) -> Decoded<u64> {
        let start = self.offset;
        let value = self.vint()?;
        let length = self.offset - start;
        // A vint of one byte less holds seven bits for each of its bytes.
        if is_exact && length > 1 && value >> (7 * (length - 1)) == 0 {
            return Err(Malformed::Wrong("a number that is longer than it must be"));
        }
        Ok(value)
    }

    /// Steps over the next `length` bytes and returns their range.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end before.
    #[inline]
    pub fn span(&mut self, length: usize) -> Decoded<Span> {
        let start = self.offset;
        let end = start.checked_add(length).ok_or(Malformed::Ended)?;
        if end > self.bytes.len() {
            return Err(Malformed::Ended);
        }
        self.offset = end;
        Ok((start, end))
    }

    /// Reads the length of the value that follows. If `is_exact`, refuses a length that is longer
    /// than a writer makes it.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end before, if the length is refused, or if the value is longer than
    /// [`MAX_VALUE_LENGTH`].
    #[inline(always)]
    pub fn value_length(&mut self, is_exact: bool) -> Decoded<usize> {
        match self.number(is_exact)? {
            length if length <= MAX_VALUE_LENGTH => Ok(length as usize),
            _ => Err(Malformed::Wrong("a value is longer than 256 MiB")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_those_of_the_format() {
        for bits in 0..64 {
            for value in [1u64 << bits, (1 << bits) - 1, u64::MAX >> bits] {
                for behind in [0, 1, 8, 20] {
                    let mut bytes = vec![7];
                    vint::write_unsigned(value, &mut bytes);
                    let length = bytes.len();
                    bytes.resize(length + behind, 0xA5);
                    let mut input = DataInput::new(&bytes, 1);
                    assert_eq!(input.number(true), Ok(value));
                    assert_eq!(input.offset(), length);
                    let mut cut = DataInput::new(&bytes[..length - 1], 1);
                    assert_eq!(cut.vint(), Err(Malformed::Ended));
                }
            }
        }
        let long = [0x80, 5, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(DataInput::new(&long, 0).vint(), Ok(5));
        assert!(matches!(DataInput::new(&long, 0).number(true), Err(Malformed::Wrong(_))));
        assert_eq!(DataInput::new(&long, 11).vint(), Err(Malformed::Ended));
    }

    #[test]
    fn integers_for_which_one_byte_less_would_do_are_refused() {
        for extra in 1..=8 {
            let value = (1u64 << (7 * extra)) - 1;
            let mut bytes = vec![!0xFF_u8.unbounded_shr(extra)];
            bytes.extend_from_slice(&value.to_be_bytes()[8 - extra as usize..]);
            bytes.resize(20, 0xA5);
            assert_eq!(DataInput::new(&bytes, 0).number(false), Ok(value));
            let refused = DataInput::new(&bytes, 0).number(true);
            assert!(matches!(refused, Err(Malformed::Wrong(_))), "{extra}");
        }
    }
}
