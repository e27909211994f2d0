//! From the columns of a file to those of the table as it is now: by name. Source: reference 9.10.
//!
//! * A column that the table does not have (dropped, or unknown) is parsed and thrown away.
//! * A column that was dropped and added again keeps cells that are newer than the drop.
//! * Types may differ as far as Cassandra lets them be altered; values are decoded by the file's type and kept as bytes.

use std::sync::Arc;

use espalier_mutation::schema::{ColumnId, ColumnKind, TableMetadata};

use super::{layout::Baselines, values::ValueForm};
use crate::{
    error::{FileName, Result, SSTableError},
    statistics::{HeaderColumn, SerializationHeader},
    versions::{DeletionTimeForm, VersionFeatures},
};

/// Which columns a reader wants.
///
/// Of a column that is not wanted the cells are given with empty values: a row may owe its existence to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ColumnSelection {
    /// All.
    #[default]
    All,
    /// These; order does not matter.
    Only(Arc<[ColumnId]>),
}

impl ColumnSelection {
    /// Whether the column is wanted.
    pub fn contains(&self, id: ColumnId) -> bool {
        match self {
            Self::All => true,
            Self::Only(ids) => ids.contains(&id),
        }
    }
}

/// A column of the file, and what becomes of its cells.
#[derive(Clone, Debug)]
pub(crate) struct FileColumn {
    pub(crate) is_complex: bool,
    pub(crate) form: ValueForm,
    /// The table's column; `None` if cells are thrown away.
    pub(crate) target: Option<ColumnId>,
    /// Cells at or before this timestamp were dropped with an earlier column of the name.
    pub(crate) dropped_time_us: i64,
}

/// All that is needed to decode the rows of a file.
#[derive(Clone, Debug)]
pub(crate) struct FileLayout {
    pub(crate) table: Arc<TableMetadata>,
    pub(crate) baselines: Baselines,
    pub(crate) deletion_time: DeletionTimeForm,
    pub(crate) clustering: Vec<ValueForm>,
    pub(crate) statics: Vec<FileColumn>,
    pub(crate) regulars: Vec<FileColumn>,
}

impl FileLayout {
    /// Fits the header of a file to a table. `file` is Statistics.db.
    pub(crate) fn new(
        file: &FileName,
        header: &SerializationHeader,
        table: Arc<TableMetadata>,
        features: &VersionFeatures,
    ) -> Result<Self> {
        let clusterings = table.clustering_columns().len();
        if header.clustering_types.len() != clusterings {
            let found = header.clustering_types.len();
            let reason = format!(
                "{found} clustering columns where table {}.{} has {clusterings}",
                table.keyspace, table.name
            );
            return Err(SSTableError::corrupt(file, 0, reason));
        }
        // The order of rows in the file must be that of the table, or nothing is found by its position.
        let mut order = header.clustering_types.iter().zip(&table.comparator().types);
        if let Some(index) = order.position(|((_, inside), (_, outside))| inside != outside) {
            let reason = format!(
                "clustering column {index} has another direction than in table {}.{}",
                table.keyspace, table.name
            );
            return Err(SSTableError::corrupt(file, 0, reason));
        }
        let map = |columns: &[HeaderColumn], kind: ColumnKind| {
            columns
                .iter()
                .map(|column| map_column(file, column, kind, &table))
                .collect::<Result<Vec<_>>>()
        };
        Ok(Self {
            baselines: Baselines::of(header, features.local_deletion_times),
            deletion_time: features.deletion_time,
            clustering: header
                .clustering_types
                .iter()
                .map(|(column_type, _)| ValueForm::of(column_type))
                .collect(),
            statics: map(&header.static_columns, ColumnKind::Static)?,
            regulars: map(&header.regular_columns, ColumnKind::Regular)?,
            table: table.clone(),
        })
    }
}

fn map_column(
    file: &FileName,
    column: &HeaderColumn,
    kind: ColumnKind,
    table: &TableMetadata,
) -> Result<FileColumn> {
    let is_complex = column.column_type.is_multi_cell();
    let form = match is_complex {
        true => ValueForm::Prefixed,
        false => ValueForm::of(&column.column_type),
    };
    let dropped = table.dropped_columns.get(&column.name);
    let mut definition = table.column(&column.name).filter(|definition| definition.kind == kind);
    if let Some(present) = definition
        && present.is_complex() != is_complex
        && dropped.is_some()
    {
        definition = None; // the file is older than the drop
    }
    if let Some(definition) = definition
        && definition.is_complex() != is_complex
    {
        let (inside, outside) = (column.column_type.cql_name(), definition.column_type.cql_name());
        let name = &column.name;
        let reason =
            format!("column '{name}' has type {inside} in the file and {outside} in the table");
        return Err(SSTableError::corrupt(file, 0, reason));
    }
    Ok(FileColumn {
        is_complex,
        form,
        target: definition.map(|definition| definition.id),
        dropped_time_us: dropped.map_or(i64::MIN, |dropped| dropped.dropped_time_us),
    })
}
