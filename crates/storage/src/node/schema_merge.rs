//! Merges the schema of another node of a ring into this node's.
//!
//! 1. The merge prepares the new tables.
//! 2. It writes the rows of the other node's schema tables to this node's schema tables, with the
//!    timestamps that the rows have in the ring, and syncs them. The rows of a keyspace form one
//!    record of the commit log. If they are too large for one record, the merge divides them by the
//!    names of tables, types and functions.
//! 3. It reads the schema back from the schema tables and installs it.
//!
//! So the later change of each row wins, as in Cassandra: a merge from a node that lacks a change
//! does not undo the change, and only a deletion that is later than the definition of a table drops
//! the table. After a crash, some records may be merged; the next merge adds the others.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytes::Bytes;
use espalier_commitlog::CommitLogError;
use espalier_mutation::{
    Mutation, PartitionUpdate,
    schema::{KeyspaceMetadata, Schema, TableMetadata, UnreadableTable},
};
use espalier_runtime::{maybe_yield, time};

use super::{
    Node,
    drop_table::prepare_new_table,
    open::read_schema,
    schema_change::{SchemaLock, install_change, next_schema_timestamp_us},
};
use crate::{
    StorageError,
    first_failure::FirstFailure,
    recovery::keyspaces_of,
    system::{SCHEMA_KEYSPACE, SCHEMA_TABLES, is_system_keyspace, table},
    table::remove_dropped_directory,
};

/// The schema of this node after a merge, compared with that of the other node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaMerge {
    /// This node has all keyspaces as the other node has them, and may have further ones.
    Equal,
    /// This number of tables and types is unreadable for this node, or readable only after its next
    /// start.
    Unreadable(usize),
    /// This node has a change that the other node lacks.
    Newer,
}

impl Node {
    /// Merges the rows of another node's schema tables into the schema. Other changes of the schema
    /// wait meanwhile. Ignores rows of system keyspaces, and rows of schema tables that this node
    /// does not have.
    ///
    /// If the definition of a table or type becomes one that the node cannot read, the former
    /// definition stays in use until the node restarts.
    ///
    /// # Errors
    ///
    /// The rows are invalid, or the node could not write or install the change. The caller may
    /// merge the same rows again.
    pub async fn merge_schema(
        &self,
        rows: Vec<PartitionUpdate>,
    ) -> Result<SchemaMerge, StorageError> {
        let lock = SchemaLock::acquire(self).await;
        let lead = self.on_shard(0, |node| async move {
            // The future of a merge is large.
            Box::pin(lead_merge(&node, rows)).await
        });
        let outcome = lead.await;
        lock.release().await;
        outcome
    }
}

async fn lead_merge(node: &Node, rows: Vec<PartitionUpdate>) -> Result<SchemaMerge, StorageError> {
    if node.store().is_closing() {
        return Err(StorageError::ShuttingDown);
    }
    let old = node.store().shared.schema();
    let now_s = u32::try_from(time::now_seconds()).unwrap_or(0);
    let rows = of_users(rows);
    let others = rows.iter().map(|(name, update)| (*name, update));
    let others = keyspaces_of(others, now_s)?;
    let tables = || others.values().flat_map(|keyspace| keyspace.tables.values());
    let mut unused = Vec::new();
    for table in tables().filter(|table| is_unknown(&old, table)) {
        let directory = node.store().configuration.directory_of(table);
        if !node.store().file_system.exists(&directory).await? {
            unused.push((table.id, directory));
        }
        prepare_new_table(node, table).await?;
    }
    let mut failure = FirstFailure::none();
    for mutation in by_keyspace(rows) {
        failure.keep(write_rows(node, mutation).await)?;
    }
    let read = read_schema(node, &old).await?;
    let is_equal =
        |other: &KeyspaceMetadata| read.keyspace(&other.name).is_some_and(|own| **own == *other);
    let are_equal = others.values().all(is_equal);
    let unreadable = others.values().map(|keyspace| &keyspace.unreadable);
    let unreadable: usize = unreadable.map(|it| it.tables.len() + it.types.len()).sum();
    let unopened = tables().filter(|table| old.is_unreadable(table.id)).count();
    let new = Arc::new(settled(&read, &old, &others));
    if new.keyspaces != old.keyspaces {
        node.view_builds().forget_before_views(&old, &new).await?;
        let timestamp_us = next_schema_timestamp_us(node);
        install_change(node, &old, new.clone(), timestamp_us).await?;
    }
    // Some of the new tables are not in the schema: the ring has dropped them, which the other
    // node does not know yet, or the rows of their keyspace were not written.
    unused.retain(|(id, _)| new.table_by_id(*id).is_none());
    for (_, directory) in unused {
        if node.store().file_system.exists(&directory).await? {
            remove_dropped_directory(&node.store().file_system, &directory).await?;
        }
    }
    // A keyspace that failed does not stop the rest: all other changes are in use now.
    failure.into_result()?;
    Ok(match unreadable + unopened {
        0 if are_equal => SchemaMerge::Equal,
        0 => SchemaMerge::Newer,
        count => SchemaMerge::Unreadable(count),
    })
}

/// Writes the rows of a keyspace in one record, or divides them until each part fits into one.
async fn write_rows(node: &Node, mutation: Mutation) -> Result<(), StorageError> {
    let store = node.store();
    let mut waiting = vec![mutation];
    while let Some(mutation) = waiting.pop() {
        maybe_yield().await;
        let checked = store.check_write(&mutation, 0).await;
        let is_too_large = |error: &StorageError| {
            matches!(error, StorageError::CommitLog(CommitLogError::MutationTooLarge { .. }))
        };
        if checked.as_ref().is_err_and(is_too_large) {
            let Some((first, second)) = divided(mutation) else { return checked };
            waiting.extend([second, first]);
            continue;
        }
        checked?;
        store.apply(&mutation).await?;
    }
    Ok(())
}

/// Divides the rows of a keyspace into two parts. If only some rows are of user-defined types, the
/// first part has these rows, because tables need the types. Otherwise it has the partition
/// deletions, and the rows and range deletions whose names come before the middle one. Returns
/// `None` if the rows have fewer than two names.
fn divided(mutation: Mutation) -> Option<(Mutation, Mutation)> {
    let types = table(SCHEMA_KEYSPACE, "types").id;
    let is_type = |update: &PartitionUpdate| update.table == types;
    if mutation.updates.iter().any(is_type) && !mutation.updates.iter().all(is_type) {
        let (first, second) = mutation.updates.into_iter().partition(is_type);
        return Some((Mutation { updates: first }, Mutation { updates: second }));
    }
    let rows = mutation.updates.iter().flat_map(|update| &update.rows);
    let names: BTreeSet<_> = rows.filter_map(|row| name_in(&row.clustering.values)).collect();
    if names.len() < 2 {
        return None;
    }
    let middle = names.iter().nth(names.len() / 2).copied()?.clone();
    let is_before = |values: &[Option<Bytes>]| name_in(values).is_none_or(|name| name < &middle);
    let mut second = Mutation::default();
    let mut first = mutation;
    for update in &mut first.updates {
        let mut rest = PartitionUpdate::new(update.table, update.key.clone());
        rest.rows = update.rows.extract_if(.., |row| !is_before(&row.clustering.values)).collect();
        let tombstones = &mut update.range_tombstones;
        let rest_tombstones = tombstones.extract_if(.., |it| !is_before(&it.start.values));
        rest.range_tombstones = rest_tombstones.collect();
        if !rest.is_empty() {
            second.updates.push(rest);
        }
    }
    first.updates.retain(|update| !update.is_empty());
    Some((first, second))
}

/// Returns the name that the clustering of a row in a schema table begins with.
fn name_in(values: &[Option<Bytes>]) -> Option<&Bytes> {
    values.first().and_then(Option::as_ref)
}

fn is_unknown(schema: &Schema, table: &TableMetadata) -> bool {
    schema.table_by_id(table.id).is_none() && !schema.is_unreadable(table.id)
}

/// Returns the updates of schema tables that concern keyspaces of users, each with the name of its
/// schema table.
fn of_users(rows: Vec<PartitionUpdate>) -> Vec<(&'static str, PartitionUpdate)> {
    let ids = SCHEMA_TABLES.map(|name| (table(SCHEMA_KEYSPACE, name).id, name));
    let ids: BTreeMap<_, _> = ids.into();
    let is_of_user = |update: &PartitionUpdate| {
        std::str::from_utf8(&update.key.key).is_ok_and(|name| !is_system_keyspace(name))
    };
    let rows = rows.into_iter().filter(is_of_user);
    rows.filter_map(|update| Some((*ids.get(&update.table)?, update))).collect()
}

/// Returns one mutation for each keyspace, because all keyspaces together may be too large for one.
fn by_keyspace(rows: Vec<(&str, PartitionUpdate)>) -> Vec<Mutation> {
    let mut mutations: BTreeMap<_, Mutation> = BTreeMap::new();
    for (_, update) in rows {
        mutations.entry(update.key.key.clone()).or_default().updates.push(update);
    }
    mutations.into_values().collect()
}

/// Returns the schema that this node uses after `old`, if its schema tables hold `read`. Only the
/// keyspaces in `merged` may have changed.
fn settled(read: &Schema, old: &Schema, merged: &BTreeMap<String, KeyspaceMetadata>) -> Schema {
    let keyspaces = read.keyspaces.iter().map(|(name, keyspace)| {
        let used = match old.keyspace(name) {
            None => Arc::clone(keyspace),
            Some(former) if !merged.contains_key(name) => Arc::clone(former),
            Some(former) => Arc::new(settled_keyspace(keyspace, former, old)),
        };
        (name.clone(), used)
    });
    Schema::new(keyspaces.collect(), read.version)
}

fn settled_keyspace(
    read: &KeyspaceMetadata,
    former: &KeyspaceMetadata,
    old: &Schema,
) -> KeyspaceMetadata {
    let mut keyspace = KeyspaceMetadata { tables: BTreeMap::new(), ..read.clone() };
    for (name, table) in &read.tables {
        if old.is_unreadable(table.id) {
            // Only a start opens the files of the table.
            let reason = "a change has made it readable; restart the node to open it".to_owned();
            let table = UnreadableTable { id: Some(table.id), reason };
            keyspace.unreadable.tables.insert(name.clone(), table);
            continue;
        }
        let used = match old.table_by_id(table.id) {
            None => Arc::clone(table),
            Some(former) => settled_table(table, former),
        };
        keyspace.tables.insert(name.clone(), used);
    }
    let KeyspaceMetadata { tables, types, unreadable, .. } = &mut keyspace;
    unreadable.tables.retain(|name, unreadable| {
        let is_same = |table: &&Arc<TableMetadata>| unreadable.id.is_none_or(|id| id == table.id);
        let Some(former) = former.tables.get(name).filter(is_same) else { return true };
        tables.insert(name.clone(), Arc::clone(former));
        false
    });
    unreadable.types.retain(|name, _| {
        let Some(former) = former.types.get(name) else { return true };
        types.insert(name.clone(), Arc::clone(former));
        false
    });
    keyspace
}

/// Returns `former` if `read` is the same table, and otherwise `read` with the column ids of
/// `former`.
fn settled_table(read: &TableMetadata, former: &Arc<TableMetadata>) -> Arc<TableMetadata> {
    let mut table = read.with_ids_of(former);
    let version = std::mem::replace(&mut table.version, former.version);
    if table == **former {
        return Arc::clone(former);
    }
    table.version = version;
    Arc::new(table)
}
