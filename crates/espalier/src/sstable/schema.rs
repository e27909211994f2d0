//! Finds the names of an SSTable's keyspace, table and key columns, which the files do not store.
//! The files store the types of all columns, and the names of the other columns.
//!
//! The columns are always those of the file; a schema only gives names to the columns of the key.

use std::cell::RefCell;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use espalier_cql::offline::{self, ScriptError};
use espalier_mutation::schema::{ColumnDefinition, ColumnKind, Schema, TableMetadata};
use espalier_runtime::file::FileSystem;
use espalier_sstable::statistics::SerializationHeader;
use espalier_sstable::{DataReader, Descriptor, PageCache, SSTableReader, reads_values_of};

use super::{ToolError, arguments::SchemaArguments, output::report, paths};

/// The keyspace of a schema's names without a keyspace, if neither `--keyspace` nor a directory
/// names one.
const ANY_KEYSPACE: &str = "ks";

/// Finds the names of an SSTable's keyspace, table and key columns.
pub struct Names {
    given: Option<Schema>,
    keyspace: Option<String>,
    table: Option<String>,
    /// Paths of the unreadable schema.cql files that were reported already.
    reported: RefCell<HashSet<PathBuf>>,
}

impl Names {
    /// Reads the schema of `--schema`, if it was given.
    ///
    /// # Errors
    /// Fails if the schema cannot be read or parsed.
    pub async fn load(
        file_system: &FileSystem,
        arguments: &SchemaArguments,
    ) -> Result<Self, ToolError> {
        let given = match &arguments.schema {
            Some(path) => {
                let keyspace = arguments.keyspace.as_deref().unwrap_or(ANY_KEYSPACE);
                Some(read(file_system, path, keyspace).await?)
            }
            None => None,
        };
        let (keyspace, table) = (arguments.keyspace.clone(), arguments.table.clone());
        Ok(Self { given, keyspace, table, reported: RefCell::default() })
    }

    /// Opens an SSTable with the names that are known for it.
    ///
    /// # Errors
    /// Fails if the SSTable cannot be opened, or if the schema of `--schema` does not fit it.
    pub async fn open(
        &self,
        file_system: &FileSystem,
        descriptor: &Descriptor,
        cache: &PageCache,
    ) -> Result<SSTableReader, ToolError> {
        let reader = paths::open(file_system, descriptor, cache).await?;
        let header = &reader.statistics().header;
        reader.set_table(self.table_of(file_system, descriptor, header).await?)?;
        Ok(reader)
    }

    /// Opens the components that a full read needs, with the names that are known.
    ///
    /// # Errors
    /// Fails if the SSTable cannot be opened, or if the schema of `--schema` does not fit it.
    pub async fn open_data(
        &self,
        file_system: &FileSystem,
        descriptor: &Descriptor,
        cache: &PageCache,
    ) -> Result<DataReader, ToolError> {
        let mut reader = DataReader::open(file_system, descriptor.clone(), cache).await?;
        let header = &reader.statistics().header;
        let table = self.table_of(file_system, descriptor, header).await?;
        reader.set_table(table)?;
        Ok(reader)
    }

    /// Returns the table of an SSTable, with the names that are known.
    ///
    /// # Errors
    /// Fails if the schema of `--schema` does not fit the SSTable.
    pub async fn table_of(
        &self,
        file_system: &FileSystem,
        descriptor: &Descriptor,
        header: &SerializationHeader,
    ) -> Result<Arc<TableMetadata>, ToolError> {
        let place = Place::of(&descriptor.directory);
        Ok(match self.find(file_system, descriptor, &place, header).await? {
            Some(named) => named,
            None => header.to_table(
                self.keyspace.as_deref().or(place.keyspace.as_deref()).unwrap_or_default(),
                self.table.as_deref().or(place.table.as_deref()).unwrap_or("sstable"),
            ),
        })
    }

    /// Returns the file's table with the names of a schema: that of `--schema`, else schema.cql
    /// beside the files if it fits.
    async fn find(
        &self,
        file_system: &FileSystem,
        descriptor: &Descriptor,
        place: &Place,
        header: &SerializationHeader,
    ) -> Result<Option<Arc<TableMetadata>>, ToolError> {
        let keyspace = self.keyspace.as_deref().or(place.keyspace.as_deref());
        if let Some(schema) = &self.given {
            let (asked, name) = (self.table.as_deref(), place.table.as_deref());
            let known = choose(schema, self.keyspace.as_deref(), asked, name)?;
            let path = descriptor.directory.join(descriptor.to_string());
            let named = named(header, &known);
            return named.map(Some).map_err(|reason| ToolError::Path { path, reason });
        }
        let beside = descriptor.directory.join("schema.cql");
        if !file_system.exists(&beside).await.unwrap_or(false) {
            return Ok(None);
        }
        // An error in this schema only means invented names, because the user did not ask for the
        // schema. Beside a view's files, it may describe the view's base table and not fit the
        // files.
        let schema = match read(file_system, &beside, keyspace.unwrap_or(ANY_KEYSPACE)).await {
            Ok(schema) => schema,
            Err(error) => {
                if self.reported.borrow_mut().insert(beside) {
                    report(format_args!(
                        "{error}; ignoring this schema, so names of key columns are invented; --schema FILE gives them"
                    ));
                }
                return Ok(None);
            }
        };
        let name = self.table.as_deref().or(place.table.as_deref());
        let known = choose(&schema, None, None, name).ok();
        Ok(known.and_then(|known| named(header, &known).ok()))
    }
}

/// Returns whether the names of the key's columns are unknown, so that the table has invented ones.
pub fn has_invented_names(table: &TableMetadata, header: &SerializationHeader) -> bool {
    let unnamed = header.to_table(&table.keyspace, &table.name);
    let names = |table: &TableMetadata| {
        let keys = table.partition_key_columns().iter().chain(table.clustering_columns());
        keys.map(|column| column.name.clone()).collect::<Vec<_>>()
    };
    names(table) == names(&unnamed)
}

/// Reads a schema from a file of CQL statements.
///
/// # Errors
/// Fails if the file cannot be read, is not UTF-8, or has a statement that cannot be used.
pub async fn read(
    file_system: &FileSystem,
    path: &Path,
    keyspace: &str,
) -> Result<Schema, ToolError> {
    let unusable = |reason: String| ToolError::Path { path: path.to_owned(), reason };
    let bytes = file_system.read(path).await.map_err(|error| unusable(error.source.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| unusable("it is not UTF-8 text".into()))?;
    offline::read_schema(&text, keyspace).map_err(|ScriptError { line, reason }| ToolError::Input {
        path: path.to_owned(),
        line,
        reason,
    })
}

/// Chooses a table of the schema: the table `asked` for, else the table `name`. Without both, it
/// chooses the only table.
///
/// # Errors
/// Fails if the schema has no such table, or has several tables and there is no name.
pub fn choose(
    schema: &Schema,
    keyspace: Option<&str>,
    asked: Option<&str>,
    name: Option<&str>,
) -> Result<Arc<TableMetadata>, ToolError> {
    let name = asked.or(name);
    let in_keyspace = |table: &&Arc<TableMetadata>| keyspace.is_none_or(|k| table.keyspace == k);
    let tables: Vec<_> = schema.tables().filter(in_keyspace).collect();
    let of_name = tables.iter().find(|table| name == Some(table.name.as_str()));
    let names = || {
        let names: Vec<_> = tables.iter().map(|t| format!("{}.{}", t.keyspace, t.name)).collect();
        names.join(", ")
    };
    match (of_name, tables.as_slice()) {
        (Some(table), _) => Ok((*table).clone()),
        (None, []) => Err(ToolError::Schema("the schema has no CREATE TABLE".into())),
        (None, [only]) if name.is_none() => Ok((*only).clone()),
        (None, _) => Err(ToolError::Schema(match (asked, name) {
            (Some(asked), _) => format!("the schema has no table {asked}, but {}", names()),
            (None, Some(name)) => format!(
                "the schema has no table {name} (the directory's table), but {}; give --table to use one of them",
                names()
            ),
            (None, None) => {
                format!("the schema has several tables; give --table to choose one of {}", names())
            }
        })),
    }
}

/// Returns the file's own table, with the key column names of `known`.
fn named(
    header: &SerializationHeader,
    known: &TableMetadata,
) -> Result<Arc<TableMetadata>, String> {
    let table = header.to_table(&known.keyspace, &known.name);
    let full_name = format!("{}.{}", known.keyspace, known.name);
    let counts = [
        ("partition key", table.partition_key_columns().len(), known.partition_key_columns().len()),
        ("clustering", table.clustering_columns().len(), known.clustering_columns().len()),
    ];
    for (what, inside, outside) in counts {
        if inside != outside {
            return Err(format!(
                "it has {inside} {what} columns, and {full_name} of the schema has {outside}: this is another table"
            ));
        }
    }
    let keys = known.partition_key_columns().iter().chain(known.clustering_columns());
    for column in keys {
        let others = table.static_columns().iter().chain(table.regular_columns());
        if others.into_iter().any(|other| other.name == column.name) {
            return Err(format!(
                "column {} is in the key of {full_name}, but not in the key here: this is another table",
                column.name
            ));
        }
    }
    check_types(&table, known, &full_name)?;
    let name_of = |kind, position| {
        let columns = match kind {
            ColumnKind::PartitionKey => known.partition_key_columns(),
            ColumnKind::Clustering => known.clustering_columns(),
            _ => &[],
        };
        columns.get::<usize>(position).map(|column| column.name.clone())
    };
    let builder = table.rebuild().update_columns(|column| {
        if let Some(name) = name_of(column.kind, column.position) {
            column.name = name;
        }
    });
    Ok(Arc::new(builder.build()))
}

/// Checks that values of the file have the types of the schema. Key columns are compared by
/// position, other columns by name if the schema has the name. Types that ALTER may have changed
/// since the file was written are accepted.
fn check_types(
    table: &TableMetadata,
    known: &TableMetadata,
    full_name: &str,
) -> Result<(), String> {
    let reads = |inside: &ColumnDefinition, outside: &ColumnDefinition| {
        // Key columns are frozen, whatever the file says.
        let is_key = matches!(inside.kind, ColumnKind::PartitionKey | ColumnKind::Clustering);
        (is_key || inside.is_complex() == outside.is_complex())
            && reads_values_of(&outside.column_type, &inside.column_type)
    };
    let partition_keys = table.partition_key_columns().iter().zip(known.partition_key_columns());
    let clusterings = table.clustering_columns().iter().zip(known.clustering_columns());
    let others = table.static_columns().iter().chain(table.regular_columns());
    let others = others.filter_map(|column| Some((column, known.column(&column.name)?)));
    // A column may have been dropped and added again with another type after the file was written.
    let others = others.filter(|(column, _)| !known.dropped_columns.contains_key(&column.name));
    let mut all = partition_keys.chain(clusterings).chain(others);
    match all.find(|(inside, outside)| !reads(inside, outside)) {
        None => Ok(()),
        Some((inside, outside)) => Err(format!(
            "column {} is {} in {full_name} of the schema, and {} here: this is another table",
            outside.name,
            outside.column_type.cql_name(),
            inside.column_type.cql_name()
        )),
    }
}

/// The names in a path of a node's data, `<keyspace>/<table>-<id>/`, perhaps with snapshots below.
struct Place {
    keyspace: Option<String>,
    table: Option<String>,
}

impl Place {
    fn of(directory: &Path) -> Self {
        let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
        for ancestor in directory.ancestors() {
            if let Some(table) = paths::table_name(ancestor) {
                let keyspace = ancestor.parent().and_then(name);
                return Self { keyspace, table: Some(table.to_owned()) };
            }
        }
        Self { keyspace: None, table: None }
    }
}

/// Returns `ks.table`, or `None` if the keyspace is unknown.
pub fn full_name(table: &TableMetadata) -> Option<String> {
    match table.keyspace.as_str() {
        "" => None,
        keyspace => Some(format!("{keyspace}.{}", table.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_names_give_keyspace_and_table() {
        let id = "5a1c395eb41f11e59f22ba0be0483c18";
        for tail in ["", "/snapshots/now"] {
            let place = Place::of(Path::new(&format!("/data/shop/orders-{id}{tail}")));
            assert_eq!(place.keyspace.as_deref(), Some("shop"));
            assert_eq!(place.table.as_deref(), Some("orders"));
        }
        assert_eq!(Place::of(Path::new("/data/shop/orders")).table, None);
    }
}
