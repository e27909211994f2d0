//! The caches of prepared statements: one of the process, and one of each shard in front of it.
//!
//! A statement is planned against a snapshot of the schema. If its table has changed since, the
//! next look-up plans it again from its text.
//!
//! Memory: at most [`MAX_STATEMENTS`] statements with [`MAX_TEXT_BYTES`] of text in total.
//! Beyond that an arbitrary statement is evicted; the client prepares it again when the node
//! reports it as unknown. A plan may be some fifty times as large as its text.

use std::sync::{Arc, PoisonError, RwLock, Weak, atomic::AtomicU64};

use espalier_mutation::schema::{Schema, TableId};
use espalier_storage::system::is_virtual;
use hashbrown::HashMap;

use crate::{
    auth::Need,
    metadata::{BindMetadata, ResultMetadata},
    modify::PlannedModification,
    select::PlannedSelect,
    term::Term,
    transaction::PlannedTransaction,
};

/// The maximum number of statements that a cache keeps.
pub const MAX_STATEMENTS: usize = 20_000;
/// The maximum total length of their texts, in bytes.
pub const MAX_TEXT_BYTES: usize = 16 << 20;
/// The maximum length of one statement that can be prepared, in bytes.
pub const MAX_STATEMENT_BYTES: usize = 1 << 20;

/// A statement that is ready to be executed.
#[derive(Debug)]
pub struct Prepared {
    /// MD5 of [`Self::keyspace`] and the text.
    pub id: [u8; 16],
    /// Its text.
    pub text: String,
    /// The connection's keyspace when the statement was prepared. `None` also if the statement
    /// names the keyspace of each table, as in Cassandra: such a statement is the same for all
    /// connections.
    pub keyspace: Option<String>,
    /// Its bind markers.
    pub bind: BindMetadata,
    /// Its result columns; empty if it returns no rows.
    pub result: Arc<ResultMetadata>,
    /// Whether its result columns differ from those of its first preparation. Clients of protocol
    /// version 4, which learn the columns from PREPARE alone, must then receive them again.
    pub result_changed: bool,
    /// `USING TIMEOUT`.
    pub(crate) timeout: Option<Term>,
    pub(crate) plan: Plan,
    /// The schema that it was planned against, kept only for comparison by address, and the version
    /// of each of its tables.
    pub(crate) schema: Weak<Schema>,
    pub(crate) tables: Vec<(TableId, u64)>,
    /// Whether any change of the schema makes it be planned again. DROP INDEX names no table, so
    /// the schema decides which table's permission it needs.
    pub(crate) depends_on_schema: bool,
    /// The permissions that it needs.
    pub(crate) needs: Vec<Need>,
    /// Whether it writes to the tables of roles and permissions.
    pub(crate) changes_roles: bool,
    /// The token of the last role that may execute it. A role has a new token after each change of
    /// roles or permissions.
    pub(crate) passed: AtomicU64,
}

/// The plan of a statement, by kind.
#[derive(Debug)]
pub(crate) enum Plan {
    Select(Box<PlannedSelect>),
    Modification(Box<PlannedModification>),
    Batch(Box<crate::batch::PlannedBatch>),
    Transaction(Box<PlannedTransaction>),
    Use(String),
    Truncate(TableId),
    /// A schema statement. It is planned at its execution, where schema changes are serialised.
    Schema,
    /// A statement about roles or permissions, which is planned at its execution.
    Role,
    /// `DESCRIBE`: answered from the shard's schema.
    Describe,
}

impl Plan {
    /// Whether the statement takes the session's keyspace only for table names without one.
    /// Cassandra keeps all other statements (USE, schema changes, DESCRIBE) by session keyspace.
    pub(crate) fn names_tables(&self) -> bool {
        !matches!(self, Self::Use(_) | Self::Schema | Self::Role | Self::Describe)
    }
}

impl Prepared {
    /// Whether the tables are unchanged since the statement was planned.
    pub(crate) fn is_fresh(&self, schema: &Arc<Schema>) -> bool {
        std::ptr::eq(self.schema.as_ptr(), Arc::as_ptr(schema))
            || !self.depends_on_schema
                && self.tables.iter().all(|(id, version)| {
                    schema.table_by_id(*id).is_some_and(|table| table.version == *version)
                })
    }

    /// Whether it reads rows of a user's table. Drivers read the node's own tables (`system`,
    /// `system_schema` and the virtual ones) when they connect.
    pub fn reads_user_table(&self) -> bool {
        match &self.plan {
            Plan::Select(select) => !is_node_keyspace(&select.table.keyspace),
            _ => false,
        }
    }

    /// Whether the result is one row: aggregates over all rows that the statement reads.
    pub fn returns_one_row(&self) -> bool {
        match &self.plan {
            Plan::Select(select) => select.is_aggregate && select.group_by.is_none(),
            _ => false,
        }
    }

    /// Whether the answer consists of rows.
    pub fn is_query(&self) -> bool {
        matches!(self.plan, Plan::Select(_) | Plan::Describe | Plan::Role)
    }

    /// Whether it has an `IF`. The columns of its answer depend on the outcome, so each answer
    /// describes them.
    pub fn is_conditional(&self) -> bool {
        match &self.plan {
            Plan::Modification(statement) => !statement.condition.is_none(),
            Plan::Batch(batch) => batch.is_conditional(),
            _ => false,
        }
    }

    /// Whether its metadata names result columns.
    pub fn returns_rows(&self) -> bool {
        !self.result.columns.is_empty()
    }
}

/// Prepared statements by id, within the limits of the module.
#[derive(Debug, Default)]
pub(crate) struct BoundedStatements {
    by_id: HashMap<[u8; 16], Arc<Prepared>, foldhash::fast::RandomState>,
    text_bytes: usize,
}

impl BoundedStatements {
    pub fn get(&self, id: &[u8; 16]) -> Option<&Arc<Prepared>> {
        self.by_id.get(id)
    }

    /// Adds or replaces a statement, and evicts others until the limits are met.
    pub fn insert(&mut self, prepared: Arc<Prepared>) {
        self.remove(&prepared.id);
        let text_bytes = prepared.text.len();
        while self.by_id.len() >= MAX_STATEMENTS || self.text_bytes + text_bytes > MAX_TEXT_BYTES {
            let Some(victim) = self.by_id.keys().next().copied() else { break };
            self.remove(&victim);
        }
        self.text_bytes += text_bytes;
        self.by_id.insert(prepared.id, prepared);
    }

    fn remove(&mut self, id: &[u8; 16]) {
        if let Some(removed) = self.by_id.remove(id) {
            self.text_bytes -= removed.text.len();
        }
    }
}

/// All prepared statements of the process. Each shard has a cache of its own in front of this one.
#[derive(Debug, Default)]
pub struct PreparedCache {
    statements: RwLock<BoundedStatements>,
}

impl PreparedCache {
    /// Returns the statement with that id.
    pub fn get(&self, id: &[u8; 16]) -> Option<Arc<Prepared>> {
        self.statements.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    /// Adds a statement, or replaces a stale one.
    pub fn insert(&self, prepared: Arc<Prepared>) {
        self.statements.write().unwrap_or_else(PoisonError::into_inner).insert(prepared);
    }

    /// Returns the number of statements.
    pub fn len(&self) -> usize {
        self.statements.read().unwrap_or_else(PoisonError::into_inner).by_id.len()
    }

    /// Whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Whether the keyspace describes the node itself. Its tables are small.
fn is_node_keyspace(keyspace: &str) -> bool {
    matches!(keyspace, "system" | "system_schema") || is_virtual(keyspace)
}
