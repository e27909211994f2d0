//! `exp`, `log` and `log10` of decimals.
//!
//! The result has as many significant digits as the argument, but at least 32 and at most
//! [`MAX_PRECISION`], rounded half to even. It is computed in fixed point with guard digits: exp by
//! its series after halving the argument, ln by Halley's iteration on exp, which triples the number
//! of correct digits in each step. The slowest call, a logarithm of 1000 digits, takes 24 ms.

use espalier_types::varint::BigInt;
use num_bigint::Sign;

use super::decimal::{ArithmeticError, Decimal, Rounding};
use super::whole::{divide_rounded, power_of_ten};
use super::work;

const MIN_PRECISION: i64 = 32;
/// Maximum number of significant digits. Cassandra allows 10000.
const MAX_PRECISION: i64 = 1000;
/// Guard digits that computations carry beyond the precision.
const GUARD: i64 = 20;
/// Number of digits that one step of the logarithm reaches from the 15 digits of a `double`.
const FEW_DIGITS: i64 = 37;
/// A step of the logarithm begins with a third of the digits of its result, plus this number.
const STEP_GUARD: i64 = 5;
/// Maximum number of digits of x before the point, in e^x. With more digits, the scale of the
/// result does not fit in 32 bits.
const MAX_EXPONENT_DIGITS: i64 = 10;

type Result<T, E = ArithmeticError> = std::result::Result<T, E>;

fn precision_for(value: &Decimal) -> i64 {
    value.precision().clamp(MIN_PRECISION, MAX_PRECISION)
}

/// Returns e to the power of `value`.
///
/// # Errors
/// [`ArithmeticError::Scale`] if the scale of the result does not fit in 32 bits;
/// [`ArithmeticError::Digits`] if `value` has too many digits ([`power_of_ten`]).
pub fn exponential(value: &Decimal) -> Result<Decimal> {
    if value.unscaled.sign() == Sign::NoSign {
        return Ok(Decimal { unscaled: BigInt::from(1), scale: 0 });
    }
    let precision = precision_for(value);
    let whole_digits = value.precision() - i64::from(value.scale);
    if whole_digits > MAX_EXPONENT_DIGITS {
        return Err(ArithmeticError::Scale);
    }
    let fixed = Fixed::new(precision + GUARD + whole_digits.max(0))?;
    let argument = fixed.of(value)?;
    // e^x = e^r 10^k with |r| at most ln 10.
    let ten = fixed.ln_10()?;
    let k = &argument / &ten;
    let power = fixed.exp(&(argument - &k * &ten));
    let k = i64::try_from(&k).map_err(|_| ArithmeticError::Scale)?;
    significant(power, fixed.digits - k, precision)
}

/// Returns the logarithm to the base e.
///
/// # Errors
/// [`ArithmeticError::Logarithm`] for zero or less; [`ArithmeticError::Digits`] if `value` has too
/// many digits ([`power_of_ten`]).
pub fn natural_logarithm(value: &Decimal) -> Result<Decimal> {
    logarithm(value, false)
}

/// Returns the logarithm to the base 10, which is whole for a power of ten.
///
/// # Errors
/// As [`natural_logarithm`].
pub fn decimal_logarithm(value: &Decimal) -> Result<Decimal> {
    logarithm(value, true)
}

fn logarithm(value: &Decimal, to_base_10: bool) -> Result<Decimal> {
    if value.unscaled.sign() != Sign::Plus {
        return Err(ArithmeticError::Logarithm);
    }
    let stripped = value.clone().without_trailing_zeros()?;
    let is_power = stripped.unscaled == BigInt::from(1);
    let exponent = stripped.precision() - 1 - i64::from(stripped.scale);
    if is_power && (to_base_10 || exponent == 0) {
        return Ok(Decimal { unscaled: exponent.into(), scale: 0 });
    }
    let precision = precision_for(value);
    // Near 1, the logarithm begins with up to as many zeros as the argument has digits, so the
    // computation uses that number of digits more.
    let digits = precision + GUARD + stripped.precision().min(MAX_PRECISION);
    let fixed = Fixed::new(digits)?;
    // The value is m 10^e with m from 1 to 10; a value from 0.1 to 1 keeps e = 0.
    let (exponent, scale) = match exponent {
        -1 => (0, i64::from(stripped.scale)),
        _ => (exponent, i64::from(stripped.scale) + exponent),
    };
    let mantissa = Decimal {
        unscaled: stripped.unscaled,
        scale: i32::try_from(scale).map_err(|_| ArithmeticError::Scale)?,
    };
    let ten = fixed.ln_10()?;
    let sum = fixed.ln(&fixed.of(&mantissa)?)? + &ten * exponent;
    let result = if to_base_10 { fixed.divide(&sum, &ten) } else { sum };
    significant(result, fixed.digits, precision)
}

/// Returns unscaled × 10^-scale, rounded to `precision` digits.
fn significant(unscaled: BigInt, scale: i64, precision: i64) -> Result<Decimal> {
    let mut value = (unscaled, scale);
    loop {
        let digits = Decimal { unscaled: value.0.clone(), scale: 0 }.precision();
        if digits <= precision {
            let scale = i32::try_from(value.1).map_err(|_| ArithmeticError::Scale)?;
            return Ok(Decimal { unscaled: value.0, scale });
        }
        let excess = digits - precision;
        let kept = divide_rounded(&value.0, &power_of_ten(excess)?, Rounding::HalfEven)?;
        value = (kept, value.1 - excess);
    }
}

/// Fixed-point arithmetic: numbers are integers in units of 10^-digits.
struct Fixed {
    digits: i64,
    one: BigInt,
}

impl Fixed {
    fn new(digits: i64) -> Result<Self> {
        // A call computes two exponentials: about 7 √digits multiplications and divisions of
        // numbers of this length. Measured: a call takes 24 ms at 2020 digits.
        let (count, words) = (digits.unsigned_abs(), digits.unsigned_abs() / 19 + 1);
        work::charge(words * words * count.isqrt() * 48)?;
        Ok(Self { digits, one: power_of_ten(digits)? })
    }

    fn of(&self, value: &Decimal) -> Result<BigInt> {
        let shift = self.digits - i64::from(value.scale);
        if shift >= 0 {
            return Ok(&value.unscaled * power_of_ten(shift)?);
        }
        if -shift > value.precision() {
            return Ok(BigInt::ZERO);
        }
        Ok(&value.unscaled / power_of_ten(-shift)?)
    }

    fn divide(&self, left: &BigInt, right: &BigInt) -> BigInt {
        left * &self.one / right
    }

    /// Returns e^x for |x| of a few units.
    fn exp(&self, x: &BigInt) -> BigInt {
        // Halvings shorten the series. Each squaring afterwards doubles the error, which extra bits
        // absorb.
        let halvings = 4 + (self.digits as f64).sqrt() as u32;
        let extra = halvings + 8;
        let one = &self.one << extra;
        let reduced: BigInt = (x << extra) >> halvings;
        let mut term = one.clone();
        let mut sum = one.clone();
        let mut n = 1u32;
        loop {
            term = &term * &reduced / &one / n;
            if term.sign() == Sign::NoSign || term == BigInt::from(-1) {
                break;
            }
            sum += &term;
            n += 1;
        }
        for _ in 0..halvings {
            sum = &sum * &sum / &one;
        }
        sum >> extra
    }

    /// Returns ln x for x from 0.1 to 10 by the iteration y' = y + 2 (x - e^y) / (x + e^y), which
    /// triples the number of correct digits. All steps but the last use a third of the digits, so
    /// the last step takes most of the time.
    fn ln(&self, x: &BigInt) -> Result<BigInt> {
        let mut y = if self.digits <= FEW_DIGITS {
            let x = Decimal { unscaled: x.clone(), scale: self.digits as i32 };
            BigInt::from((x.to_f64().ln() * 1e15) as i64) * &self.one
                / BigInt::from(1_000_000_000_000_000i64)
        } else {
            let fewer = Self::new(self.digits / 3 + STEP_GUARD)?;
            let cut = power_of_ten(self.digits - fewer.digits)?;
            fewer.ln(&(x / &cut))? * cut
        };
        let power = self.exp(&y);
        y += self.divide(&((x - &power) * 2), &(x + &power));
        Ok(y)
    }

    fn ln_10(&self) -> Result<BigInt> {
        self.ln(&(&self.one * 10))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    #[test]
    fn precision_is_bounded() {
        let long = decimal(&format!("2.{}1", "0".repeat(5000)));
        for result in [exponential(&long), natural_logarithm(&long), decimal_logarithm(&long)] {
            assert_eq!(result.unwrap().precision(), MAX_PRECISION);
        }
        assert_eq!(exponential(&decimal("1e2147483647")), Err(ArithmeticError::Scale));
        let largest = natural_logarithm(&decimal("1e2147483647")).unwrap();
        let near = 2147483647.0 * std::f64::consts::LN_10;
        assert!((largest.to_f64() / near - 1.0).abs() <= 2.0 * f64::EPSILON, "{largest:?}");
        assert_eq!(exponential(&decimal("1e-2147483647")).unwrap().to_f64(), 1.0);
    }

    proptest! {
        #[test]
        fn exponentials_and_logarithms_agree_with_double(value in 1e-6f64..700.0) {
            let exact = Decimal::parse(&format!("{value:.25}")).unwrap();
            let near = |result: Result<Decimal>, expected: f64| {
                let found = result.unwrap().to_f64();
                (found - expected).abs() <= 4.0 * f64::EPSILON * expected.abs().max(1.0)
            };
            // A double near `value` differs from `value`, so compare exp relative to the slope.
            let relative = exponential(&exact).unwrap().to_f64() / value.exp();
            prop_assert!((relative - 1.0).abs() <= 2e-13, "{}", relative);
            prop_assert!(near(natural_logarithm(&exact), value.ln()));
            prop_assert!(near(decimal_logarithm(&exact), value.log10()));
        }

        #[test]
        fn the_logarithm_undoes_the_exponential(unscaled in -9_999_999i64..9_999_999, scale in 0i32..8) {
            prop_assume!(unscaled != 0);
            let value = Decimal { unscaled: unscaled.into(), scale };
            let Ok(power) = exponential(&value) else { return Err(TestCaseError::reject("too great")) };
            let back = natural_logarithm(&power).unwrap();
            let error = back.add_exactly(&value.negated()).unwrap();
            prop_assert!(error.to_f64().abs() < 1e-24 * value.to_f64().abs().max(1.0), "{:?} {:?}", back, value);
        }
    }
}
