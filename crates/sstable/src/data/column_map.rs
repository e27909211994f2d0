//! Maps the columns of a file to the columns of the table's current schema, by name. Format:
//! docs/formats/data.md.
//!
//! * A column that the table has dropped is parsed and discarded. A column that the table never had
//!   is an error, because no statement has dropped its data.
//! * A column that was dropped and added again keeps cells that are newer than the drop.
//! * Types may differ as far as Cassandra's ALTER statements allow. The file's type decides where a
//!   value ends; the value itself is kept as bytes.
//! * In files of some compact tables, the columns of the static row are the table's regular columns
//!   ([`FileLayout::is_static_compact`]).

use std::sync::Arc;

pub(crate) use espalier_mutation::encoding::column::EncodedColumn as FileColumn;
use espalier_mutation::schema::{ColumnDefinition, ColumnId, ColumnKind, TableMetadata};
use espalier_types::CqlType;

use super::{
    compatible_types::{reads_values_of, sorts_as},
    layout::Baselines,
    ranking::Ranking,
    values::ValueForm,
};
use crate::{
    error::{FileName, Result, SSTableError},
    statistics::{HeaderColumn, SerializationHeader},
    versions::{DeletionTimeForm, VersionFeatures},
};

/// The columns that a reader wants.
///
/// The reader returns cells of other columns with empty values, because a row may exist only by
/// such a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ColumnSelection {
    /// All columns.
    #[default]
    All,
    /// These columns, in any order.
    Only(Arc<[ColumnId]>),
}

impl ColumnSelection {
    /// Returns whether the column is wanted.
    pub fn contains(&self, id: ColumnId) -> bool {
        match self {
            Self::All => true,
            Self::Only(ids) => ids.contains(&id),
        }
    }
}

/// All that is needed to decode the rows of a file.
#[derive(Clone, Debug)]
pub(crate) struct FileLayout {
    pub(crate) table: Arc<TableMetadata>,
    pub(crate) baselines: Baselines,
    pub(crate) deletion_time: DeletionTimeForm,
    pub(crate) clustering: Vec<ValueForm>,
    pub(crate) ranking: Ranking,
    pub(crate) statics: Vec<FileColumn>,
    pub(crate) regulars: Vec<FileColumn>,
    /// True if the static row is the only row of the partition.
    pub(crate) is_static_compact: bool,
}

impl FileLayout {
    /// Maps the columns in the header of a file to a table. `file` is Statistics.db.
    pub(crate) fn new(
        file: &FileName,
        header: &SerializationHeader,
        table: Arc<TableMetadata>,
        features: &VersionFeatures,
    ) -> Result<Self> {
        check_key(file, header, &table)?;
        let is_static_compact = is_static_compact(header, &table);
        if !is_static_compact {
            check_clustering(file, header, &table)?;
        }
        let map = |columns: &[HeaderColumn], kind: ColumnKind| {
            columns
                .iter()
                .map(|column| map_column(file, column, kind, &table))
                .collect::<Result<Vec<_>>>()
        };
        Ok(Self {
            baselines: Baselines::new(
                header.min_timestamp,
                header.min_local_deletion_time,
                header.min_ttl,
                features.local_deletion_times,
            ),
            deletion_time: features.deletion_time,
            clustering: header
                .clustering_types
                .iter()
                .map(|(column_type, _)| ValueForm::of(column_type))
                .collect(),
            ranking: Ranking::of(table.comparator()),
            statics: if is_static_compact {
                map(&header.static_columns, ColumnKind::Regular)?
            } else {
                map(&header.static_columns, ColumnKind::Static)?
            },
            regulars: map(&header.regular_columns, ColumnKind::Regular)?,
            is_static_compact,
            table: table.clone(),
        })
    }
}

/// Returns whether the file holds the rows of a compact table as static rows.
///
/// In the file of a compact table without clustering columns, Cassandra stores the columns as
/// static ones. It also adds a clustering column, which only Thrift clients ever filled. The header
/// of the file shows both facts. The reader then returns the static rows as rows.
fn is_static_compact(header: &SerializationHeader, table: &TableMetadata) -> bool {
    let is_regular = |column: &HeaderColumn| {
        table.column(&column.name).is_some_and(|column| column.kind == ColumnKind::Regular)
    };
    header.clustering_types.len() == 1
        && table.clustering_columns().is_empty()
        && table.static_columns().is_empty()
        && header.static_columns.iter().any(is_regular)
        && header.regular_columns.is_empty()
}

/// Checks the types of the partition key's columns.
fn check_key(file: &FileName, header: &SerializationHeader, table: &TableMetadata) -> Result<()> {
    let columns = table.partition_key_columns();
    let written = match (&header.key_type, columns.len()) {
        (single, 1) => std::slice::from_ref(single),
        (CqlType::Composite(types), _) => types,
        (single, _) => std::slice::from_ref(single),
    };
    if written.len() != columns.len() {
        let reason = format!(
            "{} partition key columns where table {}.{} has {}",
            written.len(),
            table.keyspace,
            table.name,
            columns.len()
        );
        return Err(SSTableError::other_table(file, reason));
    }
    match columns.iter().zip(written).find(|(c, ty)| !reads_values_of(&c.column_type, ty)) {
        Some((column, ty)) => Err(other_type(file, &column.name, table, &column.column_type, ty)),
        None => Ok(()),
    }
}

/// Checks order and types of the clustering columns. The file must order rows as the table does, or
/// a look-up by position would miss rows.
fn check_clustering(
    file: &FileName,
    header: &SerializationHeader,
    table: &TableMetadata,
) -> Result<()> {
    let columns = table.clustering_columns();
    let found = header.clustering_types.len();
    if found != columns.len() {
        let reason = format!(
            "{found} clustering columns where table {}.{} has {}",
            table.keyspace,
            table.name,
            columns.len()
        );
        return Err(SSTableError::other_table(file, reason));
    }
    for (index, ((written, reversed), column)) in
        header.clustering_types.iter().zip(columns).enumerate()
    {
        if *reversed != column.reversed {
            let reason = format!(
                "clustering column {index} has another direction than in table {}.{}",
                table.keyspace, table.name
            );
            return Err(SSTableError::other_table(file, reason));
        }
        if !sorts_as(&column.column_type, written) {
            return Err(other_type(file, &column.name, table, &column.column_type, written));
        }
    }
    Ok(())
}

fn other_type(
    file: &FileName,
    column: &str,
    table: &TableMetadata,
    expected: &CqlType,
    found: &CqlType,
) -> SSTableError {
    let reason = format!(
        "column '{column}' is not that of table {}.{}: expected {}, got {}",
        table.keyspace,
        table.name,
        expected.cql_name(),
        found.cql_name()
    );
    SSTableError::other_table(file, reason)
}

fn map_column(
    file: &FileName,
    column: &HeaderColumn,
    kind: ColumnKind,
    table: &TableMetadata,
) -> Result<FileColumn> {
    let is_complex = column.column_type.is_multi_cell();
    let form = if is_complex { ValueForm::Prefixed } else { ValueForm::of(&column.column_type) };
    let dropped = table.dropped_columns.get(&column.name);
    let definition = table.column(&column.name);
    let target = match definition {
        Some(definition) if definition.kind == kind && reads(definition, column) => {
            Some(definition.id)
        }
        // The file was written before the column was dropped.
        _ if dropped.is_some() => None,
        Some(definition) if definition.kind == kind => {
            let expected = &definition.column_type;
            return Err(other_type(file, &column.name, table, expected, &column.column_type));
        }
        Some(definition) => {
            let (name, found) = (&column.name, kind.name());
            let reason = format!(
                "column '{name}' is {found} in the file, but {} in table {}.{}",
                definition.kind.name(),
                table.keyspace,
                table.name
            );
            return Err(SSTableError::other_table(file, reason));
        }
        None => {
            let reason = format!(
                "column '{}' is in the file, but table {}.{} neither has nor had it",
                column.name, table.keyspace, table.name
            );
            return Err(SSTableError::other_table(file, reason));
        }
    };
    Ok(FileColumn {
        is_complex,
        is_counter: matches!(column.column_type, CqlType::Counter),
        keeps_empty: false,
        form,
        target,
        dropped_time_us: dropped.map_or(i64::MIN, |dropped| dropped.dropped_time_us),
    })
}

fn reads(definition: &ColumnDefinition, column: &HeaderColumn) -> bool {
    definition.is_complex() == column.column_type.is_multi_cell()
        && reads_values_of(&definition.column_type, &column.column_type)
}
