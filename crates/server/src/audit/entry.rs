//! Formats one entry of the audit log as a line of JSON. The line's fields have the names that they
//! have in Cassandra's entries; `count` is our own.

use std::borrow::Cow;
use std::net::IpAddr;

use espalier_cql::audit::{AuditCategory, AuditedStatement, only};
use espalier_cql::auth::obfuscate;
use espalier_cql::grammar::behind_comments;
use serde::Serialize;

/// Maximum bytes of a statement in an entry; the rest is cut off. Arbitrary.
const MAX_OPERATION_BYTES: usize = 64 << 10;

/// An entry.
#[derive(Debug, Serialize)]
pub(crate) struct AuditEntry<'e> {
    /// The time of the request, in milliseconds since 1970.
    pub timestamp: i64,
    /// The role; `None` before the log-in.
    pub user: Option<&'e str>,
    /// The address of the node.
    pub host: IpAddr,
    /// The address of the client.
    pub source: IpAddr,
    /// The port of the client.
    pub port: u16,
    /// The type, such as CREATE_TABLE.
    #[serde(rename = "type")]
    pub kind: &'static str,
    #[serde(serialize_with = "name")]
    pub category: AuditCategory,
    /// The id that the entries of one batch share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<&'e str>,
    /// The keyspaces of the statement's objects. The line names the keyspace if there is only one.
    #[serde(rename = "ks", serialize_with = "one", skip_serializing_if = "has_not_one")]
    pub keyspaces: &'e [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<&'e str>,
    /// The number of statements of a batch with this text, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// True if the request failed. The option `excluded_keyspaces` does not apply to failures.
    #[serde(skip)]
    pub has_failed: bool,
    /// The statement without passwords, and the error if the request failed.
    pub operation: String,
}

fn name<S: serde::Serializer>(category: &AuditCategory, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(category.name())
}

fn has_not_one(keyspaces: &&[String]) -> bool {
    only(keyspaces).is_none()
}

fn one<S: serde::Serializer>(keyspaces: &&[String], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(only(keyspaces).unwrap_or_default())
}

impl<'e> AuditEntry<'e> {
    /// Creates an entry without a statement. `host` is the address of the node.
    pub fn new(host: IpAddr) -> Self {
        Self {
            timestamp: 0,
            user: None,
            host,
            source: host,
            port: 0,
            kind: "",
            category: AuditCategory::Other,
            batch: None,
            keyspaces: &[],
            scope: None,
            count: None,
            has_failed: false,
            operation: String::new(),
        }
    }

    /// Sets type, category, keyspace and scope to those of a statement.
    pub fn of(self, statement: &'e AuditedStatement) -> Self {
        Self {
            kind: statement.kind,
            category: statement.category,
            keyspaces: &statement.keyspaces,
            scope: statement.scope.as_deref(),
            ..self
        }
    }

    /// Returns the line with its end.
    pub fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

/// Returns a statement as entries show it: without passwords, and cut if it is too long. Of the
/// statements that parse, only CREATE ROLE and ALTER ROLE have passwords, behind leading comments.
/// These statements, and a text that does not parse (no `described`), lose all that follows a
/// possible password.
pub(crate) fn operation(text: &str, described: Option<&AuditedStatement>) -> String {
    let shown = match described.map(|described| described.kind) {
        Some("CREATE_ROLE" | "ALTER_ROLE") => {
            let statement = behind_comments(text);
            let comments = text.get(..text.len() - statement.len()).unwrap_or_default();
            Cow::Owned(format!("{comments}{}", obfuscate(statement)))
        }
        Some(_) => Cow::Borrowed(text),
        None => obfuscate(text),
    };
    if shown.len() <= MAX_OPERATION_BYTES {
        return shown.into_owned();
    }
    let shortened = (0..=MAX_OPERATION_BYTES).rev().find_map(|end| shown.get(..end));
    format!("{}…", shortened.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn an_entry_is_one_line_of_json() {
        let statement = espalier_cql::audit::describe("SELECT * FROM k.t", None).unwrap();
        let entry = AuditEntry {
            timestamp: 5,
            user: Some("r\n\"1\""),
            port: 7,
            operation: operation("SELECT *\nFROM k.t", Some(&statement)),
            ..AuditEntry::new(Ipv4Addr::LOCALHOST.into())
        };
        let line = String::from_utf8(entry.of(&statement).line()).unwrap();
        let expected = r#"{"timestamp":5,"user":"r\n\"1\"","host":"127.0.0.1","source":"127.0.0.1","port":7,"type":"SELECT","category":"QUERY","ks":"k","scope":"t","operation":"SELECT *\nFROM k.t"}"#;
        assert_eq!(line, format!("{expected}\n"));
    }

    #[test]
    fn long_statements_are_cut_and_passwords_hidden() {
        let shown = operation(&"é".repeat(MAX_OPERATION_BYTES), None);
        assert!(shown.ends_with("é…") && shown.len() < MAX_OPERATION_BYTES + 8);
        let create = "CREATE ROLE r WITH PASSWORD = 'hidden'";
        for described in [None, espalier_cql::audit::describe(create, None)] {
            let shown = operation(create, described.as_ref());
            assert!(!shown.contains("hidden"), "{shown}");
        }
    }

    #[test]
    fn comments_hide_nothing() {
        for statement in ["DELETE FROM k.t WHERE id = 5", "GRANT admin TO mallory"] {
            let text = format!("/* ROLE PASSWORD */ {statement}");
            let described = espalier_cql::audit::describe(&text, None);
            assert_eq!(operation(&text, described.as_ref()), text);
        }
        let text = "/* PASSWORD */ CREATE ROLE m WITH SUPERUSER = true AND PASSWORD = 'hidden'";
        let shown = operation(text, espalier_cql::audit::describe(text, None).as_ref());
        assert!(shown.contains("SUPERUSER = true") && !shown.contains("hidden"), "{shown}");
    }
}
