//! Escapes bytes of any length so that no encoding is a prefix of another.
//!
//! A non-zero byte encodes as itself. A run of n zeros is `00`, n-1 times `FE`, and `FF` if a byte
//! follows. The end is `00`, or `FE` in place of the run's `FF` if the value ended with zeros. The
//! byte that follows in a sequence is never `FE` or `FF`, so a reader knows where the value ends.

use crate::byte_comparable::source::{Source, truncated};
use crate::{CqlType, DecodeError};

const CONTINUED: u8 = 0xFE;
const RUN_DONE: u8 = 0xFF;

/// Appends the escaped form of `value`.
#[inline]
pub fn encode_escaped(value: &[u8], out: &mut Vec<u8>) {
    out.reserve(value.len() + 1);
    let mut rest = value;
    loop {
        // Text hardly ever holds a zero: one scan and one copy.
        let Some(zero) = first_zero(rest) else {
            out.extend_from_slice(rest);
            out.push(0);
            return;
        };
        out.extend_from_slice(&rest[..=zero]);
        let run = rest[zero..].iter().take_while(|&&byte| byte == 0).count();
        out.resize(out.len() + run - 1, CONTINUED);
        rest = &rest[zero + run..];
        if rest.is_empty() {
            out.push(CONTINUED);
            return;
        }
        out.push(RUN_DONE);
    }
}

/// Returns the index of the first zero byte. The loop tests eight bytes at a time: subtracting 1
/// from each byte sets the top bit of a zero byte.
#[inline]
fn first_zero(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let mut chunks = bytes.chunks_exact(8);
    let mut at = 0;
    for chunk in chunks.by_ref() {
        let word = chunk.try_into().map_or(0, u64::from_le_bytes);
        let zeros = word.wrapping_sub(ONES) & !word & (ONES << 7);
        if zeros != 0 {
            return Some(at + zeros.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    chunks.remainder().iter().position(|&byte| byte == 0).map(|within| at + within)
}

/// Decodes an escaped value from the front of `input`, and advances `input`. An error leaves
/// `input` unchanged.
///
/// # Errors
///
/// Returns an error if `input` ends inside the value or has an impossible escape.
pub fn decode_escaped(input: &mut &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut out = Vec::new();
    decode_escaped_into(input, &mut out)?;
    Ok(out)
}

/// Decodes an escaped value from the front of `input`, advances `input`, and appends the value to
/// `out`. An error leaves `input` unchanged, and may leave a part of the value in `out`.
///
/// # Errors
///
/// Returns the errors of [`decode_escaped`].
pub fn decode_escaped_into(input: &mut &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
    let mut source = Source::new(input, false);
    decode_from(&CqlType::Blob, &mut source, out)?;
    *input = source.rest();
    Ok(())
}

/// Returns the length of the escaped value at the front of `input`; `None` if `input` ends inside
/// it. The function does not detect an impossible escape.
#[inline]
pub fn escaped_length(input: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += first_zero(input.get(at..)?)? + 1;
        at += input.get(at..)?.iter().take_while(|&&byte| byte == CONTINUED).count();
        if input.get(at) != Some(&RUN_DONE) {
            return Some(at);
        }
        at += 1;
    }
}

pub(super) fn decode_from(
    ty: &CqlType,
    source: &mut Source<'_>,
    out: &mut Vec<u8>,
) -> Result<(), DecodeError> {
    loop {
        source.copy_until_zero(out);
        source.next().ok_or_else(|| truncated(ty))?;
        let mut run = 0;
        while source.peek() == Some(CONTINUED) {
            source.next();
            run += 1;
        }
        if source.peek() != Some(RUN_DONE) {
            out.resize(out.len() + run, 0);
            return Ok(());
        }
        source.next();
        out.resize(out.len() + run + 1, 0);
        // Another zero would belong to the same run.
        if source.peek() == Some(0) {
            return Err(DecodeError::Unexpected {
                type_name: ty.cql_name(),
                expected: "a byte other than zero behind a run of zeros",
                got: 0,
                remaining: source.rest().len(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn escaped(value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode_escaped(value, &mut out);
        out
    }

    #[test]
    fn known_forms() {
        for (value, form) in [
            (&b""[..], &b"\x00"[..]),
            (b"AB", b"AB\x00"),
            (b"A\0", b"A\x00\xFE"),
            (b"A\0\0B", b"A\x00\xFE\xFFB\x00"),
            (b"\0", b"\x00\xFE"),
            (b"A\0\0", b"A\x00\xFE\xFE"),
        ] {
            assert_eq!(escaped(value), form);
        }
    }

    #[test]
    fn a_run_has_one_form() {
        for input in [&b"A\x00\xFF\x00\x38"[..], b"\x00\xFE\xFF\x00\xFFB\x00"] {
            let error = decode_escaped(&mut &*input).unwrap_err();
            assert!(matches!(error, DecodeError::Unexpected { got: 0, .. }), "{error}");
        }
    }

    proptest! {
        #[test]
        fn the_first_zero_is_found(bytes in prop::collection::vec(prop_oneof![1 => Just(0u8), 1 => Just(0x80), 9 => any::<u8>()], 0..40)) {
            prop_assert_eq!(first_zero(&bytes), bytes.iter().position(|&byte| byte == 0));
        }

        #[test]
        fn round_trip_and_order(
            left in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..20),
            right in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..20),
        ) {
            let (mut a, mut b) = (escaped(&left), escaped(&right));
            prop_assert_eq!(a.cmp(&b), left.cmp(&right));
            a.push(0x38);
            b.push(0x60);
            let mut input = &a[..];
            prop_assert_eq!(escaped_length(input), Some(input.len() - 1));
            prop_assert_eq!(decode_escaped(&mut input), Ok(left.clone()));
            prop_assert_eq!(input, [0x38]);
            // A separator behind the value must not change the order.
            prop_assert_eq!(a.cmp(&b), left.cmp(&right).then(std::cmp::Ordering::Less));
        }
    }
}
