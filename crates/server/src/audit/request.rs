//! Creates the entries of a request as Cassandra does: one for each statement. A batch has one
//! more, for the whole batch, before them. A request that failed has a single entry.
//!
//! A batch may execute one prepared statement many times. Cassandra writes the text each time, so
//! that a small request may write gigabytes. Here the statement has one entry, with a count.

use std::collections::HashMap;
use std::sync::Arc;

use espalier_cql as cql;
use espalier_cql::audit::{AuditCategory, AuditedStatement, describe};
use espalier_cql::run_apart;
use espalier_runtime::{maybe_yield, random, time};

use super::entry::{AuditEntry, operation};
use crate::connection::Connection;
use crate::protocol::Request;
use crate::protocol::request::{Batch, StatementRef};
use crate::protocol::response::{ErrorDetail, ErrorResponse};

/// Maximum bytes of statements in the entries of one request; further entries have no text.
/// Arbitrary.
const MAX_REQUEST_BYTES: usize = 4 << 20;

/// A request that is being served while the audit log is on.
pub(crate) struct AuditedRequest {
    kind: Kind,
    statements: Vec<Statement>,
    /// The keyspace of the request; if it has none, that of the session.
    keyspace: Option<String>,
    timestamp: i64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Execution,
    Preparation,
    Batch,
}

/// A statement of a request, with the number of its executions.
struct Statement {
    text: Text,
    count: usize,
}

/// The text of a statement.
#[derive(Clone)]
enum Text {
    Given(Arc<str>),
    Prepared(Arc<cql::Prepared>),
    /// The client named an id that the node does not know.
    Unknown,
}

impl Statement {
    fn given(text: &str) -> Self {
        Self { text: Text::Given(text.into()), count: 1 }
    }

    fn prepared(connection: &Connection, id: &[u8]) -> Self {
        let known = connection.server.processor.known(id);
        Self { text: known.map_or(Text::Unknown, Text::Prepared), count: 1 }
    }

    /// Returns the statements of a batch. A prepared statement occurs once in the list.
    fn of_batch(connection: &Connection, batch: &Batch<'_>) -> Vec<Self> {
        let mut statements: Vec<Self> = Vec::new();
        let mut indexes: HashMap<&[u8], usize> = HashMap::new();
        for one in &batch.statements {
            match one.statement {
                StatementRef::Text(text) => statements.push(Self::given(text)),
                StatementRef::Prepared(id) => {
                    let index = *indexes.entry(id).or_insert(statements.len());
                    match statements.get_mut(index) {
                        Some(statement) => statement.count += 1,
                        None => statements.push(Self::prepared(connection, id)),
                    }
                }
            }
        }
        statements
    }

    /// Describes the statement. Its default keyspace is that of its preparation, or else that of
    /// the request.
    async fn describe(&self, request: Option<&str>) -> Option<AuditedStatement> {
        let keyspace = match &self.text {
            Text::Prepared(prepared) => prepared.keyspace.as_deref().or(request),
            _ => request,
        };
        let (text, keyspace) = (self.text.clone(), keyspace.map(str::to_owned));
        run_apart(self.text.get().len(), move || describe(text.get(), keyspace.as_deref())).await
    }

    /// Returns the text as entries show it.
    async fn operation(&self, described: Option<&AuditedStatement>) -> String {
        let (text, described) = (self.text.clone(), described.cloned());
        run_apart(self.text.get().len(), move || operation(text.get(), described.as_ref())).await
    }
}

impl Text {
    fn get(&self) -> &str {
        match self {
            Self::Given(text) => text,
            Self::Prepared(prepared) => &prepared.text,
            Self::Unknown => "",
        }
    }
}

impl AuditedRequest {
    /// Copies the texts of a request. Returns `None` if the audit log is off or has no entries for
    /// such requests.
    pub fn begin(connection: &Connection, request: &Request<'_>) -> Option<Box<Self>> {
        if !connection.server.audit.is_on() {
            return None;
        }
        let (kind, statements, keyspace) = match request {
            Request::Query(query) => {
                let statements = vec![Statement::given(query.text)];
                (Kind::Execution, statements, query.parameters.tail.keyspace)
            }
            Request::Execute(execute) => {
                (Kind::Execution, vec![Statement::prepared(connection, execute.id)], None)
            }
            Request::Prepare(prepare) => {
                (Kind::Preparation, vec![Statement::given(prepare.text)], prepare.keyspace)
            }
            Request::Batch(batch) => {
                (Kind::Batch, Statement::of_batch(connection, batch), batch.tail.keyspace)
            }
            _ => return None,
        };
        let keyspace = keyspace.map(str::to_owned).or_else(|| connection.client().keyspace.clone());
        Some(Box::new(Self { kind, statements, keyspace, timestamp: time::now_millis() }))
    }

    /// Logs the outcome.
    pub async fn end(self: Box<Self>, connection: &Connection, error: Option<&ErrorResponse>) {
        let mut described = Vec::with_capacity(self.statements.len());
        for statement in &self.statements {
            maybe_yield().await;
            described.push(statement.describe(self.keyspace.as_deref()).await);
        }
        if let Some(error) = error {
            return self.log_failure(connection, &described, error).await;
        }
        let client = connection.client();
        let user = client.login.as_ref().map_or("anonymous", |login| login.name());
        let new_entry =
            || AuditEntry { timestamp: self.timestamp, ..new_entry(connection, Some(user)) };
        let log = &connection.server.audit;
        let options = log.options();
        let batch = (self.kind == Kind::Batch).then(|| random::uuid_v4().to_string());
        if let Some(id) = &batch {
            let keyspaces = keyspaces_of(&described);
            let whole = AuditEntry {
                kind: "BATCH",
                category: AuditCategory::Dml,
                batch: Some(id),
                keyspaces: &keyspaces,
                operation: format!("BatchId:[{id}] - BATCH of [{}] statements", self.count()),
                ..new_entry()
            };
            log.log(&options, &whole).await;
        }
        let mut bytes = 0;
        for (statement, described) in self.statements.iter().zip(&described) {
            maybe_yield().await;
            let Some(described) = described else { continue };
            let operation = if bytes < MAX_REQUEST_BYTES {
                statement.operation(Some(described)).await
            } else {
                "the text is left out: the entries of this request are too long".to_owned()
            };
            bytes += operation.len();
            let done = AuditEntry {
                batch: batch.as_deref(),
                count: Some(statement.count).filter(|count| *count > 1),
                operation,
                ..new_entry().of(described)
            };
            let done = if self.kind == Kind::Preparation {
                AuditEntry { kind: "PREPARE_STATEMENT", category: AuditCategory::Prepare, ..done }
            } else {
                done
            };
            log.log(&options, &done).await;
        }
    }

    async fn log_failure(
        &self,
        connection: &Connection,
        described: &[Option<AuditedStatement>],
        error: &ErrorResponse,
    ) {
        let client = connection.client();
        let user = client.login.as_ref().map_or("anonymous", |login| login.name());
        let is_batch = self.kind == Kind::Batch;
        let text = match self.statements.first() {
            Some(statement) if !is_batch => {
                let described = described.first().and_then(Option::as_ref);
                statement.operation(described).await
            }
            _ => format!("BATCH of {} statements", self.count()),
        };
        let id = is_batch.then(|| random::uuid_v4().to_string());
        let only = described.first().and_then(Option::as_ref).filter(|_| !is_batch);
        let keyspaces = keyspaces_of(described);
        let (kind, category) = match error.detail {
            ErrorDetail::Unauthorized => ("UNAUTHORIZED_ATTEMPT", AuditCategory::Auth),
            ErrorDetail::Authentication => ("LOGIN_ERROR", AuditCategory::Auth),
            _ => ("REQUEST_FAILURE", AuditCategory::Error),
        };
        let failed = AuditEntry {
            timestamp: self.timestamp,
            kind,
            category,
            batch: id.as_deref(),
            keyspaces: &keyspaces,
            scope: only.and_then(|statement| statement.scope.as_deref()),
            has_failed: true,
            operation: format!("{text}; {}", error.message),
            ..new_entry(connection, Some(user))
        };
        let log = &connection.server.audit;
        log.log(&log.options(), &failed).await;
    }

    /// Returns the number of statements.
    fn count(&self) -> usize {
        self.statements.iter().map(|statement| statement.count).sum()
    }
}

/// Returns the keyspaces of the statements of a request, each once.
fn keyspaces_of(described: &[Option<AuditedStatement>]) -> Vec<String> {
    let mut keyspaces: Vec<_> =
        described.iter().flatten().flat_map(|one| one.keyspaces.iter().cloned()).collect();
    keyspaces.sort();
    keyspaces.dedup();
    keyspaces
}

fn new_entry<'e>(connection: &Connection, user: Option<&'e str>) -> AuditEntry<'e> {
    AuditEntry {
        timestamp: time::now_millis(),
        user,
        source: connection.peer.ip(),
        port: connection.peer.port(),
        ..AuditEntry::new(connection.server.config.broadcast_address)
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
