//! Further changes that follow from a schema statement.
//!
//! Drivers keep the definition of each table, with the types of its columns, until an event reports
//! a change of that table.

use std::sync::Arc;

use espalier_mutation::schema::Schema;

use crate::{ChangeKind, ChangeTarget, SchemaChange};

/// Lists the other user types and tables of the keyspace that `change` alters or drops too. Altered
/// types come before altered tables, dropped tables before dropped types, as in Cassandra.
pub fn further_changes(old: &Schema, new: &Schema, change: &SchemaChange) -> Vec<SchemaChange> {
    let Some(before) = old.keyspace(&change.keyspace) else { return Vec::new() };
    let further = |kind, target, name: &String| SchemaChange {
        change: kind,
        target,
        keyspace: change.keyspace.clone(),
        name: name.clone(),
        further: Vec::new(),
    };
    let Some(after) = new.keyspace(&change.keyspace) else {
        let tables = before.tables.keys();
        let tables = tables.map(|name| further(ChangeKind::Dropped, ChangeTarget::Table, name));
        let types = before.types.keys();
        let types = types.map(|name| further(ChangeKind::Dropped, ChangeTarget::Type, name));
        return tables.chain(types).collect();
    };
    let is_other = |target, name: &str| change.target != target || change.name != name;
    let types = after.types.iter().filter(|(name, definition)| {
        let old = before.types.get(*name);
        old.is_some_and(|old| !Arc::ptr_eq(old, definition) && old != *definition)
            && is_other(ChangeTarget::Type, name)
    });
    let tables = after.tables.iter().filter(|(name, table)| {
        let old = before.tables.get(*name);
        // A table whose list of views has changed is not reported.
        old.is_some_and(|old| !Arc::ptr_eq(old, table) && old != *table && old.views == table.views)
            && is_other(ChangeTarget::Table, name)
    });
    let types = types.map(|(name, _)| further(ChangeKind::Updated, ChangeTarget::Type, name));
    let tables = tables.map(|(name, _)| further(ChangeKind::Updated, ChangeTarget::Table, name));
    types.chain(tables).collect()
}
