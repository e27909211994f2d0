//! Statements as logs, traces and error texts show them: without passwords.

use std::borrow::Cow;

/// The text that stands for a password, as in Cassandra.
const HIDDEN: &str = "*******";

/// Hides everything behind the first `PASSWORD` of a statement about roles, as Cassandra does for
/// statements that do not parse: the text may be malformed, so the end of the password is unknown.
/// Other statements are unchanged.
pub fn obfuscate(text: &str) -> Cow<'_, str> {
    const WORD: &[u8] = b"password";
    let begins = |word: &str| {
        let start = text.trim_start();
        start.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    // A comment may stand first.
    let may_define_role =
        ["CREATE", "ALTER"].into_iter().any(begins) || text.trim_start().starts_with(['-', '/']);
    let found =
        text.as_bytes().windows(WORD.len()).position(|part| part.eq_ignore_ascii_case(WORD));
    match found.filter(|_| may_define_role && names_role(text)) {
        Some(at) => {
            Cow::Owned(format!("{} {HIDDEN}", text.get(..at + WORD.len()).unwrap_or_default()))
        }
        None => Cow::Borrowed(text),
    }
}

/// Whether a text has the word ROLE or USER.
fn names_role(text: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric())
        .any(|word| word.eq_ignore_ascii_case("role") || word.eq_ignore_ascii_case("user"))
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
            ("", ""),
        ] {
            assert_eq!(obfuscate(text), shown);
        }
    }
}
