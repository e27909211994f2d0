//! Decides when an identifier needs quotes.

use std::borrow::Cow;

/// Words that CQL reserves (Cassandra 5.0), and the literals `true` and `false`. As identifiers
/// they must be quoted.
const RESERVED: [&str; 59] = [
    "add",
    "allow",
    "alter",
    "and",
    "apply",
    "asc",
    "authorize",
    "batch",
    "begin",
    "by",
    "columnfamily",
    "create",
    "delete",
    "desc",
    "describe",
    "drop",
    "entries",
    "execute",
    "false",
    "from",
    "full",
    "grant",
    "if",
    "in",
    "index",
    "infinity",
    "insert",
    "into",
    "is",
    "keyspace",
    "limit",
    "materialized",
    "modify",
    "nan",
    "norecursive",
    "not",
    "null",
    "of",
    "on",
    "or",
    "order",
    "primary",
    "rename",
    "revoke",
    "schema",
    "select",
    "set",
    "table",
    "to",
    "token",
    "true",
    "truncate",
    "unlogged",
    "update",
    "use",
    "using",
    "view",
    "where",
    "with",
];

/// Returns whether `word` (in lower case) cannot be an identifier without quotes.
pub fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

/// Returns the identifier in double quotes, or without them if it is a plain lower-case word that
/// is not reserved.
pub fn quote_if_needed(name: &str) -> Cow<'_, str> {
    let mut bytes = name.bytes();
    let plain = bytes.next().is_some_and(|first| first.is_ascii_lowercase())
        && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if plain && !is_reserved(name) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(format!("\"{}\"", name.replace('"', "\"\"")))
}
