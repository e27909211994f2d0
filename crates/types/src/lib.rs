//! CQL types and values, and their byte-comparable form.
//!
//! Values travel through the whole node in their serialised form (`bytes::Bytes`): the form of the native
//! protocol v4/v5, which is also the form inside SSTables. This crate knows how to parse, print, validate and
//! compare them, and how to turn them into strings of bytes whose unsigned lexicographic order is CQL's order.

mod cql_type;

pub use cql_type::{CqlType, UserType};
