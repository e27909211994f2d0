//! A schema that is written to the schema tables is read back unchanged.

use std::{collections::BTreeMap, sync::Arc};

use espalier_mutation::schema::{
    Annotated, Annotation, ColumnConstraint, ColumnKind, ColumnMask, ConstrainedValue,
    KeyspaceMetadata, MaskArgument, Schema, TableBuilder, TableId, TableMetadata, TableOptions,
};
use espalier_storage::system::{
    SCHEMA_TABLES, SchemaRows, keyspaces, read_schema, schema_mutation, table,
};
use espalier_types::{CqlType, UserType};
use uuid::Uuid;

fn keyspace(name: &str, tables: Vec<TableMetadata>, types: Vec<UserType>) -> KeyspaceMetadata {
    KeyspaceMetadata {
        replication: BTreeMap::from([
            ("class".into(), "SimpleStrategy".into()),
            ("replication_factor".into(), "1".into()),
        ]),
        durable_writes: false,
        tables: tables.into_iter().map(|table| (table.name.clone(), Arc::new(table))).collect(),
        types: types
            .into_iter()
            .map(|definition| (definition.name.clone(), Arc::new(definition)))
            .collect(),
        ..KeyspaceMetadata::new(name)
    }
}

fn schema(keyspaces: Vec<KeyspaceMetadata>) -> Schema {
    let keyspaces =
        keyspaces.into_iter().map(|keyspace| (keyspace.name.clone(), Arc::new(keyspace))).collect();
    Schema::new(keyspaces, Uuid::nil())
}

fn mask(function: &str, arguments: &[(CqlType, Option<&'static [u8]>)]) -> ColumnMask {
    let argument = |(argument_type, value): &(CqlType, Option<&'static [u8]>)| MaskArgument {
        argument_type: argument_type.clone(),
        value: value.map(bytes::Bytes::from_static),
    };
    let arguments = arguments.iter().map(argument).collect();
    ColumnMask { keyspace: "system".into(), function: function.into(), arguments }
}

/// Returns the rows that a mutation leaves in an empty store.
fn rows_of(mutation: &espalier_mutation::Mutation) -> SchemaRows {
    let mut rows = SchemaRows::default();
    for update in &mutation.updates {
        let name = SCHEMA_TABLES
            .iter()
            .find(|name| table("system_schema", name).id == update.table)
            .unwrap();
        let keyspace = String::from_utf8(update.key.key.to_vec()).unwrap();
        let list = rows.list_mut(name).unwrap();
        list.extend(update.rows.iter().cloned().map(|row| (keyspace.clone(), row)));
    }
    rows
}

#[test]
fn round_trip() {
    let inner = UserType {
        keyspace: "ks".into(),
        name: "inner".into(),
        fields: vec![("x".into(), CqlType::Int), ("y".into(), CqlType::Text)],
    };
    let inner_type = CqlType::UserDefined { definition: Arc::new(inner.clone()), frozen: true };
    // "a" sorts before "inner", which it uses: reading must not depend on the order.
    let outer = UserType {
        keyspace: "ks".into(),
        name: "a".into(),
        fields: vec![("i".into(), inner_type.clone())],
    };
    let outer_type = CqlType::UserDefined { definition: Arc::new(outer.clone()), frozen: false };
    let options = TableOptions {
        comment: "it's a test".into(),
        default_time_to_live: 77,
        compression: BTreeMap::from([("enabled".into(), "false".into())]),
        extensions: BTreeMap::from([("e".into(), vec![0, 255])]),
        ..TableOptions::default()
    };
    let length = ColumnConstraint::Relation {
        left: ConstrainedValue::Length,
        operator: "<=".into(),
        right: "5".into(),
    };
    let checks = vec![ColumnConstraint::NotNull, length, ColumnConstraint::Json];
    let first = TableBuilder::new("ks", "Mixed", TableId(Uuid::from_u128(7)))
        .partition_key("k2", CqlType::Int)
        .partition_key("k1", CqlType::Text)
        .clustering("c", CqlType::Timeuuid, true)
        .static_column("s", CqlType::Vector { element: Arc::new(CqlType::Float), dimension: 3 })
        .regular("u", outer_type.clone())
        .regular(
            "m",
            CqlType::Map {
                key: Arc::new(CqlType::Int),
                value: Arc::new(inner_type),
                frozen: false,
            },
        )
        .regular("t", CqlType::Text)
        .options(options)
        .constrain("t", checks)
        .mask("c", Some(mask("mask_null", &[])))
        .mask(
            "t",
            Some(mask("mask_inner", &[(CqlType::Int, Some(&[0, 0, 0, 1])), (CqlType::Int, None)])),
        )
        .mask("u", Some(mask("mask_replace", &[(outer_type.clone(), Some(&[255; 4]))])))
        .build();
    let mut keyspace = keyspace("ks", vec![first], vec![inner, outer]);
    let annotation = Annotation { comment: "it's".into(), security_label: "secret".into() };
    let annotated = [
        Annotated::Keyspace,
        Annotated::Table("Mixed".into()),
        Annotated::Column("Mixed".into(), "t".into()),
        Annotated::Type("a".into()),
        Annotated::Field("a".into(), "i".into()),
    ];
    keyspace.annotations =
        annotated.into_iter().map(|object| (object, annotation.clone())).collect();
    let empty = schema(vec![]);
    let made = schema(vec![keyspace]);
    let read = read_schema(&rows_of(&schema_mutation(&empty, &made, 10, 1)), Uuid::nil()).unwrap();
    let (expected, found) = (made.keyspace("ks").unwrap(), read.keyspace("ks").unwrap());
    assert_eq!(expected.types, found.types);
    assert_eq!(expected.annotations, found.annotations);
    assert_eq!(found.annotations.len(), 5);
    assert_eq!(
        (&expected.replication, expected.durable_writes),
        (&found.replication, found.durable_writes)
    );
    let (expected, found) = (&expected.tables["Mixed"], &found.tables["Mixed"]);
    assert_eq!((expected.id, &expected.options), (found.id, &found.options));
    let shape = |table: &TableMetadata| -> Vec<_> {
        let columns = table.columns().iter();
        columns
            .map(|c| (c.name.clone(), c.kind, c.position, c.column_type.clone(), c.reversed))
            .collect()
    };
    assert_eq!(shape(expected), shape(found));
    let constraints = |table: &TableMetadata| -> Vec<_> {
        table.columns().iter().map(|column| table.constraints_of(column).to_vec()).collect()
    };
    assert_eq!(constraints(expected), constraints(found));
    assert_eq!(constraints(found).iter().flatten().count(), 3);
    // System keyspaces are always there, even without their rows.
    assert!(keyspaces().iter().all(|system| read.keyspace(&system.name).is_some()));
}

#[test]
fn an_unchanged_schema_writes_nothing() {
    let made = schema(keyspaces());
    assert!(schema_mutation(&made, &made, 10, 1).updates.is_empty());
}

#[test]
fn a_dropped_column_of_a_user_type_outlives_it() {
    let point = UserType {
        keyspace: "ks".into(),
        name: "point".into(),
        fields: vec![("x".into(), CqlType::Int)],
    };
    let point_type = CqlType::UserDefined { definition: Arc::new(point.clone()), frozen: true };
    let with_column = TableBuilder::new("ks", "t", TableId(Uuid::from_u128(7)))
        .partition_key("k", CqlType::Int)
        .regular("p", point_type)
        .build();
    let dropped = with_column.rebuild().drop_column("p", 5_000_000).build();
    let made = schema(vec![keyspace("ks", vec![dropped], vec![])]);
    let read = read_schema(&rows_of(&schema_mutation(&schema(vec![]), &made, 10, 1)), Uuid::nil())
        .unwrap();
    let found = &read.table("ks", "t").unwrap().dropped_columns["p"];
    assert_eq!(found.column_type, CqlType::Tuple([CqlType::Int].into()));
    assert!(found.dropped_time_us >= 5_000_000);
}

/// The schema tables keep a drop's time in ms, rounded toward zero as in Cassandra.
#[test]
fn the_time_of_a_drop_is_rounded_toward_zero() {
    for (dropped_us, read_us) in [(-1, 0), (-1_500, -1_000), (1_999, 1_000), (0, 0)] {
        let table = TableBuilder::new("ks", "t", TableId(Uuid::from_u128(7)))
            .partition_key("k", CqlType::Int)
            .regular("v", CqlType::Int)
            .build();
        let dropped = table.rebuild().drop_column("v", dropped_us).build();
        let made = schema(vec![keyspace("ks", vec![dropped], vec![])]);
        let rows = rows_of(&schema_mutation(&schema(vec![]), &made, 10, 1));
        let read = read_schema(&rows, Uuid::nil()).unwrap();
        let found = &read.table("ks", "t").unwrap().dropped_columns["v"];
        assert_eq!(found.dropped_time_us, read_us, "{dropped_us}");
    }
}

/// The schema leaves out tables and user types with invalid rows, and tables that use such a type.
/// It lists them by name.
#[test]
fn an_unreadable_table_leaves_the_others() {
    let table_of = |name: &str, id: u128, column_type: CqlType| {
        TableBuilder::new("ks", name, TableId(Uuid::from_u128(id)))
            .partition_key("k", CqlType::Int)
            .regular("v", column_type)
            .build()
    };
    let deep = (0..200)
        .fold(CqlType::Int, |inner, _| CqlType::List { element: Arc::new(inner), frozen: true });
    let fields = vec![("f".to_owned(), deep.clone())];
    let user_type = UserType { keyspace: "ks".into(), name: "u".into(), fields };
    let used = CqlType::UserDefined { definition: Arc::new(user_type.clone()), frozen: true };
    let tables = vec![
        table_of("good", 1, CqlType::Int),
        table_of("deep", 2, deep),
        table_of("user", 3, used),
        table_of("empty", 4, CqlType::Int),
    ];
    let made = schema(vec![keyspace("ks", tables, vec![user_type])]);
    let mut rows = rows_of(&schema_mutation(&schema(vec![]), &made, 10, 1));
    let columns = rows.list_mut("columns").unwrap();
    columns.retain(|(_, row)| row.clustering.values[0].as_deref() != Some(&b"empty"[..]));
    let read = read_schema(&rows, Uuid::nil()).unwrap();
    let found = read.keyspace("ks").unwrap();
    assert_eq!(found.tables.keys().collect::<Vec<_>>(), ["good"]);
    let unreadable = &found.unreadable;
    assert!(unreadable.types["u"].contains("nested deeper than"), "{unreadable:?}");
    let reasons = [("deep", "column v: type"), ("user", "unknown type"), ("empty", "no columns")];
    for (name, reason) in reasons {
        let table = &unreadable.tables[name];
        assert!(table.reason.contains(reason), "{name}: {}", table.reason);
        assert!(read.is_unreadable(table.id.unwrap()));
    }
    // Other statements keep the rows of unreadable tables; a DROP removes them.
    let mut without = (**found).clone();
    without.tables.clear();
    let changed = schema_mutation(&read, &schema(vec![without.clone()]), 20, 1);
    let touches = |mutation: &espalier_mutation::Mutation, name: &str| {
        let tombstones = mutation.updates.iter().flat_map(|update| &update.range_tombstones);
        let named = tombstones.filter(|t| t.start.values[0].as_deref() == Some(name.as_bytes()));
        named.count()
    };
    assert_eq!(["good", "deep", "u"].map(|name| touches(&changed, name)), [8, 0, 0]);
    without.unreadable = Default::default();
    let changed = schema_mutation(&read, &schema(vec![without]), 20, 1);
    assert_eq!(["good", "deep", "u"].map(|name| touches(&changed, name)), [8, 8, 1]);
}

/// Returns a table's columns in the format of `testdata/cql/system_tables.txt`.
fn describe(table: &TableMetadata) -> Vec<String> {
    let part = |kind| match kind {
        ColumnKind::PartitionKey => 'p',
        ColumnKind::Clustering => 'c',
        ColumnKind::Static => 's',
        ColumnKind::Regular => 'r',
    };
    let columns = table.columns().iter();
    let mut columns: Vec<String> = columns
        .map(|column| {
            format!("{} {} {}", column.name, column.column_type.cql_name(), part(column.kind))
        })
        .collect();
    let keys = table.partition_key_columns().len() + table.clustering_columns().len();
    columns[keys..].sort();
    columns
}

/// The node has every stored system table of Cassandra with its columns. Virtual tables with a name
/// of Cassandra have its columns too.
#[test]
fn system_tables_are_those_of_cassandra() {
    let ours = keyspaces();
    let mut compared = 0;
    for line in include_str!("../../../../testdata/cql/system_tables.txt").lines() {
        let Some((name, columns)) = line.split_once(": ").filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let (keyspace, table) = name.split_once('.').unwrap();
        let found = ours.iter().find(|other| other.name == keyspace).unwrap().tables.get(table);
        let Some(found) = found else {
            assert_eq!(keyspace, "system_views", "{name} is missing");
            continue;
        };
        assert_eq!(describe(found).join(", "), columns, "{name}");
        compared += 1;
    }
    assert_eq!(compared, 58);
}
