//! A reading position in borrowed bytes, for loops over many rows.
//!
//! Unlike [`DataInput`](super::input::DataInput) it makes no shared slices and gives no reasons:
//! every fault is `None`.

use espalier_types::vint;

#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    pub(crate) at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Option<u16> {
        let (start, end) = self.span(2)?;
        let pair = self.bytes.get(start..end)?.first_chunk()?;
        Some(u16::from_be_bytes(*pair))
    }

    /// Steps over `length` bytes and returns their range.
    #[inline]
    pub(crate) fn span(&mut self, length: usize) -> Option<(usize, usize)> {
        let start = self.at;
        let end = start.checked_add(length)?;
        if end > self.bytes.len() {
            return None;
        }
        self.at = end;
        Some((start, end))
    }

    #[inline]
    pub(crate) fn vint(&mut self) -> Option<u64> {
        let first = *self.bytes.get(self.at)?;
        if first < 0x80 {
            self.at += 1;
            return Some(u64::from(first));
        }
        // If eight more bytes exist, this reads all further bytes of the number at once.
        match self.bytes.get(self.at + 1..).and_then(|rest| rest.first_chunk::<8>()) {
            Some(rest) => {
                let extra = first.leading_ones();
                let low = u64::from_be_bytes(*rest) >> (64 - 8 * extra);
                let high = match extra {
                    7 | 8 => 0,
                    _ => u64::from(first & (0x7F >> extra)) << (8 * extra),
                };
                self.at += 1 + extra as usize;
                Some(high | low)
            }
            None => self.last_vint(),
        }
    }

    #[cold]
    fn last_vint(&mut self) -> Option<u64> {
        let mut rest = self.bytes.get(self.at..)?;
        let before = rest.len();
        let value = vint::read_unsigned(&mut rest).ok()?;
        self.at += before - rest.len();
        Some(value)
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
                    let mut cursor = Cursor::new(&bytes, 1);
                    assert_eq!(cursor.vint(), Some(value));
                    assert_eq!(cursor.at, length);
                    assert_eq!(Cursor::new(&bytes[..length - 1], 1).vint(), None);
                }
            }
        }
    }
}
