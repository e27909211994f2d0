//! Decodes the rows of the schema tables into a schema.
//!
//! One definition that the node cannot read does not keep the others from being read. A table or
//! type with such a definition becomes *unreadable*, with the reason. An unreadable index leaves
//! out all indexes of its table. Only a row without a name is an error.

use std::{collections::BTreeMap, sync::Arc};

use espalier_mutation::{
    Row,
    schema::{
        Annotated, Annotation, ColumnKind, DroppedColumn, IndexKind, IndexMetadata,
        KeyspaceMetadata, Schema, TableBuilder, TableId, TableLayout, TableMetadata, TableOptions,
        UnreadableTable,
    },
};
use espalier_types::{CqlType, UserType};
use uuid::Uuid;

use super::{
    SCHEMA_KEYSPACE, SCHEMA_TABLES, SchemaError,
    column_rows::{NamedConstraints, NamedMask, read_constraints, read_mask},
    keyspaces,
    row::Fields,
    table,
    view_rows::{check_columns, read_condition, read_definition},
};

/// The live rows of the schema tables: (keyspace name, row), as read in partition and clustering
/// order.
#[derive(Debug, Default)]
pub struct SchemaRows(BTreeMap<&'static str, Vec<(String, Row)>>);

impl SchemaRows {
    /// Returns the list for a schema table; `None` if it is not one of [`SCHEMA_TABLES`].
    pub fn list_mut(&mut self, schema_table: &str) -> Option<&mut Vec<(String, Row)>> {
        let name = SCHEMA_TABLES.into_iter().find(|name| *name == schema_table)?;
        Some(self.0.entry(name).or_default())
    }

    /// Returns the rows of a schema table.
    fn list(&self, schema_table: &str) -> &[(String, Row)] {
        debug_assert!(SCHEMA_TABLES.contains(&schema_table), "{schema_table}");
        self.0.get(schema_table).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Decodes the schema from its rows. [`KeyspaceMetadata::unreadable`] names the tables and types
/// that the node cannot read. The compiled-in system keyspaces replace their rows.
///
/// # Errors
///
/// Fails if a row has no name.
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

/// Decodes the keyspaces that the rows describe.
///
/// # Errors
///
/// Fails if a row has no name.
pub fn read_keyspaces(
    rows: &SchemaRows,
) -> Result<BTreeMap<String, KeyspaceMetadata>, SchemaError> {
    let mut found: BTreeMap<String, KeyspaceMetadata> = BTreeMap::new();
    let definition = table(SCHEMA_KEYSPACE, "keyspaces");
    for (name, row) in rows.list("keyspaces") {
        let fields = Fields::new(&definition, row);
        let replication = fields.map("replication").unwrap_or_default();
        let keyspace = KeyspaceMetadata {
            replication: text_map(replication),
            durable_writes: fields.boolean("durable_writes").unwrap_or(true),
            ..KeyspaceMetadata::new(name)
        };
        found.insert(name.clone(), keyspace);
    }
    read_types(rows, &mut found)?;
    read_tables(rows, &mut found)?;
    read_annotations(rows, &mut found);
    Ok(found)
}

/// Adds comments and security labels. A row of an unknown kind is left out.
fn read_annotations(rows: &SchemaRows, found: &mut BTreeMap<String, KeyspaceMetadata>) {
    let definition = table(SCHEMA_KEYSPACE, "annotations");
    for (owner, row) in rows.list("annotations") {
        let fields = Fields::new(&definition, row);
        let part = |index: usize| fields.clustering(index).unwrap_or_default();
        let object = Annotated::from_parts(part(0), part(1), part(2));
        let Some((keyspace, object)) = found.get_mut(owner).zip(object) else { continue };
        let text = |column: &str| fields.text(column).unwrap_or_default().to_string();
        let annotation =
            Annotation { comment: text("comment"), security_label: text("security_label") };
        keyspace.annotations.insert(object, annotation);
    }
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
    for (keyspace, row) in rows.list("types") {
        let fields = Fields::new(&definition, row);
        let name = fields.clustering(0).ok_or_else(|| SchemaError {
            table: "types",
            row: keyspace.clone(),
            reason: "no type name".into(),
        })?;
        match raw_type(&fields, name) {
            Ok(found) => {
                raw.insert((keyspace, name), found);
            }
            Err(reason) => {
                if let Some(keyspace) = found.get_mut(keyspace) {
                    keyspace.unreadable.types.insert(name.to_string(), reason);
                }
            }
        }
    }
    for (keyspace, metadata) in found.iter_mut() {
        // Types may use one another, so each round makes the types with known parts.
        let mut waiting: Vec<&RawType<'_>> =
            raw.iter().filter(|((owner, _), _)| owner == keyspace).map(|(_, raw)| raw).collect();
        while !waiting.is_empty() {
            let before = waiting.len();
            let mut failures = Vec::new();
            waiting.retain(|(names, types, name)| match parse_fields(names, types, metadata) {
                Ok(fields) => {
                    let made =
                        UserType { keyspace: keyspace.clone(), name: name.to_string(), fields };
                    metadata.types.insert(name.to_string(), Arc::new(made));
                    false
                }
                Err(reason) => {
                    failures.push((name.to_string(), reason));
                    true
                }
            });
            if waiting.len() == before {
                metadata.unreadable.types.extend(failures);
                break;
            }
        }
    }
    Ok(())
}

fn raw_type<'r>(fields: &Fields<'r>, name: &'r str) -> Result<RawType<'r>, String> {
    let names = fields.texts("field_names").ok_or("no field names")?;
    let types = fields.texts("field_types").ok_or("no field types")?;
    if names.len() != types.len() {
        return Err("as many field names as field types are needed".into());
    }
    Ok((names, types, name))
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

/// Parses the type of a column or field. Another node of a ring may have created it, so the limits
/// of types are checked, too: a type of 30 user types inside each other may have 2^30 parts.
pub(super) fn parse_type(text: &str, keyspace: &KeyspaceMetadata) -> Result<CqlType, String> {
    let parsed =
        CqlType::parse_cql(text, &keyspace.name, &|name| keyspace.types.get(name).cloned());
    let parsed = parsed.map_err(|error| format!("type {text}: {error}"))?;
    parsed.check_limits().map_err(|error| format!("type {text}: {error}"))?;
    Ok(parsed)
}

struct RawColumn {
    name: String,
    kind: ColumnKind,
    position: i32,
    column_type: CqlType,
    reversed: bool,
}

/// The decoded rows of each table, by keyspace and name, or the reason why the first unreadable row
/// cannot be read.
type ByTable<T> = BTreeMap<(String, String), Result<Vec<T>, String>>;

fn read_tables(
    rows: &SchemaRows,
    found: &mut BTreeMap<String, KeyspaceMetadata>,
) -> Result<(), SchemaError> {
    let mut columns = by_table("columns", rows, found, read_column)?;
    let mut dropped = by_table("dropped_columns", rows, found, read_dropped)?;
    let mut constraints = by_table("column_constraints", rows, found, read_constraints)?;
    let mut masks = by_table("column_masks", rows, found, read_mask)?;
    let mut indexes = by_table("indexes", rows, found, read_index)?;
    let mut conditions =
        by_table("view_conditions", rows, found, |fields, _, _| read_condition(fields))?;
    let (of_tables, of_views) = (table(SCHEMA_KEYSPACE, "tables"), table(SCHEMA_KEYSPACE, "views"));
    let tables = rows.list("tables").iter().map(|row| (&of_tables, row));
    let views = rows.list("views").iter().map(|row| (&of_views, row));
    for (definition, (owner, row)) in tables.chain(views) {
        let fields = Fields::new(definition, row);
        let name = fields.clustering(0).unwrap_or_default();
        let Some(keyspace) = found.get_mut(owner) else { continue };
        let place = (owner.clone(), name.to_string());
        let is_view = Arc::ptr_eq(definition, &of_views);
        let conditions = conditions.remove(&place).unwrap_or_else(|| Ok(Vec::new()));
        let columns = columns.remove(&place).unwrap_or_else(|| Err("no columns".into()));
        let dropped = dropped.remove(&place).unwrap_or_else(|| Ok(Vec::new()));
        let indexes = indexes.remove(&place).and_then(Result::ok).unwrap_or_default();
        let constraints = constraints.remove(&place).unwrap_or_else(|| Ok(Vec::new()));
        let masks = masks.remove(&place).unwrap_or_else(|| Ok(Vec::new()));
        let built = columns
            .and_then(|columns| Ok((columns, dropped?, constraints?, masks?)))
            .and_then(|parts| build_table(owner, name, &fields, parts))
            .map(|built| with_indexes(built, indexes));
        let built = match built {
            Ok(built) if is_view => conditions
                .and_then(|conditions| read_definition(&fields, conditions))
                .and_then(|view| {
                    let base = keyspace.tables.get(&view.base_name);
                    let base = base.filter(|base| base.id == view.base).ok_or("no base table")?;
                    check_columns(&built, base)?;
                    Ok(with_version(built.rebuild().view(view).build(), built.version))
                }),
            built => built,
        };
        match built {
            Ok(built) => {
                keyspace.tables.insert(name.to_string(), Arc::new(built));
            }
            Err(reason) => {
                let table = UnreadableTable { id: fields.uuid("id").map(TableId), reason };
                keyspace.unreadable.tables.insert(name.to_string(), table);
            }
        }
    }
    found.values_mut().for_each(name_views);
    Ok(())
}

/// Adds to each base table the names of its views.
fn name_views(keyspace: &mut KeyspaceMetadata) {
    let mut views: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for table in keyspace.tables.values() {
        if let Some(view) = &table.view {
            views.entry(view.base_name.clone()).or_default().push(table.name.clone());
        }
    }
    for (base, views) in views {
        if let Some(base) = keyspace.tables.get_mut(&base) {
            let version = base.version;
            *base = Arc::new(with_version(base.rebuild().views(views).build(), version));
        }
    }
}

fn with_version(mut table: TableMetadata, version: u64) -> TableMetadata {
    table.version = version;
    table
}

/// Reads the rows of a schema table whose clusterings begin with the name of a table and that of a
/// column, an index or a condition.
fn by_table<T>(
    schema_table: &'static str,
    rows: &SchemaRows,
    found: &BTreeMap<String, KeyspaceMetadata>,
    read: impl Fn(&Fields<'_>, &str, &KeyspaceMetadata) -> Result<T, String>,
) -> Result<ByTable<T>, SchemaError> {
    let mut all = ByTable::new();
    let definition = table(SCHEMA_KEYSPACE, schema_table);
    for (owner, row) in rows.list(schema_table) {
        let fields = Fields::new(&definition, row);
        let names = fields.clustering(0).zip(fields.clustering(1));
        let (table_name, name) = names.ok_or_else(|| SchemaError {
            table: schema_table,
            row: owner.clone(),
            reason: "no name".into(),
        })?;
        let Some(keyspace) = found.get(owner) else { continue };
        let place = (owner.clone(), table_name.to_string());
        let list = all.entry(place).or_insert_with(|| Ok(Vec::new()));
        match read(&fields, name, keyspace) {
            Ok(read) => {
                if let Ok(list) = list {
                    list.push(read);
                }
            }
            Err(reason) if list.is_ok() => {
                *list = Err(format!("system_schema.{schema_table}: column {name}: {reason}"));
            }
            Err(_) => {}
        }
    }
    Ok(all)
}

fn read_column(
    fields: &Fields<'_>,
    name: &str,
    keyspace: &KeyspaceMetadata,
) -> Result<RawColumn, String> {
    let kind = fields.text("kind").and_then(ColumnKind::from_name);
    Ok(RawColumn {
        name: name.to_string(),
        kind: kind.ok_or("unknown kind")?,
        position: fields.int("position").unwrap_or(-1),
        column_type: parse_type(fields.text("type").ok_or("no type")?, keyspace)?,
        reversed: fields.text("clustering_order") == Some("desc"),
    })
}

fn read_dropped(
    fields: &Fields<'_>,
    name: &str,
    keyspace: &KeyspaceMetadata,
) -> Result<DroppedColumn, String> {
    let kind = fields.text("kind").and_then(ColumnKind::from_name);
    let dropped_time_ms = fields.bigint("dropped_time").unwrap_or(0);
    Ok(DroppedColumn {
        name: name.to_string(),
        column_type: parse_type(fields.text("type").ok_or("no type")?, keyspace)?,
        kind: kind.unwrap_or(ColumnKind::Regular),
        // The table stores milliseconds: as in Cassandra, a start loses the microseconds of a drop.
        dropped_time_us: dropped_time_ms.saturating_mul(1000),
    })
}

/// Reads a secondary index; `None` if this node does not support the index, such as a custom index
/// of several columns or of no column.
fn read_index(
    fields: &Fields<'_>,
    name: &str,
    _: &KeyspaceMetadata,
) -> Result<Option<IndexMetadata>, String> {
    let kind = fields.text("kind").and_then(IndexKind::from_name).ok_or("unknown kind")?;
    let options = fields.map("options").map(text_map).unwrap_or_default();
    Ok(IndexMetadata::from_options(name, kind, options))
}

/// Adds the indexes of columns that the table has.
fn with_indexes(table: TableMetadata, indexes: Vec<Option<IndexMetadata>>) -> TableMetadata {
    let mut indexes: Vec<IndexMetadata> = indexes.into_iter().flatten().collect();
    indexes.retain(|index| index.column_of(&table).is_some());
    if indexes.is_empty() {
        return table;
    }
    let mut builder = table.rebuild();
    builder = builder.indexes(indexes);
    with_version(builder.build(), table.version)
}

fn build_table(
    keyspace: &str,
    name: &str,
    fields: &Fields<'_>,
    (mut columns, dropped, constraints, masks): (
        Vec<RawColumn>,
        Vec<DroppedColumn>,
        Vec<NamedConstraints>,
        Vec<NamedMask>,
    ),
) -> Result<TableMetadata, String> {
    let id = fields.uuid("id").map(TableId).ok_or("no id")?;
    let layout = read_layout(fields)?;
    let mut builder =
        TableBuilder::new(keyspace, name, id).options(read_options(fields)).layout(layout);
    columns.sort_by_key(|column| (column.kind, column.position));
    for column in columns {
        builder = match column.kind {
            ColumnKind::PartitionKey => builder.partition_key(&column.name, column.column_type),
            ColumnKind::Clustering => {
                builder.clustering(&column.name, column.column_type, column.reversed)
            }
            ColumnKind::Static => builder.static_column(&column.name, column.column_type),
            ColumnKind::Regular => builder.regular(&column.name, column.column_type),
        };
    }
    let builder = dropped.into_iter().fold(builder, TableBuilder::dropped);
    let builder = constraints
        .into_iter()
        .fold(builder, |builder, (column, checks)| builder.constrain(&column, checks));
    let builder = masks
        .into_iter()
        .fold(builder, |builder, (column, mask)| builder.mask(&column, Some(mask)));
    let built = builder.build();
    if built.partition_key_columns().is_empty() {
        return Err("no partition key".into());
    }
    Ok(built)
}

/// Reads the layout from the flags.
fn read_layout(fields: &Fields<'_>) -> Result<TableLayout, String> {
    match fields.texts("flags") {
        Some(flags) => TableLayout::from_flags(flags.iter().map(String::as_str)),
        None => Ok(TableLayout::default()),
    }
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
