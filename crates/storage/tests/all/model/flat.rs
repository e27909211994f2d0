//! Reads ranges in flat form, and compares the rows with the expected objects.

use bytes::Bytes;
use espalier_mutation::{ColumnData, DecoratedKey, Row};
use espalier_storage::{
    FlatColumns, FlatRows, Node, PartitionRows, ReadCommand, ReadLimits, ReadTarget,
};

/// A partition: its key, its static row, and the values of each of its rows.
type Partition = (DecoratedKey, Option<Row>, Vec<Vec<Option<Bytes>>>);

/// Reads the range of a command in flat form, in pages and in long scans, with and without values,
/// and compares the rows with `expected`. Skips commands of one partition.
pub(crate) async fn compare_flat(
    database: &Node,
    command: &ReadCommand,
    expected: &[PartitionRows],
    page: usize,
    context: &str,
) {
    if let ReadTarget::Partition(_) = command.target {
        return;
    }
    let table = &command.table;
    let simple = table.regular_columns().iter().filter(|column| !column.is_complex());
    let ids = simple.map(|column| column.id).filter(|id| command.columns.contains(*id));
    let ids: Vec<_> = ids.collect();
    let last = FlatColumns::new(0, ids.last().copied().into_iter().collect::<Box<[_]>>());
    let nothing = FlatColumns::new(0, []);
    let whole = FlatColumns::new(table.clustering_columns().len(), ids);
    for columns in [whole, last, nothing] {
        let expected: Vec<Partition> =
            expected.iter().map(|partition| flat_partition(&columns, partition)).collect();
        let tombstones = [10, 1, 3, usize::MAX][page % 4];
        let of_page = ReadLimits { rows: page, tombstones, ..command.limits };
        // A long scan reads files in place, around the row cache.
        let of_scan = ReadLimits { window_rows: page, tombstones, ..command.limits };
        for limits in [of_page, of_scan] {
            let flat = Some(columns.clone().into());
            let command = ReadCommand { flat, limits, ..command.clone() };
            let got = read(database, command, limits.rows).await;
            assert_eq!(got, expected, "{columns:?} in pages of {page}: {context}");
        }
    }
}

fn flat_partition(columns: &FlatColumns, partition: &PartitionRows) -> Partition {
    let values = |row: &Row| {
        let clustering = row.clustering.values.iter().take(columns.clustering()).cloned();
        let value = |id| match row.column(id) {
            Some(ColumnData::Simple(cell)) => Some(cell.value.clone()),
            _ => None,
        };
        clustering.chain(columns.regular().iter().map(|id| value(*id))).collect()
    };
    let rows = partition.rows.iter().map(values).collect();
    (partition.key.clone(), partition.static_row.clone(), rows)
}

async fn read(database: &Node, mut command: ReadCommand, page: usize) -> Vec<Partition> {
    let mut partitions: Vec<Partition> = Vec::new();
    loop {
        let result = database.read(command.clone()).await.unwrap();
        assert!(result.partitions.is_empty());
        assert!(result.row_count() <= page, "{} rows in a page of {page}", result.row_count());
        for (key, static_row, rows) in partitions_of(result.flat) {
            match partitions.last_mut() {
                Some((last, its_static, its_rows)) if *last == key => {
                    assert_eq!(*its_static, static_row);
                    its_rows.extend(rows);
                }
                _ => partitions.push((key, static_row, rows)),
            }
        }
        command.resume = result.next;
        if command.resume.is_none() {
            // A read may return a static row without selected columns or leave it out (see
            // `forget_liveness`).
            for (_, static_row, rows) in &mut partitions {
                static_row.take_if(|row| !rows.is_empty() && row.columns.is_empty());
            }
            return partitions;
        }
    }
}

fn partitions_of(flat: FlatRows) -> Vec<Partition> {
    let (mut start, mut row) = (0, 0);
    let mut values_of = |end: usize| {
        let mut rest = &flat.values[std::mem::replace(&mut start, end)..end];
        let mut values = Vec::new();
        while let Some((length, after)) = rest.split_first_chunk::<4>() {
            let length = usize::try_from(i32::from_be_bytes(*length)).ok();
            let (value, after) = after.split_at(length.unwrap_or(0));
            values.push(length.map(|_| Bytes::copy_from_slice(value)));
            rest = after;
        }
        values
    };
    let mut partitions = Vec::new();
    for partition in flat.partitions {
        let ends = &flat.ends[row..partition.rows_end];
        row = partition.rows_end;
        let rows = ends.iter().map(|end| values_of(*end)).collect();
        partitions.push((partition.key, partition.static_row, rows));
    }
    assert_eq!(row, flat.ends.len());
    partitions
}
