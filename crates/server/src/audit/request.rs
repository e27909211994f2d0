//! The entries of a request, as Cassandra makes them: one for each statement, a first one for a
//! batch as a whole, and a single one for a failure.

use std::sync::Arc;

use espalier_cql as cql;
use espalier_cql::audit::{AuditCategory, AuditedStatement, describe};
use espalier_runtime::{maybe_yield, random, time};

use super::entry::{AuditEntry, operation};
use crate::connection::Connection;
use crate::protocol::Request;
use crate::protocol::request::StatementRef;
use crate::protocol::response::{ErrorDetail, ErrorResponse};

/// A request that is being served while the audit log is on.
pub(crate) struct AuditedRequest {
    kind: Kind,
    statements: Vec<Text>,
    keyspace: Option<String>,
    timestamp: i64,
}

enum Kind {
    Execution,
    Preparation,
    Batch,
}

/// The text of a statement.
enum Text {
    Given(String),
    Prepared(Arc<cql::Prepared>),
    /// The client named an id that the node does not know.
    Unknown,
}

impl Text {
    fn of(connection: &Connection, id: &[u8]) -> Self {
        connection.server.processor.known(id).map_or(Self::Unknown, Self::Prepared)
    }

    fn as_str(&self) -> &str {
        match self {
            Self::Given(text) => text,
            Self::Prepared(prepared) => &prepared.text,
            Self::Unknown => "",
        }
    }

    /// Describes the statement in the keyspace of its preparation, or else of the session.
    fn describe(&self, session: Option<&str>) -> Option<AuditedStatement> {
        let keyspace = match self {
            Self::Prepared(prepared) => prepared.keyspace.as_deref().or(session),
            _ => session,
        };
        describe(self.as_str(), keyspace)
    }
}

impl AuditedRequest {
    /// Takes the texts of a request. Returns `None` if the log is off or has no entries for such
    /// requests.
    pub fn begin(connection: &Connection, request: &Request<'_>) -> Option<Box<Self>> {
        if !connection.server.audit.is_on() {
            return None;
        }
        let (kind, statements) = match request {
            Request::Query(query) => (Kind::Execution, vec![Text::Given(query.text.to_owned())]),
            Request::Execute(execute) => (Kind::Execution, vec![Text::of(connection, execute.id)]),
            Request::Prepare(prepare) => {
                (Kind::Preparation, vec![Text::Given(prepare.text.to_owned())])
            }
            Request::Batch(batch) => {
                let text = |statement: &StatementRef<'_>| match statement {
                    StatementRef::Text(text) => Text::Given((*text).to_owned()),
                    StatementRef::Prepared(id) => Text::of(connection, id),
                };
                (Kind::Batch, batch.statements.iter().map(|one| text(&one.statement)).collect())
            }
            _ => return None,
        };
        let keyspace = connection.client().keyspace.clone();
        Some(Box::new(Self { kind, statements, keyspace, timestamp: time::now_millis() }))
    }

    /// Logs the outcome.
    pub async fn end(self: Box<Self>, connection: &Connection, error: Option<&ErrorResponse>) {
        let client = connection.client();
        let user = client.login.as_ref().map_or("anonymous", |login| login.name());
        let batch = matches!(self.kind, Kind::Batch).then(|| random::uuid_v4().to_string());
        let entry = |operation: String| AuditEntry {
            timestamp: self.timestamp,
            batch: batch.as_deref(),
            keyspace: self.keyspace.as_deref(),
            operation,
            ..new_entry(connection, Some(user))
        };
        let log = &connection.server.audit;
        let options = log.options();
        let count = self.statements.len();
        if let Some(error) = error {
            let text = match (&self.kind, self.statements.first()) {
                (Kind::Batch, _) => format!("BATCH of {count} statements"),
                (_, text) => operation(text.map_or("", Text::as_str)),
            };
            let statement = self.statements.first().filter(|_| batch.is_none());
            let statement = statement.and_then(|text| text.describe(self.keyspace.as_deref()));
            let failed = failure(entry(format!("{text}; {}", error.message)), error);
            let failed = match &statement {
                Some(statement) => AuditEntry {
                    keyspace: statement.keyspace.as_deref(),
                    scope: statement.scope.as_deref(),
                    ..failed
                },
                None => failed,
            };
            return log.log(&options, &failed).await;
        }
        if let Some(id) = &batch {
            let whole = entry(format!("BatchId:[{id}] - BATCH of [{count}] statements"));
            let whole = AuditEntry { kind: "BATCH", category: AuditCategory::Dml, ..whole };
            log.log(&options, &whole).await;
        }
        for text in &self.statements {
            maybe_yield().await;
            let Some(statement) = text.describe(self.keyspace.as_deref()) else { continue };
            let done = entry(operation(text.as_str())).of(&statement);
            let done = match self.kind {
                Kind::Preparation => AuditEntry {
                    kind: "PREPARE_STATEMENT",
                    category: AuditCategory::Prepare,
                    ..done
                },
                Kind::Execution | Kind::Batch => done,
            };
            log.log(&options, &done).await;
        }
    }
}

fn failure<'e>(entry: AuditEntry<'e>, error: &ErrorResponse) -> AuditEntry<'e> {
    let (kind, category) = match error.detail {
        ErrorDetail::Unauthorized => ("UNAUTHORIZED_ATTEMPT", AuditCategory::Auth),
        ErrorDetail::Authentication => ("LOGIN_ERROR", AuditCategory::Auth),
        _ => ("REQUEST_FAILURE", AuditCategory::Error),
    };
    AuditEntry { kind, category, ..entry }
}

fn new_entry<'e>(connection: &Connection, user: Option<&'e str>) -> AuditEntry<'e> {
    AuditEntry {
        timestamp: time::now_millis(),
        user,
        host: connection.server.config.broadcast_address,
        source: connection.peer.ip(),
        port: connection.peer.port(),
        kind: "",
        category: AuditCategory::Other,
        batch: None,
        keyspace: None,
        scope: None,
        operation: String::new(),
    }
}

/// Logs an attempt to log in: its role, or its error.
pub(crate) async fn log_login(connection: &Connection, outcome: Result<&str, &ErrorResponse>) {
    let log = &connection.server.audit;
    if !log.is_on() {
        return;
    }
    let entry = match outcome {
        Ok(role) => AuditEntry {
            kind: "LOGIN_SUCCESS",
            category: AuditCategory::Auth,
            operation: "LOGIN SUCCESSFUL".to_owned(),
            ..new_entry(connection, Some(role))
        },
        Err(error) => AuditEntry {
            kind: "LOGIN_ERROR",
            category: AuditCategory::Auth,
            operation: format!("LOGIN FAILURE; {}", error.message),
            ..new_entry(connection, None)
        },
    };
    log.log(&log.options(), &entry).await;
}
