//! The error of a statement that does not parse.

use super::ast::{LineColumn, Position};

/// The error of a text that is not CQL: the place of the first offending text, this text, and the
/// expectation of the parser.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}:{column} {message}")]
pub struct SyntaxError {
    /// Line of the offending text, from 1.
    pub line: u32,
    /// Column of the offending text in characters, from 0.
    pub column: u32,
    /// Byte offset of the offending text.
    pub offset: usize,
    /// The message, without the place.
    pub message: String,
}

impl SyntaxError {
    pub(super) fn new(text: &str, position: Position, message: String) -> Self {
        let LineColumn { line, column } = position.line_column(text);
        Self { line, column, offset: position.offset(), message }
    }
}
