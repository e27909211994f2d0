//! Encodes values as strings of bytes whose unsigned lexicographic order is CQL's order.
//!
//! The encoding is Cassandra's "OSS50" (`ByteComparable.md` upstream;
//! docs/formats/byte-comparable.md), bit for bit, because the trie indexes on disk contain it. Once
//! a separator or terminator follows a value, no value's encoding is a prefix of another's, so keys
//! of several columns compare column by column.
//!
//! Encoding never fails. Values are validated where they enter the node ([`CqlType::validate`]).
//! The order of other values is unspecified, but nothing panics. Encoding allocates only `out`,
//! except for decimals with an unscaled value of more than 16 bytes. Decoding accepts any bytes,
//! returns an error if they are not an encoding, and holds no more than the decoded value.
//!
//! Cassandra's form disagrees with Cassandra's comparators about a few values:
//!
//! - It orders NaN by its bits, so a negative NaN comes before all numbers.
//! - Inside tuples and collections, it writes the same byte for null and for an empty value.
//!
//! The comparators sort the files, but the trie indexes of the files hold Cassandra's form. The
//! *ordered* form ([`encode_ordered_clustering`]) agrees with [`CqlType::compare`] about all
//! values, and differs from Cassandra's form only for these few. The node uses the ordered form for
//! keys in memory and for look-ups, and never writes it to a file.
//!
//! Decoding accepts both forms and returns the value's canonical form. The result differs from the
//! original bytes where several forms of a value are equal:
//!
//! - A decimal loses its trailing zeros (1.10 becomes 1.1), a varint its superfluous sign bytes.
//! - A tuple gets explicit nulls for the trailing fields that it left out.
//! - `true` becomes `01`, and NaN in the ordered form becomes Java's.
//! - Inside collections, tuples and vectors, Cassandra's form does not distinguish null from an
//!   empty value of a type without a natural one (int, uuid, ...).

use crate::CqlType;

mod clustering;
mod decimal;
mod escaped;
mod integer;
mod key;
mod nested;
mod source;
mod value;

pub use clustering::{
    append_clustering, decode_clustering, decode_component, encode_clustering,
    encode_clustering_prefix, encode_component, encode_ordered_clustering,
};
pub use escaped::{decode_escaped, decode_escaped_into, encode_escaped, escaped_length};
pub use key::{decode_decorated_key, encode_decorated_key};
pub use value::{decode, encode};

/// Precedes a component that has a value.
pub const NEXT_COMPONENT: u8 = 0x40;
/// The next component is a zero-length value of a type without a natural empty value; no value
/// follows.
pub const EMPTY: u8 = 0x3F;
/// [`EMPTY`] in a reversed column.
pub const EMPTY_REVERSED: u8 = 0x41;
/// The next component is null, also in reversed columns; no value follows.
pub const NULL: u8 = 0x3E;
/// Ends a sequence: a row, key, collection, tuple, vector or composite.
pub const TERMINATOR: u8 = 0x38;
/// Ends a bound that lies before everything with its prefix.
pub const LT_NEXT: u8 = 0x20;
/// Ends a bound that lies behind everything with its prefix.
pub const GT_NEXT: u8 = 0x60;

impl CqlType {
    /// Returns whether Cassandra's form orders some values of this type differently than
    /// [`CqlType::compare`]: NaN, and empty values inside others.
    pub fn has_displaced_values(&self) -> bool {
        let inside = |ty: &Self| ty.empty_is_special() || ty.has_displaced_values();
        matches!(self, Self::Float | Self::Double) || self.parts().any(inside)
    }
}

/// One of the two forms of a value.
trait Form {
    /// True if the form agrees with the comparators about all values.
    const IS_ORDERED: bool;
    /// The byte of an empty value inside a sequence.
    const NESTED_EMPTY: u8;
}

/// Cassandra's form.
struct Oss50;

impl Form for Oss50 {
    const IS_ORDERED: bool = false;
    const NESTED_EMPTY: u8 = NULL;
}

/// The form in the comparators' order.
struct Ordered;

impl Form for Ordered {
    const IS_ORDERED: bool = true;
    const NESTED_EMPTY: u8 = EMPTY;
}
