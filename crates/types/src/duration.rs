//! Reads and writes `duration`: months, days and nanoseconds, each a zig-zag vint, all of the same
//! sign.
//!
//! A duration has no order, because a month is not a fixed number of days. Cells of this type sort
//! by their bytes.

use crate::{CqlType, ValueError, vint};

/// A span of time in CQL. In a valid value no two parts have opposite signs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct Duration {
    pub months: i32,
    pub days: i32,
    pub nanoseconds: i64,
}

impl Duration {
    /// Reads the serialised form: exactly three vints, months and days of 32 bits, no opposite
    /// signs.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes have another form.
    pub fn decode(bytes: &[u8]) -> Result<Self, ValueError> {
        let too_short = |_| ValueError::Length {
            type_name: CqlType::Duration.cql_name(),
            expected: "three variable-length integers",
            got: bytes.len(),
        };
        let mut input = bytes;
        let months = vint::read_signed(&mut input).map_err(too_short)?;
        let days = vint::read_signed(&mut input).map_err(too_short)?;
        let nanoseconds = vint::read_signed(&mut input).map_err(too_short)?;
        if !input.is_empty() {
            return Err(ValueError::Trailing {
                type_name: CqlType::Duration.cql_name(),
                got: input.len(),
            });
        }
        let (Ok(months), Ok(days)) = (i32::try_from(months), i32::try_from(days)) else {
            return Err(Self::invalid("months and days of 32 bits", months, days, nanoseconds));
        };
        let duration = Self { months, days, nanoseconds };
        if !duration.has_one_sign() {
            let [months, days] = [months, days].map(i64::from);
            return Err(Self::invalid("parts of one sign", months, days, nanoseconds));
        }
        Ok(duration)
    }

    /// Appends the serialised form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        vint::write_signed(i64::from(self.months), out);
        vint::write_signed(i64::from(self.days), out);
        vint::write_signed(self.nanoseconds, out);
    }

    /// Returns whether no two parts have opposite signs.
    pub fn has_one_sign(&self) -> bool {
        let (months, days, nanoseconds) = (self.months, self.days, self.nanoseconds);
        (months >= 0 && days >= 0 && nanoseconds >= 0)
            || (months <= 0 && days <= 0 && nanoseconds <= 0)
    }

    fn invalid(expected: &'static str, months: i64, days: i64, nanoseconds: i64) -> ValueError {
        ValueError::Invalid {
            type_name: CqlType::Duration.cql_name(),
            expected,
            got: format!("{months} months, {days} days, {nanoseconds} nanoseconds"),
        }
    }
}
