//! Aggregates over the rows of a group: `count`, `min`, `max`, `sum`, `avg`.
//!
//! Sums and averages have the type of their argument. A sum of integers of up to 64 bits wraps.
//! Their average is computed from a sum of 128 bits, so that it does not wrap. Averages of integers
//! are truncated towards zero. Floats are added in `double` with Kahan's compensation. In an empty
//! group, counts, sums and averages are 0, and minimum and maximum are null. `count(*)` counts all
//! rows; the other aggregates skip nulls.
//!
//! Memory: a minimum or maximum holds one value, a sum of `varint` or `decimal` grows with its
//! digits, and the other states take constant memory.
//!
//! `collection_sum` and the other collection functions use these states for the elements of one
//! value.

use bytes::Bytes;
use espalier_types::{CqlType, varint::BigInt};

use super::{
    decimal::{ArithmeticError, Decimal, Rounding},
    number::{Number, is_numeric},
};
use crate::{
    Error, Result,
    grammar::ast::{Expression, QualifiedName},
};

/// An aggregate for arguments of one type.
#[derive(Clone, Debug)]
pub struct AggregateFunction {
    kind: Kind,
    argument: Option<CqlType>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Count,
    Minimum,
    Maximum,
    Sum,
    Average,
}

impl Kind {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "count" => Self::Count,
            "min" => Self::Minimum,
            "max" => Self::Maximum,
            "sum" => Self::Sum,
            "avg" => Self::Average,
            _ => return None,
        })
    }
}

/// The state of an aggregate within a group.
#[derive(Clone, Debug)]
pub enum State {
    /// The number of rows or values.
    Count(i64),
    /// The smallest or greatest value so far.
    Extreme(Option<Bytes>),
    /// Whole numbers up to 64 bits: their number and sum. The sum of 2^64 values cannot overflow.
    Whole(i64, i128),
    /// Floating-point numbers.
    Floating(FloatingSum),
    /// `varint`: number of values and sum.
    Varint(i64, BigInt),
    /// `decimal`: number of values, and sum or average.
    Decimal(i64, Decimal),
}

/// A compensated sum by the algorithm of W. Kahan, "Further remarks on reducing truncation errors",
/// 1965.
#[derive(Clone, Debug, Default)]
pub struct FloatingSum {
    count: i64,
    sum: f64,
    compensation: f64,
    /// The sum without compensation. It is the result if infinities make the compensated sum NaN.
    simple: f64,
    /// The sum in decimal, exact from the addition on that overflowed `sum`. Only averages use it.
    exact: Option<Decimal>,
}

impl FloatingSum {
    fn add(&mut self, value: f64) {
        self.count += 1;
        self.simple += value;
        let corrected = value - self.compensation;
        let rounded = self.sum + corrected;
        self.compensation = (rounded - self.sum) - corrected;
        self.sum = rounded;
    }

    /// Adds a value like `add`, but the average of finite values stays finite.
    fn add_to_average(&mut self, value: f64) -> Result<(), ArithmeticError> {
        let decimal = |value: f64| Number::Double(value).to_decimal();
        if let Some(exact) = &mut self.exact {
            self.count += 1;
            *exact = exact.add_exactly(&decimal(value)?)?;
            return Ok(());
        }
        let before = self.sum;
        self.add(value);
        if self.sum.is_infinite() && value.is_finite() && before.is_finite() {
            self.exact = Some(decimal(before)?.add_exactly(&decimal(value)?)?);
        }
        Ok(())
    }

    fn average(&self) -> Result<f64, ArithmeticError> {
        let Some(exact) = &self.exact else {
            return Ok(if self.count == 0 { 0.0 } else { self.total() / self.count as f64 });
        };
        let count = Decimal { unscaled: self.count.into(), scale: 0 };
        let scale = i64::from(exact.scale);
        Ok(exact.divide_to_scale(&count, scale, Rounding::HalfEven)?.to_f64())
    }

    fn total(&self) -> f64 {
        let total = self.sum + self.compensation;
        if total.is_nan() && self.simple.is_infinite() { self.simple } else { total }
    }
}

impl AggregateFunction {
    /// Returns `count(*)`.
    pub fn count_rows() -> Self {
        Self { kind: Kind::Count, argument: None }
    }

    /// Returns whether the name is that of an aggregate.
    pub fn is_native(name: &QualifiedName<'_>) -> bool {
        let keyspace = name.keyspace.as_ref().map_or("system", |keyspace| keyspace.as_str());
        keyspace == "system" && Kind::of(name.name.as_str()).is_some()
    }

    /// Returns the reason to refuse an argument without a type of its own.
    pub fn untyped(name: &QualifiedName<'_>, argument: &Expression<'_>) -> String {
        match name.name.as_str() {
            extreme @ ("min" | "max") => format!(
                "Cannot infer type of argument {argument} in call to function system.{extreme}(any): use type casts to disambiguate"
            ),
            _ => format!(
                "Ambiguous call to function {name} (can be matched by following signatures: one for each numeric type): use type casts to disambiguate"
            ),
        }
    }

    /// Returns the reason why the aggregate of that name has no overload for the arguments.
    pub fn refusal(name: &QualifiedName<'_>, arguments: usize) -> String {
        match (name.name.as_str(), arguments) {
            ("count", count) => format!(
                "Invalid number of arguments in call to function system.count: 1 required but {count} provided"
            ),
            (extreme @ ("min" | "max"), _) => {
                format!("Invalid number of arguments for function system.{extreme}(any)")
            }
            _ => format!(
                "Invalid call to function {name}, none of its type signatures match (known type \
                 signatures: one for each numeric type)"
            ),
        }
    }

    /// Returns the aggregate of that name for values of a type, if there is one.
    pub fn resolve(name: &str, argument: &CqlType) -> Option<Self> {
        let kind = Kind::of(name)?;
        if matches!(kind, Kind::Sum | Kind::Average) && !is_numeric(argument) {
            return None;
        }
        Some(Self { kind, argument: Some(argument.clone()) })
    }

    /// Returns the type of the result.
    pub fn return_type(&self) -> CqlType {
        match (self.kind, &self.argument) {
            (Kind::Count, _) | (_, None) => CqlType::Bigint,
            (_, Some(argument)) => argument.clone(),
        }
    }

    /// Returns the state of an empty group.
    pub fn start(&self) -> State {
        match (self.kind, &self.argument) {
            (Kind::Count, _) => State::Count(0),
            (Kind::Minimum | Kind::Maximum, _) => State::Extreme(None),
            (_, Some(CqlType::Float | CqlType::Double)) => State::Floating(FloatingSum::default()),
            (_, Some(CqlType::Varint)) => State::Varint(0, BigInt::ZERO),
            (_, Some(CqlType::Decimal)) => {
                State::Decimal(0, Decimal { unscaled: BigInt::ZERO, scale: 0 })
            }
            _ => State::Whole(0, 0),
        }
    }

    /// Adds the value of a row. `count(*)` ignores the value and counts every row.
    ///
    /// # Errors
    /// The value is too long or no number of the argument's type, the sum or average of decimals
    /// needs too many digits, or the sum for an average is beyond an `f64` and the value is NaN or
    /// infinite.
    pub fn add(&self, state: &mut State, value: Option<&[u8]>) -> Result<()> {
        let Some(argument) = &self.argument else {
            if let State::Count(count) = state {
                *count += 1;
            }
            return Ok(());
        };
        let Some(value) = value else { return Ok(()) };
        match state {
            State::Count(count) => *count += 1,
            State::Extreme(extreme) => {
                let better = match extreme {
                    None => true,
                    Some(extreme) if self.kind == Kind::Minimum => {
                        argument.compare(value, extreme).is_lt()
                    }
                    Some(extreme) => argument.compare(value, extreme).is_gt(),
                };
                if better {
                    *extreme = Some(Bytes::copy_from_slice(value));
                }
            }
            _ if value.is_empty() => {}
            _ => self
                .add_number(state, Number::decode(argument, value).map_err(Error::invalid_from)?)?,
        }
        Ok(())
    }

    fn add_number(&self, state: &mut State, number: Number) -> Result<()> {
        match (state, number) {
            (State::Whole(count, sum), Number::Integer(value)) => {
                *count += 1;
                *sum = sum.wrapping_add(i128::from(value));
            }
            (State::Floating(sum), number) if self.kind == Kind::Average => {
                sum.add_to_average(number.to_f64()).map_err(Error::invalid_from)?;
            }
            (State::Floating(sum), number) => sum.add(number.to_f64()),
            (State::Varint(count, sum), Number::Varint(value)) => {
                *count += 1;
                *sum += value;
            }
            (State::Decimal(count, total), Number::Decimal(value)) => {
                *count += 1;
                *total = if self.kind == Kind::Sum {
                    total.add_exactly(&value).map_err(Error::invalid_from)?
                } else {
                    running_average(total, &value, *count).map_err(Error::invalid_from)?
                };
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the result of a group.
    ///
    /// # Errors
    /// None at present: each state converts to its result.
    pub fn finish(&self, state: State) -> Result<Option<Bytes>> {
        let averages = self.kind == Kind::Average;
        let number = match state {
            State::Extreme(extreme) => return Ok(extreme),
            State::Count(count) => Number::Integer(count),
            State::Whole(count, sum) if averages => {
                Number::Integer((sum / i128::from(count.max(1))) as i64)
            }
            State::Whole(_, sum) => Number::Integer(sum as i64),
            State::Floating(sum) if averages => {
                Number::Double(sum.average().map_err(Error::invalid_from)?)
            }
            State::Floating(sum) => Number::Double(sum.total()),
            State::Varint(count, sum) if averages => Number::Varint(sum / count.max(1)),
            State::Varint(_, sum) => Number::Varint(sum),
            State::Decimal(_, total) => Number::Decimal(total),
        };
        number.encode(&self.return_type()).map(Some).map_err(Error::invalid_from)
    }
}

/// Returns the average of `count` values: `value`, and the others, whose average is `average`. The
/// scale of the result is the greater one of `value` and `average`.
fn running_average(
    average: &Decimal,
    value: &Decimal,
    count: i64,
) -> Result<Decimal, ArithmeticError> {
    let distance = value.add_exactly(&average.negated())?;
    let count = Decimal { unscaled: count.into(), scale: 0 };
    let scale = i64::from(distance.scale);
    average.add_exactly(&distance.divide_to_scale(&count, scale, Rounding::HalfEven)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn over(name: &str, column_type: &CqlType, values: &[Number]) -> Number {
        let function = AggregateFunction::resolve(name, column_type).unwrap();
        let mut state = function.start();
        function.add(&mut state, None).unwrap();
        for value in values {
            function.add(&mut state, Some(&value.encode(column_type).unwrap()[..])).unwrap();
        }
        let result = function.finish(state).unwrap().unwrap();
        Number::decode(&function.return_type(), &result).unwrap()
    }

    proptest! {
        #[test]
        fn averages_of_integers_do_not_overflow(values in prop::collection::vec(any::<i64>(), 1..50)) {
            let numbers: Vec<Number> = values.iter().copied().map(Number::Integer).collect();
            let sum: i128 = values.iter().copied().map(i128::from).sum();
            let average = (sum / values.len() as i128) as i64;
            prop_assert_eq!(over("avg", &CqlType::Bigint, &numbers), Number::Integer(average));
            prop_assert_eq!(over("sum", &CqlType::Bigint, &numbers), Number::Integer(sum as i64));
            let varints: Vec<Number> = values.iter().map(|v| Number::Varint((*v).into())).collect();
            prop_assert_eq!(over("sum", &CqlType::Varint, &varints), Number::Varint(sum.into()));
        }

        #[test]
        fn sums_of_short_integers_wrap(values in prop::collection::vec(any::<i8>(), 0..50)) {
            let numbers: Vec<Number> = values.iter().map(|v| Number::Integer((*v).into())).collect();
            let sum = values.iter().fold(0i8, |sum, value| sum.wrapping_add(*value));
            prop_assert_eq!(over("sum", &CqlType::Tinyint, &numbers), Number::Integer(sum.into()));
        }

        #[test]
        fn extremes_are_those_of_the_order(values in prop::collection::vec(any::<i32>(), 1..50)) {
            let numbers: Vec<Number> = values.iter().map(|v| Number::Integer((*v).into())).collect();
            let of = |name| over(name, &CqlType::Int, &numbers);
            prop_assert_eq!(of("min"), Number::Integer((*values.iter().min().unwrap()).into()));
            prop_assert_eq!(of("max"), Number::Integer((*values.iter().max().unwrap()).into()));
            prop_assert_eq!(of("count"), Number::Integer(values.len() as i64));
        }
    }
}
