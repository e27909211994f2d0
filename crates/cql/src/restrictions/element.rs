//! Elements and fields of the columns of a row. The functions find a part of a multi-cell column
//! among its cells, so that a statement that names many elements of one collection does not copy
//! the collection for each element.

use bytes::Bytes;
use espalier_mutation::{Cell, ColumnData, ComplexColumn, schema::ColumnDefinition};
use espalier_types::{CqlType, ValueError, collection};

use super::element;
use crate::{Result, current_row::CurrentRow};

/// Returns an element of a column: the value of a key in a map, the element at an index of a list,
/// or the element itself in a set.
///
/// # Errors
/// As [`element`].
pub fn element_in(
    row: &CurrentRow<'_>,
    column: &ColumnDefinition,
    key: &[u8],
) -> Result<Option<Bytes>> {
    let Some(ColumnData::Complex(complex)) = row.data(column) else {
        let Some(collection) = row.value(column) else { return Ok(None) };
        return element(&column.column_type, &collection, key).map(|(_, element)| element);
    };
    let found = if let CqlType::List { .. } = column.column_type {
        let index = <[u8; 4]>::try_from(key).map_or(-1, i32::from_be_bytes);
        usize::try_from(index).ok().and_then(|index| complex.cells.get(index))
    } else {
        cell_at(row, column, complex, key)
    };
    let is_set = matches!(column.column_type, CqlType::Set { .. });
    Ok(found.map(|(path, cell)| if is_set { path.clone() } else { cell.value.clone() }))
}

/// Returns the cell of a multi-cell column with this path.
pub fn cell_at<'c>(
    row: &CurrentRow<'_>,
    column: &ColumnDefinition,
    complex: &'c ComplexColumn,
    path: &[u8],
) -> Option<&'c (Bytes, Cell)> {
    let order = |(other, _): &(Bytes, Cell)| row.table.compare_paths(column.id, other, path);
    complex.cells.binary_search_by(order).ok().and_then(|index| complex.cells.get(index))
}

/// Returns the cells of a multi-cell column with paths between two bounds, both of which are
/// inside.
pub fn cells_between<'c>(
    row: &CurrentRow<'_>,
    column: &ColumnDefinition,
    complex: &'c ComplexColumn,
    [from, to]: [Option<&[u8]>; 2],
) -> &'c [(Bytes, Cell)] {
    let cells = &complex.cells;
    let order = |path: &[u8], bound: &[u8]| row.table.compare_paths(column.id, path, bound);
    let start = from.map_or(0, |from| cells.partition_point(|(path, _)| order(path, from).is_lt()));
    let end =
        to.map_or(cells.len(), |to| cells.partition_point(|(path, _)| order(path, to).is_le()));
    cells.get(start..end).unwrap_or_default()
}

/// Returns a field of a UDT by its index.
///
/// # Errors
/// The value is malformed.
pub fn field_in(
    row: &CurrentRow<'_>,
    column: &ColumnDefinition,
    index: usize,
) -> Result<Option<Bytes>, ValueError> {
    let Some(ColumnData::Complex(complex)) = row.data(column) else {
        let Some(value) = row.value(column) else { return Ok(None) };
        let field = collection::fields(&value).nth(index).transpose()?;
        return Ok(field.flatten().map(|field| value.slice_ref(field)));
    };
    let Ok(index) = u16::try_from(index) else { return Ok(None) };
    let path = index.to_be_bytes();
    let found = complex.cells.binary_search_by(|(other, _)| other[..].cmp(&path)).ok();
    Ok(found.and_then(|at| complex.cells.get(at)).map(|(_, cell)| cell.value.clone()))
}
