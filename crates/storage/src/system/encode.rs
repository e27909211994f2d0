//! Encodes schema changes as writes to the schema tables.
//!
//! A changed table or view is written anew as a whole. Deletions just before the timestamp of the
//! change remove its former rows, so no row of an earlier definition stays.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{
    BoundKind, ClusteringBound, DecoratedKey, DeletionTime, Mutation, PartitionUpdate,
    RangeTombstone, Row,
    schema::{ColumnDefinition, ColumnKind, KeyspaceMetadata, MaskArgument, Schema, TableMetadata},
};
use espalier_types::UserType;

use super::{
    SCHEMA_KEYSPACE, SCHEMA_TABLES, mask_value,
    row::RowWriter,
    table,
    view_rows::{condition_rows, with_definition},
};

/// Returns the writes that turn the rows of `old` into those of `new`, at `timestamp` µs. System
/// keyspaces are compared like others.
pub fn schema_mutation(old: &Schema, new: &Schema, timestamp: i64, now_s: u32) -> Mutation {
    let mut writer = Writer { updates: Vec::new(), timestamp, now_s };
    for keyspace in
        old.keyspaces.values().filter(|keyspace| !new.keyspaces.contains_key(&keyspace.name))
    {
        for name in SCHEMA_TABLES {
            writer.update(name, &keyspace.name).deletion = DeletionTime::new(timestamp, now_s);
        }
    }
    for keyspace in new.keyspaces.values() {
        match old.keyspaces.get(&keyspace.name) {
            Some(before) if Arc::ptr_eq(before, keyspace) || before == keyspace => {}
            before => writer.keyspace(before.map(Arc::as_ref), keyspace),
        }
    }
    Mutation { updates: writer.updates }
}

/// The schema tables with rows for each table.
const OF_TABLE: [&str; 8] = [
    "tables",
    "columns",
    "dropped_columns",
    "column_constraints",
    "column_masks",
    "indexes",
    "views",
    "view_conditions",
];

struct Writer {
    updates: Vec<PartitionUpdate>,
    timestamp: i64,
    now_s: u32,
}

impl Writer {
    fn update(&mut self, schema_table: &str, keyspace: &str) -> &mut PartitionUpdate {
        let id = table(SCHEMA_KEYSPACE, schema_table).id;
        let key = DecoratedKey::new(Bytes::copy_from_slice(keyspace.as_bytes()));
        let found = self.updates.iter().position(|update| update.table == id && update.key == key);
        let index = found.unwrap_or_else(|| {
            self.updates.push(PartitionUpdate::new(id, key));
            self.updates.len() - 1
        });
        &mut self.updates[index]
    }

    /// Deletes all rows below a prefix, at `timestamp` µs.
    fn delete_below(&mut self, schema_table: &str, keyspace: &str, prefix: &str, timestamp: i64) {
        let values: Box<[Option<Bytes>]> = [Some(Bytes::copy_from_slice(prefix.as_bytes()))].into();
        let deletion = DeletionTime::new(timestamp, self.now_s);
        self.update(schema_table, keyspace).range_tombstones.push(RangeTombstone {
            start: ClusteringBound { kind: BoundKind::InclusiveStart, values: values.clone() },
            end: ClusteringBound { kind: BoundKind::InclusiveEnd, values },
            deletion,
        });
    }

    fn keyspace(&mut self, before: Option<&KeyspaceMetadata>, keyspace: &KeyspaceMetadata) {
        let name = &keyspace.name;
        let row = RowWriter::new(&table(SCHEMA_KEYSPACE, "keyspaces"), &[], self.timestamp)
            .boolean("durable_writes", keyspace.durable_writes)
            .map("replication", &keyspace.replication)
            .finish();
        self.update("keyspaces", name).rows.push(row);
        for gone in before.into_iter().flat_map(|before| before.types.keys()) {
            if !keyspace.types.contains_key(gone) {
                self.delete_below("types", name, gone, self.timestamp);
            }
        }
        for definition in keyspace.types.values() {
            if before.and_then(|before| before.types.get(&definition.name)) != Some(definition) {
                self.user_type(name, definition);
            }
        }
        for gone in before.into_iter().flat_map(|before| before.tables.keys()) {
            if !keyspace.tables.contains_key(gone) {
                for schema_table in OF_TABLE {
                    self.delete_below(schema_table, name, gone, self.timestamp);
                }
            }
        }
        let none = BTreeMap::new();
        if before.map_or(&none, |before| &before.annotations) != &keyspace.annotations {
            self.annotations(keyspace);
        }
        let unreadable = before.map(|before| &before.unreadable);
        for gone in unreadable.into_iter().flat_map(|before| before.types.keys()) {
            if !keyspace.unreadable.types.contains_key(gone) {
                self.delete_below("types", name, gone, self.timestamp);
            }
        }
        for gone in unreadable.into_iter().flat_map(|before| before.tables.keys()) {
            if !keyspace.unreadable.tables.contains_key(gone) {
                for schema_table in OF_TABLE {
                    self.delete_below(schema_table, name, gone, self.timestamp);
                }
            }
        }
        for changed in keyspace.tables.values() {
            if before.and_then(|before| before.tables.get(&changed.name)) != Some(changed) {
                self.table(changed);
            }
        }
    }

    /// Replaces all comments and security labels of a keyspace, of which there are few.
    fn annotations(&mut self, keyspace: &KeyspaceMetadata) {
        let deletion = DeletionTime::new(self.timestamp - 1, self.now_s);
        self.update("annotations", &keyspace.name).deletion = deletion;
        let annotations_table = table(SCHEMA_KEYSPACE, "annotations");
        for (object, annotation) in &keyspace.annotations {
            let row = RowWriter::new(&annotations_table, &object.parts(), self.timestamp)
                .text("comment", &annotation.comment)
                .text("security_label", &annotation.security_label)
                .finish();
            self.update("annotations", &keyspace.name).rows.push(row);
        }
    }

    fn user_type(&mut self, keyspace: &str, definition: &UserType) {
        let row =
            RowWriter::new(&table(SCHEMA_KEYSPACE, "types"), &[&definition.name], self.timestamp)
                .list("field_names", definition.fields.iter().map(|(field, _)| field))
                .list(
                    "field_types",
                    definition.fields.iter().map(|(_, field_type)| field_type.cql_name()),
                )
                .finish();
        self.update("types", keyspace).rows.push(row);
    }

    fn table(&mut self, changed: &TableMetadata) {
        let keyspace = &changed.keyspace;
        let (timestamp, now_s) = (self.timestamp, self.now_s);
        for schema_table in OF_TABLE.into_iter().filter(|name| *name != "tables") {
            self.delete_below(schema_table, keyspace, &changed.name, timestamp - 1);
        }
        let options = &changed.options;
        let owner = if changed.is_view() { "views" } else { "tables" };
        let schema_table = table(SCHEMA_KEYSPACE, owner);
        let row = RowWriter::new(&schema_table, &[&changed.name], timestamp)
            .replacing(now_s)
            .uuid("id", changed.id.0);
        let row = match &changed.view {
            Some(view) => with_definition(row, view),
            None => row.list("flags", flags_of(changed)),
        };
        let row = row
            .text("additional_write_policy", &options.additional_write_policy)
            .boolean("allow_auto_snapshot", options.allow_auto_snapshot)
            .double("bloom_filter_fp_chance", options.bloom_filter_fp_chance)
            .map("caching", &options.caching)
            .boolean("cdc", options.cdc)
            .text("comment", &options.comment)
            .map("compaction", &options.compaction)
            .map("compression", &options.compression)
            .double("crc_check_chance", options.crc_check_chance)
            .double("dclocal_read_repair_chance", 0.0)
            .int("default_time_to_live", options.default_time_to_live as i32)
            .map("extensions", &options.extensions)
            .int("gc_grace_seconds", options.gc_grace_seconds as i32)
            .boolean("incremental_backups", options.incremental_backups)
            .int("max_index_interval", options.max_index_interval as i32)
            .text("memtable", &options.memtable)
            .int("memtable_flush_period_in_ms", options.memtable_flush_period_in_ms as i32)
            .int("min_index_interval", options.min_index_interval as i32)
            .text("read_repair", &options.read_repair)
            .double("read_repair_chance", 0.0)
            .text("speculative_retry", &options.speculative_retry)
            .finish();
        self.update(owner, keyspace).rows.push(row);
        if let Some(view) = &changed.view {
            let conditions = condition_rows(&changed.name, view, timestamp);
            self.update("view_conditions", keyspace).rows.extend(conditions);
        }
        let columns_table = table(SCHEMA_KEYSPACE, "columns");
        for column in changed.columns() {
            let row = column_row(&columns_table, changed, column, timestamp);
            self.update("columns", keyspace).rows.push(row);
        }
        let dropped_table = table(SCHEMA_KEYSPACE, "dropped_columns");
        for dropped in changed.dropped_columns.values() {
            let row = RowWriter::new(&dropped_table, &[&changed.name, &dropped.name], timestamp)
                .bytes("dropped_time", (dropped.dropped_time_us / 1000).to_be_bytes().to_vec())
                .text("kind", dropped.kind.name())
                .text("type", &dropped.column_type.without_user_types().cql_name())
                .finish();
            self.update("dropped_columns", keyspace).rows.push(row);
        }
        self.constraints_and_indexes(changed);
        self.masks(changed);
    }

    fn constraints_and_indexes(&mut self, changed: &TableMetadata) {
        let (keyspace, timestamp) = (&changed.keyspace, self.timestamp);
        let constraints_table = table(SCHEMA_KEYSPACE, "column_constraints");
        for column in changed.columns() {
            let constraints = changed.constraints_of(column);
            if constraints.is_empty() {
                continue;
            }
            let part = |index: usize| constraints.iter().map(move |one| one.parts()[index]);
            let row = RowWriter::new(&constraints_table, &[&changed.name, &column.name], timestamp)
                .list("functions", part(0))
                .list("operators", part(1))
                .list("terms", part(2))
                .finish();
            self.update("column_constraints", keyspace).rows.push(row);
        }
        let indexes_table = table(SCHEMA_KEYSPACE, "indexes");
        for index in &changed.indexes {
            let row = RowWriter::new(&indexes_table, &[&changed.name, &index.name], timestamp)
                .text("kind", index.kind.name())
                .map("options", &index.options)
                .finish();
            self.update("indexes", keyspace).rows.push(row);
        }
    }

    fn masks(&mut self, changed: &TableMetadata) {
        let (keyspace, timestamp) = (&changed.keyspace, self.timestamp);
        let masks_table = table(SCHEMA_KEYSPACE, "column_masks");
        for column in changed.columns() {
            let Some(mask) = changed.mask_of(column) else { continue };
            let arguments = &mask.arguments;
            // A list cannot hold null, so a second list marks the arguments that are null.
            let value = |argument: &MaskArgument| match &argument.value {
                Some(value) => mask_value::write(&argument.argument_type, value),
                None => String::new(),
            };
            let nulls = arguments.iter().map(|argument| [u8::from(argument.value.is_none())]);
            let types = arguments.iter().map(|argument| argument.argument_type.cql_name());
            let row = RowWriter::new(&masks_table, &[&changed.name, &column.name], timestamp)
                .list("function_argument_nulls", nulls)
                .list("function_argument_types", types)
                .list("function_argument_values", arguments.iter().map(value))
                .text("function_keyspace", &mask.keyspace)
                .text("function_name", &mask.function)
                .finish();
            self.update("column_masks", keyspace).rows.push(row);
        }
    }
}

/// Returns the flags of a table in `system_schema.tables`.
fn flags_of(table: &TableMetadata) -> Vec<&'static str> {
    let mut flags = table.layout.flags().to_vec();
    if table.is_counter() {
        flags.push("counter");
        flags.sort_unstable();
    }
    flags
}

/// Builds the row of a column in `columns_table`, which belongs to the schema tables or to the
/// virtual schema.
pub(crate) fn column_row(
    columns_table: &TableMetadata,
    owner: &TableMetadata,
    column: &ColumnDefinition,
    timestamp: i64,
) -> Row {
    let (order, position) = match column.kind {
        ColumnKind::PartitionKey => ("none", column.position as i32),
        ColumnKind::Clustering if column.reversed => ("desc", column.position as i32),
        ColumnKind::Clustering => ("asc", column.position as i32),
        ColumnKind::Static | ColumnKind::Regular => ("none", -1),
    };
    RowWriter::new(columns_table, &[&owner.name, &column.name], timestamp)
        .text("clustering_order", order)
        .text("column_name_bytes", &column.name)
        .text("kind", column.kind.name())
        .int("position", position)
        .text("type", &column.column_type.cql_name())
        .finish()
}
