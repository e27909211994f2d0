//! Errors in the bytes of a request.

use super::header::StreamId;
use super::opcode::Opcode;
use super::response::{ErrorDetail, ErrorResponse};

/// The reason why bytes are not a request. An error in a field names the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The node does not support this version. Drivers look for this text.
    #[error("{}", super::ProtocolVersion::unsupported_message(*requested))]
    UnsupportedVersion {
        /// The number that the client sent.
        requested: u8,
    },
    /// The version changed in the middle of a connection.
    #[error(
        "Invalid message version. Got {got} but previous messages on this connection had version {expected}"
    )]
    VersionChanged {
        /// Version of this envelope.
        got: u8,
        /// Version of the envelopes before.
        expected: u8,
    },
    /// The direction bit says that this is a response.
    #[error("Wrong protocol direction, expected a request")]
    WrongDirection,
    /// No message has this opcode.
    #[error("Unknown opcode {byte:#04x}")]
    UnknownOpcode {
        /// The opcode's byte.
        byte: u8,
    },
    /// Only servers send this opcode.
    #[error("Unexpected opcode {opcode:?}: it is not a request")]
    NotARequest {
        /// The opcode.
        opcode: Opcode,
    },
    /// An envelope, or its decompressed body, exceeds `native_transport_max_frame_size`.
    #[error("Request is too big: length {length} exceeds maximum allowed length {limit}")]
    TooLarge {
        /// Bytes of the body.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// An envelope before STARTUP is larger than STARTUP can be.
    #[error("Request is too big before STARTUP: length {length} exceeds {limit}")]
    TooLargeBeforeStartup {
        /// Bytes of the body.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The requests in flight leave no memory for the rest of an envelope.
    #[error("Request breached {limit}: try again later")]
    Overloaded {
        /// The name of the setting.
        limit: &'static str,
    },
    /// The compressed flag is set, but STARTUP named no compression.
    #[error("Unexpected compressed body: no compression was negotiated in STARTUP")]
    UnexpectedCompression,
    /// The compressed body cannot be expanded to the length it claims.
    #[error("Invalid compressed body")]
    BrokenCompression,
    /// The CRC24 of a segment's header does not match.
    #[error("Invalid segment header: checksum {found:#08x}, computed {computed:#08x}")]
    HeaderChecksum {
        /// Checksum in the segment.
        found: u32,
        /// Checksum of its bytes.
        computed: u32,
    },
    /// The CRC32 of a segment's payload does not match.
    #[error("Invalid segment payload: checksum {found:#010x}, computed {computed:#010x}")]
    PayloadChecksum {
        /// Checksum in the segment.
        found: u32,
        /// Checksum of its bytes.
        computed: u32,
    },
    /// Envelopes and segments do not line up as version 5 demands.
    #[error("Invalid segment: {0}")]
    Segmentation(&'static str),
    /// The body ends inside a field.
    #[error("Invalid message: {field} needs {needed} bytes but {remaining} remain")]
    Truncated {
        /// The field.
        field: &'static str,
        /// Bytes that it needs.
        needed: usize,
        /// Bytes that remain in the body.
        remaining: usize,
    },
    /// A length is negative where the protocol allows none.
    #[error("Invalid message: {field} has the length {length}")]
    NegativeLength {
        /// The field.
        field: &'static str,
        /// The length.
        length: i32,
    },
    /// A string is not UTF-8.
    #[error("Invalid message: {field} is not valid UTF-8")]
    NotUtf8 {
        /// The field.
        field: &'static str,
    },
    /// A custom payload came with version 3.
    #[error("Received frame with CUSTOM_PAYLOAD flag for native protocol version < 4")]
    CustomPayload,
    /// No consistency level has this code.
    #[error("Unknown code {code} for a consistency level")]
    UnknownConsistency {
        /// The code.
        code: u16,
    },
    /// An enumerated byte has an invalid value.
    #[error("Invalid message: {field} cannot be {value}")]
    UnknownValue {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u8,
    },
    /// The default timestamp is the one number that means "no timestamp".
    #[error(
        "Out of bound timestamp, must be in [{}, {}] (got {})", i64::MIN + 1, i64::MAX, i64::MIN
    )]
    TimestampOutOfBounds,
    /// A BATCH names its values. The flag that says so follows the values, so the node cannot
    /// decode them.
    #[error("Values of a BATCH cannot be named")]
    NamedBatchValues,
    /// STARTUP lacks its one required option.
    #[error("Missing value CQL_VERSION in STARTUP message")]
    MissingCqlVersion,
    /// REGISTER names an event that does not exist.
    #[error("Unknown event type {name:?}")]
    UnknownEventType {
        /// The name.
        name: String,
    },
}

impl DecodeError {
    /// Returns the ERROR response for the client.
    pub fn response(&self) -> ErrorResponse {
        let detail = match self {
            Self::TooLarge { .. } => ErrorDetail::Invalid,
            Self::Overloaded { .. } => ErrorDetail::Overloaded,
            _ => ErrorDetail::Protocol,
        };
        ErrorResponse::new(detail, self.to_string())
    }
}

/// A failure to take an envelope from the stream of bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stream {stream}: {error}")]
pub struct DecodeFailure {
    /// Stream to answer on: 0 if the envelope's own is unknown.
    pub stream: StreamId,
    /// The error.
    pub error: DecodeError,
    /// True if the decoder cannot continue, so that the connection must close once the answer is
    /// sent.
    pub fatal: bool,
}
