//! Refuses decimals that a secondary index would take too long to convert.
//!
//! The index entry of a decimal has its decimal digits. The conversion to digits takes time
//! quadratic in the length, and cannot yield (docs/decisions/0029-size-of-numbers.md).

use espalier_mutation::{
    ColumnData, PartitionUpdate, Row,
    schema::{ColumnDefinition, ColumnId, IndexPart, TableMetadata},
};
use espalier_types::{
    CqlType,
    literal::{IndexedDecimals, has_decimals},
};

use crate::{Error, Result};

/// Returns the columns with an index that lists decimals, each with the indexed part.
fn columns_of(table: &TableMetadata) -> impl Iterator<Item = (&ColumnDefinition, IndexPart)> {
    let columns = table.indexes.iter().filter_map(|index| {
        let column = index.column_of(table)?;
        Some((column, index.part))
    });
    columns.filter(|(column, _)| has_decimals(&column.column_type))
}

/// Returns whether an index lists decimals of a column.
pub(super) fn lists_decimals_of(table: &TableMetadata, id: ColumnId) -> bool {
    columns_of(table).any(|(column, _)| column.id == id)
}

/// Checks the values of updates of one table.
///
/// # Errors
/// Fails if an indexed column has a decimal of more than 16 KiB, or if its decimals in all updates
/// together take too long ([`IndexedDecimals::add`]).
pub(super) fn check(table: &TableMetadata, updates: &[PartitionUpdate]) -> Result<()> {
    for (column, part) in columns_of(table) {
        let mut decimals = IndexedDecimals::default();
        for update in updates {
            for row in update.static_row.iter().chain(&update.rows) {
                check_row(column, part, row, &mut decimals)?;
            }
        }
    }
    Ok(())
}

fn check_row(
    column: &ColumnDefinition,
    part: IndexPart,
    row: &Row,
    decimals: &mut IndexedDecimals,
) -> Result<()> {
    let mut add = |ty: &CqlType, value: &[u8]| {
        let added = decimals.add(ty, value);
        added.map_err(|error| {
            Error::invalid(format!("Invalid value of indexed column {}: {error}", column.name))
        })
    };
    let Some((_, data)) = row.columns.iter().find(|(id, _)| *id == column.id) else {
        return Ok(());
    };
    let complex = match data {
        ColumnData::Simple(cell) => return add(&column.column_type, &cell.value),
        ColumnData::Complex(complex) => complex,
    };
    for (path, cell) in complex.cells.iter().filter(|(_, cell)| !cell.is_tombstone()) {
        match &column.column_type {
            CqlType::List { element, .. } => add(element, &cell.value)?,
            CqlType::Set { element, .. } => add(element, path)?,
            CqlType::Map { key, value, .. } => {
                if part != IndexPart::Values {
                    add(key, path)?;
                }
                if part != IndexPart::Keys {
                    add(value, &cell.value)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}
