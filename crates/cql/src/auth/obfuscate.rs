//! Hides the passwords of statements in logs, traces and error texts.

use std::borrow::Cow;

/// The text that replaces a password, as in Cassandra.
const HIDDEN: &str = "*******";

/// First words of statements that have no passwords.
const WITHOUT_PASSWORD: [&str; 12] = [
    "SELECT", "INSERT", "UPDATE", "DELETE", "BEGIN", "USE", "TRUNCATE", "DESCRIBE", "DROP",
    "GRANT", "REVOKE", "LIST",
];

/// Hides everything after the first `PASSWORD` of a statement that may define a role. Cassandra
/// does so for statements that do not parse. The text may be malformed, so the end of the password
/// is unknown. Other statements stay unchanged.
///
/// A malformed text may define a role at any place. So a statement with `PASSWORD` stays unchanged
/// only if it has no word `ROLE` or `USER`, or if it begins with a word of `WITHOUT_PASSWORD` and
/// has no `WITH`, `CREATE` or `ALTER`.
pub fn obfuscate(text: &str) -> Cow<'_, str> {
    const WORD: &[u8] = b"password";
    let found =
        text.as_bytes().windows(WORD.len()).position(|part| part.eq_ignore_ascii_case(WORD));
    match found.filter(|_| may_define_role(text)) {
        Some(at) => {
            Cow::Owned(format!("{} {HIDDEN}", text.get(..at + WORD.len()).unwrap_or_default()))
        }
        None => Cow::Borrowed(text),
    }
}

fn may_define_role(text: &str) -> bool {
    let mut words =
        text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let is_one = |word: &str, list: &[&str]| list.iter().any(|one| word.eq_ignore_ascii_case(one));
    let Some(first) = words.next() else { return false };
    let mut defines = !is_one(first, &WITHOUT_PASSWORD);
    let mut names_role = is_one(first, &["ROLE", "USER"]);
    for word in words {
        defines |= is_one(word, &["WITH", "CREATE", "ALTER"]);
        names_role |= is_one(word, &["ROLE", "USER"]);
    }
    defines && names_role
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_hidden_in_every_form() {
        for (text, shown) in [
            (
                "CREATE ROLE r WITH PASSWORD = 'x' AND LOGIN = true",
                "CREATE ROLE r WITH PASSWORD *******",
            ),
            ("alter user u with password 'x''y'", "alter user u with password *******"),
            (
                "CREATE ROLE r WITH HASHED PASSWORD='$2a'",
                "CREATE ROLE r WITH HASHED PASSWORD *******",
            ),
            ("/* a */ ALTER ROLE r WITH pAssWord=", "/* a */ ALTER ROLE r WITH pAssWord *******"),
            ("ALTER ROLE r WITH LOGIN = false", "ALTER ROLE r WITH LOGIN = false"),
            (
                "CREATE TABLE t (password text PRIMARY KEY)",
                "CREATE TABLE t (password text PRIMARY KEY)",
            ),
            ("SELECT password FROM user", "SELECT password FROM user"),
            ("GRANT SELECT ON password TO user", "GRANT SELECT ON password TO user"),
            (
                "BEGIN BATCH CREATE ROLE r WITH PASSWORD = 'x'; APPLY BATCH",
                "BEGIN BATCH CREATE ROLE r WITH PASSWORD *******",
            ),
            ("CRATE ROLE r WITH PASSWORD = 'x'", "CRATE ROLE r WITH PASSWORD *******"),
            ("SELECT 1; ALTER USER u PASSWORD 'x'", "SELECT 1; ALTER USER u PASSWORD *******"),
            ("", ""),
        ] {
            assert_eq!(obfuscate(text), shown);
        }
    }
}
