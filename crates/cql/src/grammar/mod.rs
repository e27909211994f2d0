//! The grammar of CQL 3.4.7 (Cassandra 5.0): from text to `ast`.

pub mod ast;
mod error;

pub use ast::Parsed;
pub use error::SyntaxError;

/// How deep types and expressions may nest: far more than any use, and little enough for any stack.
pub const MAXIMUM_NESTING: u32 = 100;

/// Parses one statement (a whole batch is one), with or without a `;` at its end.
pub fn parse(text: &str) -> Result<Parsed<'_>, SyntaxError> {
    let position = ast::Position(0);
    Err(SyntaxError::new(text, position, "the parser is not here yet".into()))
}
