//! From rows of the schema tables to a schema.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use espalier_mutation::{
    Row,
    schema::{
        ColumnKind, DroppedColumn, KeyspaceMetadata, Schema, TableBuilder, TableId, TableMetadata,
        TableOptions,
    },
};
use espalier_types::{CqlType, UserType};
use uuid::Uuid;

use super::{SCHEMA_KEYSPACE, SchemaError, keyspaces, row::Fields, table};

/// The live rows of the schema tables: (keyspace name, row), as read in partition and clustering order.
#[derive(Debug, Default)]
pub struct SchemaRows {
    /// `system_schema.keyspaces`.
    pub keyspaces: Vec<(String, Row)>,
    /// `system_schema.types`.
    pub types: Vec<(String, Row)>,
    /// `system_schema.tables`.
    pub tables: Vec<(String, Row)>,
    /// `system_schema.columns`.
    pub columns: Vec<(String, Row)>,
    /// `system_schema.dropped_columns`.
    pub dropped_columns: Vec<(String, Row)>,
}

impl SchemaRows {
    /// The list for a schema table.
    pub fn list_mut(&mut self, schema_table: &str) -> Option<&mut Vec<(String, Row)>> {
        Some(match schema_table {
            "keyspaces" => &mut self.keyspaces,
            "types" => &mut self.types,
            "tables" => &mut self.tables,
            "columns" => &mut self.columns,
            "dropped_columns" => &mut self.dropped_columns,
            _ => return None,
        })
    }
}

/// The schema that the rows describe, with the compiled-in system keyspaces in place of their rows.
pub fn read_schema(rows: &SchemaRows, version: Uuid) -> Result<Schema, SchemaError> {
    let mut found = read_keyspaces(rows)?;
    for system in keyspaces() {
        found.insert(system.name.clone(), system);
    }
    Ok(Schema::new(
        found.into_iter().map(|(name, keyspace)| (name, Arc::new(keyspace))).collect(),
        version,
    ))
}

/// The keyspaces that the rows describe.
pub fn read_keyspaces(
    rows: &SchemaRows,
) -> Result<BTreeMap<String, KeyspaceMetadata>, SchemaError> {
    let mut found: BTreeMap<String, KeyspaceMetadata> = BTreeMap::new();
    let definition = table(SCHEMA_KEYSPACE, "keyspaces");
    for (name, row) in &rows.keyspaces {
        let fields = Fields::new(&definition, row);
        let replication = fields.map("replication").unwrap_or_default();
        let keyspace = KeyspaceMetadata {
            name: name.clone(),
            replication: text_map(replication),
            durable_writes: fields.boolean("durable_writes").unwrap_or(true),
            tables: BTreeMap::new(),
            types: BTreeMap::new(),
        };
        found.insert(name.clone(), keyspace);
    }
    read_types(rows, &mut found)?;
    read_tables(rows, &mut found)?;
    Ok(found)
}

fn text_map(entries: Vec<(String, Vec<u8>)>) -> BTreeMap<String, String> {
    entries
        .into_iter()
        .map(|(key, value)| (key, String::from_utf8_lossy(&value).into_owned()))
        .collect()
}

type RawType<'r> = (Vec<String>, Vec<String>, &'r str);

fn read_types(
    rows: &SchemaRows,
    found: &mut BTreeMap<String, KeyspaceMetadata>,
) -> Result<(), SchemaError> {
    let definition = table(SCHEMA_KEYSPACE, "types");
    let mut raw: BTreeMap<(&str, &str), RawType<'_>> = BTreeMap::new();
    for (keyspace, row) in &rows.types {
        let fields = Fields::new(&definition, row);
        let malformed = |reason: &str| SchemaError {
            table: "types",
            row: keyspace.clone(),
            reason: reason.into(),
        };
        let name = fields.clustering(0).ok_or_else(|| malformed("no type name"))?;
        let names = fields.texts("field_names").ok_or_else(|| malformed("no field names"))?;
        let types = fields.texts("field_types").ok_or_else(|| malformed("no field types"))?;
        if names.len() != types.len() {
            return Err(malformed("as many field names as field types are needed"));
        }
        raw.insert((keyspace, name), (names, types, name));
    }
    for (keyspace, metadata) in found.iter_mut() {
        // Types may use one another: round by round those whose parts are known are made.
        let mut waiting: Vec<&RawType<'_>> =
            raw.iter().filter(|((owner, _), _)| owner == keyspace).map(|(_, raw)| raw).collect();
        while !waiting.is_empty() {
            let before = waiting.len();
            let mut failure = None;
            waiting.retain(|(names, types, name)| match parse_fields(names, types, metadata) {
                Ok(fields) => {
                    let made =
                        UserType { keyspace: keyspace.clone(), name: name.to_string(), fields };
                    metadata.types.insert(name.to_string(), Arc::new(made));
                    false
                }
                Err(reason) => {
                    failure = Some((name.to_string(), reason));
                    true
                }
            });
            if waiting.len() == before {
                let (name, reason) = failure.unwrap_or_default();
                return Err(SchemaError {
                    table: "types",
                    row: format!("{keyspace}.{name}"),
                    reason,
                });
            }
        }
    }
    Ok(())
}

fn parse_fields(
    names: &[String],
    types: &[String],
    keyspace: &KeyspaceMetadata,
) -> Result<Vec<(String, CqlType)>, String> {
    names
        .iter()
        .zip(types)
        .map(|(name, text)| Ok((name.clone(), parse_type(text, keyspace)?)))
        .collect()
}

fn parse_type(text: &str, keyspace: &KeyspaceMetadata) -> Result<CqlType, String> {
    CqlType::parse_cql(text, &keyspace.name, &|name| keyspace.types.get(name).cloned())
        .map_err(|error| format!("type {text}: {error}"))
}

struct RawColumn {
    name: String,
    kind: ColumnKind,
    position: i32,
    column_type: CqlType,
    reversed: bool,
}

fn read_tables(
    rows: &SchemaRows,
    found: &mut BTreeMap<String, KeyspaceMetadata>,
) -> Result<(), SchemaError> {
    let mut columns: BTreeMap<(String, String), Vec<RawColumn>> = BTreeMap::new();
    let definition = table(SCHEMA_KEYSPACE, "columns");
    for (owner, row) in &rows.columns {
        let fields = Fields::new(&definition, row);
        let names = fields.clustering(0).zip(fields.clustering(1));
        let malformed = |reason: String| SchemaError {
            table: "columns",
            row: format!("{owner}.{names:?}"),
            reason,
        };
        let (table_name, name) = names.ok_or_else(|| malformed("no name".into()))?;
        let Some(keyspace) = found.get(owner) else { continue };
        let kind = fields.text("kind").and_then(ColumnKind::from_name);
        let type_name = fields.text("type").ok_or_else(|| malformed("no type".into()))?;
        let column = RawColumn {
            name: name.to_string(),
            kind: kind.ok_or_else(|| malformed("unknown kind".into()))?,
            position: fields.int("position").unwrap_or(-1),
            column_type: parse_type(type_name, keyspace).map_err(malformed)?,
            reversed: fields.text("clustering_order") == Some("desc"),
        };
        columns.entry((owner.clone(), table_name.to_string())).or_default().push(column);
    }
    let mut dropped = read_dropped(rows, found)?;
    let definition = table(SCHEMA_KEYSPACE, "tables");
    for (owner, row) in &rows.tables {
        let fields = Fields::new(&definition, row);
        let name = fields.clustering(0).unwrap_or_default();
        let malformed = |reason: &str| SchemaError {
            table: "tables",
            row: format!("{owner}.{name}"),
            reason: reason.into(),
        };
        let Some(keyspace) = found.get_mut(owner) else { continue };
        let id = fields.uuid("id").map(TableId).ok_or_else(|| malformed("no id"))?;
        let mut builder =
            TableBuilder::new(owner.as_str(), name, id).options(read_options(&fields));
        let place = (owner.clone(), name.to_string());
        let mut own = columns.remove(&place).ok_or_else(|| malformed("no columns"))?;
        own.sort_by_key(|column| (column.kind, column.position));
        for column in own {
            builder = match column.kind {
                ColumnKind::PartitionKey => builder.partition_key(&column.name, column.column_type),
                ColumnKind::Clustering => {
                    builder.clustering(&column.name, column.column_type, column.reversed)
                }
                ColumnKind::Static => builder.static_column(&column.name, column.column_type),
                ColumnKind::Regular => builder.regular(&column.name, column.column_type),
            };
        }
        for column in dropped.remove(&place).unwrap_or_default() {
            builder = builder.dropped(column);
        }
        let built: TableMetadata = builder.build();
        if built.partition_key_columns().is_empty() {
            return Err(malformed("no partition key"));
        }
        match keyspace.tables.entry(name.to_string()) {
            Entry::Vacant(entry) => entry.insert(Arc::new(built)),
            Entry::Occupied(_) => return Err(malformed("listed twice")),
        };
    }
    Ok(())
}

type DroppedColumns = BTreeMap<(String, String), Vec<DroppedColumn>>;

fn read_dropped(
    rows: &SchemaRows,
    found: &BTreeMap<String, KeyspaceMetadata>,
) -> Result<DroppedColumns, SchemaError> {
    let mut dropped = DroppedColumns::new();
    let definition = table(SCHEMA_KEYSPACE, "dropped_columns");
    for (owner, row) in &rows.dropped_columns {
        let fields = Fields::new(&definition, row);
        let names = fields.clustering(0).zip(fields.clustering(1));
        let malformed = |reason: String| SchemaError {
            table: "dropped_columns",
            row: format!("{owner}.{names:?}"),
            reason,
        };
        let (table_name, name) = names.ok_or_else(|| malformed("no name".into()))?;
        let Some(keyspace) = found.get(owner) else { continue };
        let type_name = fields.text("type").ok_or_else(|| malformed("no type".into()))?;
        let column = DroppedColumn {
            name: name.to_string(),
            column_type: parse_type(type_name, keyspace).map_err(malformed)?,
            kind: fields
                .text("kind")
                .and_then(ColumnKind::from_name)
                .unwrap_or(ColumnKind::Regular),
            // The table has milliseconds: the drop covers the whole of its last one.
            dropped_time_us: fields
                .bigint("dropped_time")
                .unwrap_or(0)
                .saturating_mul(1000)
                .saturating_add(999),
        };
        dropped.entry((owner.clone(), table_name.to_string())).or_default().push(column);
    }
    Ok(dropped)
}

fn read_options(fields: &Fields<'_>) -> TableOptions {
    let default = TableOptions::default();
    let text = |column: &str, default: String| fields.text(column).map_or(default, str::to_string);
    let number = |column: &str, default: u32| {
        fields.int(column).and_then(|value| u32::try_from(value).ok()).unwrap_or(default)
    };
    let map = |column: &str| fields.map(column).map(text_map);
    TableOptions {
        additional_write_policy: text("additional_write_policy", default.additional_write_policy),
        allow_auto_snapshot: fields
            .boolean("allow_auto_snapshot")
            .unwrap_or(default.allow_auto_snapshot),
        bloom_filter_fp_chance: fields
            .double("bloom_filter_fp_chance")
            .unwrap_or(default.bloom_filter_fp_chance),
        caching: map("caching").unwrap_or(default.caching),
        cdc: fields.boolean("cdc").unwrap_or(default.cdc),
        comment: text("comment", default.comment),
        compaction: map("compaction").unwrap_or(default.compaction),
        compression: map("compression").unwrap_or(default.compression),
        memtable: text("memtable", default.memtable),
        crc_check_chance: fields.double("crc_check_chance").unwrap_or(default.crc_check_chance),
        default_time_to_live: number("default_time_to_live", default.default_time_to_live),
        extensions: fields.map("extensions").unwrap_or_default().into_iter().collect(),
        gc_grace_seconds: number("gc_grace_seconds", default.gc_grace_seconds),
        incremental_backups: fields
            .boolean("incremental_backups")
            .unwrap_or(default.incremental_backups),
        max_index_interval: number("max_index_interval", default.max_index_interval),
        memtable_flush_period_in_ms: number(
            "memtable_flush_period_in_ms",
            default.memtable_flush_period_in_ms,
        ),
        min_index_interval: number("min_index_interval", default.min_index_interval),
        read_repair: text("read_repair", default.read_repair),
        speculative_retry: text("speculative_retry", default.speculative_retry),
    }
}
