//! Encodes `bigint` and `varint`: the encoding grows with the magnitude of the integer.
//!
//! The first bit is the sign (1: not negative), the one bits behind it count the further bytes, and
//! the bits of the magnitude m follow (m = v, or the bitwise complement of a negative v). Negative
//! values are inverted as a whole. There are at most 8 further bytes; a varint with 7 or more bytes
//! of magnitude begins with `FF` (negative: `00`) and its length instead.

use crate::byte_comparable::source::Source;
use crate::{CqlType, DecodeError, varint};

/// A varint with this many bytes of magnitude or more has the long form.
const LONG_FORM: usize = 7;

#[inline]
pub(super) fn encode_bigint(value: i64, out: &mut Vec<u8>) {
    let invert = (value >> 63) as u64;
    let magnitude = value as u64 ^ invert;
    let bits = 64 - magnitude.leading_zeros();
    // The first byte holds 6 bits, each further one 7 more; with 8 further bytes the first one
    // holds no magnitude bits.
    let extra = (bits as usize / 7).min(8);
    if extra == 8 {
        out.push(0xFF ^ invert as u8);
        out.extend_from_slice(&((magnitude | 1 << 63) ^ invert).to_be_bytes());
        return;
    }
    let length_bits = !(u64::MAX >> (extra + 1));
    let code = (magnitude << (8 * (7 - extra)) | length_bits) ^ invert;
    out.extend_from_slice(&code.to_be_bytes()[..=extra]);
}

pub(super) fn decode_bigint(ty: &CqlType, source: &mut Source<'_>) -> Result<i64, DecodeError> {
    let first = source.byte(ty)?;
    decode_bigint_after(ty, first, source)
}

fn decode_bigint_after(
    ty: &CqlType,
    first: u8,
    source: &mut Source<'_>,
) -> Result<i64, DecodeError> {
    let invert = if first & 0x80 == 0 { u64::MAX } else { 0 };
    let first = first ^ invert as u8;
    let extra = (first << 1).leading_ones().min(7) as usize;
    if extra < 7 {
        let mut magnitude = u64::from(first & (0x3F >> extra));
        for _ in 0..extra {
            magnitude = magnitude << 8 | u64::from(source.byte(ty)? ^ invert as u8);
        }
        return Ok((magnitude ^ invert) as i64);
    }
    // There are 7 or 8 further bytes; the top bit of the next byte says which.
    let second = source.byte(ty)? ^ invert as u8;
    let (mut magnitude, more) = (u64::from(second & 0x7F), 6 + usize::from(second >> 7));
    for _ in 0..more {
        magnitude = magnitude << 8 | u64::from(source.byte(ty)? ^ invert as u8);
    }
    Ok((magnitude ^ invert) as i64)
}

#[inline]
pub(super) fn encode_varint(value: &[u8], out: &mut Vec<u8>) {
    let (negative, magnitude) = varint::split_sign(value);
    if magnitude.len() < LONG_FORM {
        let sign_byte = if negative { 0xFF } else { 0 };
        let mut wide = [sign_byte; 8];
        wide[8 - magnitude.len()..].copy_from_slice(magnitude);
        return encode_bigint(i64::from_be_bytes(wide), out);
    }
    out.push(if negative { 0 } else { 0xFF });
    let start = out.len();
    crate::vint::write_unsigned((magnitude.len() - LONG_FORM) as u64, out);
    if negative {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
    out.extend_from_slice(magnitude);
}

pub(super) fn decode_varint(
    ty: &CqlType,
    source: &mut Source<'_>,
    out: &mut Vec<u8>,
) -> Result<(), DecodeError> {
    let first = source.byte(ty)?;
    let sign_byte = match first {
        0xFF => 0,
        0 => 0xFF,
        _ => {
            let value = decode_bigint_after(ty, first, source)?;
            out.extend_from_slice(varint::shortest(&value.to_be_bytes()));
            return Ok(());
        }
    };
    let marker = source.byte(ty)? ^ sign_byte;
    let extra = marker.leading_ones() as usize;
    let mut length = if extra >= 7 { 0 } else { u64::from(marker & (0x7F >> extra)) };
    for _ in 0..extra {
        length = length << 8 | u64::from(source.byte(ty)? ^ sign_byte);
    }
    let length = usize::try_from(length).unwrap_or(usize::MAX).saturating_add(LONG_FORM);
    let start = out.len();
    // Two's complement needs a sign byte if the top bit of the magnitude disagrees with the sign.
    out.push(sign_byte);
    source.copy(length, ty, out)?;
    let redundant = out.get(start + 1).is_some_and(|&byte| (byte ^ sign_byte) & 0x80 == 0);
    if redundant {
        let canonical = varint::shortest(&out[start..]).len();
        out.drain(start..out.len() - canonical);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bigint(value: i64) -> Vec<u8> {
        let mut out = Vec::new();
        encode_bigint(value, &mut out);
        out
    }

    #[test]
    fn known_forms() {
        for (value, form) in [
            (0, &[0x80][..]),
            (63, &[0xBF]),
            (64, &[0xC0, 0x40]),
            (8191, &[0xDF, 0xFF]),
            (i64::MAX, &[0xFF; 9]),
            (-1, &[0x7F]),
            (-64, &[0x40]),
            (-65, &[0x3F, 0xBF]),
            (i64::MIN, &[0; 9]),
        ] {
            assert_eq!(bigint(value), form, "{value}");
        }
    }

    proptest! {
        #[test]
        fn bigint_round_trip_and_order(left: i64, right: i64, a in 0u32..64, b in 0u32..64) {
            let (left, right) = (left >> a, right >> b);
            prop_assert_eq!(bigint(left).cmp(&bigint(right)), left.cmp(&right));
            let form = bigint(left);
            let mut source = Source::new(&form, false);
            prop_assert_eq!(decode_bigint(&CqlType::Bigint, &mut source), Ok(left));
            prop_assert!(source.rest().is_empty());
        }
    }
}
