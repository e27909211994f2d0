//! `floor(time, duration [, start])`: the beginning of the span that a time falls in. The spans
//! have the length of the duration and are counted from `start`, by default 1970-01-01 (for a
//! `time`: midnight).
//!
//! Spans with months have no fixed length. Span n begins at the start plus n times the months of
//! the duration, plus n times its days and nanoseconds.

use bytes::Bytes;
use espalier_types::{
    CqlType, calendar::MILLIS_PER_DAY, duration::Duration, literal::print_duration,
};

use super::{ResolvedFunction, temporal};
use crate::{Error, Result};

const NANOS_PER_MILLI: i64 = 1_000_000;

/// Returns all functions of that name.
pub fn overloads(name: &str) -> Vec<ResolvedFunction> {
    use CqlType as T;
    if name != "floor" {
        return Vec::new();
    }
    let mut functions = vec![time(name)];
    for (argument, result) in
        [(T::Timestamp, T::Timestamp), (T::Timeuuid, T::Timestamp), (T::Date, T::Date)]
    {
        functions.push(of_spans(name, argument.clone(), result.clone(), false));
        functions.push(of_spans(name, argument, result, true));
    }
    functions
}

fn time(name: &str) -> ResolvedFunction {
    let types = vec![CqlType::Time, CqlType::Duration];
    ResolvedFunction::of_values(name, types, CqlType::Time, |values, _| {
        let [time, span] = values else { return Ok(None) };
        let span = span_of(span)?;
        if span.months != 0
            || span.days != 0
            || span.nanoseconds > espalier_types::calendar::NANOS_PER_DAY
        {
            return Err(Error::invalid(
                "For time values, the floor can only be computed for durations smaller that a day",
            ));
        }
        let nanos = i64::from_be_bytes(time.as_ref().try_into().map_err(Error::invalid_from)?);
        let into = if span.nanoseconds == 0 { 0 } else { nanos % span.nanoseconds };
        Ok(Some(Bytes::copy_from_slice(&(nanos - into).to_be_bytes())))
    })
}

fn of_spans(name: &str, argument: CqlType, result: CqlType, has_start: bool) -> ResolvedFunction {
    let mut types = vec![argument.clone(), CqlType::Duration];
    if has_start {
        types.push(result.clone());
    }
    let target = result.clone();
    ResolvedFunction::of_values(name, types, result, move |values, _| {
        let (Some(time), Some(span)) = (values.first(), values.get(1)) else { return Ok(None) };
        let span = span_of(span)?;
        if target == CqlType::Date && span.nanoseconds != 0 {
            return Err(Error::invalid(format!(
                "The floor on date values cannot be computed for the {} duration as precision is below 1 day",
                print_duration(&span)
            )));
        }
        if span.nanoseconds % NANOS_PER_MILLI != 0 {
            return Err(Error::invalid(format!(
                "The floor cannot be computed for the {} duration as precision is below 1 millisecond",
                print_duration(&span)
            )));
        }
        let millis = |column_type: &CqlType, value: &Bytes| {
            temporal::to_millis(column_type, value)
                .ok_or_else(|| Error::invalid(column_type.cql_name()))
        };
        let time = millis(&argument, time)?;
        let start = values.get(2).map_or(Ok(0), |start| millis(&target, start))?;
        if start > time {
            return Err(Error::invalid(
                "The floor function starting time is greater than the provided time",
            ));
        }
        Ok(Some(temporal::from_millis(&target, begin_of_span(time, &span, start))))
    })
}

fn span_of(value: &[u8]) -> Result<Duration> {
    let span = Duration::decode(value).map_err(Error::invalid_from)?;
    if span.months < 0 || span.days < 0 || span.nanoseconds < 0 {
        return Err(Error::invalid("Negative durations are not supported by the floor function"));
    }
    Ok(span)
}

/// Returns the beginning of the span in milliseconds. `start` is not after `time`.
fn begin_of_span(time: i64, span: &Duration, start: i64) -> i64 {
    let rest = i64::from(span.days) * MILLIS_PER_DAY + span.nanoseconds / NANOS_PER_MILLI;
    if span.months == 0 {
        return match (time.checked_sub(start), rest) {
            (_, 0) | (None, _) => time,
            (Some(passed), rest) => time - passed % rest,
        };
    }
    // A binary search finds the last n with a span that begins at or before `time`. A month has at
    // least 28 days.
    let begin = |n: i64| {
        let months = i64::from(span.months).checked_mul(n)?;
        temporal::add_months(start, months)?.checked_add(rest.checked_mul(n)?)
    };
    let mut low = 0;
    let mut high = time.saturating_sub(start) / (28 * MILLIS_PER_DAY) + 2;
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match begin(middle) {
            Some(begun) if begun <= time => low = middle,
            _ => high = middle,
        }
    }
    begin(low).unwrap_or(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_time_lies_in_its_span(
            start in -3_000_000_000_000i64..3_000_000_000_000,
            passed in 0i64..3_000_000_000_000,
            months in 0i32..30,
            days in 0i32..100,
            millis in 0i64..100_000_000,
        ) {
            let span = Duration { months, days, nanoseconds: millis * NANOS_PER_MILLI };
            prop_assume!(months > 0 || days > 0 || millis > 0);
            let time = start + passed;
            let begin = begin_of_span(time, &span, start);
            prop_assert!(start <= begin && begin <= time);
            // The floor of a floor is the floor itself, and the next span begins later.
            prop_assert_eq!(begin_of_span(begin, &span, start), begin);
            let longest = i64::from(months) * 31 * MILLIS_PER_DAY + i64::from(days) * MILLIS_PER_DAY + millis;
            prop_assert!(time - begin < longest + 3 * MILLIS_PER_DAY);
        }
    }

    #[test]
    fn extreme_times_do_not_overflow() {
        let span = Duration { months: i32::MAX, days: i32::MAX, nanoseconds: 0 };
        // One span after 1970 ends within the range of `i64`, two do not.
        assert_eq!(begin_of_span(i64::MAX, &span, 0), 5_832_879_117_840_000_000);
        let day = Duration { months: 0, days: 1, nanoseconds: 0 };
        assert_eq!(begin_of_span(i64::MAX, &day, i64::MIN), i64::MAX);
        let month = Duration { months: 1, days: 0, nanoseconds: 0 };
        let begin = begin_of_span(i64::MAX, &month, 0);
        assert!(i64::MAX - begin < 31 * MILLIS_PER_DAY, "{begin}");
        assert_eq!(begin_of_span(begin, &month, 0), begin);
    }
}
