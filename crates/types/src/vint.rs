//! Reads and writes the variable-length integers of SSTables and of the native protocol.
//!
//! The number of leading one bits of the first byte is the number of further bytes; the value's
//! bits follow, big-endian. Integers are written in the shortest form and read in any form. Signed
//! integers are folded by zig-zag first.

use thiserror::Error;

/// The error for input that ends inside an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("variable-length integer needs {needed} bytes, only {available} are left")]
pub struct VintError {
    /// The number of bytes of the integer, including the first one.
    pub needed: usize,
    /// The number of bytes in the input.
    pub available: usize,
}

/// The greatest number of bytes of an integer.
pub const MAX_BYTES: usize = 9;

/// Returns the number of bytes that [`write_unsigned`] takes for `value`: 1 to 9.
#[inline]
pub fn unsigned_length(value: u64) -> usize {
    let magnitude = (value | 1).leading_zeros() as usize;
    9 - magnitude.saturating_sub(1) / 7
}

/// Returns the number of bytes that [`write_signed`] takes for `value`: 1 to 9.
#[inline]
pub fn signed_length(value: i64) -> usize {
    unsigned_length(fold(value))
}

/// Appends `value` in its shortest form.
#[inline]
pub fn write_unsigned(value: u64, out: &mut Vec<u8>) {
    if value < 0x80 {
        out.push(value as u8);
        return;
    }
    let (bytes, length) = encoded_unsigned(value);
    // Writing all nine bytes and cutting the surplus takes two stores; copying a variable length
    // would take a call.
    let end = out.len() + length;
    out.extend_from_slice(&bytes);
    out.truncate(end);
}

/// Returns a buffer and a length. The first `length` bytes of the buffer are `value` in its
/// shortest form; the other bytes have no meaning.
#[inline]
pub fn encoded_unsigned(value: u64) -> ([u8; MAX_BYTES], usize) {
    let length = unsigned_length(value);
    let mut bytes = [0xFF; MAX_BYTES];
    let (first, behind) = bytes.split_at_mut(1);
    if length == MAX_BYTES {
        behind.copy_from_slice(&value.to_be_bytes());
        return (bytes, length);
    }
    let extra = length - 1;
    let marked = value | length_bits(extra) << (8 * extra);
    let [lead, rest @ ..] = (marked << (64 - 8 * length)).to_be_bytes();
    first.fill(lead);
    behind.split_at_mut(rest.len()).0.copy_from_slice(&rest);
    (bytes, length)
}

/// Appends `value` as zig-zag.
#[inline]
pub fn write_signed(value: i64, out: &mut Vec<u8>) {
    write_unsigned(fold(value), out);
}

/// Reads an unsigned integer from the front of `input`, and advances `input`. An error leaves
/// `input` unchanged.
///
/// # Errors
///
/// Returns an error if `input` ends inside the integer.
#[inline]
pub fn read_unsigned(input: &mut &[u8]) -> Result<u64, VintError> {
    let Some((&first, rest)) = input.split_first() else {
        return Err(VintError { needed: 1, available: 0 });
    };
    if first < 0x80 {
        *input = rest;
        return Ok(u64::from(first));
    }
    let extra = first.leading_ones() as usize;
    // A shift by 8 or more would overflow. With 7 and 8 further bytes the first one holds no value
    // bits.
    let high = if extra >= 7 { 0 } else { u64::from(first & (0x7F >> extra)) };
    // Usually at least 8 bytes follow; reading them as one word avoids a loop.
    if let Some((word, behind)) = rest.first_chunk::<8>().zip(rest.get(extra..)) {
        *input = behind;
        let low = u64::from_be_bytes(*word) >> (64 - 8 * extra);
        return Ok(high.unbounded_shl(8 * extra as u32) | low);
    }
    let Some((body, rest)) = rest.split_at_checked(extra) else {
        return Err(VintError { needed: 1 + extra, available: input.len() });
    };
    *input = rest;
    Ok(body.iter().fold(high, |value, &byte| value << 8 | u64::from(byte)))
}

/// Reads a zig-zag integer from the front of `input`, and advances `input`. An error leaves `input`
/// unchanged.
///
/// # Errors
///
/// Returns an error if `input` ends inside the integer.
#[inline]
pub fn read_signed(input: &mut &[u8]) -> Result<i64, VintError> {
    read_unsigned(input).map(|folded| (folded >> 1) as i64 ^ -((folded & 1) as i64))
}

/// Folds by zig-zag: small magnitudes of either sign become small unsigned integers.
#[inline]
fn fold(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Returns the leading ones of the first byte for `extra` (0 to 7) further bytes.
#[inline]
fn length_bits(extra: usize) -> u64 {
    0xFF & !(0xFF >> extra)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_forms() {
        for (value, form) in [
            (0, &[0x00][..]),
            (127, &[0x7F]),
            (128, &[0x80, 0x80]),
            (16383, &[0xBF, 0xFF]),
            (16384, &[0xC0, 0x40, 0x00]),
            ((1 << 56) - 1, &[0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]),
            (1 << 56, &[0xFF, 0x01, 0, 0, 0, 0, 0, 0, 0]),
            (u64::MAX, &[0xFF; 9]),
        ] {
            let mut out = Vec::new();
            write_unsigned(value, &mut out);
            assert_eq!(out, form, "{value}");
            assert_eq!(unsigned_length(value), form.len(), "{value}");
            let (bytes, length) = encoded_unsigned(value);
            assert_eq!(&bytes[..length], form, "{value}");
        }
    }

    #[test]
    fn longer_forms_are_read() {
        let mut input = &[0xC0, 0x00, 0x05, 0x09][..];
        assert_eq!(read_unsigned(&mut input), Ok(5));
        assert_eq!(input, [9]);
    }

    #[test]
    fn truncated_input_is_an_error_and_stays() {
        let mut input = &[0xFF, 1, 2][..];
        assert_eq!(read_unsigned(&mut input), Err(VintError { needed: 9, available: 3 }));
        assert_eq!(input.len(), 3);
        assert_eq!(read_unsigned(&mut &[][..]), Err(VintError { needed: 1, available: 0 }));
    }

    proptest! {
        #[test]
        fn unsigned_round_trip(value: u64, shift in 0u32..64, behind in 0usize..10) {
            let value = value >> shift;
            let mut out = Vec::new();
            write_unsigned(value, &mut out);
            let length = out.len();
            prop_assert_eq!(length, unsigned_length(value));
            let (encoded, its_length) = encoded_unsigned(value);
            prop_assert_eq!(&encoded[..its_length], &out[..]);
            out.extend_from_slice(&[0xA5; 10][..behind]);
            let mut input = &out[..];
            prop_assert_eq!(read_unsigned(&mut input), Ok(value));
            prop_assert_eq!(input, &out[length..]);
        }

        #[test]
        fn signed_round_trip(value: i64, shift in 0u32..64) {
            let value = value >> shift;
            let mut out = Vec::new();
            write_signed(value, &mut out);
            prop_assert_eq!(out.len(), signed_length(value));
            prop_assert_eq!(read_signed(&mut &out[..]), Ok(value));
        }
    }
}
