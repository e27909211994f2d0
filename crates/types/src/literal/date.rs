//! Reads and prints `date` (days) and `time` (nanoseconds of a day).

use crate::calendar::{CivilDate, NANOS_PER_DAY, civil_from_days, days_from_civil, days_in_month};

/// The stored `date` of 1970-01-01.
const EPOCH: i64 = 1 << 31;
const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// Returns the stored form (days, with 2^31 for 1970-01-01) of `yyyy-mm-dd` or of a plain number,
/// which is a stored form itself.
///
/// Years outside of 0 to 9999 have a sign.
pub fn parse_date(text: &str) -> Option<u32> {
    if let Some(days) = parse_integer(text) {
        return u32::try_from(days).ok();
    }
    let (date, rest) = split_date(text)?;
    if !rest.is_empty() || date.day > days_in_month(date.year, date.month) {
        return None;
    }
    u32::try_from(days_from_civil(date) + EPOCH).ok()
}

/// Prints a stored date: `2011-02-03`, `-0044-03-15`, `+10000-01-01`.
pub fn print_date(stored: u32) -> String {
    print_civil(civil_from_days(i64::from(stored) - EPOCH))
}

/// Returns the nanoseconds of a day for `h:m:s[.fraction]`, or for a plain number of nanoseconds.
pub fn parse_time(text: &str) -> Option<i64> {
    if let Some(nanos) = parse_integer(text) {
        return (0..NANOS_PER_DAY).contains(&nanos).then_some(nanos);
    }
    let (clock, rest) = split_clock(text)?;
    if !rest.is_empty() || text.ends_with('.') || !clock.has_seconds || clock.hour > 23 {
        return None;
    }
    Some(clock.nanos())
}

/// Prints `hh:mm:ss.nnnnnnnnn`. Values outside a day wrap around, because validation accepts them.
pub fn print_time(nanos: i64) -> String {
    let nanos = nanos.rem_euclid(NANOS_PER_DAY);
    let (seconds, fraction) = (nanos / NANOS_PER_SECOND, nanos % NANOS_PER_SECOND);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{hour:02}:{minute:02}:{second:02}.{fraction:09}")
}

pub(super) fn print_civil(date: CivilDate) -> String {
    let CivilDate { year, month, day } = date;
    let sign = match year {
        10_000.. => "+",
        ..0 => "-",
        _ => "",
    };
    format!("{sign}{:04}-{month:02}-{day:02}", year.unsigned_abs())
}

/// Reads `-?digits` and nothing else. A number beyond 64 bits becomes the nearest one of 64 bits,
/// which no caller accepts.
pub(super) fn parse_integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(if text == digits { i64::MAX } else { i64::MIN }))
}

/// Splits `[+-]yyyy-mm-dd` off the front. The day is 1 to 31, and may be too large for its month.
pub(super) fn split_date(text: &str) -> Option<(CivilDate, &str)> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (0, text),
    };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    // A plus is only for years that do not fit into four digits, as in ISO 8601.
    let allowed = match sign {
        0 => 4..=4,
        1 => 5..=9,
        _ => 4..=9,
    };
    if !allowed.contains(&digits) {
        return None;
    }
    let (year, rest) = rest.split_at(digits);
    let year: i64 = year.parse().ok()?;
    let (month, rest) = split_number(rest.strip_prefix('-')?, 2..=2)?;
    let (day, rest) = split_number(rest.strip_prefix('-')?, 2..=2)?;
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = if sign < 0 { -year } else { year };
    Some((CivilDate { year, month, day }, rest))
}

/// A time of day. The hour may be 24 if the rest is 0.
pub(super) struct Clock {
    pub(super) hour: u32,
    minute: u32,
    second: u32,
    fraction_ns: u32,
    has_seconds: bool,
}

impl Clock {
    pub(super) fn nanos(&self) -> i64 {
        let seconds = i64::from(self.hour) * 3600 + i64::from(self.minute * 60 + self.second);
        seconds * NANOS_PER_SECOND + i64::from(self.fraction_ns)
    }
}

/// Splits `h:m[:s[.fraction]]` off the front. The fraction has zero to nine digits.
pub(super) fn split_clock(text: &str) -> Option<(Clock, &str)> {
    let (hour, rest) = split_number(text, 1..=2)?;
    let (minute, rest) = split_number(rest.strip_prefix(':')?, 1..=2)?;
    let mut clock = Clock { hour, minute, second: 0, fraction_ns: 0, has_seconds: false };
    let mut rest = rest;
    if let Some(after) = rest.strip_prefix(':') {
        (clock.second, rest) = split_number(after, 1..=2)?;
        clock.has_seconds = true;
        if let Some(after) = rest.strip_prefix('.') {
            let digits = after.bytes().take_while(u8::is_ascii_digit).count();
            rest = after;
            if digits > 0 {
                (clock.fraction_ns, rest) = split_number(after, 1..=9)?;
                clock.fraction_ns *= 10u32.pow(9 - digits as u32);
            }
        }
    }
    let in_day = clock.hour < 24 || clock.nanos() == 24 * 3600 * NANOS_PER_SECOND;
    (in_day && clock.minute < 60 && clock.second < 60).then_some((clock, rest))
}

/// Splits a number with an allowed count of digits off the front.
pub(super) fn split_number(
    text: &str,
    digits: std::ops::RangeInclusive<usize>,
) -> Option<(u32, &str)> {
    let count = text.bytes().take_while(u8::is_ascii_digit).count();
    if !digits.contains(&count) {
        return None;
    }
    let (number, rest) = text.split_at(count);
    Some((number.parse().ok()?, rest))
}
