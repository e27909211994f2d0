//! CQL types and values, and their byte-comparable form.
//!
//! Values travel through the whole node in their serialised form (`bytes::Bytes`): the form of the native
//! protocol v4/v5, which is also the form inside SSTables. This crate knows how to parse, print, validate and
//! compare them, and how to turn them into strings of bytes whose unsigned lexicographic order is CQL's order.
//!
//! | module | what it knows |
//! | --- | --- |
//! | [`CqlType`] | types and their names; sizes, order, validity and canonical form of values |
//! | [`byte_comparable`] | values, clusterings and decorated keys as byte-comparable strings, and back |
//! | [`collection`] | the inside of frozen collections, tuples, UDTs and vectors |
//! | [`literal`] | text, CQL literals and JSON |
//! | [`varint`], [`decimal`], [`duration`], [`calendar`], [`timeuuid`], [`vint`] | the numbers that need arithmetic |

pub mod byte_comparable;
pub mod calendar;
mod canonical;
pub mod collection;
mod compare;
mod cql_type;
pub mod decimal;
pub mod duration;
mod error;
pub mod literal;
pub mod timeuuid;
pub mod type_name;
mod uuid_order;
mod validate;
pub mod varint;
pub mod vint;

pub use canonical::Unsorted;
pub use cql_type::{CqlType, UserType};
pub use error::{DecodeError, TypeParseError, ValueError};
