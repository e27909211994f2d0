//! Content as lines of JSON: one for each partition, static row, row and range tombstone marker, in the order of the file.
//!
//! * [`Dump`] shows what is stored, byte for byte, in hex: for tests and for comparing files;
//! * [`ReadableDump`] shows values by their types, with names: for people and their scripts.
//!
//! [`Lines`] is either, for an SSTable that is printed.
//!
//! All append to a buffer that the caller uses again and again. Memory: the line, and for [`ReadableDump`] the key of the
//! current partition.

mod lines;
mod raw;
mod readable;
mod text;
mod value;

pub use lines::Lines;
pub(crate) use raw::RawDump;
pub use raw::{Dump, LONGEST_SHOWN, bound_name};
pub use readable::ReadableDump;
pub use value::write_json;
