//! Encodes schema changes as writes to the schema tables.
//!
//! A changed table or view is written anew as a whole. Deletions just before the timestamp of the
//! change remove its former rows, so no row of an earlier definition stays.

use std::{collections::BTreeMap, sync::Arc};

use espalier_mutation::{
    DeletionTime, Mutation, PartitionUpdate,
    schema::{ColumnDefinition, ColumnKind, KeyspaceMetadata, MaskArgument, Schema, TableMetadata},
};
use espalier_types::UserType;

use super::{
    SCHEMA_KEYSPACE, SCHEMA_TABLES, mask_value,
    row::{RowWriter, deletion_below, text_key},
    table,
    view_rows::{with_condition, with_definition},
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
    let nothing = KeyspaceMetadata::new("");
    for keyspace in new.keyspaces.values() {
        match old.keyspaces.get(&keyspace.name) {
            Some(before) if Arc::ptr_eq(before, keyspace) || before == keyspace => {}
            before => writer.keyspace(before.map_or(&nothing, Arc::as_ref), keyspace),
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
        let key = text_key(keyspace);
        let found = self.updates.iter().position(|update| update.table == id && update.key == key);
        let index = found.unwrap_or_else(|| {
            self.updates.push(PartitionUpdate::new(id, key));
            self.updates.len() - 1
        });
        &mut self.updates[index]
    }

    /// Deletes all rows below a prefix, at `timestamp` µs.
    fn delete_below(&mut self, schema_table: &str, keyspace: &str, prefix: &str, timestamp: i64) {
        let deletion = deletion_below(prefix, DeletionTime::new(timestamp, self.now_s));
        self.update(schema_table, keyspace).range_tombstones.push(deletion);
    }

    /// Adds a row that `fill` fills to a schema table.
    fn add(
        &mut self,
        schema_table: &str,
        keyspace: &str,
        clustering: &[&str],
        fill: impl FnOnce(RowWriter<'_>) -> RowWriter<'_>,
    ) {
        let metadata = table(SCHEMA_KEYSPACE, schema_table);
        let row = fill(RowWriter::new(&metadata, clustering, self.timestamp)).finish();
        self.update(schema_table, keyspace).rows.push(row);
    }

    fn keyspace(&mut self, before: &KeyspaceMetadata, keyspace: &KeyspaceMetadata) {
        let name = &keyspace.name;
        self.add("keyspaces", name, &[], |row| {
            row.boolean("durable_writes", keyspace.durable_writes)
                .map("replication", &keyspace.replication)
        });
        let gone_types = gone(&before.types, &keyspace.types)
            .chain(gone(&before.unreadable.types, &keyspace.unreadable.types));
        for gone in gone_types {
            self.delete_below("types", name, gone, self.timestamp);
        }
        for definition in keyspace.types.values() {
            if before.types.get(&definition.name) != Some(definition) {
                self.user_type(name, definition);
            }
        }
        let gone_tables = gone(&before.tables, &keyspace.tables)
            .chain(gone(&before.unreadable.tables, &keyspace.unreadable.tables));
        for gone in gone_tables {
            for schema_table in OF_TABLE {
                self.delete_below(schema_table, name, gone, self.timestamp);
            }
        }
        if before.annotations != keyspace.annotations {
            self.annotations(keyspace);
        }
        for changed in keyspace.tables.values() {
            if before.tables.get(&changed.name) != Some(changed) {
                self.table(changed);
            }
        }
    }

    /// Replaces all comments and security labels of a keyspace, of which there are few.
    fn annotations(&mut self, keyspace: &KeyspaceMetadata) {
        let deletion = DeletionTime::new(self.timestamp - 1, self.now_s);
        self.update("annotations", &keyspace.name).deletion = deletion;
        for (object, annotation) in &keyspace.annotations {
            self.add("annotations", &keyspace.name, &object.parts(), |row| {
                row.text("comment", &annotation.comment)
                    .text("security_label", &annotation.security_label)
            });
        }
    }

    fn user_type(&mut self, keyspace: &str, definition: &UserType) {
        let fields = &definition.fields;
        self.add("types", keyspace, &[&definition.name], |row| {
            row.list("field_names", fields.iter().map(|(field, _)| field))
                .list("field_types", fields.iter().map(|(_, field_type)| field_type.cql_name()))
        });
    }

    fn table(&mut self, changed: &TableMetadata) {
        let (keyspace, name) = (&changed.keyspace, &changed.name);
        let now_s = self.now_s;
        for schema_table in OF_TABLE.into_iter().filter(|name| *name != "tables") {
            self.delete_below(schema_table, keyspace, name, self.timestamp - 1);
        }
        let options = &changed.options;
        let owner = if changed.is_view() { "views" } else { "tables" };
        self.add(owner, keyspace, &[name], |row| {
            let row = row.replacing(now_s).uuid("id", changed.id.0);
            let row = match &changed.view {
                Some(view) => with_definition(row, view),
                None => row.list("flags", flags_of(changed)),
            };
            row.text("additional_write_policy", &options.additional_write_policy)
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
        });
        for (place, condition) in changed.view.iter().flat_map(|view| &view.conditions).enumerate()
        {
            let place = format!("{place:04}");
            self.add("view_conditions", keyspace, &[name, &place], |row| {
                with_condition(row, condition)
            });
        }
        for column in changed.columns() {
            self.add("columns", keyspace, &[name, &column.name], |row| with_column(row, column));
        }
        for dropped in changed.dropped_columns.values() {
            self.add("dropped_columns", keyspace, &[name, &dropped.name], |row| {
                row.timestamp("dropped_time", dropped.dropped_time_us / 1000)
                    .text("kind", dropped.kind.name())
                    .text("type", &dropped.column_type.without_user_types().cql_name())
            });
        }
        self.constraints_and_indexes(changed);
        self.masks(changed);
    }

    fn constraints_and_indexes(&mut self, changed: &TableMetadata) {
        let (keyspace, name) = (&changed.keyspace, &changed.name);
        for column in changed.columns() {
            let constraints = changed.constraints_of(column);
            if constraints.is_empty() {
                continue;
            }
            let part = |index: usize| constraints.iter().map(move |one| one.parts()[index]);
            self.add("column_constraints", keyspace, &[name, &column.name], |row| {
                row.list("functions", part(0)).list("operators", part(1)).list("terms", part(2))
            });
        }
        for index in &changed.indexes {
            self.add("indexes", keyspace, &[name, &index.name], |row| {
                row.text("kind", index.kind.name()).map("options", &index.options)
            });
        }
    }

    fn masks(&mut self, changed: &TableMetadata) {
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
            self.add("column_masks", &changed.keyspace, &[&changed.name, &column.name], |row| {
                row.list("function_argument_nulls", nulls)
                    .list("function_argument_types", types)
                    .list("function_argument_values", arguments.iter().map(value))
                    .text("function_keyspace", &mask.keyspace)
                    .text("function_name", &mask.function)
            });
        }
    }
}

/// Returns the names in `before` that `now` lacks.
fn gone<'b, T>(
    before: &'b BTreeMap<String, T>,
    now: &BTreeMap<String, T>,
) -> impl Iterator<Item = &'b String> {
    before.keys().filter(move |name| !now.contains_key(*name))
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

/// Fills the row of a column, in the schema tables or in the virtual schema.
pub(crate) fn with_column<'t>(row: RowWriter<'t>, column: &ColumnDefinition) -> RowWriter<'t> {
    let (order, position) = match column.kind {
        ColumnKind::PartitionKey => ("none", column.position as i32),
        ColumnKind::Clustering if column.reversed => ("desc", column.position as i32),
        ColumnKind::Clustering => ("asc", column.position as i32),
        ColumnKind::Static | ColumnKind::Regular => ("none", -1),
    };
    row.text("clustering_order", order)
        .text("column_name_bytes", &column.name)
        .text("kind", column.kind.name())
        .int("position", position)
        .text("type", &column.column_type.cql_name())
}
