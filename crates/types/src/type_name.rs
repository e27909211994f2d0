//! Reads and prints the two names of a type: CQL's (`map<text, int>`), and the marshal name of
//! Java's class, which SSTables and drivers use.
//!
//! Parsers read untrusted text, so they limit the nesting of names and the size of vectors.

mod cql;
mod identifier;
mod limits;
mod marshal;
mod scanner;

pub use identifier::{is_reserved, quote_if_needed};
pub use limits::{MAX_TYPE_DEPTH, MAX_TYPE_PARTS, TypeLimitError};

/// Limit of the nesting of types in a name. A CQL name has two levels for each level of a frozen
/// type. A marshal name has up to two more levels at the outside (`ReversedType`, `FrozenType`).
const MAX_NAME_DEPTH: usize = 2 * MAX_TYPE_DEPTH + 2;
