//! Errors of CQL, with the codes of the native protocol. Source: native_protocol_v5.spec section 9.

use std::fmt;

use espalier_storage::TurnKind;

use crate::grammar::{
    SyntaxError,
    ast::{LineColumn, Position},
};

/// The codes of the native protocol with which statements can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum ErrorCode {
    ServerError = 0x0000,
    ProtocolError = 0x000A,
    Authentication = 0x0100,
    Overloaded = 0x1001,
    TruncateError = 0x1003,
    WriteTimeout = 0x1100,
    ReadTimeout = 0x1200,
    ReadFailure = 0x1300,
    FunctionFailure = 0x1400,
    WriteFailure = 0x1500,
    SyntaxError = 0x2000,
    Unauthorized = 0x2100,
    Invalid = 0x2200,
    ConfigurationError = 0x2300,
    AlreadyExists = 0x2400,
    Unprepared = 0x2500,
}

/// The failure of a statement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The protocol's code.
    pub code: ErrorCode,
    /// The reason. A syntax error begins with its place in the text ("line 1:7 "), as Cassandra's
    /// does. Other errors may end with their place (" (line 1:7)"), so that they begin with
    /// Cassandra's text.
    pub message: String,
    /// Fields that errors with some codes have in addition to the message.
    pub detail: ErrorDetail,
}

/// Fields that some errors have in addition to the message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ErrorDetail {
    /// No further fields.
    #[default]
    None,
    /// Code 0x2400: the table exists, or the keyspace if `table` is empty.
    AlreadyExists {
        /// The keyspace.
        keyspace: String,
        /// The table, or empty.
        table: String,
    },
    /// Code 0x1400.
    FunctionFailure {
        /// The function's keyspace.
        keyspace: String,
        /// Its name.
        function: String,
        /// Its argument types by their CQL names.
        argument_types: Vec<String>,
    },
    /// Code 0x1001: the result exceeds [`crate::QueryOptions::answer_bytes`] and may not be cut.
    AnswerTooLarge,
    /// Code 0x1300: the read met more tombstones than `tombstone_failure_threshold`.
    TooManyTombstones,
    /// Code 0x1100: the statement did not get its turn in time, or the time of its `USING TIMEOUT`
    /// has passed.
    WriteTimeout {
        /// The kind of the write.
        kind: TurnKind,
    },
    /// Code 0x1500: the commit log could not store the write, or the node gave up a logged batch or
    /// a transaction before all of its writes were applied.
    WriteFailure {
        /// The kind of the write.
        kind: TurnKind,
    },
    /// Code 0x2500: the statement id is unknown to this node.
    Unprepared {
        /// The id as the client sent it.
        id: Vec<u8>,
    },
}

/// The result of planning or executing a statement.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Creates an error without detail.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), detail: ErrorDetail::None }
    }

    /// Creates an error 0x2200: the statement is well-formed but does not fit the schema, or a
    /// value is invalid.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Invalid, message)
    }

    /// Creates an error 0x2200 with the text of another error.
    pub fn invalid_from(error: impl fmt::Display) -> Self {
        Self::invalid(error.to_string())
    }

    /// Creates an error 0x2200 with a message that ends with the place in the statement: "message
    /// (line 1:7)".
    pub fn invalid_at(text: &str, position: Position, message: impl AsRef<str>) -> Self {
        let place = position.line_column(text);
        Self::invalid(format!("{} (line {place})", message.as_ref()))
    }

    /// Creates an error 0x2200: neither the statement nor the session names a keyspace.
    pub fn no_keyspace() -> Self {
        Self::invalid(
            "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename",
        )
    }

    /// Sets the kind of write in a write failure, for the error of a conditional statement or of a
    /// transaction. Leaves other errors unchanged.
    #[must_use]
    pub fn of_conditional(self) -> Self {
        match self.code {
            ErrorCode::WriteFailure => {
                Self { detail: ErrorDetail::WriteFailure { kind: TurnKind::Conditional }, ..self }
            }
            _ => self,
        }
    }

    /// Splits the message into the place in the text, if the message names one, and the rest.
    pub(crate) fn split_place(&self) -> (Option<LineColumn>, &str) {
        let parse = |place: &str| {
            let (line, column) = place.split_once(':')?;
            Some(LineColumn { line: line.parse().ok()?, column: column.parse().ok()? })
        };
        let first = || {
            let (place, message) = self.message.strip_prefix("line ")?.split_once(' ')?;
            Some((parse(place)?, message))
        };
        let last = || {
            let (message, place) = self.message.strip_suffix(')')?.rsplit_once(" (line ")?;
            Some((parse(place)?, message))
        };
        let split = first().or_else(last);
        split.map_or((None, &self.message), |(place, message)| (Some(place), message))
    }

    /// Creates an error 0x2000: the text is not CQL, or a part of it has the wrong form.
    pub fn syntax(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::SyntaxError, message)
    }

    /// Creates an error 0x2300: an option of a schema statement is wrong.
    pub fn configuration(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::ConfigurationError, message)
    }

    /// Creates an error 0x1400: a native function or operator has no result for its arguments.
    pub fn function_failure(
        function: &str,
        argument_types: Vec<String>,
        message: impl Into<String>,
    ) -> Self {
        let detail = ErrorDetail::FunctionFailure {
            keyspace: "system".into(),
            function: function.into(),
            argument_types,
        };
        Self { code: ErrorCode::FunctionFailure, message: message.into(), detail }
    }

    /// Creates an error 0x1001: the result needs more memory than is available at present.
    pub fn answer_too_large() -> Self {
        Self {
            code: ErrorCode::Overloaded,
            message: "The result needs more memory than is available; use paging".into(),
            detail: ErrorDetail::AnswerTooLarge,
        }
    }

    /// Creates an error 0x2200 that names a feature of Cassandra which this node does not support
    /// yet.
    pub fn unsupported(feature: &str) -> Self {
        Self::invalid(format!("{feature} is not supported yet"))
    }
}

impl From<SyntaxError> for Error {
    fn from(error: SyntaxError) -> Self {
        Self::syntax(error.to_string())
    }
}
