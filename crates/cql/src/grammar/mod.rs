//! The grammar of CQL 3.4.7 (Cassandra 5.0) with extensions of Cassandra 6 and ScyllaDB. The parser
//! turns text into `ast`.

pub mod ast;
mod error;
mod keyword;
mod lexer;
mod parser;
mod print;
mod token;

pub use ast::Parsed;
pub use error::SyntaxError;
pub(crate) use print::{CqlText, PredicateText, TermText};

/// Maximum depth of types and expressions. Arbitrary: more than statements need, and small enough
/// that recursion does not overflow a stack.
pub const MAX_NESTING: u32 = 100;

/// Maximum number of words and signs in a statement (arbitrary). A tree and its plan take some
/// hundred bytes for each, so a request of 16 MiB could otherwise take gigabytes. A bound value
/// does not count. A literal of any length counts as one word.
pub const MAX_TOKENS: usize = 2_000_000;

/// Parses one statement (a whole batch is one), with or without `;` at its end.
///
/// # Errors
/// The text is not CQL, or exceeds the limits of nesting or of tokens.
pub fn parse(text: &str) -> Result<Parsed<'_>, SyntaxError> {
    parser::parse(text)
}

/// Returns a statement without the white space and comments at its beginning; empty if a comment
/// has no end. Some tools put a comment before a statement.
pub fn behind_comments(text: &str) -> &str {
    lexer::behind_comments(text)
}

/// Splits a script into its statements, without the `;` between them. It skips empty statements,
/// such as those with only comments. If the lexer refuses a part of the text, the last statement is
/// the rest of the script.
pub fn split_statements(script: &str) -> Vec<&str> {
    let mut statements = Vec::new();
    let mut start = None;
    for token in lexer::tokenize(script) {
        let (from, to) = (token.start as usize, token.end as usize);
        match token.kind {
            token::TokenKind::Semicolon => {
                statements.extend(start.take().and_then(|start| script.get(start..from)));
            }
            token::TokenKind::End => {}
            token::TokenKind::Invalid(_) => {
                statements.extend(script.get(start.take().unwrap_or(from)..));
                return statements;
            }
            _ => {
                start.get_or_insert(from);
            }
        }
        if to == script.len() {
            statements.extend(start.take().and_then(|start| script.get(start..)));
        }
    }
    statements
}

/// Parses the conditions of a WHERE clause, without the word WHERE.
///
/// # Errors
/// The text is not such a condition, or exceeds the limits of nesting or of tokens.
pub fn parse_where(
    text: &str,
) -> Result<(ast::WhereClause<'_>, ast::BindMarkers<'_>), SyntaxError> {
    parser::parse_where(text)
}

/// Parses a single type, as in the columns of `system_schema`.
///
/// # Errors
/// The text is not a type, or exceeds the limits of nesting or of tokens.
pub fn parse_type(text: &str) -> Result<ast::TypeName<'_>, SyntaxError> {
    parser::parse_type(text)
}
