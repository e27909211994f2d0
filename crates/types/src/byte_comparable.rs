//! Values as strings of bytes whose unsigned lexicographic order is CQL's order.
//!
//! This is Cassandra's encoding "OSS50" (`ByteComparable.md` upstream), bit for bit, because it is the alphabet of the
//! trie indexes on disk. A value's encoding is prefix-free once a separator or terminator follows it, so that a key can
//! be cut anywhere and still be ordered. Encoding never fails: values are validated at the node's edge
//! ([`CqlType::validate`]), and for others the order is unspecified, but nothing panics. It allocates nothing besides
//! `out`, except for decimals whose unscaled value takes more than 16 bytes. Decoding accepts any bytes, returns an
//! error for what is no encoding, and holds no more than the decoded value.
//!
//! Decoding returns the value's canonical form. It differs from the encoded bytes where several forms of a value are
//! equal: a decimal loses its trailing zeros (1.10 becomes 1.1), a varint its superfluous sign bytes, a tuple gets
//! explicit nulls for the trailing fields that it left out, `true` becomes `01`, and inside collections, tuples and
//! vectors an empty value of a type that has no natural empty value (int, uuid, ...) cannot be told from null.

mod clustering;
mod decimal;
mod escaped;
mod integer;
mod key;
mod nested;
mod source;
mod value;

pub use clustering::{
    decode_clustering, decode_component, encode_clustering, encode_clustering_prefix,
    encode_component,
};
pub use escaped::{decode_escaped, encode_escaped};
pub use key::{decode_decorated_key, encode_decorated_key};
pub use value::{decode, encode};

/// Precedes every component.
pub const NEXT_COMPONENT: u8 = 0x40;
/// The next component is zero-length, of a type that has no natural empty value; nothing else follows.
pub const EMPTY: u8 = 0x3F;
/// [`EMPTY`] in a reversed column.
pub const EMPTY_REVERSED: u8 = 0x41;
/// The next component is null, also in reversed columns; nothing else follows.
pub const NULL: u8 = 0x3E;
/// Ends a sequence: rows, keys, collections, tuples.
pub const TERMINATOR: u8 = 0x38;
/// Ends a bound that lies before everything with its prefix.
pub const LT_NEXT: u8 = 0x20;
/// Ends a bound that lies behind everything with its prefix.
pub const GT_NEXT: u8 = 0x60;
