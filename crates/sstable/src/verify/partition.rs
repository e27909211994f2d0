//! Checks one partition: the order and the values of its rows and markers, and whether the index
//! leads to them.

use std::fmt;

use bytes::Bytes;
use espalier_mutation::{
    Cell, ColumnData, ComplexColumn, DecoratedKey, DeletionTime, Row, Unfiltered,
    schema::TableMetadata, split_composite,
};
use espalier_types::{CqlType, Unsorted};

use super::{
    report::{Severity, VerifyReport},
    row_index::{BlockChecker, Visited},
};
use crate::{
    error::{FileName, Result},
    page_cache::Caching,
    reader::{FoundPartition, RowIndex, RowSource, SSTableReader},
    statistics::StatisticsCollector,
};

/// The destinations of findings and counts.
pub(super) struct Tally<'a> {
    pub(super) report: &'a mut VerifyReport,
    pub(super) collector: &'a mut StatisticsCollector,
    pub(super) watch: &'a mut dyn FnMut(u64, u64),
    pub(super) table: &'a TableMetadata,
    /// The name of Data.db.
    pub(super) name: &'a FileName,
    /// Key of the partition, for findings about its values.
    pub(super) key: Bytes,
}

/// Checks the partition at which `source` stands, and leaves `source` after its end.
pub(super) async fn check_partition(
    reader: &SSTableReader,
    source: &mut RowSource,
    tally: &mut Tally<'_>,
) -> Result<DecoratedKey> {
    let name = tally.name;
    let start = source.stream.position();
    let (header, head_length) = source.read_header().await?;
    let key = header.key.clone();
    tally.key = key.key.clone();
    check_key(start, tally);
    tally.collector.start_partition(&key.key, header.deletion);
    if let Some(row) = &header.static_row {
        check_row(row, start, tally);
        tally.collector.add_static_row(row);
        tally.report.static_rows += 1;
    }
    let found = reader.find_partition(&key, Some(start), Caching::Shared).await?;
    let index = check_index_entry(found.as_ref(), start, header.deletion, tally);
    let mut blocks = match index {
        Some(index) => Some(BlockChecker::new(index).await?),
        None => None,
    };

    let mut open = DeletionTime::LIVE;
    let mut last: Option<Unfiltered> = None;
    let mut previous_start = 0;
    let mut holds_something = !header.deletion.is_live() || header.static_row.is_some();
    loop {
        let position = source.stream.position();
        let offset = position - start;
        let Some(head) = source.head().await? else { break };
        (tally.watch)(position, reader.data_length());
        let what = "the length of the unfiltered before is wrong";
        tally.report.check(head.previous == offset - previous_start, name, position, what);
        previous_start = offset;
        let unfiltered = source.take(head).await?;
        let mut is_in_order = true;
        if let Some(last) = &last {
            let order = source.comparator().compare(last.position(), unfiltered.position());
            let what = "a row or marker is out of clustering order";
            is_in_order = order.is_lt();
            tally.report.check(is_in_order, name, position, what);
        }
        if let Some(blocks) = &mut blocks {
            let comparator = source.comparator();
            let visited =
                Visited { last: last.as_ref(), this: &unfiltered, offset, is_in_order, open };
            blocks.visit(comparator, visited, tally.report).await?;
        }
        open = check_unfiltered(&unfiltered, position, open, tally);
        holds_something = true;
        last = Some(unfiltered);
        espalier_runtime::maybe_yield().await;
    }
    let end_offset = source.stream.position() - start;
    let what = "a range deletion is open at the end of the partition";
    tally.report.check(open.is_live(), name, start + end_offset, what);
    tally.report.check(holds_something, name, start, "a partition that holds nothing");
    if let Some(blocks) = blocks {
        blocks.finish(source.comparator(), last.as_ref(), end_offset, tally.report).await?;
    }
    debug_assert!(head_length <= end_offset);
    source.stream.skip(1);
    tally.collector.end_partition(end_offset + 1);
    Ok(key)
}

/// Checks that the index leads to the partition at `start`. Returns its row index, if it has one.
fn check_index_entry<'found>(
    found: Option<&'found FoundPartition>,
    start: u64,
    deletion: DeletionTime,
    tally: &mut Tally<'_>,
) -> Option<&'found RowIndex> {
    match found {
        Some(found) if found.position == start => {
            let index = found.index.as_ref()?;
            let what = "the row index has another deletion of the partition";
            tally.report.check(found.deletion == deletion, tally.name, start, what);
            return Some(index);
        }
        Some(_) => tally.report.fail(tally.name, start, "its key leads to another place"),
        None => tally.report.fail(tally.name, start, "its key is not found"),
    }
    None
}

/// Checks a row or marker. `open` is the range deletion in force before it. Returns the range
/// deletion in force behind it.
fn check_unfiltered(
    unfiltered: &Unfiltered,
    position: u64,
    open: DeletionTime,
    tally: &mut Tally<'_>,
) -> DeletionTime {
    let name = tally.name;
    match unfiltered {
        Unfiltered::Row(row) => {
            tally.report.check(!row.is_empty(), name, position, "a row that holds nothing");
            check_row(row, position, tally);
            tally.collector.add_row(row);
            open
        }
        Unfiltered::Marker(marker) => {
            let what = "a marker ends another deletion than was open";
            tally.report.check(marker.before == open, name, position, what);
            if marker.before == marker.after {
                let what =
                    format_args!("{name} at byte {position}: a boundary between equal deletions");
                tally.report.add(Severity::Warning, name, what);
            }
            tally.report.markers += 1;
            tally.collector.add_marker(marker);
            marker.after
        }
    }
}

/// Checks that sets and maps in the partition key are sorted. If they are not, a read with an equal
/// key in sorted order does not find the partition.
fn check_key(position: u64, tally: &mut Tally<'_>) {
    let columns = tally.table.partition_key_columns();
    let values = match columns {
        [_] => vec![tally.key.clone()],
        // The reader reports a key that cannot be split.
        _ => split_composite(&tally.key, columns.len()).unwrap_or_default(),
    };
    for (column, value) in columns.iter().zip(&values) {
        check_sorted(&column.column_type, value, &column.name, position, tally);
    }
}

/// Checks the values of a row against their types, and the order of the paths in its collections.
/// Adds to the counts of the report.
fn check_row(row: &Row, position: u64, tally: &mut Tally<'_>) {
    let (table, name) = (tally.table, tally.name);
    tally.report.rows += 1;
    let clustering = table.clustering_columns().iter().zip(&row.clustering.values);
    for (column, value) in clustering {
        if let Some(value) = value {
            check_value(&column.column_type, value, &column.name, position, tally);
        }
    }
    for (id, data) in &row.columns {
        let Some(column) = table.column_by_id(*id) else { continue };
        match data {
            ColumnData::Simple(cell) => {
                check_cell(&column.column_type, cell, &column.name, position, tally);
            }
            ColumnData::Complex(complex) => {
                for (path, cell) in &complex.cells {
                    let (path_type, value_type) = element_types(&column.column_type, path);
                    if let Some(path_type) = path_type {
                        check_value(&path_type, path, &column.name, position, tally);
                    }
                    if let Some(value_type) = value_type {
                        check_cell(&value_type, cell, &column.name, position, tally);
                    } else {
                        tally.report.cells += 1;
                    }
                }
                let ascends = paths_ascend(complex, |a, b| table.compare_paths(*id, a, b));
                let what = "paths of a collection do not ascend";
                tally.report.check(ascends, name, position, what);
            }
        }
    }
}

fn paths_ascend(
    column: &ComplexColumn,
    compare: impl Fn(&[u8], &[u8]) -> std::cmp::Ordering,
) -> bool {
    column.cells.windows(2).all(|pair| compare(&pair[0].0, &pair[1].0).is_lt())
}

/// Returns the types of the path and of the value of a multi-cell column's cells. A type is `None`
/// if the part needs no check.
fn element_types(column_type: &CqlType, path: &[u8]) -> (Option<CqlType>, Option<CqlType>) {
    match column_type {
        CqlType::List { element, .. } => (Some(CqlType::Timeuuid), Some((**element).clone())),
        CqlType::Set { element, .. } => (Some((**element).clone()), None),
        CqlType::Map { key, value, .. } => (Some((**key).clone()), Some((**value).clone())),
        CqlType::UserDefined { definition, .. } => {
            let index = path.first_chunk::<2>().map(|index| u16::from_be_bytes(*index));
            let field = index.and_then(|index| definition.fields.get(usize::from(index)));
            (Some(CqlType::Smallint), field.map(|(_, field)| field.clone()))
        }
        _ => (None, None),
    }
}

fn check_cell(
    column_type: &CqlType,
    cell: &Cell,
    column: &str,
    position: u64,
    tally: &mut Tally<'_>,
) {
    tally.report.cells += 1;
    if column_type.is_counter() {
        tally.collector.add_counter_context(&cell.value);
    }
    if cell.is_tombstone() {
        let what = "a tombstone with a value";
        tally.report.check(cell.value.is_empty(), tally.name, position, what);
    } else {
        check_value(column_type, &cell.value, column, position, tally);
    }
}

fn check_value(
    column_type: &CqlType,
    value: &[u8],
    column: &str,
    position: u64,
    tally: &mut Tally<'_>,
) {
    // Empty values of all types pass. The value of a counter cell is a context, which is no value
    // of the type `counter`.
    if value.is_empty() || column_type.is_counter() {
        return;
    }
    if let Err(error) = column_type.validate(value) {
        tally.report.fail(tally.name, position, format_args!("column {column}: {error}"));
    }
    check_sorted(column_type, value, column, position, tally);
}

/// Checks that sets and maps in one cell are sorted and without duplicates, so that equal values
/// have equal bytes. Cassandra stores an unsorted set or map only inside a tuple, user type or
/// vector, as a client sent it, so that case is a warning.
fn check_sorted(
    column_type: &CqlType,
    value: &[u8],
    column: &str,
    position: u64,
    tally: &mut Tally<'_>,
) {
    let Some(unsorted) = column_type.find_unsorted(value) else { return };
    let severity = match unsorted {
        Unsorted::Anywhere => Severity::Failure,
        Unsorted::InsideTuple => Severity::Warning,
    };
    let (name, key) = (tally.name, Hex(&tally.key));
    let what = format_args!(
        "{name} at byte {position}: column {column} of the partition with key {key}: \
         a set or map is not sorted or has duplicates: {}",
        Hex(value)
    );
    tally.report.add(severity, name, what);
}

/// Shows the first bytes as `0x…`.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX_SHOWN: usize = 64;
        f.write_str("0x")?;
        self.0.iter().take(MAX_SHOWN).try_for_each(|byte| write!(f, "{byte:02x}"))?;
        if self.0.len() > MAX_SHOWN { f.write_str("…") } else { Ok(()) }
    }
}
