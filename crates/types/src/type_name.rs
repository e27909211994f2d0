//! The two names of a type: CQL's (`map<text, int>`) and the marshal name of Java's class, which SSTables and drivers use.
//!
//! Parsers take text that anybody may have written: nesting is limited to [`MAX_DEPTH`], vectors to 2^31 bytes.

mod cql;
mod identifier;
mod marshal;
mod scanner;

pub use identifier::{is_reserved, quote_if_needed};

/// How deep types may be nested in a name.
pub const MAX_DEPTH: usize = 64;
