//! Arithmetic of `decimal` with the results of Java's `BigDecimal`.
//!
//! Values, scales and rounding are those of Cassandra's `DecimalType`. The scale of a result is
//! visible, because 1.50 and 1.5 are equal numbers with different bytes.
//!
//! A scale has 32 bits, so a value of a few bytes may have two billion digits. To bound memory, a
//! function appends at most [`MAX_DIGITS`](super::whole::MAX_DIGITS) zeros to an operand. A result
//! that needs more is an error. To bound time, each function also fails with
//! [`ArithmeticError::Work`] if its task has computed too much since it yielded.

use espalier_types::{ValueError, decimal, varint::BigInt};
use num_bigint::Sign;

use super::{
    whole::{digits, divide_rounded, low_bits, power_of_ten, trailing_zeros},
    work,
};

/// The maximum number of digits of a sum or product.
const MAX_PRECISION: i64 = 10_000;
/// A division computes at least this number of significant digits, and of digits after the point.
const QUOTIENT_DIGITS: i64 = 32;
/// The maximum number of digits of a quotient after the point.
const MAX_QUOTIENT_SCALE: i64 = 1000;

/// The number `unscaled` × 10^-`scale`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decimal {
    /// The digits and the sign, without the point.
    pub unscaled: BigInt,
    /// The number of digits after the point. If it is negative, that many zeros follow the digits.
    pub scale: i32,
}

/// The reason why an operation on decimals has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum ArithmeticError {
    #[error("/ by zero")]
    DivisionByZero,
    #[error("BigInteger divide by zero")]
    BigDivisionByZero,
    #[error("the scale of the result does not fit in 32 bits")]
    Scale,
    #[error("the result takes too many digits")]
    Digits,
    #[error("the row or statement computes too much with numbers of many digits")]
    Work,
    #[error("the logarithm of zero or less")]
    Logarithm,
    #[error("A NaN cannot be converted into a decimal")]
    NotANumber,
    #[error("An infinite number cannot be converted into a decimal")]
    Infinite,
}

type Result<T, E = ArithmeticError> = std::result::Result<T, E>;

/// The rounding of a function, to the nearest number. If two are equally near, `HalfUp` chooses the
/// one farther from zero, and `HalfEven` the one with an even last digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Rounding {
    HalfUp,
    HalfEven,
}

impl Decimal {
    /// Decodes a serialised decimal.
    ///
    /// # Errors
    /// [`ValueError::Length`] for fewer than 4 bytes, which have no room for the scale.
    pub fn decode(bytes: &[u8]) -> Result<Self, ValueError> {
        let (unscaled, scale) = decimal::decode(bytes)?;
        Ok(Self { unscaled, scale })
    }

    /// Returns the serialised form.
    pub fn encode(&self) -> Vec<u8> {
        decimal::encode(&self.unscaled, self.scale)
    }

    /// Parses digits as Java prints them (`1.0E10` has the scale -9).
    pub fn parse(text: &str) -> Option<Self> {
        decimal::parse(text).map(|(unscaled, scale)| Self { unscaled, scale })
    }

    fn new(unscaled: BigInt, scale: i64) -> Result<Self> {
        let scale = i32::try_from(scale).map_err(|_| ArithmeticError::Scale)?;
        Ok(Self { unscaled, scale })
    }

    fn is_zero(&self) -> bool {
        self.unscaled.sign() == Sign::NoSign
    }

    /// Returns the number of digits; 1 for zero.
    pub fn precision(&self) -> i64 {
        digits(&self.unscaled)
    }

    fn wide_scale(&self) -> i64 {
        i64::from(self.scale)
    }

    /// Returns the unscaled number that has the same value with a greater scale: appends zeros.
    fn with_greater_scale(&self, scale: i64) -> Result<BigInt> {
        let zeros = power_of_ten(scale - self.wide_scale())?;
        work::charge_product(&self.unscaled, &zeros)?;
        Ok(&self.unscaled * zeros)
    }

    /// Counts an operation on two numbers that takes time quadratic in their digits.
    fn charge_with(&self, other: &Self) -> Result<()> {
        let words = work::words(&self.unscaled) + work::words(&other.unscaled);
        work::charge(words * words / 4)
    }

    fn rounded(self, precision: i64) -> Result<Self> {
        let mut value = self;
        // A carry may add a digit (9.99 becomes 10.0), so there may be a second round.
        loop {
            let excess = value.precision() - precision;
            if excess <= 0 {
                return Ok(value);
            }
            let kept = divide_rounded(&value.unscaled, &power_of_ten(excess)?, Rounding::HalfUp)?;
            value = Self::new(kept, value.wide_scale() - excess)?;
        }
    }

    /// Returns the sum, rounded half up to [`MAX_PRECISION`] digits.
    ///
    /// # Errors
    /// [`ArithmeticError::Scale`] if the scale of the sum does not fit in 32 bits;
    /// [`ArithmeticError::Digits`] if the sum needs more than `MAX_DIGITS` zeros after one
    /// operand, or if rounding would drop more than that many digits.
    pub fn add(&self, other: &Self) -> Result<Self> {
        self.charge_with(other)?;
        let preferred = self.wide_scale().max(other.wide_scale());
        if self.is_zero() || other.is_zero() {
            let kept = if self.is_zero() { other } else { self };
            if kept.is_zero() {
                return Self::new(BigInt::ZERO, preferred);
            }
            let kept = kept.clone().rounded(MAX_PRECISION)?;
            let room = MAX_PRECISION - kept.precision();
            let scale = preferred.min(kept.wide_scale() + room).max(kept.wide_scale());
            return Self::new(kept.with_greater_scale(scale)?, scale);
        }
        let (coarse, fine) = if self.scale <= other.scale { (self, other) } else { (other, self) };
        let last_kept = coarse.wide_scale() - coarse.precision() + MAX_PRECISION;
        let first_of_fine = fine.wide_scale() - fine.precision() + 1;
        // If all digits of the finer number lie far below the last kept digit, only the sign of the
        // finer number decides how the sum is rounded. A single 1 with that sign, three places
        // below the last kept digit, replaces the number, so that the sum has few digits.
        let below = coarse.wide_scale().max(last_kept);
        let sum = if first_of_fine > below + 2 {
            let sliver = BigInt::from_biguint(fine.unscaled.sign(), 1u8.into());
            Self::new(coarse.with_greater_scale(below + 3)? + sliver, below + 3)?
        } else {
            let scale = fine.wide_scale();
            Self::new(coarse.with_greater_scale(scale)? + &fine.unscaled, scale)?
        };
        sum.rounded(MAX_PRECISION)
    }

    /// Returns the exact sum.
    ///
    /// # Errors
    /// [`ArithmeticError::Digits`] if the scales differ by more than `MAX_DIGITS`.
    pub fn add_exactly(&self, other: &Self) -> Result<Self> {
        let scale = self.wide_scale().max(other.wide_scale());
        Self::new(self.with_greater_scale(scale)? + other.with_greater_scale(scale)?, scale)
    }

    /// Returns the number with the opposite sign.
    pub fn negated(&self) -> Self {
        Self { unscaled: -&self.unscaled, scale: self.scale }
    }

    /// Returns the number without its sign.
    pub fn absolute(&self) -> Self {
        Self { unscaled: self.unscaled.magnitude().clone().into(), scale: self.scale }
    }

    /// Returns the product, rounded half up to [`MAX_PRECISION`] digits.
    ///
    /// # Errors
    /// [`ArithmeticError::Scale`] if the sum of the scales does not fit in 32 bits;
    /// [`ArithmeticError::Digits`] if rounding would drop more than `MAX_DIGITS` digits.
    pub fn multiply(&self, other: &Self) -> Result<Self> {
        self.charge_with(other)?;
        let scale = self.wide_scale() + other.wide_scale();
        Self::new(&self.unscaled * &other.unscaled, scale)?.rounded(MAX_PRECISION)
    }

    /// Returns the quotient, rounded half up and then stripped of trailing zeros. The division has
    /// [`QUOTIENT_DIGITS`] significant digits or more, and at least the scale of each operand, but
    /// at most [`MAX_QUOTIENT_SCALE`] digits after the point.
    ///
    /// # Errors
    /// [`ArithmeticError::BigDivisionByZero`]; [`ArithmeticError::Digits`] if the quotient needs
    /// more than `MAX_DIGITS` zeros after one operand.
    pub fn divide(&self, other: &Self) -> Result<Self> {
        if other.is_zero() {
            return Err(ArithmeticError::BigDivisionByZero);
        }
        self.charge_with(other)?;
        let first_digit =
            (self.precision() - self.wide_scale()) - (other.precision() - other.wide_scale());
        let scale = (QUOTIENT_DIGITS - first_digit)
            .max(self.wide_scale())
            .max(other.wide_scale())
            .clamp(QUOTIENT_DIGITS, MAX_QUOTIENT_SCALE);
        self.divide_to_scale(other, scale, Rounding::HalfUp)?.without_trailing_zeros()
    }

    /// Returns the quotient with `scale` digits after the point. The divisor must not be 0.
    ///
    /// # Errors
    /// [`ArithmeticError::Digits`] if the quotient needs more than `MAX_DIGITS` zeros after one
    /// operand; [`ArithmeticError::Scale`] if `scale` does not fit in 32 bits.
    pub fn divide_to_scale(&self, other: &Self, scale: i64, rounding: Rounding) -> Result<Self> {
        let shift = scale - self.wide_scale() + other.wide_scale();
        if self.is_zero() || shift < -(self.precision() + 1) {
            // The dividend is zero, or the quotient is less than half a unit of the last digit.
            return Self::new(BigInt::ZERO, scale);
        }
        let quotient = if shift >= 0 {
            divide_rounded(&(&self.unscaled * power_of_ten(shift)?), &other.unscaled, rounding)?
        } else {
            divide_rounded(&self.unscaled, &(&other.unscaled * power_of_ten(-shift)?), rounding)?
        };
        Self::new(quotient, scale)
    }

    /// Returns the remainder of the division by `other`, with the sign of `self`.
    ///
    /// # Errors
    /// [`ArithmeticError::BigDivisionByZero`]; [`ArithmeticError::Digits`] if the scales differ by
    /// more than `MAX_DIGITS`, unless `self` has fewer whole digits than `other` and is the
    /// result.
    pub fn remainder(&self, other: &Self) -> Result<Self> {
        if other.is_zero() {
            return Err(ArithmeticError::BigDivisionByZero);
        }
        self.charge_with(other)?;
        let preferred = self.wide_scale() - other.wide_scale();
        let magnitude = |value: &Self| value.precision() - value.wide_scale();
        if self.is_zero() || magnitude(self) < magnitude(other) {
            return Ok(self.clone());
        }
        let common = self.wide_scale().max(other.wide_scale());
        let dividend = self.with_greater_scale(common)?;
        let divisor = other.with_greater_scale(common)?;
        work::charge_product(&dividend, &divisor)?;
        let quotient = &dividend / &divisor;
        let rest = dividend - &quotient * &divisor;
        // Java computes dividend - quotient × divisor, so the rest has the greater scale of the
        // dividend and the product. Java's quotient is whole and sheds trailing zeros while its
        // scale is above the preferred one. Each shed zero lowers the scale of the product by one.
        let shed = match quotient.sign() {
            Sign::NoSign => (-preferred).max(0),
            _ => {
                work::charge_product(&quotient, &quotient)?;
                trailing_zeros(&quotient, (-preferred).max(0)).1
            }
        };
        let scale = self.wide_scale().max(other.wide_scale() - shed);
        Self::new(rest / power_of_ten(common - scale)?, scale)
    }

    /// Returns the same value with the smallest scale; zero gets the scale 0.
    ///
    /// # Errors
    /// [`ArithmeticError::Work`]. The function keeps the zeros without which the scale would not
    /// fit in 32 bits.
    pub fn without_trailing_zeros(self) -> Result<Self> {
        if self.is_zero() {
            return Self::new(BigInt::ZERO, 0);
        }
        work::charge_product(&self.unscaled, &self.unscaled)?;
        let scale = self.wide_scale();
        let (stripped, zeros) =
            trailing_zeros(&self.unscaled, scale.saturating_add(1 << 31).max(0));
        Self::new(stripped, scale - zeros)
    }

    /// Returns the number rounded to a whole number.
    ///
    /// # Errors
    /// [`ArithmeticError::Digits`] if the result needs more than `MAX_DIGITS` zeros after the
    /// unscaled number, or if the number loses more than that many digits after the point.
    pub fn to_integer(&self, rounding: Rounding) -> Result<BigInt> {
        if self.scale <= 0 {
            return self.with_greater_scale(0);
        }
        work::charge_product(&self.unscaled, &self.unscaled)?;
        if self.wide_scale() > self.precision() + 1 {
            return Ok(BigInt::ZERO);
        }
        divide_rounded(&self.unscaled, &power_of_ten(self.wide_scale())?, rounding)
    }

    /// Returns the whole part.
    ///
    /// # Errors
    /// As [`Self::to_integer`].
    pub fn truncated(&self) -> Result<BigInt> {
        if self.scale <= 0 {
            return self.with_greater_scale(0);
        }
        work::charge_product(&self.unscaled, &self.unscaled)?;
        if self.wide_scale() > self.precision() {
            return Ok(BigInt::ZERO);
        }
        let divisor = power_of_ten(self.wide_scale())?;
        work::charge_product(&self.unscaled, &divisor)?;
        Ok(&self.unscaled / divisor)
    }

    /// Returns the low 64 bits of the whole part, as `BigDecimal.longValue`.
    ///
    /// # Errors
    /// [`ArithmeticError::Digits`] if the number loses more than `MAX_DIGITS` digits after the
    /// point.
    pub fn low_bits(&self) -> Result<i64> {
        if self.scale <= -64 {
            // The number is a multiple of 2^64.
            return Ok(0);
        }
        self.truncated().map(|whole| low_bits(&whole))
    }

    /// Returns the nearest `f64`.
    pub fn to_f64(&self) -> f64 {
        decimal::to_scientific_string(&self.unscaled, self.scale).parse().unwrap_or(f64::NAN)
    }

    /// Returns the nearest `f32`.
    pub fn to_f32(&self) -> f32 {
        decimal::to_scientific_string(&self.unscaled, self.scale).parse().unwrap_or(f32::NAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    fn small() -> impl Strategy<Value = Decimal> {
        (any::<i64>(), 0u32..64, -30i32..30).prop_map(|(unscaled, shift, scale)| Decimal {
            unscaled: (unscaled >> shift).into(),
            scale,
        })
    }

    /// Returns the number times 10^60, exactly.
    fn exact(value: &Decimal) -> BigInt {
        &value.unscaled * BigInt::from(10).pow((60 - value.scale) as u32)
    }

    #[test]
    fn huge_scales_take_neither_time_nor_memory() {
        let huge = decimal("1e2147483647");
        let tiny = decimal("1e-2147483647");
        let one = decimal("1");
        for sum in [huge.add(&one), tiny.add(&one), huge.add(&tiny), huge.negated().add(&one)] {
            assert!(sum.unwrap().precision() <= MAX_PRECISION);
        }
        assert_eq!(huge.multiply(&huge), Err(ArithmeticError::Scale));
        assert_eq!(huge.divide(&one), Err(ArithmeticError::Digits));
        assert_eq!(huge.remainder(&one), Err(ArithmeticError::Digits));
        assert_eq!(huge.add_exactly(&one), Err(ArithmeticError::Digits));
        assert_eq!(huge.truncated(), Err(ArithmeticError::Digits));
        assert_eq!(one.remainder(&huge), Ok(one.clone()));
        assert_eq!(tiny.divide(&one).map(|quotient| quotient.is_zero()), Ok(true));
        assert_eq!((huge.low_bits(), tiny.low_bits()), (Ok(0), Ok(0)));
        assert_eq!((huge.to_f64(), tiny.to_f64()), (f64::INFINITY, 0.0));
    }

    #[test]
    fn a_number_far_below_the_last_digit_still_decides_a_half() {
        let half = decimal(&format!("{}5", "1".repeat(10_000)));
        let up = half.add(&decimal("1e-20000")).unwrap();
        let down = half.add(&decimal("-1e-20000")).unwrap();
        let last = |value: &Decimal| value.unscaled.to_string().chars().last();
        assert_eq!((last(&up), last(&down)), (Some('2'), Some('1')));
    }

    proptest! {
        #[test]
        fn sums_and_products_are_exact(a in small(), b in small()) {
            prop_assert_eq!(exact(&a.add(&b).unwrap()), exact(&a) + exact(&b));
            prop_assert_eq!(a.add_exactly(&b).unwrap(), a.add(&b).unwrap());
            let product = a.multiply(&b).unwrap();
            prop_assert_eq!(product.unscaled, &a.unscaled * &b.unscaled);
            prop_assert_eq!(product.scale, a.scale + b.scale);
        }

        #[test]
        fn quotients_are_the_nearest_of_their_scale(a in small(), b in small()) {
            prop_assume!(!b.is_zero());
            let quotient = a.divide(&b).unwrap();
            prop_assert!(quotient.is_zero() || quotient.scale <= 1000);
            // |a - q b| <= |a| 10^-31. Both sides are multiplied by 10^(60 + quotient's scale) to
            // be whole.
            let scale = quotient.scale.max(0) as u32;
            let shift = BigInt::from(10).pow(scale);
            let product = exact(&b) * &quotient.unscaled
                * BigInt::from(10).pow((-quotient.scale).max(0) as u32);
            let error = exact(&a) * &shift - product;
            let bound = exact(&a) * shift / BigInt::from(10).pow(31);
            prop_assert!(error.magnitude() <= bound.magnitude(), "{:?}", quotient);
        }

        #[test]
        fn remainders_complete_whole_multiples(a in small(), b in small()) {
            prop_assume!(!b.is_zero());
            let rest = a.remainder(&b).unwrap();
            prop_assert_eq!(exact(&rest), exact(&a) % exact(&b));
        }

        #[test]
        fn precision_counts_digits(value: i64, power in 0u32..30) {
            let value = BigInt::from(value) * BigInt::from(10).pow(power);
            let digits = value.magnitude().to_string().len() as i64;
            prop_assert_eq!(Decimal { unscaled: value, scale: 0 }.precision(), digits);
        }

        #[test]
        fn trailing_zeros_go_and_the_number_stays(value: i32, power in 0u32..30) {
            let number = Decimal { unscaled: BigInt::from(value) * BigInt::from(10).pow(power), scale: 5 };
            let stripped = number.clone().without_trailing_zeros().unwrap();
            prop_assert_eq!(exact(&stripped), exact(&number));
            prop_assert!(stripped.is_zero() || &stripped.unscaled % 10 != BigInt::ZERO);
        }
    }
}
