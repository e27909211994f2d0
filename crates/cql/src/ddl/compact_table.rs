//! Checks `WITH COMPACT STORAGE`, and adds the columns that it implies. The texts and the order of
//! the checks are Cassandra's.

use espalier_mutation::schema::{ColumnKind, TableBuilder, TableLayout, TableMetadata};
use espalier_types::CqlType;

use super::Context;
use crate::{Error, Result};

/// A column outside of the primary key.
pub struct OtherColumn<'s> {
    /// Its name.
    pub name: &'s str,
    /// Its type.
    pub column_type: CqlType,
    /// True if it is declared `static`.
    pub is_static: bool,
}

/// Checks the columns of a compact table and adds them to its key columns.
///
/// # Errors
/// Returns a text if a column is multi-cell or static, if a table with clustering columns has
/// several other columns, or if a table without clustering columns has no other column. A Thrift
/// column family could not store such a table.
pub fn add_columns(
    mut builder: TableBuilder,
    clustering_columns: usize,
    mut others: Vec<OtherColumn<'_>>,
) -> std::result::Result<TableBuilder, String> {
    if others.iter().any(|column| column.column_type.is_multi_cell()) {
        return Err("Non-frozen collections and UDTs are not supported with COMPACT STORAGE".into());
    }
    if others.iter().any(|column| column.is_static) {
        return Err("Static columns are not supported in COMPACT STORAGE tables".into());
    }
    let layout = TableLayout::compact(clustering_columns);
    let is_static = layout == TableLayout::StaticCompact;
    if is_static && others.is_empty() {
        return Err("No definition found that is not part of the PRIMARY KEY".into());
    }
    if !is_static && others.len() > 1 {
        others.sort_by_key(|column| column.name);
        let names: Vec<_> = others.iter().map(|column| column.name).collect();
        return Err(format!(
            "COMPACT STORAGE with composite PRIMARY KEY allows no more than one column not part of the PRIMARY KEY (got: {})",
            names.join(", ")
        ));
    }
    let has_counters = others.iter().any(|column| column.column_type.is_counter());
    let is_empty = others.is_empty();
    for column in others {
        builder = if is_static {
            builder.static_column(column.name, column.column_type)
        } else {
            builder.regular(column.name, column.column_type)
        };
    }
    builder = builder.layout(layout);
    let value = unused_name(&builder, "value", "value");
    Ok(if is_static {
        let column = unused_name(&builder, "column1", "column");
        let value_type = if has_counters { CqlType::Counter } else { CqlType::Blob };
        builder.clustering(&column, CqlType::Text, false).regular(&value, value_type)
    } else if is_empty {
        builder.regular(&value, CqlType::Empty)
    } else {
        builder
    })
}

/// Returns the first name for a hidden column that no other column has: `first`, then `stem` with
/// a number.
fn unused_name(builder: &TableBuilder, first: &str, stem: &str) -> String {
    let mut names = (1..).map(|number| format!("{stem}{number}"));
    let mut name = first.to_string();
    while builder.has_column(&name) {
        name = names.next().unwrap_or_default();
    }
    name
}

/// Refuses to drop the value column of a compact table.
///
/// # Errors
/// The column is the only regular column of a compact table. Cassandra fails with an internal error
/// here.
pub fn check_drop(table: &TableMetadata, name: &str) -> Result<()> {
    let is_value = table.column(name).is_some_and(|column| column.kind == ColumnKind::Regular);
    if table.is_compact() && is_value {
        return Err(Error::invalid(format!(
            "Cannot drop column {name}: a COMPACT STORAGE table needs its value column"
        )));
    }
    Ok(())
}

/// Returns the table as DROP COMPACT STORAGE leaves it: the hidden columns become visible.
///
/// # Errors
/// The node's settings do not allow the statement, or the table is not compact.
pub fn drop_compact_storage(context: &Context<'_>, table: &TableMetadata) -> Result<TableMetadata> {
    if context.node.is_some_and(|node| !node.features.drop_compact_storage_enabled) {
        return Err(Error::invalid(
            "DROP COMPACT STORAGE is disabled. Enable in cassandra.yaml to use. \
             (drop_compact_storage_enabled: true)",
        ));
    }
    if !table.is_compact() {
        return Err(Error::invalid("Cannot DROP COMPACT STORAGE on table without COMPACT STORAGE"));
    }
    Ok(table.rebuild().layout(TableLayout::Cql).build())
}

#[cfg(test)]
mod tests {
    use espalier_mutation::schema::Schema;
    use espalier_storage::StorageConfiguration;

    use super::super::{NodeSettings, apply};

    fn after(statements: &[&str], settings: &NodeSettings) -> Result<Schema, String> {
        let mut schema = Schema::new(Default::default(), uuid::Uuid::nil());
        for text in statements {
            let outcome = apply(text, Some("ks"), &schema, Some(settings));
            if let Some((changed, _)) = outcome.map_err(|error| error.message)? {
                schema = changed;
            }
        }
        Ok(schema)
    }

    const KEYSPACE: &str = "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

    #[test]
    fn a_setting_allows_drop_compact_storage() {
        let mut configuration = StorageConfiguration::new("node");
        let statements = [
            KEYSPACE,
            "CREATE TABLE t (k int PRIMARY KEY, v int) WITH COMPACT STORAGE",
            "ALTER TABLE t DROP COMPACT STORAGE",
        ];
        let reason = after(&statements, &NodeSettings::of(&configuration)).unwrap_err();
        let text = "DROP COMPACT STORAGE is disabled. Enable in cassandra.yaml to use.";
        assert!(reason.starts_with(text), "{reason}");
        configuration.schema_features.drop_compact_storage_enabled = true;
        let schema = after(&statements, &NodeSettings::of(&configuration)).unwrap();
        let table = schema.table("ks", "t").unwrap();
        let names: Vec<_> = table.visible_columns().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["k", "column1", "v", "value"]);
    }

    #[test]
    fn a_compact_table_keeps_its_value_column() {
        let settings = NodeSettings::of(&StorageConfiguration::new("node"));
        for (columns, name) in [
            ("k int PRIMARY KEY, v int", "value"),
            ("k int, c int, v int, PRIMARY KEY (k, c)", "v"),
            ("k int, c int, PRIMARY KEY (k, c)", "value"),
        ] {
            let create = format!("CREATE TABLE t ({columns}) WITH COMPACT STORAGE");
            let drop = format!("ALTER TABLE t DROP {name}");
            let reason = after(&[KEYSPACE, &create, &drop], &settings).unwrap_err();
            assert!(reason.contains("needs its value column"), "{columns}: {reason}");
        }
    }
}
