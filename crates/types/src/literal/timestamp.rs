//! Reads and prints `timestamp`: milliseconds since 1970.

use crate::calendar::{CivilDate, MILLIS_PER_DAY, civil_from_days, days_from_civil, days_in_month};
use crate::literal::date::{parse_integer, print_civil, split_date};
use crate::literal::zone::parse_zone;

/// Parses a timestamp into milliseconds. The text is a number of milliseconds, `yyyy-mm-dd[zone]`,
/// or `y-m-d(T| )h:m[:s[.fraction]][zone]`.
///
/// The default zone is UTC. Digits behind the third of the fraction are ignored. As in Cassandra, a
/// day that the month does not have becomes its last day, 24:00 is the next midnight, and the
/// numbers of a date with a clock have one to 19 digits. In a date with a clock, a year below 1 or
/// with a sign needs the zone `Z`, as [`print_timestamp`] prints it. Cassandra refuses these years.
pub fn parse_timestamp(text: &str) -> Option<i64> {
    if parse_integer(text).is_some() {
        return text.parse().ok();
    }
    match split_date_and_clock(text) {
        Some((date, millis_of_day, zone)) => {
            let is_ours = date.year < 1 || text.starts_with(['+', '-']);
            (!is_ours || zone == "Z").then_some(())?;
            in_zone(date, millis_of_day, zone, true)
        }
        None => {
            let (date, zone) = split_date(text)?;
            // Before a zone in a form other than that of ISO 8601, Cassandra reads the year as the
            // year of an era. Eras have no year 0.
            let is_iso = zone.is_empty()
                || zone.eq_ignore_ascii_case("z")
                || zone.as_bytes().get(3) == Some(&b':');
            (is_iso || date.year > 0).then_some(())?;
            in_zone(date, 0, zone, false)
        }
    }
}

fn in_zone(mut date: CivilDate, millis_of_day: i64, zone: &str, has_clock: bool) -> Option<i64> {
    date.day = date.day.min(days_in_month(date.year, date.month));
    // The midnight of the first day is below the least 64-bit time, hence 128 bits.
    let midnight_ms = i128::from(days_from_civil(date)) * i128::from(MILLIS_PER_DAY);
    let local_ms = midnight_ms + i128::from(millis_of_day);
    let offset_ms = parse_zone(zone, has_clock, local_ms)?;
    i64::try_from(local_ms - i128::from(offset_ms)).ok()
}

/// Splits a date and a clock off the front. The year may have a sign if [`print_timestamp`] prints
/// it with one.
fn split_date_and_clock(text: &str) -> Option<(CivilDate, i64, &str)> {
    let (date, rest) = if text.starts_with(|first: char| first.is_ascii_digit()) {
        let (year, rest) = split_digits(text)?;
        let (month, rest) = split_digits(rest.strip_prefix('-')?)?;
        let (day, rest) = split_digits(rest.strip_prefix('-')?)?;
        let in_range = year <= 999_999_999 && (1..=12).contains(&month) && (1..=31).contains(&day);
        in_range.then_some(())?;
        (CivilDate { year, month: u32::try_from(month).ok()?, day: u32::try_from(day).ok()? }, rest)
    } else {
        split_date(text)?
    };
    let (hour, rest) = split_digits(rest.strip_prefix(['T', ' '])?)?;
    let (minute, mut rest) = split_digits(rest.strip_prefix(':')?)?;
    let (mut second, mut millis) = (0, 0);
    if let Some(after) = rest.strip_prefix(':') {
        (second, rest) = split_digits(after)?;
        if let Some(after) = rest.strip_prefix('.') {
            let digits = after.bytes().take_while(u8::is_ascii_digit).count().min(9);
            let (fraction, after) = after.split_at(digits);
            millis = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
            rest = after;
        }
    }
    let is_midnight = hour == 24 && (minute, second, millis) == (0, 0, 0);
    (minute < 60 && second < 60 && (hour < 24 || is_midnight)).then_some(())?;
    Some((date, ((hour * 60 + minute) * 60 + second) * 1000 + millis, rest))
}

/// Splits one to 19 digits off the front. Numbers beyond 64 bits become the largest one, which no
/// caller accepts.
fn split_digits(text: &str) -> Option<(i64, &str)> {
    let count = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at(count);
    (1..=19).contains(&count).then(|| (digits.parse().unwrap_or(i64::MAX), rest))
}

/// Prints `2011-02-03T04:05:06.789Z`.
pub fn print_timestamp(millis: i64) -> String {
    print_with(millis, 'T')
}

/// Prints the form of JSON, with a blank in place of the T.
pub(super) fn print_json_timestamp(millis: i64) -> String {
    print_with(millis, ' ')
}

fn print_with(millis: i64, separator: char) -> String {
    let date = civil_from_days(millis.div_euclid(MILLIS_PER_DAY));
    let millis = millis.rem_euclid(MILLIS_PER_DAY);
    let (hour, minute, second) = (millis / 3_600_000, millis / 60_000 % 60, millis / 1000 % 60);
    let fraction = millis % 1000;
    let date = print_civil(date);
    format!("{date}{separator}{hour:02}:{minute:02}:{second:02}.{fraction:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_printed_64_bit_timestamp_is_parsed_back() {
        for millis in [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX] {
            assert_eq!(parse_timestamp(&print_timestamp(millis)), Some(millis));
        }
        for text in ["-292275055-05-16T16:47:04.191Z", "+292278994-08-17T07:12:55.808Z"] {
            assert_eq!(parse_timestamp(text), None, "{text}");
        }
    }
}
