//! Defines CQL types and values, and their byte-comparable form.
//!
//! Values travel through the whole node in their serialised form (`bytes::Bytes`), which is that of
//! the native protocol v4/v5 and also that inside SSTables. This crate parses, prints, validates
//! and compares them, and turns them into strings of bytes whose unsigned lexicographic order is
//! CQL's order.
//!
//! | module | contents |
//! | --- | --- |
//! | [`CqlType`] | types and their names; sizes, order, validity and canonical form of values |
//! | [`byte_comparable`] | values, clusterings and keys as byte-comparable strings, and back |
//! | [`collection`] | the inside of frozen collections, tuples, UDTs and vectors |
//! | [`literal`] | text, CQL literals and JSON |
//! | [`similarity`] | the similarity of two vectors of floats |
//! | [`TermAnalyzer`] | the terms of a text in an index that searches for parts of texts |
//! | [`varint`], [`decimal`], [`duration`], [`calendar`], [`timeuuid`], [`vint`] | arithmetic |

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
pub mod similarity;
mod terms;
mod text_analysis;
pub mod timeuuid;
pub mod type_name;
mod uuid_order;
mod validate;
pub mod varint;
pub mod vint;

pub use canonical::Unsorted;
pub use cql_type::{CqlType, UserType};
pub use error::{DecodeError, TypeParseError, ValueError};
pub use similarity::Similarity;
pub use terms::{StandardAnalyzer, TermAnalyzer};
pub use text_analysis::{LetterCase, TextAnalysis};
