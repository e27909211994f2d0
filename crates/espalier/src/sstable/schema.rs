//! Names of keyspace, table and key columns: files have types and the names of the other columns, but not these.
//!
//! What is read is always what the file has; a schema only gives names to the columns of its key.

use std::cell::RefCell;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use espalier_cql::offline::{self, ScriptError};
use espalier_mutation::schema::{ColumnDefinition, ColumnKind, Schema, TableMetadata};
use espalier_runtime::file::FileSystem;
use espalier_sstable::statistics::SerializationHeader;
use espalier_sstable::{DataReader, Descriptor, PageCache, SSTableReader, reads_values_of};

use super::{ToolError, arguments::SchemaArguments, output::tell, paths};

/// The keyspace of names that have none and stand in no directory that tells one.
const ANY_KEYSPACE: &str = "ks";

/// Knows the names.
pub struct Names {
    given: Option<Schema>,
    keyspace: Option<String>,
    table: Option<String>,
    /// Schemas beside files that cannot be read, of which each was told once.
    told: RefCell<HashSet<PathBuf>>,
}

impl Names {
    /// Reads the schema that was given, if one was.
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
        Ok(Self { given, keyspace, table, told: RefCell::default() })
    }

    /// Opens an SSTable to be read with the names that are known for it.
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

    /// Opens what is needed of it to read everything, likewise.
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

    /// The table that a file is of, with the names that are known.
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

    /// The file's table with the names of the schema that was given, or that lies beside the files and fits.
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
        // Nobody asked for this one: if it is of no use, names are invented as without it. That of a view has the name of the
        // view's table.
        let schema = match read(file_system, &beside, keyspace.unwrap_or(ANY_KEYSPACE)).await {
            Ok(schema) => schema,
            Err(error) => {
                if self.told.borrow_mut().insert(beside) {
                    tell(format_args!(
                        "{error}: passed over, so names of keys are invented; --schema FILE gives them"
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

/// Whether nobody knows the names of the key's columns: the table has those that were made up for it.
pub fn has_invented_names(table: &TableMetadata, header: &SerializationHeader) -> bool {
    let unnamed = header.to_table(&table.keyspace, &table.name);
    let names = |table: &TableMetadata| {
        let keys = table.partition_key_columns().iter().chain(table.clustering_columns());
        keys.map(|column| column.name.clone()).collect::<Vec<_>>()
    };
    names(table) == names(&unnamed)
}

/// Reads a schema from a file of CQL.
pub async fn read(
    file_system: &FileSystem,
    path: &Path,
    keyspace: &str,
) -> Result<Schema, ToolError> {
    let unusable = |reason: String| ToolError::Path { path: path.to_owned(), reason };
    let bytes = file_system.read(path).await.map_err(|error| unusable(error.source.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| unusable("this is no text".into()))?;
    offline::read_schema(&text, keyspace).map_err(|ScriptError { line, reason }| ToolError::Input {
        path: path.to_owned(),
        line,
        reason,
    })
}

/// The table that is meant: the one that was asked for; or that of this name; or the only one there is, if nobody knows a name.
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
                "the schema has no table {name}, after which the directory is named, but {}: say --table if one of them is meant",
                names()
            ),
            (None, None) => format!("say with --table which of {} is meant", names()),
        })),
    }
}

/// The file's own table, with the key's names of `known`.
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
                "column {} is in the key of {full_name} and none of the key here: this is another table",
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

/// Whether values of the file are what the schema says: of key columns by their places, of the others by their names, where
/// the schema has them. What ALTER may have changed since the file was written is no difference.
fn check_types(
    table: &TableMetadata,
    known: &TableMetadata,
    full_name: &str,
) -> Result<(), String> {
    let reads = |inside: &ColumnDefinition, outside: &ColumnDefinition| {
        // Those of keys are frozen, whatever files say.
        let is_key = matches!(inside.kind, ColumnKind::PartitionKey | ColumnKind::Clustering);
        (is_key || inside.is_complex() == outside.is_complex())
            && reads_values_of(&outside.column_type, &inside.column_type)
    };
    let partition_keys = table.partition_key_columns().iter().zip(known.partition_key_columns());
    let clusterings = table.clustering_columns().iter().zip(known.clustering_columns());
    let others = table.static_columns().iter().chain(table.regular_columns());
    let others = others.filter_map(|column| Some((column, known.column(&column.name)?)));
    // The file may be older than the drop of a column that was added again as another.
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

/// What the directories of a node's data say: `<keyspace>/<table>-<id>/`, perhaps with snapshots below.
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

/// `ks.table` of an SSTable in a directory of a node's data.
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
    fn directories_tell_keyspace_and_table() {
        let id = "5a1c395eb41f11e59f22ba0be0483c18";
        for tail in ["", "/snapshots/now"] {
            let place = Place::of(Path::new(&format!("/data/shop/orders-{id}{tail}")));
            assert_eq!(place.keyspace.as_deref(), Some("shop"));
            assert_eq!(place.table.as_deref(), Some("orders"));
        }
        assert_eq!(Place::of(Path::new("/data/shop/orders")).table, None);
    }
}
