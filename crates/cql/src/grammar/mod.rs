//! The grammar of CQL 3.4.7 (Cassandra 5.0): from text to `ast`.

pub mod ast;
mod error;
mod keyword;
mod lexer;
mod parser;
mod print;
mod token;

pub use ast::Parsed;
pub use error::SyntaxError;

/// How deep types and expressions may nest: far more than any use, and little enough for any stack.
pub const MAXIMUM_NESTING: u32 = 100;

/// The most words and signs of a statement. A tree, and then a plan, takes some hundred bytes for each, so that a request of 16 MiB
/// could take gigabytes. Values that are bound, or written as one long literal, do not count.
pub const MAXIMUM_TOKENS: usize = 2_000_000;

/// Parses one statement (a whole batch is one), with or without `;` at its end.
pub fn parse(text: &str) -> Result<Parsed<'_>, SyntaxError> {
    parser::parse(text)
}

/// The statements of a script, without the `;` between them; what is blank or comment only is left out. Text that is no CQL
/// ends up in the last one.
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

/// Parses conditions that stand alone, without the word WHERE.
pub fn parse_where(
    text: &str,
) -> Result<(ast::WhereClause<'_>, ast::BindMarkers<'_>), SyntaxError> {
    parser::parse_where(text)
}

/// Parses a type that stands alone, as in the columns of `system_schema`.
pub fn parse_type(text: &str) -> Result<ast::TypeName<'_>, SyntaxError> {
    parser::parse_type(text)
}
