//! Removes cells of dropped columns. Source: docs/formats/data.md.
//!
//! A cell is valid if its column exists and the cell was written after the latest drop of a column
//! of that name. The rule does not depend on where the cell lies. Memtables, the commit log and
//! updates of views call [`remove_dropped`]. Readers of files, which identify columns by position,
//! call [`is_before_drop`](crate::schema::is_before_drop).

use crate::{ColumnData, ComplexColumn, DeletionTime, Row, schema::TableMetadata};

/// Removes from a row the cells of dropped columns. If a column was added again, removes its cells
/// from before the drop.
///
/// Columns carry the table's ids; an unknown id belongs to a dropped column.
pub fn remove_dropped(table: &TableMetadata, row: &mut Row) {
    if table.dropped_columns.is_empty() {
        return;
    }
    let has_former_drops = table.newest_former_drop_us() != i64::MIN;
    row.columns.retain_mut(|(id, data)| {
        let Some(column) = table.column_by_id(*id) else { return false };
        let dropped = if has_former_drops { table.former_drop(column) } else { None };
        let is_dropped = |timestamp| dropped.is_some_and(|dropped| dropped.deletes(timestamp));
        match data {
            ColumnData::Simple(cell) => !column.is_complex() && !is_dropped(cell.timestamp),
            ColumnData::Complex(complex) => {
                remove_dropped_cells(complex, is_dropped);
                column.is_complex() && !(complex.deletion.is_live() && complex.cells.is_empty())
            }
        }
    });
}

fn remove_dropped_cells(complex: &mut ComplexColumn, is_dropped: impl Fn(i64) -> bool) {
    if !complex.deletion.is_live() && is_dropped(complex.deletion.marked_for_delete_at) {
        complex.deletion = DeletionTime::LIVE;
    }
    complex.cells.retain(|(_, cell)| !is_dropped(cell.timestamp));
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use espalier_types::CqlType;
    use uuid::Uuid;

    use super::*;
    use crate::{
        Cell, Clustering,
        schema::{TableBuilder, TableId},
    };

    fn table() -> TableMetadata {
        let map =
            CqlType::Map { key: CqlType::Int.into(), value: CqlType::Int.into(), frozen: false };
        TableBuilder::new("k", "t", TableId(Uuid::nil()))
            .partition_key("k", CqlType::Int)
            .regular("m", map)
            .regular("v", CqlType::Int)
            .build()
    }

    fn cell(timestamp: i64) -> Cell {
        Cell::live(timestamp, Bytes::from_static(b"\0\0\0\x01"))
    }

    fn row(table: &TableMetadata, timestamps: &[i64], deletion: i64) -> Row {
        let mut row = Row::empty(Clustering::empty());
        let id = |name: &str| table.column(name).unwrap().id;
        let path = |timestamp: &i64| Bytes::copy_from_slice(&(*timestamp as i32).to_be_bytes());
        let cells = timestamps.iter().map(|timestamp| (path(timestamp), cell(*timestamp)));
        let deletion = DeletionTime::new(deletion, 1);
        let complex = ComplexColumn { deletion, cells: cells.collect() };
        row.columns = vec![
            (id("m"), ColumnData::Complex(complex)),
            (id("v"), ColumnData::Simple(cell(timestamps[0]))),
        ];
        row.columns.sort_by_key(|(id, _)| *id);
        row
    }

    #[test]
    fn a_column_added_again_keeps_only_cells_newer_than_the_drop() {
        let first = table();
        let mut written = row(&first, &[5, 6], 5);
        let dropped = first.rebuild().drop_column("v", 5).drop_column("m", 5).build();
        let types = |name: &str| first.column(name).unwrap().column_type.clone();
        let again = dropped.rebuild().regular("v", types("v")).regular("m", types("m")).build();
        for name in ["v", "m"] {
            assert_eq!(again.column(name).unwrap().id, first.column(name).unwrap().id);
        }
        let mut gone = written.clone();
        remove_dropped(&dropped, &mut gone);
        assert!(gone.is_empty());
        let mut newer = row(&first, &[6], 6);
        remove_dropped(&again, &mut newer);
        assert_eq!(newer, row(&first, &[6], 6));
        remove_dropped(&again, &mut written);
        let [(_, ColumnData::Complex(complex))] = written.columns.as_slice() else {
            panic!("{written:?}");
        };
        assert!(complex.deletion.is_live());
        assert_eq!(complex.cells.iter().map(|(_, c)| c.timestamp).collect::<Vec<_>>(), [6]);
    }

    #[test]
    fn a_column_of_another_kind_has_another_id() {
        let first = table();
        let dropped = first.rebuild().drop_column("m", 5).build();
        let again = dropped.rebuild().regular("m", CqlType::Int).build();
        assert_ne!(again.column("m").unwrap().id, first.column("m").unwrap().id);
        let mut written = row(&first, &[7], 7);
        remove_dropped(&again, &mut written);
        assert_eq!(written.columns.len(), 1);
    }
}
