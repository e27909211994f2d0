//! Operations on whole numbers of any length, on which those of decimals rest.

use std::{cell::RefCell, cmp::Ordering};

use espalier_types::varint::BigInt;
use num_bigint::Sign;

use super::{
    decimal::{ArithmeticError, Rounding},
    work,
};

/// The maximum exponent of a power of ten that extends a number with zeros, for instance to give
/// two operands one scale. The limit is arbitrary: the largest operand has about as many digits
/// (39,456).
pub const MAX_DIGITS: i64 = 40_000;

/// Minimum exponent of a power of ten that the thread keeps. Arbitrary: a smaller power takes less
/// than a microsecond.
const MIN_KEPT_EXPONENT: u32 = 256;

thread_local! {
    /// The last large power of ten, because the values of a column or list mostly need the same
    /// one. At most 17 KB.
    static LAST_POWER: RefCell<(u32, BigInt)> = const { RefCell::new((0, BigInt::ZERO)) };
}

type Result<T, E = ArithmeticError> = std::result::Result<T, E>;

/// Returns 10^`exponent`.
///
/// # Errors
/// [`ArithmeticError::Digits`] if `exponent` is negative or above [`MAX_DIGITS`];
/// [`ArithmeticError::Work`].
pub fn power_of_ten(exponent: i64) -> Result<BigInt> {
    let exponent = match u32::try_from(exponent) {
        Ok(exponent) if i64::from(exponent) <= MAX_DIGITS => exponent,
        _ => return Err(ArithmeticError::Digits),
    };
    let power = |exponent: u32| BigInt::from(10).pow(exponent);
    if exponent < MIN_KEPT_EXPONENT {
        return Ok(power(exponent));
    }
    let digits = u64::from(exponent);
    // A copy, and the use of the power by the caller, take time linear in the digits.
    work::charge(digits / 8)?;
    LAST_POWER.with_borrow_mut(|last| {
        if last.0 != exponent {
            work::charge(digits * digits / 5600)?;
            *last = (exponent, power(exponent));
        }
        Ok(last.1.clone())
    })
}

/// Returns the quotient rounded to an integer. The divisor must not be 0.
///
/// # Errors
/// [`ArithmeticError::Work`].
pub fn divide_rounded(dividend: &BigInt, divisor: &BigInt, rounding: Rounding) -> Result<BigInt> {
    work::charge_product(dividend, divisor)?;
    let quotient = dividend / divisor;
    let rest = dividend - &quotient * divisor;
    let twice: BigInt = rest << 1u32;
    let up = match twice.magnitude().cmp(divisor.magnitude()) {
        Ordering::Less => false,
        Ordering::Greater => true,
        Ordering::Equal => rounding == Rounding::HalfUp || quotient.bit(0),
    };
    if !up {
        return Ok(quotient);
    }
    let negative = (dividend.sign() == Sign::Minus) != (divisor.sign() == Sign::Minus);
    Ok(if negative { quotient - 1 } else { quotient + 1 })
}

/// Returns the low 64 bits in two's complement, as `BigInteger.longValue`.
pub fn low_bits(value: &BigInt) -> i64 {
    let low = value.magnitude().iter_u64_digits().next().unwrap_or(0);
    let low = if value.sign() == Sign::Minus { low.wrapping_neg() } else { low };
    low as i64
}

/// Returns the number of decimal digits; 1 for zero.
pub fn digits(value: &BigInt) -> i64 {
    let magnitude = value.magnitude();
    if let Ok(small) = u64::try_from(magnitude) {
        return i64::from(small.checked_ilog10().unwrap_or(0)) + 1;
    }
    // `at_least` is the integer part of the decimal logarithm, or one less.
    let at_least = ((magnitude.bits() - 1) as f64 * std::f64::consts::LOG10_2) as u32;
    let mut power = num_bigint::BigUint::from(10u8).pow(at_least);
    let mut count = i64::from(at_least);
    while *magnitude >= power {
        power *= 10u8;
        count += 1;
    }
    count
}

/// Strips up to `most` trailing zeros. Returns the number without them, and their count.
///
/// The function divides by 10^(2^n) for each n in descending order. Stripping one zero at a time
/// would take 250 ms for a number of 8 KiB.
pub fn trailing_zeros(value: &BigInt, most: i64) -> (BigInt, i64) {
    // Each trailing zero needs a factor of two.
    let twos = i64::try_from(value.trailing_zeros().unwrap_or(0)).unwrap_or(i64::MAX);
    let most = most.min(twos);
    let mut powers = vec![(1, BigInt::from(10))];
    while let Some((exponent, power)) = powers.last()
        && 2 * exponent <= most
    {
        powers.push((2 * exponent, power * power));
    }
    let (mut value, mut shed) = (value.clone(), 0);
    for (exponent, power) in powers.into_iter().rev() {
        if shed + exponent > most {
            continue;
        }
        let quotient = &value / &power;
        if &quotient * power == value {
            value = quotient;
            shed += exponent;
        }
    }
    (value, shed)
}
