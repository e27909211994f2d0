//! Reads, prints and compares `decimal`: a 32-bit scale and an unscaled `varint`. The number is
//! unscaled x 10^-scale.
//!
//! The scale may be anything in 32 bits, so no operation may expand it: 1e2147483647 takes five
//! bytes and is compared in constant time. Work and memory are bounded by the digits that are
//! stored. 1.1 and 1.10 are equal, but have different bytes.

use std::cmp::Ordering;

use crate::varint::{self, BigInt};
use crate::{CqlType, ValueError};
use num_bigint::{BigUint, Sign};

/// The greatest number of digits that is read, because reading takes time quadratic in the digits.
pub const MAX_DIGITS: usize = 100_000;

/// log2(10) = 3.321928094887..., in billionths, rounded down.
const LOG2_10_BILLIONTHS: u64 = 3_321_928_094;

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

/// Serialises unscaled x 10^-scale.
pub fn encode(unscaled: &BigInt, scale: i32) -> Vec<u8> {
    let mut out = scale.to_be_bytes().to_vec();
    out.extend_from_slice(&varint::encode(unscaled));
    out
}

/// Compares two serialised decimals as numbers; bytes that are not a decimal come first.
///
/// Never writes out the digits of a number. Equal scales, signs or bit lengths decide most
/// comparisons without allocation. Otherwise the numbers are of nearly the same size, and one of
/// them is multiplied by a power of ten: that takes memory linear in the longer unscaled value and
/// time proportional to n^1.47 (Toom-Cook).
pub fn compare(left: &[u8], right: &[u8]) -> Ordering {
    let (Some(left), Some(right)) = (parts(left), parts(right)) else {
        return (left.len() >= 4).cmp(&(right.len() >= 4)).then_with(|| left.cmp(right));
    };
    // Most columns hold one scale.
    if left.scale == right.scale {
        return varint::compare(left.unscaled, right.unscaled);
    }
    let by_sign = left.sign().cmp(&right.sign());
    if by_sign.is_ne() || left.sign() == Sign::NoSign {
        return by_sign;
    }
    let by_magnitude = if left.scale < right.scale {
        left.compare_magnitude(&right)
    } else {
        right.compare_magnitude(&left).reverse()
    };
    if left.sign() == Sign::Minus { by_magnitude.reverse() } else { by_magnitude }
}

/// Prints the number as Java's `BigDecimal.toString` does.
///
/// The text is plain, or has an exponent if the plain text would need zeros that are not stored, or
/// more than six of them behind the point.
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
/// `None` if that takes more than `max_length` characters (a scale of -2^31 would take two
/// billion).
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

/// Makes `0.` and `places` digits, of which `digits` are the last. A formatter cannot do this,
/// because its width ends at 65535.
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
/// `None` if the text has another form, if the scale does not fit in 32 bits, or if there are more
/// than [`MAX_DIGITS`] digits.
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

/// A number as 0.d1d2d3... x 10^exponent, where d1 is not 0. There are no trailing zeros, and zero
/// has no digits.
#[derive(Clone, Copy)]
pub(crate) struct Digits<'a> {
    pub(crate) negative: bool,
    /// Decimal digits, 0 to 9.
    pub(crate) digits: &'a [u8],
    pub(crate) exponent: i64,
}

/// Splits a serialised decimal; `None` if it is too short for a scale.
pub(crate) fn parts(bytes: &[u8]) -> Option<Parts<'_>> {
    let (scale, unscaled) = bytes.split_first_chunk()?;
    Some(Parts { scale: i32::from_be_bytes(*scale), unscaled })
}

impl Parts<'_> {
    fn sign(&self) -> Sign {
        match varint::split_sign(self.unscaled) {
            (true, _) => Sign::Minus,
            (false, []) => Sign::NoSign,
            (false, _) => Sign::Plus,
        }
    }

    /// Compares |self| and |other|. Neither is 0, and `other` has the larger scale.
    fn compare_magnitude(&self, other: &Self) -> Ordering {
        // Both numbers x 10^other.scale are integers: |self.unscaled| x 10^power, and
        // |other.unscaled|.
        let power = other.scale.abs_diff(self.scale);
        if let (Some(value), Some(other)) = (self.small_magnitude(), other.small_magnitude()) {
            let scaled = 10u128.checked_pow(power).and_then(|power| value.checked_mul(power));
            // A product that does not fit in 128 bits is larger than `other`, which does.
            return scaled.map_or(Ordering::Greater, |scaled| scaled.cmp(&other));
        }

        // The power of ten lies between 2^min_bits and 2^max_bits. The products fit in 64 bits, as
        // `power` has 32.
        let min_bits = u64::from(power) * LOG2_10_BILLIONTHS / 1_000_000_000;
        let max_bits = u64::from(power) * (LOG2_10_BILLIONTHS + 1) / 1_000_000_000 + 1;
        let (bits, other_bits) = (self.bit_length(), other.bit_length());
        if bits + min_bits > other_bits + 1 {
            return Ordering::Greater;
        }
        if bits + max_bits + 1 < other_bits {
            return Ordering::Less;
        }

        // The power has at most a few bits more than `other`, so `other` bounds the product.
        // 10^power = 5^power x 2^power, and a shift is cheaper than a multiplication.
        let product = self.magnitude() * power_of_five(power);
        (product << power).cmp(&other.magnitude())
    }

    /// Returns the n with 2^(n-1) <= |unscaled| <= 2^n. The value must not be 0.
    fn bit_length(&self) -> u64 {
        let (negative, bytes) = varint::split_sign(self.unscaled);
        let sign_byte = if negative { 0xFF } else { 0 };
        let sign_bits = bytes.first().map_or(0, |first| (first ^ sign_byte).leading_zeros());
        bytes.len() as u64 * 8 - u64::from(sign_bits)
    }

    /// Returns |unscaled|, on the heap.
    fn magnitude(&self) -> BigUint {
        varint::decode(self.unscaled).into_parts().1
    }

    /// Returns |unscaled|, if it fits in 128 bits.
    fn small_magnitude(&self) -> Option<u128> {
        let (negative, bytes) = varint::split_sign(self.unscaled);
        let start = 16usize.checked_sub(bytes.len())?;
        let mut wide = [if negative { 0xFF } else { 0 }; 16];
        wide[start..].copy_from_slice(bytes);
        let wide = u128::from_be_bytes(wide);
        if negative { (!wide).checked_add(1) } else { Some(wide) }
    }

    /// Calls `use_digits` with the decimal digits, which lie on the stack up to 128 bits and on the
    /// heap beyond.
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

/// Returns 5^power. It takes the bits of `power` from the highest down, so that all multiplications
/// but the squarings are by 5.
fn power_of_five(power: u32) -> BigUint {
    let mut result = BigUint::from(1u32);
    for bit in (0..u32::BITS - power.leading_zeros()).rev() {
        result = &result * &result;
        if power >> bit & 1 == 1 {
            result *= 5u32;
        }
    }
    result
}

/// Writes the decimal digits at the end of `buffer` and returns where they begin. It divides 128
/// bits only once for 19 digits.
fn write_digits(mut value: u128, buffer: &mut [u8; 40]) -> usize {
    const CHUNK: u128 = 10u128.pow(19);
    let mut start = buffer.len();
    while value != 0 {
        let mut chunk = (value % CHUNK) as u64;
        value /= CHUNK;
        let mut digits = 0;
        // Zeros in the middle of the number belong to it, those in front do not.
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

    fn number(text: &str) -> Vec<u8> {
        let (unscaled, scale) = parse(text).unwrap();
        encode(&unscaled, scale)
    }

    /// Compares both numbers by their written-out digits.
    fn compare_digits(left: &[u8], right: &[u8]) -> Ordering {
        let signum = |number: &Digits<'_>| match (number.digits.is_empty(), number.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        };
        let compare = |left: Digits<'_>, right: Digits<'_>| {
            let by_sign = signum(&left).cmp(&signum(&right));
            if by_sign.is_ne() || left.digits.is_empty() {
                return by_sign;
            }
            let by_magnitude =
                left.exponent.cmp(&right.exponent).then_with(|| left.digits.cmp(right.digits));
            if left.negative { by_magnitude.reverse() } else { by_magnitude }
        };
        let (left, right) = (parts(left).unwrap(), parts(right).unwrap());
        left.with_digits(|left| right.with_digits(|right| compare(left, right)))
    }

    /// Generates any scale, often one near 0 or near an end of the range.
    fn scales() -> impl Strategy<Value = i32> {
        prop_oneof![
            4 => -60..60,
            1 => Just(i32::MIN),
            1 => Just(i32::MAX),
            1 => i32::MIN..i32::MIN + 60,
            1 => i32::MAX - 60..i32::MAX,
            1 => any::<i32>(),
        ]
    }

    /// Generates up to 40 bytes with leading sign bytes; the number is often 0 or next to a power
    /// of two.
    fn unscaled_bytes() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![Just(0u8), Just(0xFF), Just(1), any::<u8>()];
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            prop::collection::vec(byte, 0..40),
            prop::collection::vec(Just(0u8), 0..20),
        ]
    }

    fn serialised(unscaled: &[u8], scale: i32) -> Vec<u8> {
        [&scale.to_be_bytes(), unscaled].concat()
    }

    /// Makes a pseudo-random number of `bytes` bytes.
    fn long_number(bytes: usize, seed: u64) -> BigInt {
        let mut state = seed;
        let next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 56) as u8 | 1
        };
        let magnitude: Vec<u8> = std::iter::repeat_with(next).take(bytes).collect();
        BigInt::from_bytes_be(Sign::Plus, &magnitude)
    }

    #[allow(clippy::disallowed_methods)]
    fn assert_within_seconds(seconds: u64, work: impl FnOnce()) {
        let start = std::time::Instant::now();
        work();
        let elapsed = start.elapsed();
        assert!(elapsed.as_secs() < seconds, "{elapsed:?}");
    }

    #[test]
    fn numbers_of_2_mib_are_compared_in_seconds() {
        // The hardest case: a long power of ten, and numbers that differ only in the last of five
        // million digits. A dev build takes 1 to 2 s for each, and 16 s to write out both numbers.
        const POWER: u32 = 2_500_000;
        let short = long_number(1 << 20, 1);
        let long: BigInt = (&short * BigInt::from(power_of_five(POWER))) << POWER;
        let left = encode(&short, 0);
        let rights = [-1, 1].map(|offset| encode(&(&long + offset), POWER as i32));
        assert!(rights[0].len() > 2_000_000);
        assert_within_seconds(30, || {
            assert_eq!(compare(&left, &rights[0]), Ordering::Greater);
            assert_eq!(compare(&rights[1], &left), Ordering::Greater);
        });

        let number = -long_number(2 << 20, 2);
        let (left, near) = (encode(&number, 0), encode(&(&number * 10 + 1), 1));
        let others = [1, 100_000, i32::MAX].map(|scale| encode(&number, scale));
        assert_within_seconds(5, || {
            assert_eq!(compare(&left, &near), Ordering::Less);
            for other in others {
                assert_eq!(compare(&left, &other), Ordering::Less);
            }
        });
    }

    #[test]
    fn a_hundred_numbers_of_100_kib_are_sorted_in_seconds() {
        // A dev build takes 1 s, and 110 s to write out the digits.
        let number = long_number(100 << 10, 1);
        let ascending: Vec<Vec<u8>> = (0..100u32)
            .map(|index| {
                let scale = index * 37 % 100 * 10;
                encode(&((&number + index) * BigInt::from(10).pow(scale)), scale as i32)
            })
            .collect();
        let mut sorted: Vec<_> = (0..100).map(|index| &ascending[index * 61 % 100]).collect();
        assert_within_seconds(20, || sorted.sort_by(|left, right| compare(left, right)));
        assert!(sorted.into_iter().eq(&ascending));
    }

    #[test]
    fn huge_scales_are_compared_without_expansion() {
        let ascending = [
            "-1e2147483647",
            "-1",
            "-1e-2147483647",
            "0e2147483647",
            "1e-2147483647",
            "1",
            "1.1",
            "10",
            "1e2147483647",
            "123e2147483647",
        ];
        for (i, left) in ascending.iter().enumerate() {
            for (j, right) in ascending.iter().enumerate() {
                assert_eq!(compare(&number(left), &number(right)), i.cmp(&j), "{left} {right}");
            }
        }
    }

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
        fn order_is_that_of_the_numbers(a: i64, b: i64, x in -20i32..20, y in -20i32..20, shift in 0u32..64) {
            let (a, b) = (a >> shift, b >> shift);
            let scaled = |value: i64, scale: i32| BigInt::from(value) * BigInt::from(10).pow((20 - scale) as u32);
            let (left, right) = (encode(&BigInt::from(a), x), encode(&BigInt::from(b), y));
            prop_assert_eq!(compare(&left, &right), scaled(a, x).cmp(&scaled(b, y)));
        }

        #[test]
        fn order_is_that_of_the_digits(
            (a, x) in (unscaled_bytes(), scales()),
            (b, y) in (unscaled_bytes(), scales()),
        ) {
            let (left, right) = (serialised(&a, x), serialised(&b, y));
            prop_assert_eq!(compare(&left, &right), compare_digits(&left, &right));
            prop_assert_eq!(compare(&right, &left), compare_digits(&right, &left));
        }

        #[test]
        fn order_of_close_numbers_is_that_of_the_digits(
            a in unscaled_bytes(),
            scale in scales(),
            power in 1u32..400,
            factor in prop_oneof![4 => Just(16), 1 => 1..64],
            offset in -1i32..=1,
            sign_bytes in 0usize..3,
        ) {
            let scale = scale.min(i32::MAX - power as i32);
            let scaled = varint::decode(&a) * BigInt::from(10).pow(power);
            let near: BigInt = &scaled * factor / 16 + offset;
            let sign_byte = if near.sign() == Sign::Minus { 0xFF } else { 0 };
            let near_bytes = [vec![sign_byte; sign_bytes], varint::encode(&near)].concat();
            let left = serialised(&a, scale);
            let right = serialised(&near_bytes, scale + power as i32);
            prop_assert_eq!(compare(&left, &right), scaled.cmp(&near));
            prop_assert_eq!(compare(&right, &left), near.cmp(&scaled));
            prop_assert_eq!(compare_digits(&left, &right), scaled.cmp(&near));
        }

        #[test]
        fn text_round_trip(bytes in prop::collection::vec(any::<u8>(), 1..20), scale: i32) {
            let unscaled = varint::decode(&bytes);
            prop_assert_eq!(parse(&to_scientific_string(&unscaled, scale)), Some((unscaled, scale)));
        }
    }
}
