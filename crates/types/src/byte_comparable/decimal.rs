//! Encodes `decimal` by sign, exponent and mantissa, so that equal numbers of any scale encode
//! alike.
//!
//! 0 is `80`. For another number v, |v| = 0.d1d2... × 100^e with base-100 digits, where d1 is not
//! 0. The encoding of v has four parts:
//!
//! - a header byte: the sign, and the number of the exponent's bytes;
//! - the bytes of the exponent e;
//! - a byte for each digit: the digit plus 80 (hex);
//! - 00 as the end.
//!
//! In a negative number the exponent is negated and the digits are complemented. The scale only
//! moves the exponent, so the number of stored digits bounds the memory.

use crate::byte_comparable::source::Source;
use crate::decimal::{self as numbers, Digits};
use crate::{CqlType, DecodeError};
use num_bigint::{BigInt, Sign};

const ZERO: u8 = 0x80;
const POSITIVE: u8 = 0x80;
const EXPONENT_ZERO: i64 = 0x40;

pub(super) fn encode(value: &[u8], out: &mut Vec<u8>) {
    let Some(parts) = numbers::parts(value) else {
        // The bytes are too short for a decimal; validation has refused them before.
        return super::encode_escaped(value, out);
    };
    parts.with_digits(|digits| encode_digits(digits, out));
}

fn encode_digits(digits: Digits<'_>, out: &mut Vec<u8>) {
    let Digits { negative, digits, exponent } = digits;
    if digits.is_empty() {
        out.push(ZERO);
        return;
    }
    // If the decimal exponent is odd, the first digit is the lower half of a pair.
    let odd = exponent.rem_euclid(2) == 1;
    let pairs_before = exponent.div_euclid(2) + i64::from(odd);
    let signed_exponent = if negative { -pairs_before } else { pairs_before };
    let exponent_bytes = (8 - signed_exponent.unsigned_abs().leading_zeros() as i64 / 8) as usize;
    let length_code =
        if signed_exponent < 0 { -(exponent_bytes as i64) } else { exponent_bytes as i64 };
    let sign = if negative { 0 } else { POSITIVE };
    out.push(sign + (EXPONENT_ZERO + length_code) as u8);
    out.extend_from_slice(&signed_exponent.to_be_bytes()[8 - exponent_bytes..]);

    let (lead, rest) = if odd { digits.split_at(1) } else { (&[][..], digits) };
    let first = out.len();
    out.extend(lead.iter().copied());
    out.extend(rest.chunks(2).map(|pair| pair[0] * 10 + pair.get(1).copied().unwrap_or(0)));
    let mantissa = &mut out[first..];
    if negative {
        // -0.d1d2d3 is written as a negative first digit and positive further ones: -d1-1, 99-d2,
        // 100-d3.
        let last = mantissa.len() - 1;
        for (index, digit) in mantissa.iter_mut().enumerate() {
            let base = if index == 0 { 0 } else { 100 };
            let borrow = u8::from(index != last);
            *digit = 0x80u8.wrapping_add(base).wrapping_sub(*digit + borrow);
        }
    } else {
        mantissa.iter_mut().for_each(|digit| *digit += 0x80);
    }
    out.push(0);
}

pub(super) fn decode(
    ty: &CqlType,
    source: &mut Source<'_>,
    out: &mut Vec<u8>,
) -> Result<(), DecodeError> {
    let header = source.byte(ty)?;
    if header == ZERO {
        out.extend_from_slice(&numbers::encode(&BigInt::ZERO, 0));
        return Ok(());
    }
    let negative = header & POSITIVE == 0;
    let pairs_before = decode_exponent(ty, source, header)?;
    let stored = decode_digits(ty, source, negative)?;

    let out_of_range = |reason| out_of_range(ty, reason);
    let digits = restore_digits(&stored, negative).ok_or_else(|| out_of_range("digits"))?;
    let sign = if negative { Sign::Minus } else { Sign::Plus };
    let unscaled =
        BigInt::from_radix_be(sign, &digits, 100).ok_or_else(|| out_of_range("digits"))?;
    let scale = (digits.len() as i64)
        .checked_sub(pairs_before)
        .and_then(|pairs| pairs.checked_mul(2))
        .ok_or_else(|| out_of_range("scale"))?;
    let (unscaled, scale) = match digits.last() {
        Some(last) if *last != 0 && last % 10 == 0 => {
            let scale = scale.checked_sub(1).ok_or_else(|| out_of_range("scale"))?;
            (unscaled / 10, scale)
        }
        _ => (unscaled, scale),
    };
    let (unscaled, scale) = fit_scale(unscaled, scale).ok_or_else(|| out_of_range("scale"))?;
    out.extend_from_slice(&numbers::encode(&unscaled, scale));
    Ok(())
}

fn out_of_range(ty: &CqlType, reason: &'static str) -> DecodeError {
    DecodeError::Range { type_name: ty.cql_name(), reason }
}

/// Returns the exponent: the number of pairs of digits before the point.
fn decode_exponent(ty: &CqlType, source: &mut Source<'_>, header: u8) -> Result<i64, DecodeError> {
    let negative = header & POSITIVE == 0;
    let length_code = i64::from(header & 0x7F) - EXPONENT_ZERO;
    if length_code.abs() > 8 {
        return Err(source.unexpected(ty, "the sign and length of an exponent", header));
    }
    let mut signed_exponent: i64 = if length_code < 0 { -1 } else { 0 };
    for _ in 0..length_code.abs() {
        signed_exponent = signed_exponent << 8 | i64::from(source.byte(ty)?);
    }
    if (signed_exponent < 0) != (length_code < 0) {
        return Err(out_of_range(ty, "exponent"));
    }
    let pairs_before = if negative { signed_exponent.checked_neg() } else { Some(signed_exponent) };
    pairs_before.ok_or_else(|| out_of_range(ty, "exponent"))
}

/// Returns the stored digits without the 80 (hex) that the encoder added to each. There is at least
/// one digit.
fn decode_digits(
    ty: &CqlType,
    source: &mut Source<'_>,
    negative: bool,
) -> Result<Vec<i8>, DecodeError> {
    let mut digits = Vec::new();
    loop {
        let byte = source.byte(ty)?;
        if byte == 0 {
            break;
        }
        // The first digit of a negative value is negative, so that its byte is below 80 (hex).
        let digit = byte.wrapping_sub(0x80) as i8;
        let allowed = if negative && digits.is_empty() { -100..=-1 } else { 0..=99 };
        if !allowed.contains(&digit) {
            return Err(source.unexpected(ty, "a digit", byte));
        }
        digits.push(digit);
    }
    if digits.is_empty() {
        return Err(source.unexpected(ty, "at least one digit", 0));
    }
    Ok(digits)
}

/// Undoes the complement of a negative value's digits. Returns the base-100 digits of |v|, or
/// `None` if a digit is out of range.
fn restore_digits(stored: &[i8], negative: bool) -> Option<Vec<u8>> {
    stored
        .iter()
        .enumerate()
        .map(|(index, &digit)| {
            if !negative {
                return Some(digit as u8);
            }
            let base = if index == 0 { 0 } else { 100 };
            let borrow = i16::from(index + 1 != stored.len());
            u8::try_from(base - i16::from(digit) - borrow).ok().filter(|&digit| digit < 100)
        })
        .collect()
}

/// Appends zeros to the unscaled value if the scale is too small for 32 bits. Each zero raises the
/// scale by one.
///
/// The limit of zeros bounds the memory that a forged exponent could take. A key has at most 65,535
/// bytes, so its unscaled value has fewer than 158,000 digits.
fn fit_scale(unscaled: BigInt, scale: i64) -> Option<(BigInt, i32)> {
    const MAX_ZEROS: i64 = 160_000;
    let missing = i64::from(i32::MIN).checked_sub(scale)?;
    if missing <= 0 {
        return Some((unscaled, i32::try_from(scale).ok()?));
    }
    let zeros = u32::try_from(missing).ok().filter(|_| missing <= MAX_ZEROS)?;
    Some((unscaled * BigInt::from(10).pow(zeros), i32::MIN))
}
