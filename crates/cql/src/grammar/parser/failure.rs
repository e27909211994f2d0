//! Failures: syntax errors inside the parser. A failure is cheap, because the offending text and
//! its context are added only when the parser gives up the statement.

use crate::grammar::SyntaxError;
use crate::grammar::ast::Position;
use crate::grammar::token::{Token, TokenKind};

/// The reason why the parser stopped, and the token at which it stopped.
#[derive(Debug)]
pub(super) struct Failure {
    /// Index of the offending token.
    pub(super) token: usize,
    problem: Problem,
}

#[derive(Debug)]
enum Problem {
    Expected(&'static str),
    Message(String),
}

/// Bytes of text that a message shows on either side of the offending token.
const CONTEXT: usize = 24;
/// Maximum bytes that a message shows of the offending token.
const OFFENDER: usize = 64;

impl Failure {
    /// Creates the failure of a token where `expected` should be.
    pub(super) fn expected(token: usize, expected: &'static str) -> Self {
        Self { token, problem: Problem::Expected(expected) }
    }

    /// Creates a failure with another message at the token.
    pub(super) fn message(token: usize, message: String) -> Self {
        Self { token, problem: Problem::Message(message) }
    }

    /// Makes the error for the client. `text` is the statement.
    pub(super) fn into_error(self, text: &str, tokens: &[Token]) -> SyntaxError {
        let token = tokens[self.token.min(tokens.len() - 1)];
        let (start, end) = (token.start as usize, token.end as usize);
        let offender = cut_after(&text[start..end], OFFENDER);
        let message = match (token.kind, self.problem) {
            // For an invalid token, its fault matters more than the expectation of the parser.
            (TokenKind::Invalid(invalid), _) => format!("{} at '{offender}'", invalid.reason()),
            (_, Problem::Message(message)) => message,
            (TokenKind::End, Problem::Expected(expected)) => {
                format!("unexpected end of statement, expected {expected}")
            }
            (_, Problem::Expected(expected)) => {
                format!("no viable alternative at input '{offender}', expected {expected}")
            }
        };
        let before = cut_before(&text[..start], CONTEXT);
        let after = cut_after(&text[end..], CONTEXT);
        let dots_before = if before.len() < start { "..." } else { "" };
        let dots_after = if end + after.len() < text.len() { "..." } else { "" };
        let message = format!("{message} ({dots_before}{before}[{offender}]{after}{dots_after})");
        SyntaxError::new(text, Position(token.start), message)
    }
}

/// Returns the first `length` bytes of `text`, or fewer at the boundary of a character.
fn cut_after(text: &str, length: usize) -> &str {
    let at = (0..=length.min(text.len())).rev().find(|&at| text.is_char_boundary(at));
    &text[..at.unwrap_or(0)]
}

/// Returns the last `length` bytes of `text`, or fewer at the boundary of a character.
fn cut_before(text: &str, length: usize) -> &str {
    let from = text.len().saturating_sub(length);
    let at = (from..=text.len()).find(|&at| text.is_char_boundary(at));
    &text[at.unwrap_or(text.len())..]
}
