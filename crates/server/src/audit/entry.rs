//! One entry of the audit log, as a line of JSON. The names of its fields are those of Cassandra's
//! entries.

use std::net::IpAddr;

use espalier_cql::audit::{AuditCategory, AuditedStatement};
use espalier_cql::auth::obfuscate;
use serde::Serialize;

/// Maximum bytes of a statement in an entry; the rest is cut. Arbitrary.
const MAX_OPERATION_BYTES: usize = 64 << 10;

/// An entry.
#[derive(Debug, Serialize)]
pub(crate) struct AuditEntry<'e> {
    /// Milliseconds since 1970.
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
    #[serde(rename = "ks", skip_serializing_if = "Option::is_none")]
    pub keyspace: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<&'e str>,
    /// The statement without passwords, and the error if it failed.
    pub operation: String,
}

fn name<S: serde::Serializer>(category: &AuditCategory, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(category.name())
}

impl<'e> AuditEntry<'e> {
    /// Sets type, category, keyspace and scope to those of a statement.
    pub fn of(self, statement: &'e AuditedStatement) -> Self {
        Self {
            kind: statement.kind,
            category: statement.category,
            keyspace: statement.keyspace.as_deref(),
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

/// Returns a statement as entries show it: without passwords, and not too long.
pub(crate) fn operation(text: &str) -> String {
    let shown = obfuscate(text);
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
        let address = Ipv4Addr::LOCALHOST.into();
        let statement = espalier_cql::audit::describe("SELECT * FROM k.t", None).unwrap();
        let entry = AuditEntry {
            timestamp: 5,
            user: Some("r\n\"1\""),
            host: address,
            source: address,
            port: 7,
            kind: "",
            category: AuditCategory::Other,
            batch: None,
            keyspace: None,
            scope: None,
            operation: operation("SELECT *\nFROM k.t"),
        };
        let line = String::from_utf8(entry.of(&statement).line()).unwrap();
        let expected = r#"{"timestamp":5,"user":"r\n\"1\"","host":"127.0.0.1","source":"127.0.0.1","port":7,"type":"SELECT","category":"QUERY","ks":"k","scope":"t","operation":"SELECT *\nFROM k.t"}"#;
        assert_eq!(line, format!("{expected}\n"));
    }

    #[test]
    fn long_statements_are_cut_and_passwords_hidden() {
        let shown = operation(&"é".repeat(MAX_OPERATION_BYTES));
        assert!(shown.ends_with("é…") && shown.len() < MAX_OPERATION_BYTES + 8);
        let shown = operation("CREATE ROLE r WITH PASSWORD = 'hidden'");
        assert!(!shown.contains("hidden"), "{shown}");
    }
}
