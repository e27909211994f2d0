//! Reads, prints and compares `decimal`: a 32-bit scale and an unscaled `varint`. The number is
//! unscaled × 10^-scale. 1.1 and 1.10 are equal, but have different bytes.
//!
//! The stored digits bound the work and memory of an operation. The scale does not: 1e2147483647
//! takes five bytes, so no operation writes out the zeros that the scale implies, unless the caller
//! sets a limit ([`to_plain_string`]).

mod order;

pub use order::compare;

use crate::varint::{self, BigInt};
use crate::{CqlType, ValueError};
use num_bigint::Sign;

/// The maximum number of digits that [`parse`] accepts. Parsing takes time quadratic in the digits.
pub const MAX_DIGITS: usize = 100_000;

/// Returns the unscaled value and the scale of a serialised decimal.
///
/// # Errors
///
/// Returns an error for fewer than 4 bytes.
pub fn decode(bytes: &[u8]) -> Result<(BigInt, i32), ValueError> {
    let parts = parts(bytes).ok_or_else(|| ValueError::Length {
        type_name: CqlType::Decimal.cql_name(),
        expected: "at least 4 bytes",
        got: bytes.len(),
    })?;
    Ok((varint::decode(parts.unscaled), parts.scale))
}

/// Serialises the number unscaled × 10^-scale.
pub fn encode(unscaled: &BigInt, scale: i32) -> Vec<u8> {
    let mut out = scale.to_be_bytes().to_vec();
    out.extend_from_slice(&varint::encode(unscaled));
    out
}

/// Prints the number as Java's `BigDecimal.toString` does.
///
/// The text has an exponent if the scale is negative, or if the first digit lies beyond the sixth
/// place behind the point. Otherwise it is plain.
pub fn to_scientific_string(unscaled: &BigInt, scale: i32) -> String {
    let digits = unscaled.magnitude().to_string();
    let sign = if unscaled.sign() == Sign::Minus { "-" } else { "" };
    if scale == 0 {
        return format!("{sign}{digits}");
    }
    let adjusted = digits.len() as i64 - 1 - i64::from(scale);
    if scale > 0 && adjusted >= -6 {
        let scale = scale as usize;
        if digits.len() > scale {
            let (whole, fraction) = digits.split_at(digits.len() - scale);
            return format!("{sign}{whole}.{fraction}");
        }
        return below_one(sign, &digits, scale);
    }
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    if adjusted == 0 {
        return format!("{sign}{first}{point}{rest}");
    }
    format!("{sign}{first}{point}{rest}E{adjusted:+}")
}

/// Prints the number without exponent, as Java's `BigDecimal.toPlainString` does.
///
/// Returns `None` if the text has more than about `max_length` characters. A scale of -2^31 would
/// take two billion.
pub fn to_plain_string(unscaled: &BigInt, scale: i32, max_length: usize) -> Option<String> {
    let negative = unscaled.sign() == Sign::Minus;
    let magnitude = unscaled.magnitude();
    let digits = magnitude.to_string();
    let zero = unscaled.sign() == Sign::NoSign;
    let sign = if negative { "-" } else { "" };
    let size = scale.unsigned_abs() as usize;
    if scale <= 0 {
        if zero {
            return Some(digits);
        }
        if digits.len().checked_add(size + 1)? > max_length {
            return None;
        }
        return Some(format!("{sign}{digits}{}", "0".repeat(size)));
    }
    if digits.len().max(size).checked_add(3)? > max_length {
        return None;
    }
    if digits.len() > size {
        let (whole, fraction) = digits.split_at(digits.len() - size);
        return Some(format!("{sign}{whole}.{fraction}"));
    }
    Some(below_one(sign, &digits, size))
}

/// Returns `0.`, then zeros, then `digits`, with `places` digits behind the point. `format!` cannot
/// do this, because its width is at most 65,535.
fn below_one(sign: &str, digits: &str, places: usize) -> String {
    let mut text = String::with_capacity(sign.len() + 2 + places);
    text.push_str(sign);
    text.push_str("0.");
    text.extend(std::iter::repeat_n('0', places.saturating_sub(digits.len())));
    text.push_str(digits);
    text
}

/// Reads a decimal as Java's `BigDecimal(String)` does: `[+-]digits[.digits][(e|E)[+-]digits]`,
/// with at least one digit.
///
/// Returns `None` if the text has another form, if the scale does not fit in 32 bits, or if there
/// are more than [`MAX_DIGITS`] digits.
pub fn parse(text: &str) -> Option<(BigInt, i32)> {
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], parse_exponent(&text[at + 1..])?),
        None => (text, 0),
    };
    let (negative, unsigned) = match mantissa.as_bytes().first()? {
        b'-' => (true, &mantissa[1..]),
        b'+' => (false, &mantissa[1..]),
        _ => (false, mantissa),
    };
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let mut digits = Vec::with_capacity(whole.len() + fraction.len());
    for byte in whole.bytes().chain(fraction.bytes()) {
        digits.push(byte.checked_sub(b'0').filter(|&digit| digit < 10)?);
    }
    if digits.is_empty() || digits.len() > MAX_DIGITS {
        return None;
    }
    let scale = (fraction.len() as i64).checked_sub(exponent)?;
    let sign = if negative { Sign::Minus } else { Sign::Plus };
    let unscaled = BigInt::from_radix_be(sign, &digits, 10)?;
    Some((unscaled, i32::try_from(scale).ok()?))
}

fn parse_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// The parts of a serialised decimal.
pub(crate) struct Parts<'a> {
    scale: i32,
    unscaled: &'a [u8],
}

/// The number 0.d1d2d3... × 10^exponent, where the first and the last digit are not 0. Zero has no
/// digits.
#[derive(Clone, Copy)]
pub(crate) struct Digits<'a> {
    pub(crate) negative: bool,
    /// Decimal digits, 0 to 9.
    pub(crate) digits: &'a [u8],
    pub(crate) exponent: i64,
}

/// Splits a serialised decimal. Returns `None` if it is too short for a scale.
#[inline]
pub(crate) fn parts(bytes: &[u8]) -> Option<Parts<'_>> {
    let (scale, unscaled) = bytes.split_first_chunk()?;
    Some(Parts { scale: i32::from_be_bytes(*scale), unscaled })
}

impl Parts<'_> {
    #[inline]
    fn sign(&self) -> Sign {
        match varint::split_sign(self.unscaled) {
            (true, _) => Sign::Minus,
            (false, []) => Sign::NoSign,
            (false, _) => Sign::Plus,
        }
    }

    /// Returns |unscaled|, if it fits in 128 bits.
    #[inline]
    fn small_magnitude(&self) -> Option<u128> {
        let (negative, bytes) = varint::split_sign(self.unscaled);
        let start = 16usize.checked_sub(bytes.len())?;
        let mut wide = [if negative { 0xFF } else { 0 }; 16];
        wide[start..].copy_from_slice(bytes);
        let wide = u128::from_be_bytes(wide);
        if negative { (!wide).checked_add(1) } else { Some(wide) }
    }

    /// Calls `use_digits` with the decimal digits. The digits of a number of up to 128 bits lie on
    /// the stack, those of a longer one on the heap.
    pub(crate) fn with_digits<R>(&self, use_digits: impl FnOnce(Digits<'_>) -> R) -> R {
        let negative = self.sign() == Sign::Minus;
        if let Some(magnitude) = self.small_magnitude() {
            let mut buffer = [0; 40];
            let start = write_digits(magnitude, &mut buffer);
            return use_digits(self.normalise(negative, &buffer[start..]));
        }
        let (_, digits) = varint::decode(self.unscaled).to_radix_be(10);
        use_digits(self.normalise(negative, &digits))
    }

    fn normalise<'d>(&self, negative: bool, digits: &'d [u8]) -> Digits<'d> {
        let exponent = digits.len() as i64 - i64::from(self.scale);
        let zeros = digits.iter().rev().take_while(|&&digit| digit == 0).count();
        Digits { negative, digits: &digits[..digits.len() - zeros], exponent }
    }
}

/// Writes the decimal digits at the end of `buffer` and returns the index of the first digit. A
/// 128-bit division is slow, so the function makes one per 19 digits and divides further in 64
/// bits.
fn write_digits(mut value: u128, buffer: &mut [u8; 40]) -> usize {
    const CHUNK: u128 = 10u128.pow(19);
    let mut start = buffer.len();
    while value != 0 {
        let mut chunk = (value % CHUNK) as u64;
        value /= CHUNK;
        let mut digits = 0;
        // The number has no leading zeros, so only the chunks behind its first one are padded with
        // zeros.
        while chunk != 0 || value != 0 && digits < 19 {
            start -= 1;
            buffer[start] = (chunk % 10) as u8;
            chunk /= 10;
            digits += 1;
        }
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_beyond_the_scale_is_refused() {
        assert_eq!(parse("1e-2147483648"), None);
        assert!(parse("1e2147483648").is_some_and(|(_, scale)| scale == i32::MIN));
        assert_eq!(parse("1e2147483649"), None);
        for text in ["", "-", ".", "1e", "e5", "1.2.3", "1 ", "0x1", "--1", "1e+-5"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn plain_text_is_bounded() {
        assert_eq!(to_plain_string(&BigInt::from(12), -2, 100).as_deref(), Some("1200"));
        assert_eq!(to_plain_string(&BigInt::from(-12), 3, 100).as_deref(), Some("-0.012"));
        assert_eq!(to_plain_string(&BigInt::from(-12), 1, 100).as_deref(), Some("-1.2"));
        assert_eq!(to_plain_string(&BigInt::from(1), i32::MIN, 1000), None);
        assert_eq!(to_plain_string(&BigInt::from(1), i32::MAX, 1000), None);
    }

    proptest! {
        #[test]
        fn digits_are_those_of_the_number(value: u128, shift in 0u32..128) {
            let value = value >> shift;
            let mut buffer = [0; 40];
            let start = write_digits(value, &mut buffer);
            let text: String = buffer[start..].iter().map(|digit| char::from(b'0' + digit)).collect();
            prop_assert_eq!(text, if value == 0 { String::new() } else { value.to_string() });
        }

        #[test]
        fn digits_around_a_chunk(power in 0u32..39, offset in 0u128..2) {
            let mut buffer = [0; 40];
            let value = 10u128.pow(power) + offset;
            let start = write_digits(value, &mut buffer);
            prop_assert_eq!(buffer.len() - start, value.to_string().len());
        }

        #[test]
        fn text_round_trip(bytes in prop::collection::vec(any::<u8>(), 1..20), scale: i32) {
            let unscaled = varint::decode(&bytes);
            prop_assert_eq!(parse(&to_scientific_string(&unscaled, scale)), Some((unscaled, scale)));
        }
    }
}
