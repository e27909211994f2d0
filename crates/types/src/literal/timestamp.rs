//! `timestamp`: milliseconds since 1970.

use crate::calendar::{MILLIS_PER_DAY, civil_from_days, days_from_civil, days_in_month};
use crate::literal::date::{parse_integer, print_civil, split_clock, split_date, split_number};

/// Milliseconds from a plain number of them, or from `yyyy-mm-dd[(T| )hh:mm[:ss[.fraction]]][zone]`. Without a zone it is
/// UTC. Digits behind the third of the fraction are cut off. As in Cassandra, a day that the month does not have becomes
/// its last one, and 24:00 is the next midnight.
pub fn parse_timestamp(text: &str) -> Option<i64> {
    if parse_integer(text).is_some() {
        return text.parse().ok();
    }
    let (mut date, rest) = split_date(text)?;
    date.day = date.day.min(days_in_month(date.year, date.month));
    let mut millis_of_day = 0;
    let mut rest = rest;
    if let Some(after) = rest.strip_prefix(['T', ' ']) {
        let is_clock = after.starts_with(|c: char| c.is_ascii_digit());
        if is_clock {
            let (clock, after) = split_clock(after)?;
            millis_of_day = clock.nanos() / 1_000_000;
            rest = after;
        } else if rest.starts_with('T') {
            return None;
        }
    }
    let offset_ms = parse_zone(rest)?;
    // The first day begins before what 64 bits can say.
    let midnight_ms = i128::from(days_from_civil(date)) * i128::from(MILLIS_PER_DAY);
    i64::try_from(midnight_ms + i128::from(millis_of_day - offset_ms)).ok()
}

/// `2011-02-03T04:05:06.789Z`.
pub fn print_timestamp(millis: i64) -> String {
    print_with(millis, 'T')
}

/// The form of JSON: a blank in place of the T.
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

/// Milliseconds east of UTC: nothing, `Z`, `+hh`, `+hhmm`, `+hh:mm`, or after a blank `UTC`, `GMT` or `UT` with or without
/// `+hh:mm`.
fn parse_zone(text: &str) -> Option<i64> {
    let (text, blank) = match text.strip_prefix(' ') {
        Some("") => return None,
        Some(text) => (text, true),
        None => (text, false),
    };
    if text.is_empty() || text == "Z" {
        return Some(0);
    }
    let named = ["UTC", "GMT", "UT"].iter().find_map(|name| text.strip_prefix(name));
    match named {
        Some("") if blank => Some(0),
        Some(offset) if blank && offset.contains(':') => parse_offset(offset),
        Some(_) => None,
        None => parse_offset(text),
    }
}

fn parse_offset(text: &str) -> Option<i64> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let (hours, minutes) = match digits.split_once(':') {
        Some((hours, minutes)) => (whole(hours, 1..=2)?, whole(minutes, 2..=2)?),
        None if digits.len() == 4 => {
            let both = whole(digits, 4..=4)?;
            (both / 100, both % 100)
        }
        None => (whole(digits, 1..=2)?, 0),
    };
    let minutes = (minutes < 60).then_some(hours * 60 + minutes).filter(|&all| all <= 18 * 60)?;
    Some(sign * i64::from(minutes) * 60_000)
}

fn whole(text: &str, digits: std::ops::RangeInclusive<usize>) -> Option<u32> {
    split_number(text, digits).filter(|(_, rest)| rest.is_empty()).map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_64_bits_can_say_is_read_as_it_is_printed() {
        for millis in [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX] {
            assert_eq!(parse_timestamp(&print_timestamp(millis)), Some(millis));
        }
        for text in ["-292275055-05-16T16:47:04.191Z", "+292278994-08-17T07:12:55.808Z"] {
            assert_eq!(parse_timestamp(text), None, "{text}");
        }
    }
}
