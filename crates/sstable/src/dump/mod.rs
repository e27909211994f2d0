//! Prints content as lines of JSON: one for each partition, static row, row and range tombstone
//! marker, in the order of the file.
//!
//! * [`Dump`] shows the stored bytes in hex, for tests and for comparing files.
//! * [`ReadableDump`] shows names and values by their types, for people and their scripts.
//!
//! [`Lines`] is either of them, for an SSTable that is printed.
//!
//! The printers append to buffers that are reused from line to line. Memory: the line, and for
//! [`ReadableDump`] the key of the current partition.

mod lines;
mod raw;
mod readable;
mod text;
mod value;

pub use lines::Lines;
pub(crate) use raw::RawDump;
pub use raw::{Dump, MAX_SHOWN, bound_name};
pub use readable::ReadableDump;
pub use value::write_json;
