//! Reads and prints values as text: the plain text of a scalar, CQL literals, and JSON.
//!
//! The conventions are those of Cassandra 5.0 (`AbstractType.fromString`, `CQL3Type.toCQLLiteral`,
//! `toJson`, `fromJson`). Time zones are those of the Java platform. Deliberate differences:
//!
//! - Floats print the shortest digits that read back the same (Java before 19 sometimes prints
//!   more).
//! - A timestamp before the year 1 prints a signed year, which can be read back (Cassandra prints
//!   the year of the era).
//! - The duration of zero prints as `0s` (Cassandra prints nothing). In JSON it is an empty string,
//!   as in Cassandra, but only this crate reads that back.
//! - Blobs may be written with and without `0x`.
//! - Host names are not resolved to `inet` addresses.
//! - The word `now` is not a timestamp, because this crate has no clock.
//!
//! Printers accept any bytes, and print them as a blob if they are not a value of the type.

mod cql;
mod date;
mod duration;
mod field_count;
mod from_json;
mod json;
mod json_parser;
mod json_refusal;
mod limit;
mod number;
mod refusal;
mod text;
mod timestamp;
mod zone;

pub use cql::{quote_text, to_cql_literal};
pub use date::{parse_date, parse_time, print_date, print_time};
pub use duration::{parse_duration, print_duration};
pub use field_count::{FieldCount, MAX_FIELDS};
pub use from_json::{from_json, from_json_value};
pub use json::{push_json, quote_json, to_json};
pub use json_parser::{Json, JsonError, MAX_JSON_DEPTH, parse_json};
pub use limit::{
    IndexedDecimals, MAX_LARGE_NUMBERS, MAX_NUMBER_BYTES, check_number, check_printable,
    has_decimals,
};
pub use number::{parse_float, print_double, print_float};
pub use text::{from_text, to_text};
pub use timestamp::{parse_timestamp, print_timestamp};
