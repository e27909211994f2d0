//! The target of the CQL parser.

use espalier_cql::grammar::{ast::Statement, parse, parse_type, split_statements};

/// Parses the input as a statement, as a type and as a script. A printed statement must parse, and
/// print the same again.
pub fn cql(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(parsed) = parse(text)
        && !matches!(parsed.statement, Statement::Unsupported(_))
    {
        let printed = parsed.to_string();
        match parse(&printed) {
            Ok(again) => assert_eq!(again.to_string(), printed),
            Err(error) => panic!("{printed}\n{error}"),
        }
    }
    if let Ok(ty) = parse_type(text) {
        let _ = ty.to_string();
    }
    for statement in split_statements(text) {
        let _ = parse(statement).is_ok();
    }
}
