//! Checks an update of a peer, so that storage can rely on it: each value fits its type, and the
//! cells of each complex column ascend by path.

use bytes::Bytes;
use espalier_mutation::{
    Cell, ColumnData, ComplexColumn, Row,
    schema::{ColumnDefinition, TableMetadata},
    split_composite,
};
use espalier_types::CqlType;

use crate::error::{DecodeError, Result};

/// Maximum length of a partition key, in bytes: files store it in 16 bits.
const MAX_KEY_BYTES: usize = u16::MAX as usize;

/// Checks a serialised partition key.
pub(crate) fn check_key(table: &TableMetadata, key: &Bytes) -> Result<()> {
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        return Err(DecodeError::Malformed("a partition key is empty or exceeds 65535 bytes"));
    }
    match table.partition_key_columns() {
        [column] => check_value(&column.column_type, key),
        columns => {
            let wrong = |_| DecodeError::Malformed("a composite partition key is broken");
            let components = split_composite(key, columns.len()).map_err(wrong)?;
            let mut columns = columns.iter().zip(&components);
            columns.try_for_each(|(column, value)| check_value(&column.column_type, value))
        }
    }
}

/// Checks the values of a clustering or of a bound. A bound may have fewer values than the table
/// has clustering columns.
pub(crate) fn check_clustering(table: &TableMetadata, values: &[Option<Bytes>]) -> Result<()> {
    let types = table.comparator().types.iter();
    types.zip(values).try_for_each(|((column_type, _), value)| match value {
        Some(value) => check_value(column_type, value),
        None => Ok(()),
    })
}

/// Checks a row. Removes complex columns without content, which only messages have.
pub(super) fn check_row(table: &TableMetadata, row: &mut Row) -> Result<()> {
    check_clustering(table, &row.clustering.values)?;
    row.columns.retain(|(_, data)| match data {
        ColumnData::Simple(_) => true,
        ColumnData::Complex(complex) => !complex.deletion.is_live() || !complex.cells.is_empty(),
    });
    for (id, data) in &row.columns {
        let column = table.column_by_id(*id);
        let column = column.ok_or(DecodeError::Malformed("a cell of an unknown column"))?;
        match data {
            ColumnData::Simple(cell) => check_cell(cell, &column.column_type)?,
            ColumnData::Complex(complex) => check_complex(table, column, complex)?,
        }
    }
    Ok(())
}

fn check_complex(
    table: &TableMetadata,
    column: &ColumnDefinition,
    complex: &ComplexColumn,
) -> Result<()> {
    for (path, cell) in &complex.cells {
        match &column.column_type {
            CqlType::List { element, .. } => {
                check_value(&CqlType::Timeuuid, path)?;
                check_cell(cell, element)?;
            }
            CqlType::Set { element, .. } => {
                check_value(element, path)?;
                check_cell(cell, &CqlType::Empty)?;
            }
            CqlType::Map { key, value, .. } => {
                check_value(key, path)?;
                check_cell(cell, value)?;
            }
            CqlType::UserDefined { definition, .. } => {
                let index: Option<[u8; 2]> = (&path[..]).try_into().ok();
                let index = index.map(u16::from_be_bytes);
                let field = index.and_then(|at| definition.field_types().nth(at.into()));
                let field = field.ok_or(DecodeError::Malformed("a cell of an unknown field"))?;
                check_cell(cell, field)?;
            }
            _ => return Err(DecodeError::Malformed("several cells of a simple column")),
        }
    }
    let ascends = |pair: &[(Bytes, Cell)]| match pair {
        [(left, _), (right, _)] => table.compare_paths(column.id, left, right).is_lt(),
        _ => true,
    };
    if complex.cells.windows(2).all(ascends) {
        Ok(())
    } else {
        Err(DecodeError::Malformed("the cells of a column do not ascend"))
    }
}

fn check_cell(cell: &Cell, column_type: &CqlType) -> Result<()> {
    // The value of a counter is a list of counter shards, not the number that clients see.
    if *column_type == CqlType::Counter {
        return Ok(());
    }
    if !cell.is_tombstone() {
        return check_value(column_type, &cell.value);
    }
    if cell.value.is_empty() {
        Ok(())
    } else {
        Err(DecodeError::Malformed("a deleted cell with a value"))
    }
}

fn check_value(column_type: &CqlType, value: &[u8]) -> Result<()> {
    let wrong = |_| DecodeError::Malformed("a value is not of the type of its column");
    column_type.validate(value).map_err(wrong)
}
