//! Defines the errors of values, type names and byte-comparable strings.

use thiserror::Error;

/// The error for bytes or a text that the type does not allow as a value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages say what the fields are
pub enum ValueError {
    /// The serialised value has a length that the type does not have.
    #[error("expected {expected} for {type_name}, got {got} bytes")]
    Length { type_name: String, expected: &'static str, got: usize },
    /// The bytes end inside the value.
    #[error("{type_name} ends too early: expected {expected} more bytes, got {got}")]
    Truncated { type_name: String, expected: usize, got: usize },
    /// Bytes follow the end of the value.
    #[error("{got} unexpected bytes after the end of {type_name}, expected none")]
    Trailing { type_name: String, got: usize },
    /// The bytes have the right length, but are no value of the type.
    #[error("expected {expected} for {type_name}, got {got}")]
    Invalid { type_name: String, expected: &'static str, got: String },
    /// A null where the type does not allow it (elements of collections and vectors).
    #[error("null is not allowed inside {type_name}")]
    Null { type_name: String },
    /// A part of a collection, tuple, UDT, vector or composite is wrong.
    #[error("{part} of {type_name}: {source}")]
    Part { type_name: String, part: String, source: Box<ValueError> },
    /// A part is wrong. The text begins with the text of the part's error, because clients match on
    /// the beginning.
    #[error("{source} ({part} of {type_name})")]
    InPart { type_name: String, part: String, source: Box<ValueError> },
    /// A text that does not describe a value of the type. `reason` has Cassandra's wording.
    #[error("{reason}: expected {expected}")]
    Text { reason: String, expected: &'static str },
    /// A number that is too large to print or to compute with.
    #[error(
        "{type_name} of {got} bytes is too large to print or to compute with: the limit is {limit} \
         bytes for a number, and less for each of several in one value"
    )]
    TooLarge { type_name: String, limit: usize, got: usize },
    /// A conversion that this type does not have.
    #[error("{what} is not supported for {type_name}")]
    Unsupported { type_name: String, what: &'static str },
}

/// A type name that cannot be parsed. `at` is the offset of the fault in `text`, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages say what the fields are
#[error("cannot parse the type '{text}' at offset {at}: {reason}")]
pub struct TypeParseError {
    pub text: String,
    pub at: usize,
    pub reason: String,
}

/// A byte-comparable string that does not encode a value. `remaining` counts the bytes that were
/// not read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages say what the fields are
pub enum DecodeError {
    #[error("byte-comparable {type_name} ends too early")]
    Truncated { type_name: String },
    #[error(
        "unexpected byte {got:02x} in byte-comparable {type_name}, expected {expected} ({remaining} bytes before the end)"
    )]
    Unexpected { type_name: String, expected: &'static str, got: u8, remaining: usize },
    #[error("{got} unexpected bytes after a byte-comparable {type_name}")]
    Trailing { type_name: String, got: usize },
    #[error("byte-comparable {type_name} is out of range: {reason}")]
    Range { type_name: String, reason: &'static str },
}
