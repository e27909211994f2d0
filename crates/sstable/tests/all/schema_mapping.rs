//! Tests reads of a file after its table has changed: dropped columns, columns added again, columns
//! of another type, and unknown columns. It also tests reads of some columns only.

use crate::support;

use std::{path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use espalier_mutation::{
    Cell, Clustering, ClusteringSlices, ColumnData, ComplexColumn, DecoratedKey, DeletionTime,
    Direction, Liveness, PartitionHeader, Row, Unfiltered, UnfilteredStream,
    schema::{TableBuilder, TableId, TableMetadata},
};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{
    ChunkFormat, ColumnSelection, EncodingStats, PageCache, SSTableReader,
    statistics::{HeaderColumn, SerializationHeader},
};
use espalier_types::CqlType;
use support::{
    block_on,
    generate::Partition,
    writing::{descriptor, options, write},
};

const OLD: i64 = 1_000;
const NEW: i64 = 3_000;

fn set_of_text() -> CqlType {
    CqlType::Set { element: Arc::new(CqlType::Text), frozen: false }
}

fn builder() -> TableBuilder {
    TableBuilder::new("ks", "t", TableId(uuid::Uuid::from_u128(1)))
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Int, false)
        .regular("z", CqlType::Int)
        .regular("a", CqlType::Text)
        .regular("s", set_of_text())
}

fn key() -> DecoratedKey {
    DecoratedKey::new(Bytes::from_static(&[0, 0, 0, 1]))
}

fn clustering(value: u8) -> Clustering {
    Clustering::new([Bytes::copy_from_slice(&[0, 0, 0, value])])
}

fn text(value: &'static str, timestamp: i64) -> Cell {
    Cell::live(timestamp, Bytes::from_static(value.as_bytes()))
}

/// Writes and opens a file. Row 1 has an old `a`, row 2 a new one, and row 3 a `z` and old and new
/// elements of `s`. Only row 2 has a liveness.
async fn open_written(table: &Arc<TableMetadata>) -> SSTableReader {
    let id = |name: &str| table.column(name).unwrap().id;
    let mut one = Row::empty(clustering(1));
    one.set_cell(id("a"), text("old", OLD));
    let mut two = Row::empty(clustering(2));
    two.liveness = Liveness::live(OLD);
    two.set_cell(id("a"), text("new", NEW));
    let mut three = Row::empty(clustering(3));
    three.set_cell(id("z"), Cell::live(NEW, Bytes::from_static(&[0, 0, 0, 9])));
    let cells = vec![
        (Bytes::from_static(b"x"), Cell::live(OLD, Bytes::new())),
        (Bytes::from_static(b"y"), Cell::live(NEW, Bytes::new())),
    ];
    let complex = ComplexColumn { deletion: DeletionTime::new(OLD - 1, 7), cells };
    three.columns.push((id("s"), ColumnData::Complex(complex)));
    three.columns.sort_by_key(|(id, _)| *id);
    let header = PartitionHeader { key: key(), deletion: DeletionTime::LIVE, static_row: None };
    let unfiltereds = [one, two, three].into_iter().map(Unfiltered::Row).collect();
    let partitions = [Partition { header, unfiltereds }];
    let file_system = FileSystem::simulated(3);
    let directory = Path::new("/data/ks/t");
    file_system.create_dir_all(directory).await.unwrap();
    let descriptor = descriptor(directory, 1);
    let options = options(descriptor.clone(), table, &partitions, ChunkFormat::PLAIN, 16_384);
    write(&file_system, options, &partitions).await.unwrap();
    let cache = PageCache::new(1 << 20);
    SSTableReader::open(&file_system, descriptor, Some(table.clone()), &cache).await.unwrap()
}

async fn rows(reader: &SSTableReader, columns: &ColumnSelection) -> Vec<Row> {
    let slices = Arc::new(ClusteringSlices::all());
    let stream = reader.read_partition(&key(), slices, Direction::Forward, columns).await.unwrap();
    let mut stream = stream.unwrap();
    let mut rows = Vec::new();
    while let Some(unfiltered) = stream.next().await.unwrap() {
        match unfiltered {
            Unfiltered::Row(row) => rows.push(row),
            Unfiltered::Marker(marker) => panic!("{marker:?}"),
        }
    }
    rows
}

fn clusterings(rows: &[Row]) -> Vec<u8> {
    rows.iter().map(|row| row.clustering.values[0].as_ref().unwrap()[3]).collect()
}

#[test]
fn a_dropped_column_is_gone_and_rows_that_held_nothing_else_too() {
    let table = Arc::new(builder().build());
    block_on(async {
        let reader = open_written(&table).await;
        assert_eq!(clusterings(&rows(&reader, &ColumnSelection::All).await), [1, 2, 3]);
        let dropped = Arc::new(table.rebuild().drop_column("a", 2_000).build());
        reader.set_table(dropped).unwrap();
        let read = rows(&reader, &ColumnSelection::All).await;
        assert_eq!(clusterings(&read), [2, 3]);
        assert!(read[0].columns.is_empty());
    });
}

#[test]
fn a_column_added_again_shows_only_cells_newer_than_the_drop() {
    let table = Arc::new(builder().build());
    block_on(async {
        let reader = open_written(&table).await;
        let dropped = table.rebuild().drop_column("a", 2_000).drop_column("s", 2_000);
        let again = dropped.regular("a", CqlType::Text).regular("s", set_of_text()).build();
        let again = Arc::new(again);
        reader.set_table(again.clone()).unwrap();
        let read = rows(&reader, &ColumnSelection::All).await;
        assert_eq!(clusterings(&read), [2, 3]);
        let a = again.column("a").unwrap().id;
        assert_eq!(read[0].column(a), Some(&ColumnData::Simple(text("new", NEW))));
        let Some(ColumnData::Complex(set)) = read[1].column(again.column("s").unwrap().id) else {
            panic!("{:?}", read[1]);
        };
        assert!(set.deletion.is_live());
        assert_eq!(set.cells.len(), 1);
        assert_eq!(set.cells[0].0, "y");
    });
}

#[test]
fn values_keep_their_bytes_where_a_type_was_widened() {
    let table = Arc::new(builder().build());
    block_on(async {
        let reader = open_written(&table).await;
        // int and text may become blob.
        let changed = table.rebuild().update_columns(|column| {
            if ["z", "a"].contains(&column.name.as_str()) {
                column.column_type = CqlType::Blob;
            }
        });
        reader.set_table(Arc::new(changed.build())).unwrap();
        let read = rows(&reader, &ColumnSelection::All).await;
        let z = table.column("z").unwrap().id;
        let expected = Cell::live(NEW, Bytes::from_static(&[0, 0, 0, 9]));
        assert_eq!(read[2].column(z), Some(&ColumnData::Simple(expected)));
    });
}

#[test]
fn a_collection_that_became_frozen_is_refused_by_name() {
    let table = Arc::new(builder().build());
    block_on(async {
        let reader = open_written(&table).await;
        let frozen = table.rebuild().update_columns(|column| {
            column.column_type = column.column_type.freeze();
        });
        let error = reader.set_table(Arc::new(frozen.build())).unwrap_err().to_string();
        let reason =
            "column 's' is not that of table ks.t: expected frozen<set<text>>, got set<text>";
        assert!(error.contains(reason), "{error}");
        // The failed change leaves the earlier table in use.
        assert_eq!(rows(&reader, &ColumnSelection::All).await.len(), 3);
    });
}

#[test]
fn cells_of_columns_that_are_not_wanted_come_without_values() {
    let table = Arc::new(builder().build());
    block_on(async {
        let reader = open_written(&table).await;
        let id = |name: &str| table.column(name).unwrap().id;
        let only = ColumnSelection::Only(Arc::from([id("z")]));
        let read = rows(&reader, &only).await;
        // Row 1 exists by a cell that was not selected.
        assert_eq!(clusterings(&read), [1, 2, 3]);
        let kept = Cell::live(OLD, Bytes::new());
        assert_eq!(read[0].column(id("a")), Some(&ColumnData::Simple(kept)));
        let wanted = Cell::live(NEW, Bytes::from_static(&[0, 0, 0, 9]));
        assert_eq!(read[2].column(id("z")), Some(&ColumnData::Simple(wanted)));
    });
}

#[test]
fn without_a_table_the_file_describes_itself() {
    let table = Arc::new(builder().build());
    block_on(async {
        let reader = open_written(&table).await;
        let own = reader.statistics().header.to_table("ks", "t");
        let names: Vec<_> = own.columns().iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["key", "column1", "a", "s", "z"]);
        assert_eq!(own.column("s").unwrap().column_type, set_of_text());
    });
}

/// The rows of a file are in the file's own order, and a reader with another order would not find
/// them.
#[test]
fn a_clustering_column_of_another_direction_is_refused() {
    let table = Arc::new(builder().build());
    block_on(async {
        let reader = open_written(&table).await;
        let turned = table.rebuild().update_columns(|column| {
            column.reversed = column.name == "c";
        });
        let error = reader.set_table(Arc::new(turned.build())).unwrap_err().to_string();
        assert!(error.contains("clustering column 0 has another direction"), "{error}");
    });
}

#[test]
fn a_column_that_the_table_never_had_is_refused_by_name() {
    let table = Arc::new(builder().build());
    block_on(async {
        let reader = open_written(&table).await;
        let other = TableBuilder::new("ks", "t", TableId(uuid::Uuid::from_u128(1)))
            .partition_key("k", CqlType::Int)
            .clustering("c", CqlType::Int, false)
            .regular("z", CqlType::Int)
            .regular("s", set_of_text());
        let error = reader.set_table(Arc::new(other.clone().build())).unwrap_err().to_string();
        let reason = "column 'a' is in the file, but table ks.t neither has nor had it";
        assert!(error.contains(reason), "{error}");
        let as_static = other.static_column("a", CqlType::Text).build();
        let error = reader.set_table(Arc::new(as_static)).unwrap_err().to_string();
        let reason = "column 'a' is regular in the file, but static in table ks.t";
        assert!(error.contains(reason), "{error}");
    });
}

#[test]
fn a_type_that_holds_other_values_is_refused_by_name() {
    let table = Arc::new(builder().build());
    block_on(async {
        let reader = open_written(&table).await;
        for (name, column_type, reason) in [
            ("a", CqlType::Int, "column 'a' is not that of table ks.t: expected int, got text"),
            (
                "z",
                CqlType::Bigint,
                "column 'z' is not that of table ks.t: expected bigint, got int",
            ),
            ("c", CqlType::Text, "column 'c' is not that of table ks.t: expected text, got int"),
            // The values would be readable, but in another order.
            ("c", CqlType::Blob, "column 'c' is not that of table ks.t: expected blob, got int"),
            ("k", CqlType::Text, "column 'k' is not that of table ks.t: expected text, got int"),
        ] {
            let changed = table.rebuild().update_columns(|column| {
                if column.name == name {
                    column.column_type = column_type.clone();
                }
            });
            let error = reader.set_table(Arc::new(changed.build())).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    });
}

/// A column was dropped, and a column of the same name added. The cells in the file are older than
/// the drop.
#[test]
fn a_dropped_column_may_have_had_any_type() {
    let table = Arc::new(builder().build());
    block_on(async {
        let reader = open_written(&table).await;
        let dropped = table.rebuild().drop_column("a", 9_000);
        reader.set_table(Arc::new(dropped.regular("a", CqlType::Int).build())).unwrap();
        assert_eq!(clusterings(&rows(&reader, &ColumnSelection::All).await), [2, 3]);
    });
}

/// A file without a known schema gets a table of its own columns. A hostile file may have many.
#[test]
fn the_table_of_a_header_with_many_columns_does_not_take_quadratic_time() {
    const COUNT: usize = 200_000;
    let stats = EncodingStats::default();
    let mut header = SerializationHeader::for_table(&builder().build(), |_| true, &stats);
    header.clustering_types = vec![(CqlType::Int, false); COUNT];
    let column =
        |number| HeaderColumn { name: format!("column{number}"), column_type: CqlType::Int };
    header.regular_columns = (0..COUNT).map(column).collect();
    let start = espalier_testing::Stopwatch::start();
    let table = header.to_table("ks", "t");
    let elapsed = start.elapsed();
    assert!(elapsed < Duration::from_secs(10), "{elapsed:?}");
    let last = table.clustering_columns().last().unwrap();
    assert_eq!((last.position, last.name.as_str()), (COUNT - 1, "column200000"));
    let first = &table.clustering_columns()[0];
    assert_eq!((first.position, first.name.as_str()), (0, "column1_"));
}
