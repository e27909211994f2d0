//! Reads and prints the three texts of a `duration`: `1y2mo3w4d5h6m7s8ms9us10ns`, ISO 8601
//! `P1Y2M3DT4H5M6S` and `P3W`, and ISO's alternative `P0001-02-03T04:05:06`.
//!
//! A minus in front negates the whole.

use crate::duration::Duration;
use crate::literal::date::split_number;

const MONTHS_PER_YEAR: u64 = 12;
const DAYS_PER_WEEK: u64 = 7;
const NANOS: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Reads any of the three forms; `None` if the text has another form or a part does not fit.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(text) => (true, text),
        None => (false, text),
    };
    let magnitude = match text.strip_prefix('P') {
        Some(iso) if iso.contains('-') => parse_iso_alternative(iso),
        Some(iso) => parse_iso(iso),
        None => parse_units(text),
    }?;
    magnitude.signed(negative)
}

/// Prints the first form; zero is `0s`.
pub fn print_duration(duration: &Duration) -> String {
    let printed = print_json_duration(duration);
    if printed.is_empty() { "0s".to_owned() } else { printed }
}

/// Prints the form of JSON: as in Cassandra, an empty text for zero.
pub(super) fn print_json_duration(duration: &Duration) -> String {
    let Duration { months, days, nanoseconds } = *duration;
    let negative = months < 0 || days < 0 || nanoseconds < 0;
    let mut out = String::from(if negative { "-" } else { "" });
    let mut part = |count: u64, unit: &str| {
        if count != 0 {
            out.push_str(&count.to_string());
            out.push_str(unit);
        }
    };
    let months = u64::from(months.unsigned_abs());
    part(months / MONTHS_PER_YEAR, "y");
    part(months % MONTHS_PER_YEAR, "mo");
    part(days.unsigned_abs().into(), "d");
    let mut rest = nanoseconds.unsigned_abs();
    for (unit, size) in NANOS {
        part(rest / size, unit);
        rest %= size;
    }
    out
}

/// The sizes of the three parts, without a sign.
#[derive(Default)]
struct Magnitude {
    months: u64,
    days: u64,
    nanoseconds: u64,
}

impl Magnitude {
    fn signed(self, negative: bool) -> Option<Duration> {
        let sign = |magnitude: u64| {
            if negative {
                0i64.checked_sub_unsigned(magnitude)
            } else {
                i64::try_from(magnitude).ok()
            }
        };
        Some(Duration {
            months: sign(self.months)?.try_into().ok()?,
            days: sign(self.days)?.try_into().ok()?,
            nanoseconds: sign(self.nanoseconds)?,
        })
    }

    fn add(&mut self, count: u64, unit: Unit) -> Option<()> {
        let (sum, size) = match unit {
            Unit::Months(size) => (&mut self.months, size),
            Unit::Days(size) => (&mut self.days, size),
            Unit::Nanos(size) => (&mut self.nanoseconds, size),
        };
        *sum = sum.checked_add(count.checked_mul(size)?)?;
        Some(())
    }
}

#[derive(Clone, Copy)]
enum Unit {
    Months(u64),
    Days(u64),
    Nanos(u64),
}

/// Reads parts with their units. Each unit comes at most once, in the order of `units`.
fn parse_units(text: &str) -> Option<Magnitude> {
    let units = [
        ("y", Unit::Months(MONTHS_PER_YEAR)),
        ("mo", Unit::Months(1)),
        ("w", Unit::Days(DAYS_PER_WEEK)),
        ("d", Unit::Days(1)),
        (NANOS[0].0, Unit::Nanos(NANOS[0].1)),
        (NANOS[1].0, Unit::Nanos(NANOS[1].1)),
        (NANOS[2].0, Unit::Nanos(NANOS[2].1)),
        (NANOS[3].0, Unit::Nanos(NANOS[3].1)),
        (NANOS[4].0, Unit::Nanos(NANOS[4].1)),
        (NANOS[5].0, Unit::Nanos(NANOS[5].1)),
    ];
    if text.is_empty() {
        return None;
    }
    let mut allowed = &units[..];
    let mut magnitude = Magnitude::default();
    let mut rest = text;
    while !rest.is_empty() {
        let (count, after) = split_count(rest)?;
        let length = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (name, after) = after.split_at(length);
        let name = if name.to_lowercase() == "µs" { "us" } else { name };
        let index = allowed.iter().position(|(unit, _)| unit.eq_ignore_ascii_case(name))?;
        magnitude.add(count, allowed[index].1)?;
        allowed = &allowed[index + 1..];
        rest = after;
    }
    Some(magnitude)
}

/// Returns Cassandra's reason to refuse parts with units: one is repeated, misordered or too large.
/// `None` if the text has another form.
pub(super) fn wrong_units(text: &str) -> Option<String> {
    const UNITS: [(&str, &str); 10] = [
        ("y", "years"),
        ("mo", "months"),
        ("w", "weeks"),
        ("d", "days"),
        ("h", "hours"),
        ("m", "minutes"),
        ("s", "seconds"),
        ("ms", "milliseconds"),
        ("us", "microseconds"),
        ("ns", "nanoseconds"),
    ];
    let mut last: Option<usize> = None;
    let mut rest = text.strip_prefix('-').unwrap_or(text);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let after = rest.get(digits..).filter(|_| digits > 0)?;
        let length = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (name, after) = after.split_at(length);
        let name = if name.to_lowercase() == "µs" { "us" } else { name };
        let index = UNITS.iter().position(|(unit, _)| unit.eq_ignore_ascii_case(name))?;
        match last {
            Some(last) if last == index => {
                let unit = UNITS[index].1;
                return Some(format!("Invalid duration. The {unit} are specified multiple times"));
            }
            Some(last) if last > index => {
                let (late, early) = (UNITS[last].1, UNITS[index].1);
                return Some(format!("Invalid duration. The {late} should be after {early}"));
            }
            _ => last = Some(index),
        }
        rest = after;
    }
    let sum = match last? {
        0 | 1 => "months",
        2 | 3 => "days",
        _ => "nanoseconds",
    };
    Some(format!("Invalid duration. The total number of {sum} must be less or equal to 2147483647"))
}

/// Reads the text behind the P: `3W`, or `1Y2M3DT4H5M6S` with any part left out.
fn parse_iso(text: &str) -> Option<Magnitude> {
    let mut magnitude = Magnitude::default();
    if let Some(weeks) = text.strip_suffix('W') {
        let (count, rest) = split_count(weeks)?;
        magnitude.add(count, Unit::Days(DAYS_PER_WEEK))?;
        return rest.is_empty().then_some(magnitude);
    }
    let (date, time) = text.split_once('T').unwrap_or((text, ""));
    let date_units =
        [('Y', Unit::Months(MONTHS_PER_YEAR)), ('M', Unit::Months(1)), ('D', Unit::Days(1))];
    let time_units = [
        ('H', Unit::Nanos(NANOS[0].1)),
        ('M', Unit::Nanos(NANOS[1].1)),
        ('S', Unit::Nanos(NANOS[2].1)),
    ];
    for (mut rest, mut allowed) in [(date, &date_units[..]), (time, &time_units[..])] {
        while !rest.is_empty() {
            let (count, after) = split_count(rest)?;
            let index = allowed.iter().position(|(unit, _)| after.starts_with(*unit))?;
            magnitude.add(count, allowed[index].1)?;
            allowed = &allowed[index + 1..];
            rest = &after[1..];
        }
    }
    Some(magnitude)
}

/// Reads the text behind the P: `yyyy-mm-ddThh:mm:ss`. Only the number of digits limits a part.
fn parse_iso_alternative(text: &str) -> Option<Magnitude> {
    let mut magnitude = Magnitude::default();
    let mut rest = text;
    for (digits, separator, unit) in [
        (4, "-", Unit::Months(MONTHS_PER_YEAR)),
        (2, "-", Unit::Months(1)),
        (2, "T", Unit::Days(1)),
        (2, ":", Unit::Nanos(NANOS[0].1)),
        (2, ":", Unit::Nanos(NANOS[1].1)),
        (2, "", Unit::Nanos(NANOS[2].1)),
    ] {
        let (count, after) = split_number(rest, digits..=digits)?;
        magnitude.add(count.into(), unit)?;
        rest = after.strip_prefix(separator)?;
    }
    rest.is_empty().then_some(magnitude)
}

fn split_count(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, rest) = text.split_at(digits);
    Some((count.parse().ok()?, rest))
}
