//! Compares decimals as numbers, without writing out their digits.

use std::cmp::Ordering;

use super::{Parts, parts};
use crate::varint;
use num_bigint::{BigUint, Sign};

/// log2(10) = 3.321928094887..., in billionths, rounded down.
const LOG2_10_BILLIONTHS: u64 = 3_321_928_094;

/// The number of leading bits that the first comparison of numbers of nearly the same size uses.
/// Arbitrary: two random numbers agree in far fewer.
const FIRST_BITS: u64 = 256;

/// The number of bits that the second comparison uses beyond those of the shorter number.
const GUARD_BITS: u64 = 64;

/// Compares two serialised decimals as numbers; bytes that are not a decimal come first.
///
/// Never writes out the digits of a number. Most comparisons are decided without allocation,
/// because the scales are equal, the signs differ, both unscaled values fit into 128 bits, or the
/// bit lengths differ. Otherwise the numbers are of nearly the same size, and the function compares
/// their leading bits: first [`FIRST_BITS`], and then [`GUARD_BITS`] more than the shorter unscaled
/// value has. If these agree, the function multiplies one number by a power of ten. For a longer
/// unscaled value of n bytes, the multiplication takes memory linear in n and time proportional to
/// n^1.47 (Toom-Cook). Among different numbers of m bits, at most one agrees with a given longer
/// number in the leading bits, so many short numbers cannot each cost a multiplication.
pub fn compare(left: &[u8], right: &[u8]) -> Ordering {
    let (Some(left), Some(right)) = (parts(left), parts(right)) else {
        return (left.len() >= 4).cmp(&(right.len() >= 4)).then_with(|| left.cmp(right));
    };
    // Most columns hold values of one scale.
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

impl Parts<'_> {
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

        for precision in [FIRST_BITS, bits.min(other_bits) + GUARD_BITS] {
            let order = self.compare_leading(other, power, precision);
            if let Some(order) = order {
                return order;
            }
        }
        // The power has at most a few bits more than `other`, so `other` bounds the product.
        // 10^power = 5^power x 2^power, and a shift is cheaper than a multiplication.
        let product = self.magnitude() * power_of_five(power);
        (product << power).cmp(&other.magnitude())
    }

    /// Compares |self.unscaled| x 10^power and |other.unscaled| by about `precision` leading bits.
    /// Returns `None` if these agree.
    fn compare_leading(&self, other: &Self, power: u32, precision: u64) -> Option<Ordering> {
        let product = self.leading(precision).times(&Interval::power_of_five(power, precision));
        let product = Interval { exponent: product.exponent + i64::from(power), ..product };
        product.compare(&other.leading(precision))
    }

    /// Returns an interval around |unscaled| that has at least `precision` bits, if the value has
    /// so many.
    fn leading(&self, precision: u64) -> Interval {
        let (negative, bytes) = varint::split_sign(self.unscaled);
        let kept = usize::try_from(precision / 8 + 2).unwrap_or(usize::MAX).min(bytes.len());
        let (kept, rest) = bytes.split_at(kept);
        if rest.is_empty() {
            let exact = self.magnitude();
            return Interval { low: exact.clone(), high: exact, exponent: 0 };
        }
        let low = if negative {
            BigUint::from_bytes_be(&kept.iter().map(|byte| !byte).collect::<Vec<_>>())
        } else {
            BigUint::from_bytes_be(kept)
        };
        Interval { high: &low + 1u32, low, exponent: rest.len() as i64 * 8 }
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
}

/// The real numbers from `low` to `high`, both multiplied by 2^exponent.
struct Interval {
    low: BigUint,
    high: BigUint,
    exponent: i64,
}

impl Interval {
    /// Returns an interval around 5^power.
    fn power_of_five(power: u32, precision: u64) -> Self {
        let mut result = Self { low: BigUint::from(1u32), high: BigUint::from(1u32), exponent: 0 };
        // Each of at most 32 squares doubles the relative width, and the rounding moves both ends.
        let precision = precision + 2 * u64::from(u32::BITS);
        for bit in (0..u32::BITS - power.leading_zeros()).rev() {
            result = result.times(&result).rounded(precision);
            if power >> bit & 1 == 1 {
                result.low *= 5u32;
                result.high *= 5u32;
            }
        }
        result
    }

    fn times(&self, other: &Self) -> Self {
        let (low, high) = (&self.low * &other.low, &self.high * &other.high);
        Self { low, high, exponent: self.exponent + other.exponent }
    }

    /// Widens the interval so that its ends have about `precision` bits.
    fn rounded(mut self, precision: u64) -> Self {
        let excess = self.low.bits().saturating_sub(precision);
        if excess > 0 {
            self.low >>= excess;
            self.high >>= excess;
            self.high += 1u32;
            self.exponent += i64::try_from(excess).unwrap_or(i64::MAX);
        }
        self
    }

    /// Compares all numbers of two intervals; returns `None` if the intervals meet.
    fn compare(&self, other: &Self) -> Option<Ordering> {
        let is_less = |left: &Self, right: &Self| {
            // Both ends have nearly the same magnitude, so the shift is short.
            let shift = left.exponent - right.exponent;
            let by = shift.unsigned_abs();
            if shift >= 0 { &left.high << by < right.low } else { left.high < &right.low << by }
        };
        if is_less(self, other) {
            Some(Ordering::Less)
        } else {
            is_less(other, self).then_some(Ordering::Greater)
        }
    }
}

/// Returns 5^power. For each bit of `power`, from the highest down, a step squares the result, and
/// then multiplies it by 5 if the bit is set.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decimal::{Digits, encode, parse};
    use num_bigint::BigInt;
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

    /// Generates fewer than 40 bytes with leading sign bytes. The number is often 0 or next to a
    /// power of two.
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

    fn assert_within_seconds(seconds: u64, work: impl FnOnce()) {
        let start = espalier_testing::Stopwatch::start();
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
    fn a_number_of_1_mib_is_compared_with_many_close_short_ones_in_seconds() {
        // A dev build takes 1 s for a multiplication by this power of ten. Only the number whose
        // leading bits agree needs it.
        const POWER: u32 = 2_500_000;
        let short = long_number(64, 3);
        let long: BigInt = (&short * BigInt::from(power_of_five(POWER))) << POWER;
        for sign in [1, -1] {
            let long = encode(&((&long + 1) * sign), POWER as i32);
            assert_within_seconds(20, || {
                for offset in -100..=100 {
                    let close = encode(&((&short + offset) * sign), 0);
                    let expected = if offset > 0 { Ordering::Greater } else { Ordering::Less };
                    let expected = if sign < 0 { expected.reverse() } else { expected };
                    assert_eq!(compare(&close, &long), expected, "{offset}");
                    assert_eq!(compare(&long, &close), expected.reverse(), "{offset}");
                }
            });
        }
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

    proptest! {
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
    }
}
