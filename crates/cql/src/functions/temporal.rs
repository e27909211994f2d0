//! Points in time, and their movement by durations.
//!
//! Months are added first, then days and the rest: 2020-01-31 + 1mo is 2020-02-29. A date moves by
//! whole days only, a timestamp by whole milliseconds; a finer duration is an error. All times are
//! UTC.

use bytes::Bytes;
use espalier_types::{
    CqlType,
    calendar::{CivilDate, MILLIS_PER_DAY, civil_from_days, days_from_civil, days_in_month},
    duration::Duration,
    literal::print_duration,
    timeuuid,
};

/// The offset of a stored date from its days since 1970.
const DATE_EPOCH: i64 = 1 << 31;
/// Maximum absolute value of a year. A `timestamp` reaches 292 million years.
const MAX_YEARS: i64 = 300_000_000;

/// Returns the milliseconds since 1970 of a `timestamp`, `date` or `timeuuid`, or `None` for other
/// types and malformed values.
pub fn to_millis(column_type: &CqlType, value: &[u8]) -> Option<i64> {
    match column_type {
        CqlType::Timestamp => Some(i64::from_be_bytes(value.try_into().ok()?)),
        CqlType::Date => {
            let days = i64::from(u32::from_be_bytes(value.try_into().ok()?)) - DATE_EPOCH;
            Some(days * MILLIS_PER_DAY)
        }
        CqlType::Timeuuid => timeuuid::unix_timestamp_millis(value),
        _ => None,
    }
}

/// Returns the `date`, `timestamp` or `bigint` for milliseconds since 1970. For a `date`, as in
/// Cassandra, the time is rounded down to a second and then towards 1970 to a day, and the date
/// wraps around after 5.9 million years.
pub fn from_millis(column_type: &CqlType, millis: i64) -> Bytes {
    match column_type {
        CqlType::Date => {
            let days = millis.div_euclid(1000) / (MILLIS_PER_DAY / 1000);
            let days = days.wrapping_add(DATE_EPOCH) as u32;
            Bytes::copy_from_slice(&days.to_be_bytes())
        }
        _ => Bytes::copy_from_slice(&millis.to_be_bytes()),
    }
}

/// Adds months to a time in milliseconds. A day that the month lacks becomes the month's last day.
pub fn add_months(millis: i64, months: i64) -> Option<i64> {
    if months == 0 {
        return Some(millis);
    }
    let date = civil_from_days(millis.div_euclid(MILLIS_PER_DAY));
    let month = (date.year * 12 + i64::from(date.month) - 1).checked_add(months)?;
    let (year, month) = (month.div_euclid(12), month.rem_euclid(12) as u32 + 1);
    if year.abs() > MAX_YEARS {
        return None;
    }
    let day = date.day.min(days_in_month(year, month));
    let days = days_from_civil(CivilDate { year, month, day });
    days.checked_mul(MILLIS_PER_DAY)?.checked_add(millis.rem_euclid(MILLIS_PER_DAY))
}

/// Returns a `date` or `timestamp` plus a serialised duration, or minus the duration if `back` is
/// set.
///
/// # Errors
/// The reason as a text: the value or the duration is malformed, the duration has a part below a
/// day (`date`) or a millisecond (`timestamp`), or the result is out of range.
pub fn move_by(
    column_type: &CqlType,
    value: &[u8],
    duration: &[u8],
    back: bool,
) -> Result<Bytes, String> {
    let duration = Duration::decode(duration).map_err(|error| error.to_string())?;
    let (rest_ns, unit) = match column_type {
        CqlType::Date => (duration.nanoseconds, "day"),
        _ => (duration.nanoseconds % 1_000_000, "millisecond"),
    };
    if rest_ns != 0 {
        let printed = print_duration(&duration);
        return Err(format!("The duration must have a {unit} precision. Was: {printed}"));
    }
    let millis = to_millis(column_type, value).ok_or("malformed value")?;
    let sign = if back { -1 } else { 1 };
    let moved = add_months(millis, sign * i64::from(duration.months))
        .and_then(|moved| moved.checked_add(sign * i64::from(duration.days) * MILLIS_PER_DAY))
        .and_then(|moved| moved.checked_add(sign * (duration.nanoseconds / 1_000_000)));
    let moved = moved.ok_or("the result is out of range")?;
    if *column_type == CqlType::Date {
        let days = moved.div_euclid(MILLIS_PER_DAY) + DATE_EPOCH;
        u32::try_from(days).map_err(|_| "the result is out of range")?;
    }
    Ok(from_millis(column_type, moved))
}
