//! Prepared statements, found by every shard.
//!
//! A statement is planned against a snapshot of the schema. When its table has changed since, it is planned again from its
//! text the next time it is asked for. The cache is bounded: past [`MAXIMUM_STATEMENTS`] an arbitrary statement makes room
//! (clients prepare it again when told that it is unknown).

use std::sync::{Arc, PoisonError, RwLock};

use espalier_mutation::schema::{Schema, TableId};
use hashbrown::HashMap;

use crate::{
    metadata::{BindMetadata, ResultMetadata},
    modify::PlannedModification,
    select::PlannedSelect,
};

/// The most statements that are kept.
pub const MAXIMUM_STATEMENTS: usize = 20_000;

/// A statement that is ready to be executed.
#[derive(Debug)]
pub struct Prepared {
    /// MD5 of keyspace and text.
    pub id: [u8; 16],
    /// Its text.
    pub text: String,
    /// The connection's keyspace when it was prepared.
    pub keyspace: Option<String>,
    /// Its bind markers.
    pub bind: BindMetadata,
    /// Its result columns; none if it returns no rows.
    pub result: Arc<ResultMetadata>,
    pub(crate) plan: Plan,
    /// The schema that it was planned against, and the version of each table in it.
    pub(crate) schema: Arc<Schema>,
    pub(crate) tables: Vec<(TableId, u64)>,
}

/// What a statement does.
#[derive(Debug)]
pub(crate) enum Plan {
    Select(Box<PlannedSelect>),
    Modification(Box<PlannedModification>),
    Batch(Box<crate::batch::PlannedBatch>),
    Use(String),
    Truncate(TableId),
    /// A schema statement: planned when it is executed, where schema changes are serialised.
    Schema,
    /// `DESCRIBE`: answered from the schema at hand.
    Describe,
}

impl Prepared {
    /// Whether the tables are as they were when it was planned.
    pub(crate) fn is_fresh(&self, schema: &Arc<Schema>) -> bool {
        Arc::ptr_eq(&self.schema, schema)
            || self.tables.iter().all(|(id, version)| {
                schema.table_by_id(*id).is_some_and(|table| table.version == *version)
            })
    }

    /// Whether its metadata names result columns.
    pub fn returns_rows(&self) -> bool {
        !self.result.columns.is_empty()
    }
}

/// All prepared statements of the process. Shards keep their own map in front of it.
#[derive(Debug, Default)]
pub struct PreparedCache {
    statements: RwLock<HashMap<[u8; 16], Arc<Prepared>, foldhash::fast::RandomState>>,
}

impl PreparedCache {
    /// The statement with that id.
    pub fn get(&self, id: &[u8; 16]) -> Option<Arc<Prepared>> {
        self.statements.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    /// Adds a statement, or replaces a stale one.
    pub fn insert(&self, prepared: Arc<Prepared>) {
        let mut statements = self.statements.write().unwrap_or_else(PoisonError::into_inner);
        if statements.len() >= MAXIMUM_STATEMENTS
            && !statements.contains_key(&prepared.id)
            && let Some(victim) = statements.keys().next().copied()
        {
            statements.remove(&victim);
        }
        statements.insert(prepared.id, prepared);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.statements.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
