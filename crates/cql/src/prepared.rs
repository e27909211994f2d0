//! The caches of prepared statements: one of the process, and one of each shard in front of it.
//!
//! A statement is planned against a snapshot of the schema. If one of its tables has changed since,
//! the next look-up plans the statement again from its text. If the statement no longer fits the
//! schema, the look-up removes it, so that its id is unknown.
//!
//! Memory: each cache has at most [`MAX_STATEMENTS`] statements, with [`MAX_TEXT_BYTES`] of text
//! and [`MAX_COLUMNS`] columns in total; the cache of a shard has a part of these columns. Only the
//! cache of the process keeps a statement with more columns than this part. A statement with more
//! than [`MAX_COLUMNS`] is there alone. At a limit, the cache evicts the oldest statement that was
//! not used since the eviction last checked it (second chance). A client prepares an evicted
//! statement again when the node reports its id as unknown.

use std::{
    collections::VecDeque,
    sync::{
        Arc, PoisonError, RwLock, RwLockWriteGuard, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use espalier_mutation::schema::{Schema, TableId};
use espalier_storage::system::is_virtual;
use hashbrown::HashMap;

use crate::{
    auth::Need,
    grammar::{self, ast::Statement},
    metadata::{BindMetadata, ResultMetadata},
    modify::PlannedModification,
    select::PlannedSelect,
    term::Term,
    transaction::PlannedTransaction,
};

/// The maximum number of statements that a cache keeps.
pub const MAX_STATEMENTS: usize = 20_000;
/// The maximum total length of the texts of a cache, in bytes.
pub const MAX_TEXT_BYTES: usize = 16 << 20;
/// The maximum number of columns and bind markers in the plans of a cache. The text of a `SELECT *`
/// is short, but its plan has all columns of the table. A column of a plan takes about 500 bytes,
/// so all columns together take at most about 100 MB.
///
/// The plan of a long text may take many times the memory of the text without naming many columns.
/// So two of [`Prepared::parts`] count as a column, and a statement of a batch as two columns.
pub const MAX_COLUMNS: usize = 200_000;
/// The smallest part of [`MAX_COLUMNS`] that the cache of a shard may use. Arbitrary: about 12 MB,
/// the plans of a thousand statements with ten columns and ten markers.
const MIN_SHARD_COLUMNS: usize = MAX_COLUMNS / 8;
/// The maximum length of one statement that can be prepared, in bytes.
pub const MAX_STATEMENT_BYTES: usize = 1 << 20;

/// A statement that is ready to be executed.
#[derive(Debug)]
pub struct Prepared {
    /// MD5 of [`Self::keyspace`] and the text.
    pub id: [u8; 16],
    /// Its text.
    pub text: String,
    /// The connection's keyspace at the preparation of the statement. As in Cassandra, it is
    /// `None`, too, if the statement names the keyspace of each table, because such a statement is
    /// the same for all connections.
    pub keyspace: Option<String>,
    /// Its bind markers.
    pub bind: BindMetadata,
    /// Its result columns; empty if it returns no rows, or if each answer describes its own
    /// columns.
    pub result: Arc<ResultMetadata>,
    /// True if its result columns differ from those of its first preparation. Clients of protocol
    /// version 4, which learn the columns only from PREPARE, must then receive them again.
    pub result_changed: bool,
    /// `USING TIMEOUT`.
    pub(crate) timeout: Option<Term>,
    pub(crate) plan: Plan,
    /// The number of the plan's terms except markers, of parts of its selectors, and of fields of
    /// the user types in its literals.
    pub(crate) parts: usize,
    /// The schema of the plan, only for comparison by address.
    pub(crate) schema: Weak<Schema>,
    /// The version of each table of the plan.
    pub(crate) tables: Vec<(TableId, u64)>,
    /// True if the cache plans the statement again after any change of the schema. DROP INDEX, for
    /// example, names no table, so the schema decides which table's permission it needs.
    pub(crate) depends_on_schema: bool,
    /// The permissions that the statement needs.
    pub(crate) needs: Vec<Need>,
    /// True if the statement writes to the tables of roles and permissions.
    pub(crate) changes_roles: bool,
    /// The token of the last role that passed the check of [`Self::needs`]. A role has a new token
    /// after each change of roles or permissions.
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
    Role {
        /// True for LIST, whose answer has a row for each role or permission.
        is_list: bool,
    },
    /// `DESCRIBE`: answered from the shard's schema.
    Describe,
}

impl Plan {
    /// Returns whether the statement uses the session's keyspace only for table names without a
    /// keyspace. Cassandra caches all other statements (USE, schema changes, roles, DESCRIBE) by
    /// session keyspace.
    pub(crate) fn names_tables(&self) -> bool {
        !matches!(self, Self::Use(_) | Self::Schema | Self::Role { .. } | Self::Describe)
    }

    /// Returns the number of columns that the plan stores. A statement of a batch counts as two
    /// more.
    pub(crate) fn column_count(&self) -> usize {
        match self {
            Self::Select(select) => select.column_count(),
            Self::Modification(statement) => statement.column_count(),
            Self::Batch(batch) => {
                batch.statements.iter().map(PlannedModification::inner_column_count).sum()
            }
            Self::Transaction(transaction) => transaction.column_count(),
            Self::Use(_)
            | Self::Truncate(_)
            | Self::Schema
            | Self::Role { .. }
            | Self::Describe => 0,
        }
    }
}

impl Prepared {
    /// Returns whether the plan fits `schema`: its tables are unchanged since the planning. If the
    /// plan depends on the schema, the whole schema must be unchanged.
    pub(crate) fn is_fresh(&self, schema: &Arc<Schema>) -> bool {
        std::ptr::eq(self.schema.as_ptr(), Arc::as_ptr(schema))
            || !self.depends_on_schema
                && self.tables.iter().all(|(id, version)| {
                    schema.table_by_id(*id).is_some_and(|table| table.version == *version)
                })
    }

    /// Returns whether the statement is a SELECT from a table that is not one of the node's own.
    /// Drivers read the node's own tables (`system`, `system_schema`, virtual) when they connect.
    pub fn reads_user_table(&self) -> bool {
        match &self.plan {
            Plan::Select(select) => !is_node_keyspace(&select.table.keyspace),
            _ => false,
        }
    }

    /// Returns whether the statement is a SELECT from one of the node's own tables, or a DESCRIBE.
    pub fn reads_own_tables(&self) -> bool {
        match &self.plan {
            Plan::Select(select) => is_node_keyspace(&select.table.keyspace),
            Plan::Describe => true,
            _ => false,
        }
    }

    /// Returns whether the statement reads only the node's own tables and schema, or sets the
    /// keyspace of the session. Drivers need such statements to connect.
    pub fn concerns_node_alone(&self) -> bool {
        self.reads_own_tables() || matches!(self.plan, Plan::Use(_))
    }

    /// Returns whether the statement is a SELECT.
    pub fn is_select(&self) -> bool {
        matches!(self.plan, Plan::Select(_))
    }

    /// Returns whether the result is one row: aggregates over all rows that the statement reads.
    pub fn returns_one_row(&self) -> bool {
        match &self.plan {
            Plan::Select(select) => select.is_aggregate && select.group_by.is_none(),
            _ => false,
        }
    }

    /// Returns whether the statement is about roles or permissions. Some of these return rows.
    pub fn concerns_roles(&self) -> bool {
        matches!(self.plan, Plan::Role { .. })
    }

    /// Returns whether the statement is a LIST of roles, users or permissions.
    pub fn lists_roles(&self) -> bool {
        matches!(self.plan, Plan::Role { is_list: true })
    }

    /// Returns whether the statement has an `IF`. The columns of its answer depend on the outcome,
    /// so each answer describes them.
    pub fn is_conditional(&self) -> bool {
        match &self.plan {
            Plan::Modification(statement) => !statement.condition.is_none(),
            Plan::Batch(batch) => batch.is_conditional(),
            _ => false,
        }
    }

    /// Returns the number that counts towards [`MAX_COLUMNS`].
    fn column_count(&self) -> usize {
        let of_plan = self.plan.column_count().max(self.result.columns.len());
        of_plan + self.bind.columns.len() + self.parts / 2
    }

    /// Sets [`Self::result_changed`] of a plan that replaces `stale`.
    fn record_change(&mut self, stale: &Self) {
        self.result_changed = stale.result_changed || stale.result.id != self.result.id;
    }

    /// Returns whether the statement's metadata names result columns.
    pub fn returns_rows(&self) -> bool {
        !self.result.columns.is_empty()
    }
}

/// Prepared statements by id, within the limits of the module.
#[derive(Debug)]
pub(crate) struct BoundedStatements {
    by_id: HashMap<[u8; 16], Entry, foldhash::fast::RandomState>,
    /// The ids in the order in which the eviction checks them.
    queue: VecDeque<[u8; 16]>,
    text_bytes: usize,
    columns: usize,
    max_columns: usize,
    /// True if the cache keeps a statement with more than `max_columns`, which is there alone.
    keeps_larger: bool,
}

#[derive(Debug)]
struct Entry {
    prepared: Arc<Prepared>,
    /// True if the statement was used since the eviction last checked this entry.
    is_used: AtomicBool,
}

impl Default for BoundedStatements {
    fn default() -> Self {
        Self::with_max_columns(MAX_COLUMNS, true)
    }
}

impl BoundedStatements {
    /// Creates the cache of one of `shards` shards.
    pub fn of_shard(shards: usize) -> Self {
        let max_columns = (MAX_COLUMNS / shards.max(1)).max(MIN_SHARD_COLUMNS);
        Self::with_max_columns(max_columns, false)
    }

    fn with_max_columns(max_columns: usize, keeps_larger: bool) -> Self {
        let (by_id, queue, text_bytes, columns) = (HashMap::default(), VecDeque::new(), 0, 0);
        Self { by_id, queue, text_bytes, columns, max_columns, keeps_larger }
    }

    pub fn get(&self, id: &[u8; 16]) -> Option<&Arc<Prepared>> {
        let entry = self.by_id.get(id)?;
        // A set flag is not written again, so that the cores can share its cache line.
        if !entry.is_used.load(Relaxed) {
            entry.is_used.store(true, Relaxed);
        }
        Some(&entry.prepared)
    }

    /// Replaces a statement, or adds it and evicts others until the limits are met. The cache of a
    /// shard does not keep a statement that does not fit into its part. Returns the statements that
    /// are no longer in the cache.
    pub fn insert(&mut self, prepared: Arc<Prepared>) -> Vec<Arc<Prepared>> {
        let (id, text_bytes) = (prepared.id, prepared.text.len());
        let columns = prepared.column_count();
        if columns > self.max_columns && !self.keeps_larger {
            // The cache of the process has the statement, and it is found there without waiting.
            return self.remove(&id).into_iter().collect();
        }
        if let Some(entry) = self.by_id.get_mut(&id) {
            self.text_bytes = self.text_bytes - entry.prepared.text.len() + text_bytes;
            self.columns = self.columns - entry.prepared.column_count() + columns;
            let replaced = std::mem::replace(&mut entry.prepared, prepared);
            *entry.is_used.get_mut() = true;
            // After a change of the table, the new plan may be larger than the former one.
            let mut removed = self.make_room(0, 0, 0);
            removed.push(replaced);
            return removed;
        }
        let evicted = self.make_room(1, text_bytes, columns);
        self.text_bytes += text_bytes;
        self.columns += columns;
        self.queue.push_back(id);
        self.by_id.insert(id, Entry { prepared, is_used: AtomicBool::new(false) });
        evicted
    }

    /// Removes and returns the statement with that id, if there is one.
    pub fn remove(&mut self, id: &[u8; 16]) -> Option<Arc<Prepared>> {
        let removed = self.take(id)?;
        self.queue.retain(|queued| queued != id);
        Some(removed)
    }

    /// Removes and returns a statement, but leaves its id in the queue.
    fn take(&mut self, id: &[u8; 16]) -> Option<Arc<Prepared>> {
        let Entry { prepared, .. } = self.by_id.remove(id)?;
        self.text_bytes -= prepared.text.len();
        self.columns -= prepared.column_count();
        Some(prepared)
    }

    /// Evicts statements until `count` new ones with these bytes and columns fit into the limits.
    fn make_room(&mut self, count: usize, text_bytes: usize, columns: usize) -> Vec<Arc<Prepared>> {
        let mut evicted = Vec::new();
        while self.by_id.len() + count > MAX_STATEMENTS
            || self.text_bytes + text_bytes > MAX_TEXT_BYTES
            || self.columns + columns > self.max_columns
        {
            let Some(statement) = self.evict_one() else { break };
            evicted.push(statement);
        }
        evicted
    }

    /// Evicts the first statement in the queue that was not used, and moves the used statements
    /// before it to the end. Returns `None` if the cache is empty.
    fn evict_one(&mut self) -> Option<Arc<Prepared>> {
        while let Some(id) = self.queue.pop_front() {
            let Some(entry) = self.by_id.get_mut(&id) else { continue };
            if std::mem::take(entry.is_used.get_mut()) {
                self.queue.push_back(id);
            } else {
                return self.take(&id);
            }
        }
        None
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

    /// Adds a new plan, or replaces a stale one.
    pub(crate) fn insert(&self, mut prepared: Prepared) -> Arc<Prepared> {
        if let Some(stale) = self.get(&prepared.id) {
            prepared.record_change(&stale);
        }
        let prepared = Arc::new(prepared);
        // A plan may be large, so it is dropped after the lock.
        let _removed = self.write().insert(prepared.clone());
        prepared
    }

    /// Replaces `stale`, unless it is no longer in the cache. Returns the new plan.
    pub(crate) fn replace(&self, stale: &Arc<Prepared>, mut prepared: Prepared) -> Arc<Prepared> {
        prepared.record_change(stale);
        let prepared = Arc::new(prepared);
        let statements = self.lock_if_kept(stale);
        let _removed = statements.map(|mut statements| statements.insert(prepared.clone()));
        prepared
    }

    /// Removes `stale` if it is still in the cache.
    pub(crate) fn remove(&self, stale: &Arc<Prepared>) {
        let statements = self.lock_if_kept(stale);
        let _removed = statements.and_then(|mut statements| statements.remove(&stale.id));
    }

    /// Locks the cache for writing if it still has this plan.
    fn lock_if_kept(
        &self,
        plan: &Arc<Prepared>,
    ) -> Option<RwLockWriteGuard<'_, BoundedStatements>> {
        Some(self.write()).filter(|statements| {
            let entry = statements.by_id.get(&plan.id);
            entry.is_some_and(|entry| Arc::ptr_eq(&entry.prepared, plan))
        })
    }

    fn write(&self) -> RwLockWriteGuard<'_, BoundedStatements> {
        self.statements.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of statements.
    pub fn len(&self) -> usize {
        self.statements.read().unwrap_or_else(PoisonError::into_inner).by_id.len()
    }

    /// Returns whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Returns whether a text is a SELECT from the node's own tables. `keyspace` is that of the
/// session. The text need not fit the schema.
pub fn selects_from_node(text: &str, keyspace: Option<&str>) -> bool {
    let Ok(parsed) = grammar::parse(text) else { return false };
    let Statement::Select(select) = &parsed.statement else { return false };
    select.table.keyspace_or(keyspace).is_some_and(is_node_keyspace)
}

/// Returns whether the keyspace describes the node itself. Its tables are small.
fn is_node_keyspace(keyspace: &str) -> bool {
    matches!(keyspace, "system" | "system_schema") || is_virtual(keyspace)
}

#[cfg(test)]
mod tests;
