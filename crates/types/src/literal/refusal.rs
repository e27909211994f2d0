//! Reasons to refuse a text as a value. The wording is Cassandra's, because tools match on it.

use super::{
    date::{parse_integer, split_date},
    duration,
};
use crate::{CqlType, calendar::days_from_civil};

/// The number of characters of a wrong text that an error repeats.
const MAX_QUOTED: usize = 100;

/// Returns the beginning of a text.
pub(super) fn quoted(text: &str) -> String {
    text.chars().take(MAX_QUOTED).collect()
}

/// Returns the reason why `text` is not a value of the type.
pub(super) fn reason(ty: &CqlType, text: &str) -> String {
    let quoted = quoted(text);
    let is_integer = parse_integer(text).is_some();
    let made = |word: &str| format!("Unable to make {word} from '{quoted}'");
    match ty {
        CqlType::Ascii => format!("Invalid ASCII character in string literal: '{quoted}'"),
        CqlType::Blob => {
            let digits = quoted.strip_prefix("0x").or_else(|| quoted.strip_prefix("0X"));
            format!("cannot parse '{}' as hex bytes", digits.unwrap_or(&quoted))
        }
        CqlType::Tinyint => made("byte"),
        CqlType::Smallint => made("short"),
        CqlType::Int => made("int"),
        CqlType::Bigint | CqlType::Counter => made("long"),
        CqlType::Inet => made("inet address"),
        CqlType::Uuid => made("UUID"),
        CqlType::Varint => format!("unable to make int from '{quoted}'"),
        CqlType::Decimal => format!("unable to make BigDecimal from '{quoted}'"),
        CqlType::Timestamp if is_integer => {
            format!("Unable to make long (for date) from: '{quoted}'")
        }
        CqlType::Timestamp => format!("Unable to parse a date/time from '{quoted}'"),
        CqlType::Date if is_integer => {
            format!("Unable to make unsigned int (for date) from: '{quoted}'")
        }
        CqlType::Date => outside_of_dates(text)
            .unwrap_or_else(|| format!("Unable to coerce '{quoted}' to a formatted date (long)")),
        CqlType::Time if is_integer => format!("Unable to make long (for time) from: '{quoted}'"),
        CqlType::Time => {
            format!("(TimeType) Unable to coerce '{quoted}' to a formatted time (long)")
        }
        CqlType::Timeuuid if text.len() == 36 && uuid::Uuid::try_parse(text).is_ok() => {
            "TimeUUID supports only version 1 UUIDs".into()
        }
        CqlType::Timeuuid => format!("Unknown timeuuid representation: {quoted}"),
        CqlType::Duration => duration::wrong_units(text)
            .unwrap_or_else(|| format!("Unable to convert '{quoted}' to a duration")),
        _ => made(&ty.cql_name()),
    }
}

/// Returns the reason to refuse a date that the type cannot hold.
fn outside_of_dates(text: &str) -> Option<String> {
    const EPOCH: i64 = 1 << 31;
    let date = split_date(text).filter(|(_, rest)| rest.is_empty())?.0;
    match u32::try_from(days_from_civil(date) + EPOCH) {
        Ok(_) => None,
        Err(_) if date.year < 0 => {
            Some(format!("Input date {text} is less than min supported date -5877641-06-23T00:00Z"))
        }
        Err(_) => Some(format!(
            "Input date {text} is greater than max supported date +5881580-07-11T00:00Z"
        )),
    }
}
