//! Schema objects as the statements that create them, in the words and order of Cassandra 5.0's
//! DESCRIBE.

use std::{collections::BTreeMap, fmt::Write, sync::Arc};

use espalier_mutation::schema::{
    CLASS_OPTION, ColumnDefinition, ColumnKind, IndexMetadata, KeyspaceMetadata, TARGET_OPTION,
    TableMetadata, TableOptions, ViewDefinition,
};
use espalier_storage::system::is_virtual;
use espalier_types::{CqlType, UserType, type_name::quote_if_needed as quote_identifier};

use crate::ddl::describe_scylla_option;

/// Returns `CREATE KEYSPACE`, or a comment for a virtual keyspace, which no statement creates.
pub fn keyspace(keyspace: &KeyspaceMetadata) -> String {
    if is_virtual(&keyspace.name) {
        let name = quote_identifier(&keyspace.name);
        return format!(
            "/*\nWarning: Keyspace {name} is a virtual keyspace and cannot be recreated with CQL.\n\
             Structure, for reference:\nVIRTUAL KEYSPACE {name};\n*/"
        );
    }
    let mut replication = class_first(&keyspace.replication);
    for (_, value) in &mut replication {
        *value = value.trim_start_matches("org.apache.cassandra.locator.");
    }
    format!(
        "CREATE KEYSPACE {} WITH replication = {}  AND durable_writes = {};",
        quote_identifier(&keyspace.name),
        map(&replication),
        keyspace.durable_writes
    )
}

/// Returns the options with the class first, as Cassandra prints replication.
fn class_first(options: &BTreeMap<String, String>) -> Vec<(&str, &str)> {
    let mut entries = sorted(options);
    entries.sort_by_key(|(key, _)| *key != "class");
    entries
}

fn sorted(options: &BTreeMap<String, String>) -> Vec<(&str, &str)> {
    options.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

fn map(entries: &[(&str, &str)]) -> String {
    let entries: Vec<String> =
        entries.iter().map(|(key, value)| format!("{}: {}", quote(key), quote(value))).collect();
    format!("{{{}}}", entries.join(", "))
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Returns `CREATE TYPE`.
pub fn user_type(definition: &UserType) -> String {
    let fields: Vec<String> = definition
        .fields
        .iter()
        .map(|(name, field_type)| {
            format!("    {} {}", quote_identifier(name), field_type.cql_name())
        })
        .collect();
    format!(
        "CREATE TYPE {}.{} (\n{}\n);",
        quote_identifier(&definition.keyspace),
        // `cql_name` quotes the name if it is also the name of a native type.
        CqlType::UserDefined { definition: Arc::new(definition.clone()), frozen: false }.cql_name(),
        fields.join(",\n")
    )
}

/// Returns `CREATE TABLE` or `CREATE MATERIALIZED VIEW`, in a comment for a virtual or a compact
/// table. With internals, the text includes the table's id and its dropped columns.
pub fn table(table: &TableMetadata, with_internals: bool) -> String {
    if let Some(definition) = &table.view {
        return view(table, definition, with_internals);
    }
    let is_virtual = is_virtual(&table.keyspace);
    let mut text = head(table, is_virtual);
    let _ = write!(text, "{}\n) WITH ", column_lines(table, with_internals).join(",\n"));
    let mut options = Vec::new();
    if table.is_compact() {
        options.push("COMPACT STORAGE".into());
    }
    if with_internals {
        options.push(format!("ID = {}", table.id));
    }
    if !table.clustering_columns().is_empty() {
        options.push(clustering_order(table));
    }
    if is_virtual {
        options.push(format!("comment = {}", quote(&table.options.comment)))
    } else {
        options.extend(table_options(&table.options))
    }
    let _ = write!(text, "{};", options.join("\n    AND "));
    if is_virtual {
        text.push_str("\n*/");
    }
    if with_internals {
        drop_columns(table, &mut text);
    }
    if table.is_compact() {
        text.push_str("\n*/");
    }
    text
}

/// Returns `CREATE MATERIALIZED VIEW`.
fn view(table: &TableMetadata, definition: &ViewDefinition, with_internals: bool) -> String {
    let names = table.columns().iter().map(|column| quote_identifier(&column.name));
    let columns = if definition.includes_all_columns {
        "*".to_string()
    } else {
        names.collect::<Vec<_>>().join(", ")
    };
    let base = quote_identifier(&definition.base_name);
    let mut options = Vec::new();
    if with_internals {
        options.push(format!("ID = {}", table.id));
    }
    if !table.clustering_columns().is_empty() {
        options.push(clustering_order(table));
    }
    let is_shown = |option: &String| !option.starts_with("default_time_to_live ");
    options.extend(table_options(&table.options).into_iter().filter(is_shown));
    format!(
        "CREATE MATERIALIZED VIEW {} AS\n    SELECT {columns}\n    FROM {}.{base}\n    WHERE {}\n    {}\n WITH {};",
        qualified(table),
        quote_identifier(&table.keyspace),
        definition.where_clause,
        primary_key(table),
        options.join("\n    AND ")
    )
}

fn head(table: &TableMetadata, is_virtual: bool) -> String {
    let name = qualified(table);
    if is_virtual {
        format!(
            "/*\nWarning: Table {name} is a virtual table and cannot be recreated with CQL.\n\
         Structure, for reference:\nVIRTUAL TABLE {name} (\n"
        )
    } else if table.is_compact() {
        // Cassandra 5.0 prints this text for each compact table.
        format!(
            "/*\nWarning: Table {name} omitted because it has constructs not compatible with CQL (was created via legacy API).\n\
         Approximate structure, for reference:\n(this should not be used to reproduce this schema)\n\n\
         CREATE TABLE {name} (\n"
        )
    } else {
        format!("CREATE TABLE {name} (\n")
    }
}

/// Returns the definitions of the columns and the primary key, each on a line.
fn column_lines(table: &TableMetadata, with_internals: bool) -> Vec<String> {
    let single_key =
        table.partition_key_columns().len() == 1 && table.clustering_columns().is_empty();
    let mut lines: Vec<String> = table
        .visible_columns()
        .map(|column| {
            let mut line = format!("    {}", column_definition(table, column));
            if single_key && column.kind == ColumnKind::PartitionKey {
                line.push_str(" PRIMARY KEY");
            }
            line
        })
        .collect();
    if with_internals {
        // A dropped column is created first and dropped below, so that its drop time is kept.
        for column in
            table.dropped_columns.values().filter(|column| table.column(&column.name).is_none())
        {
            let suffix = if column.kind == ColumnKind::Static { " static" } else { "" };
            lines.push(format!(
                "    {} {}{suffix}",
                quote_identifier(&column.name),
                column.column_type.cql_name()
            ));
        }
    }
    if !single_key {
        lines.push(format!("    {}", primary_key(table)));
    }
    lines
}

fn clustering_order(table: &TableMetadata) -> String {
    let order: Vec<String> = table
        .clustering_columns()
        .iter()
        .map(|column| {
            format!(
                "{} {}",
                quote_identifier(&column.name),
                if column.reversed { "DESC" } else { "ASC" }
            )
        })
        .collect();
    format!("CLUSTERING ORDER BY ({})", order.join(", "))
}

/// Appends a statement that drops each dropped column, and one that adds the column if the table
/// has a column of this name again.
fn drop_columns(table: &TableMetadata, text: &mut String) {
    for column in table.dropped_columns.values() {
        let name = quote_identifier(&column.name);
        let _ = write!(
            text,
            "\nALTER TABLE {} DROP {name} USING TIMESTAMP {};",
            qualified(table),
            column.dropped_time_us
        );
        if let Some(present) = table.column(&column.name) {
            let _ = write!(
                text,
                "\nALTER TABLE {} ADD {};",
                qualified(table),
                column_definition(table, present)
            );
        }
    }
}

/// Returns `CREATE INDEX`.
pub fn index(table: &TableMetadata, index: &IndexMetadata) -> String {
    let name = quote_identifier(&index.name);
    let (table, target) = (qualified(table), index.target());
    let Some(class) = index.class() else {
        return format!("CREATE INDEX {name} ON {table} ({target});");
    };
    let mut options = index.options.clone();
    options.retain(|option, _| ![CLASS_OPTION, TARGET_OPTION].contains(&option.as_str()));
    let options = if options.is_empty() {
        String::new()
    } else {
        format!(" WITH OPTIONS = {}", map(&sorted(&options)))
    };
    format!("CREATE CUSTOM INDEX {name} ON {table} ({target}) USING {}{options};", quote(class))
}

fn qualified(table: &TableMetadata) -> String {
    format!("{}.{}", quote_identifier(&table.keyspace), quote_identifier(&table.name))
}

fn column_definition(table: &TableMetadata, column: &ColumnDefinition) -> String {
    // A compact table declares none of its columns as static.
    let is_static = column.kind == ColumnKind::Static && !table.is_compact();
    let suffix = if is_static { " static" } else { "" };
    let name = quote_identifier(&column.name);
    let constraints = table.constraints_of(column).iter();
    let checks: Vec<String> = constraints.map(|constraint| constraint.to_cql(&name)).collect();
    let check = if checks.is_empty() { "" } else { " CHECK " };
    let column_type = column.column_type.cql_name();
    let mask = table.mask_of(column).map(|mask| format!(" MASKED WITH {mask}"));
    let mask = mask.unwrap_or_default();
    format!("{name} {column_type}{suffix}{mask}{check}{}", checks.join(" AND "))
}

fn primary_key(table: &TableMetadata) -> String {
    let names = |columns: &[ColumnDefinition]| {
        columns.iter().map(|column| quote_identifier(&column.name)).collect::<Vec<_>>().join(", ")
    };
    let partition = names(table.partition_key_columns());
    let partition =
        if table.partition_key_columns().len() > 1 { format!("({partition})") } else { partition };
    match table.clustering_columns() {
        _ if table.is_static_compact() => format!("PRIMARY KEY ({partition})"),
        [] => format!("PRIMARY KEY ({partition})"),
        clustering => format!("PRIMARY KEY ({partition}, {})", names(clustering)),
    }
}

fn table_options(options: &TableOptions) -> Vec<String> {
    let of_scylla: BTreeMap<&str, String> = options
        .extensions
        .iter()
        .filter_map(|(name, bytes)| Some((name.as_str(), describe_scylla_option(name, bytes)?)))
        .collect();
    let extensions: Vec<String> = options
        .extensions
        .iter()
        .filter(|(name, _)| !of_scylla.contains_key(name.as_str()))
        .map(|(key, value)| {
            let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{}: 0x{hex}", quote(key))
        })
        .collect();
    let cdc = of_scylla.get("cdc").cloned().unwrap_or_else(|| options.cdc.to_string());
    let others = of_scylla.iter().filter(|(name, _)| **name != "cdc");
    let others: Vec<String> = others.map(|(name, value)| format!("{name} = {value}")).collect();
    let mut shown = vec![
        format!("additional_write_policy = {}", quote(&options.additional_write_policy)),
        format!("allow_auto_snapshot = {}", options.allow_auto_snapshot),
        format!("bloom_filter_fp_chance = {:?}", options.bloom_filter_fp_chance),
        format!("caching = {}", map(&sorted(&options.caching))),
        format!("cdc = {cdc}"),
        format!("comment = {}", quote(&options.comment)),
        format!("compaction = {}", map(&class_first(&options.compaction))),
        format!("compression = {}", map(&sorted(&options.compression))),
        format!("memtable = {}", quote(&options.memtable)),
        format!("crc_check_chance = {:?}", options.crc_check_chance),
        format!("default_time_to_live = {}", options.default_time_to_live),
        format!("extensions = {{{}}}", extensions.join(", ")),
        format!("gc_grace_seconds = {}", options.gc_grace_seconds),
        format!("incremental_backups = {}", options.incremental_backups),
        format!("max_index_interval = {}", options.max_index_interval),
        format!("memtable_flush_period_in_ms = {}", options.memtable_flush_period_in_ms),
        format!("min_index_interval = {}", options.min_index_interval),
        format!("read_repair = {}", quote(&options.read_repair)),
        format!("speculative_retry = {}", quote(&options.speculative_retry)),
    ];
    shown.extend(others);
    shown
}
