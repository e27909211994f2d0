//! The view of one row that selectors and filters read: partition key, static row and row, with
//! each column as a single value.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::{
    Cell, Clustering, ColumnData, ComplexColumn, Row, counter,
    schema::{ColumnDefinition, ColumnId, ColumnKind, TableMetadata},
};
use espalier_storage::FlatColumns;
use espalier_types::{CqlType, collection};
use hashbrown::HashMap;

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
    pub row: Option<RowView<'a>>,
}

/// A row as a read has returned it.
#[derive(Clone, Copy, Debug)]
pub enum RowView<'a> {
    /// A row with its cells.
    Object(&'a Row),
    /// A row of a scan, which has only values.
    Flat(FlatRow<'a>),
}

/// A row of a scan: the values of the columns that the statement reads.
#[derive(Clone, Copy, Debug)]
pub struct FlatRow<'a> {
    /// The columns of the values.
    pub columns: &'a Arc<FlatColumns>,
    /// The values, each after its length as a big-endian `i32` (−1: null).
    pub values: &'a [u8],
    /// The buffer that has the values.
    pub buffer: &'a Bytes,
}

/// A [`RowView`] that owns its row.
#[derive(Debug)]
pub enum OwnedRow {
    /// A row with its cells.
    Object(Row),
    /// A row of a scan: its columns, and its values as a slice of the scan's buffer.
    Flat(Arc<FlatColumns>, Bytes),
}

impl OwnedRow {
    /// Returns the view of the row.
    pub fn view(&self) -> RowView<'_> {
        match self {
            Self::Object(row) => RowView::Object(row),
            Self::Flat(columns, values) => {
                RowView::Flat(FlatRow { columns, values, buffer: values })
            }
        }
    }
}

impl<'a> RowView<'a> {
    /// Returns a copy of the row. The copy of a flat row shares its buffer.
    pub fn to_owned(self) -> OwnedRow {
        match self {
            Self::Object(row) => OwnedRow::Object(row.clone()),
            Self::Flat(row) => {
                OwnedRow::Flat(row.columns.clone(), row.buffer.slice_ref(row.values))
            }
        }
    }

    /// Returns the value of a clustering column; `None` for null.
    #[inline]
    pub fn clustering_value(self, position: usize) -> Option<&'a [u8]> {
        match self {
            Self::Object(row) => row.clustering.values.get(position)?.as_deref(),
            Self::Flat(row) if position < row.columns.clustering() => row.value(position),
            Self::Flat(_) => None,
        }
    }

    /// Returns the clustering, if the row has one and the read has returned it.
    pub fn clustering(self) -> Option<Clustering> {
        match self {
            Self::Object(row) => Some(&row.clustering).filter(|it| !it.values.is_empty()).cloned(),
            Self::Flat(row) => {
                let value = |index| row.value(index).map(|value| row.buffer.slice_ref(value));
                let columns = row.columns.clustering();
                (columns > 0).then(|| Clustering { values: (0..columns).map(value).collect() })
            }
        }
    }
}

impl<'a> FlatRow<'a> {
    /// Returns the value with this index; `None` for null.
    #[inline]
    fn value(self, index: usize) -> Option<&'a [u8]> {
        let mut rest = self.values;
        for _ in 0..index {
            rest = split_value(rest)?.1;
        }
        split_value(rest)?.0
    }
}

/// Splits the first value off.
#[inline]
fn split_value(values: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let (length, rest) = values.split_first_chunk::<4>()?;
    match usize::try_from(i32::from_be_bytes(*length)) {
        Ok(length) => rest.split_at_checked(length).map(|(value, rest)| (Some(value), rest)),
        Err(_) => Some((None, rest)),
    }
}

impl<'a> CurrentRow<'a> {
    /// Returns the value of a column, or `None` for null. A multi-cell collection or UDT comes in
    /// its frozen form, a counter as its total.
    pub fn value(&self, column: &ColumnDefinition) -> Option<Bytes> {
        match (column.kind, self.row) {
            (ColumnKind::PartitionKey, _) => self.partition_key.get(column.position).cloned(),
            (ColumnKind::Clustering | ColumnKind::Regular, Some(RowView::Flat(row))) => {
                self.plain_value(column)?.map(|value| row.buffer.slice_ref(value))
            }
            (ColumnKind::Clustering, Some(RowView::Object(row))) => {
                row.clustering.values.get(column.position)?.clone()
            }
            (ColumnKind::Clustering, None) => None,
            (ColumnKind::Static | ColumnKind::Regular, _) => match self.data(column)? {
                ColumnData::Simple(cell) if column.column_type.is_counter() => {
                    Some(Bytes::copy_from_slice(&counter::total(&cell.value).to_be_bytes()))
                }
                ColumnData::Simple(cell) => Some(cell.value.clone()),
                ColumnData::Complex(complex) => collapse(&column.column_type, complex),
            },
        }
    }

    /// Returns the value of a column as [`Self::value`] does, if it is stored as one piece:
    /// `Some(None)` for null, and `None` for a counter or the value of a multi-cell column.
    #[inline]
    pub fn plain_value(&self, column: &ColumnDefinition) -> Option<Option<&'a [u8]>> {
        match (column.kind, self.row) {
            (ColumnKind::PartitionKey, _) => {
                Some(self.partition_key.get(column.position).map(|value| &**value))
            }
            (ColumnKind::Clustering, row) => {
                Some(row.and_then(|row| row.clustering_value(column.position)))
            }
            (ColumnKind::Regular, Some(RowView::Flat(row))) => {
                let index = row.columns.index_of(column.id);
                Some(index.and_then(|index| row.value(index)))
            }
            (ColumnKind::Static | ColumnKind::Regular, _) => match self.data(column) {
                None => Some(None),
                Some(ColumnData::Simple(cell)) if !column.column_type.is_counter() => {
                    Some(Some(&cell.value))
                }
                Some(_) => None,
            },
        }
    }

    /// Returns the bytes of the row, its partition key and its static row as they are stored; an
    /// estimate.
    pub fn stored_bytes(&self) -> usize {
        let key: usize = self.partition_key.iter().map(Bytes::len).sum();
        let row = match self.row {
            Some(RowView::Object(row)) => row.page_bytes(),
            Some(RowView::Flat(row)) => row.values.len(),
            None => 0,
        };
        key + row + self.static_row.map_or(0, Row::page_bytes)
    }

    /// Returns the cells of a static or regular column. A flat row has no cells of regular columns.
    pub fn data(&self, column: &ColumnDefinition) -> Option<&'a ColumnData> {
        match (column.kind, self.row) {
            (ColumnKind::Static, _) => self.static_row?.column(column.id),
            (_, Some(RowView::Object(row))) => row.column(column.id),
            _ => None,
        }
    }
}

/// Values of one row's multi-cell columns in their frozen form. A value may be large, so each is
/// made once, however often a statement names the column. A value of a static column serves all
/// rows of its partition.
#[derive(Debug, Default)]
pub struct FrozenColumns {
    of_row: HashMap<ColumnId, Option<Bytes>>,
    of_partition: HashMap<ColumnId, Option<Bytes>>,
}

impl FrozenColumns {
    /// Returns the value of a column as [`CurrentRow::value`] does. `row` must be the same row in
    /// all calls, until the caller calls [`Self::leave_row`] or [`Self::leave_partition`].
    pub fn value(&mut self, row: &CurrentRow<'_>, column: &ColumnDefinition) -> Option<Bytes> {
        if !column.is_complex() {
            return row.value(column);
        }
        let is_static = column.kind == ColumnKind::Static;
        let values = if is_static { &mut self.of_partition } else { &mut self.of_row };
        values.entry(column.id).or_insert_with(|| row.value(column)).clone()
    }

    /// Forgets the values of the row, because the next row of the same partition follows.
    #[inline]
    pub fn leave_row(&mut self) {
        self.of_row.clear();
    }

    /// Forgets all values, because a row of another partition follows.
    #[inline]
    pub fn leave_partition(&mut self) {
        self.of_row.clear();
        self.of_partition.clear();
    }
}

/// Returns the frozen form of a multi-cell column, or `None` (null) if the column has no cells.
pub fn collapse(column_type: &CqlType, column: &ComplexColumn) -> Option<Bytes> {
    collapse_cells(column_type, &column.cells)
}

/// Returns the frozen form of some cells of a multi-cell column, or `None` (null) for no cells.
pub fn collapse_cells(column_type: &CqlType, cells: &[(Bytes, Cell)]) -> Option<Bytes> {
    if cells.is_empty() {
        return None;
    }
    let bytes = match column_type {
        CqlType::List { .. } => {
            let elements: Vec<&[u8]> = cells.iter().map(|(_, cell)| cell.value.as_ref()).collect();
            collection::list_of(&elements)
        }
        CqlType::Set { .. } => {
            let elements: Vec<&[u8]> = cells.iter().map(|(path, _)| path.as_ref()).collect();
            collection::list_of(&elements)
        }
        CqlType::Map { .. } => {
            let entries: Vec<(&[u8], &[u8])> =
                cells.iter().map(|(path, cell)| (path.as_ref(), cell.value.as_ref())).collect();
            collection::map_of(entries)
        }
        CqlType::UserDefined { definition, .. } => {
            let mut fields: Vec<Option<&[u8]>> = vec![None; definition.fields.len()];
            for (path, cell) in cells {
                let index = <[u8; 2]>::try_from(path.as_ref()).map(u16::from_be_bytes);
                if let Some(field) = index.ok().and_then(|index| fields.get_mut(usize::from(index)))
                {
                    *field = Some(cell.value.as_ref());
                }
            }
            collection::tuple_of(fields)
        }
        _ => return cells.first().map(|(_, cell)| cell.value.clone()),
    };
    Some(bytes)
}
