//! The view of one row that selectors and filters read: partition key, static row and row, with
//! each column as a single value.

use bytes::Bytes;
use espalier_mutation::{
    ColumnData, ComplexColumn, Row, counter,
    schema::{ColumnDefinition, ColumnKind, TableMetadata},
};
use espalier_types::{CqlType, collection};

/// A row of a result. Its cells are live: storage has removed the deleted ones.
#[derive(Clone, Copy, Debug)]
pub struct CurrentRow<'a> {
    /// Its table.
    pub table: &'a TableMetadata,
    /// Values of the partition key columns.
    pub partition_key: &'a [Bytes],
    /// The partition's static row.
    pub static_row: Option<&'a Row>,
    /// The row; `None` where a partition has only a static row.
    pub row: Option<&'a Row>,
}

impl<'a> CurrentRow<'a> {
    /// Returns the value of a column, or `None` for null. A multi-cell collection or UDT comes in
    /// its frozen form, a counter as its total.
    pub fn value(&self, column: &ColumnDefinition) -> Option<Bytes> {
        match column.kind {
            ColumnKind::PartitionKey => self.partition_key.get(column.position).cloned(),
            ColumnKind::Clustering => self.row?.clustering.values.get(column.position)?.clone(),
            ColumnKind::Static | ColumnKind::Regular => match self.data(column)? {
                ColumnData::Simple(cell) if column.column_type.is_counter() => {
                    Some(Bytes::copy_from_slice(&counter::total(&cell.value).to_be_bytes()))
                }
                ColumnData::Simple(cell) => Some(cell.value.clone()),
                ColumnData::Complex(complex) => collapse(&column.column_type, complex),
            },
        }
    }

    /// Returns the cells of a static or regular column.
    pub fn data(&self, column: &ColumnDefinition) -> Option<&'a ColumnData> {
        let row = if column.kind == ColumnKind::Static { self.static_row? } else { self.row? };
        row.column(column.id)
    }
}

/// Returns the frozen form of the live cells of a multi-cell column, or `None` (null) if there are
/// none.
pub fn collapse(column_type: &CqlType, column: &ComplexColumn) -> Option<Bytes> {
    if column.cells.is_empty() {
        return None;
    }
    let bytes = match column_type {
        CqlType::List { .. } => {
            let elements: Vec<&[u8]> =
                column.cells.iter().map(|(_, cell)| cell.value.as_ref()).collect();
            collection::list_of(&elements)
        }
        CqlType::Set { .. } => {
            let elements: Vec<&[u8]> = column.cells.iter().map(|(path, _)| path.as_ref()).collect();
            collection::list_of(&elements)
        }
        CqlType::Map { .. } => {
            let entries: Vec<(&[u8], &[u8])> = column
                .cells
                .iter()
                .map(|(path, cell)| (path.as_ref(), cell.value.as_ref()))
                .collect();
            collection::map_of(entries)
        }
        CqlType::UserDefined { definition, .. } => {
            let mut fields: Vec<Option<&[u8]>> = vec![None; definition.fields.len()];
            for (path, cell) in &column.cells {
                let index = <[u8; 2]>::try_from(path.as_ref()).map(u16::from_be_bytes);
                if let Some(field) = index.ok().and_then(|index| fields.get_mut(usize::from(index)))
                {
                    *field = Some(cell.value.as_ref());
                }
            }
            collection::tuple_of(fields)
        }
        _ => return column.cells.first().map(|(_, cell)| cell.value.clone()),
    };
    Some(bytes)
}
