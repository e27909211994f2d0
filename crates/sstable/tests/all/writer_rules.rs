//! Tests the input that a writer rejects or leaves out, and the state of the files after a crash.

use crate::support;

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{
    BoundKind, Cell, Clustering, ClusteringBound, ClusteringSlice, ClusteringSlices, ColumnData,
    DecoratedKey, DeletionTime, Direction, Liveness, PartitionHeader, RangeTombstoneMarker, Row,
    Unfiltered, UnfilteredStream,
    schema::{ColumnId, TableBuilder, TableId, TableMetadata},
};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{
    ColumnSelection, PageCache, SSTableError, SSTableReader, SSTableWriter, WriterOptions,
    components::{Component, list_directory, remove_sstable},
    verify::verify,
};
use espalier_types::CqlType;
use support::{
    block_on,
    generate::{Generator, Shape},
    slicing::Random,
    writing::{descriptor, options, random_chunks, write},
};

const DIRECTORY: &str = "/data/ks/t";

fn table() -> Arc<TableMetadata> {
    let builder = TableBuilder::new("ks", "t", TableId(uuid::Uuid::from_u128(1)))
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Int, false)
        .regular("v", CqlType::Int);
    Arc::new(builder.build())
}

async fn writer() -> (FileSystem, SSTableWriter) {
    let file_system = FileSystem::simulated(5);
    file_system.create_dir_all(DIRECTORY).await.unwrap();
    let mut options =
        WriterOptions::for_table(descriptor(Path::new(DIRECTORY), 1), table()).unwrap();
    options.column_index_size = 1024;
    let writer = SSTableWriter::create(&file_system, options).await.unwrap();
    (file_system, writer)
}

/// Returns keys in the order of their tokens.
fn keys() -> [DecoratedKey; 3] {
    let mut keys = [1u32, 2, 3].map(|key| DecoratedKey::new(key.to_be_bytes().to_vec().into()));
    keys.sort();
    keys
}

fn header(key: &DecoratedKey) -> PartitionHeader {
    PartitionHeader { key: key.clone(), deletion: DeletionTime::LIVE, static_row: None }
}

fn values(value: u32) -> Box<[Option<Bytes>]> {
    Box::new([Some(Bytes::from(value.to_be_bytes().to_vec()))])
}

fn row(value: u32) -> Unfiltered {
    let mut row = Row::empty(Clustering { values: values(value) });
    row.liveness = Liveness::live(10);
    Unfiltered::Row(row)
}

fn marker(value: u32, kind: BoundKind, before: DeletionTime, after: DeletionTime) -> Unfiltered {
    let position = ClusteringBound { kind, values: values(value) };
    Unfiltered::Marker(RangeTombstoneMarker { position, before, after })
}

const LIVE: DeletionTime = DeletionTime::LIVE;

fn assert_rejected<T: std::fmt::Debug>(result: Result<T, SSTableError>, part: &str) {
    match result {
        Err(SSTableError::Rejected { reason, .. }) => assert!(reason.contains(part), "{reason}"),
        other => panic!("{other:?} instead of a refusal of '{part}'"),
    }
}

fn assert_taken<T: std::fmt::Debug>(result: Result<T, SSTableError>) {
    let is_taken = matches!(&result, Err(SSTableError::NameTaken { .. }));
    assert!(is_taken, "{result:?}, but a file of the name exists");
}

#[test]
fn partitions_out_of_order_are_refused() {
    block_on(async {
        let [first, second, _] = keys();
        let (_, mut writer) = writer().await;
        assert_rejected(writer.add(row(1)).await, "without a partition");
        assert_rejected(writer.end_partition().await, "no partition is open");
        writer.start_partition(header(&second)).unwrap();
        assert_rejected(writer.start_partition(header(&second)), "before the last one ended");
        writer.add(row(1)).await.unwrap();
        writer.end_partition().await.unwrap();
        assert_rejected(writer.start_partition(header(&second)), "does not come after");
        assert_rejected(writer.start_partition(header(&first)), "does not come after");
    });
}

#[test]
fn rows_out_of_order_and_deletions_that_do_not_nest_are_refused() {
    let deletion = DeletionTime::new(5, 5);
    let other = DeletionTime::new(6, 6);
    block_on(async {
        let cases: [(&[Unfiltered], &str); 7] = [
            (&[row(2), row(2)], "does not come after"),
            (&[row(2), row(1)], "does not come after"),
            (&[marker(1, BoundKind::InclusiveEnd, deletion, LIVE)], "ends another deletion"),
            (
                &[
                    marker(1, BoundKind::InclusiveStart, LIVE, deletion),
                    marker(2, BoundKind::InclusiveEnd, other, LIVE),
                ],
                "ends another deletion",
            ),
            (&[marker(1, BoundKind::InclusiveEnd, LIVE, deletion)], "does not match its deletions"),
            (&[marker(1, BoundKind::InclusiveStart, LIVE, LIVE)], "does not match its deletions"),
            (&[marker(1, BoundKind::InclusiveStart, LIVE, deletion)], "open at the end"),
        ];
        for (unfiltereds, part) in cases {
            let (_, mut writer) = writer().await;
            writer.start_partition(header(&keys()[0])).unwrap();
            let mut result = Ok(());
            for unfiltered in unfiltereds {
                result = writer.add(unfiltered.clone()).await;
                if result.is_err() {
                    break;
                }
            }
            if result.is_ok() {
                result = writer.end_partition().await;
            }
            assert_rejected(result, part);
        }
    });
}

#[test]
fn what_the_format_cannot_hold_is_refused() {
    block_on(async {
        let key = &keys()[0];
        let (_, mut writer) = writer().await;
        let negative = PartitionHeader { deletion: DeletionTime::new(-1, 5), ..header(key) };
        assert_rejected(writer.start_partition(negative), "no room");
        let late = PartitionHeader { deletion: DeletionTime::new(1, u32::MAX - 1), ..header(key) };
        assert_rejected(writer.start_partition(late), "cannot be stored");
        let long = DecoratedKey::new(vec![7; 65_536].into());
        assert_rejected(writer.start_partition(header(&long)), "65536 bytes");
        let mut static_row = Row::empty(Clustering::empty());
        static_row.liveness = Liveness::live(1);
        let static_row = PartitionHeader { static_row: Some(static_row), ..header(key) };
        assert_rejected(writer.start_partition(static_row), "no static column");
    });
    block_on(async {
        let with = |column: u32, value: &'static [u8]| {
            let mut row = Row::empty(Clustering { values: values(1) });
            let cell = Cell::live(1, Bytes::from_static(value));
            row.columns.push((ColumnId(column), ColumnData::Simple(cell)));
            Unfiltered::Row(row)
        };
        let mut two_values =
            Row::empty(Clustering { values: [values(1), values(2)].concat().into() });
        two_values.liveness = Liveness::live(1);
        for (unfiltered, part) in [
            (with(77, b"1234"), "is not in the file's header"),
            (with(2, b"12345"), "5 bytes where the type has 4"),
            (Unfiltered::Row(two_values), "2 clustering values"),
        ] {
            let (_, mut writer) = writer().await;
            writer.start_partition(header(&keys()[0])).unwrap();
            assert_rejected(writer.add(unfiltered).await, part);
        }
    });
}

#[test]
fn a_partition_that_was_not_ended_is_not_sealed() {
    block_on(async {
        let [first, second, _] = keys();
        let (file_system, mut writer) = writer().await;
        writer.start_partition(header(&first)).unwrap();
        writer.add(row(1)).await.unwrap();
        writer.end_partition().await.unwrap();
        writer.start_partition(header(&second)).unwrap();
        writer.add(row(1)).await.unwrap();
        assert_rejected(writer.finish().await, "was not ended");
        let listing = list_directory(&file_system, Path::new(DIRECTORY)).await.unwrap();
        assert_eq!(listing, Default::default());
    });
}

/// Statistics.db of old versions has two bytes for the length of the minimum and the maximum
/// clustering value.
#[test]
fn long_clustering_values_are_refused_by_old_versions() {
    use espalier_sstable::{Descriptor, SSTableId, versions::VERSIONS};
    block_on(async {
        let builder = TableBuilder::new("ks", "t", TableId(uuid::Uuid::from_u128(1)))
            .partition_key("k", CqlType::Int)
            .clustering("c", CqlType::Text, false);
        let table = Arc::new(builder.build());
        for version in VERSIONS.iter().filter(|features| features.is_written) {
            for length in [65_535, 65_536] {
                let file_system = FileSystem::simulated(5);
                file_system.create_dir_all(DIRECTORY).await.unwrap();
                let name = Descriptor::new(DIRECTORY, version, SSTableId::parse("1").unwrap());
                let options = WriterOptions::for_table(name.clone(), table.clone()).unwrap();
                let mut writer = SSTableWriter::create(&file_system, options).await.unwrap();
                writer.start_partition(header(&keys()[0])).unwrap();
                let value = Some(Bytes::from(vec![b'x'; length]));
                let mut row = Row::empty(Clustering { values: Box::new([value]) });
                row.liveness = Liveness::live(10);
                match writer.add(Unfiltered::Row(row)).await {
                    Ok(()) => {
                        writer.end_partition().await.unwrap();
                        writer.finish().await.unwrap().unwrap();
                        let report = verify(&file_system, &name).await.unwrap();
                        assert!(report.is_ok(), "{}: {report:?}", version.version);
                    }
                    Err(error) => {
                        let text = error.to_string();
                        assert!(length > 65_535 && text.contains("65536 bytes"), "{text}");
                    }
                }
            }
        }
    });
}

/// An attempt to write changes no existing file of the name.
#[test]
fn nothing_is_written_over() {
    block_on(async {
        let names = ["TOC.txt", "TemporaryTOC.txt", "Index.db", "SAI+Meta.db"];
        for name in names.map(|name| format!("{DIRECTORY}/da-1-bti-{name}")) {
            let file_system = FileSystem::simulated(5);
            file_system.create_dir_all(DIRECTORY).await.unwrap();
            file_system.create(&name).await.unwrap().append(vec![7]).await.unwrap();
            let options = WriterOptions::for_table(descriptor(Path::new(DIRECTORY), 1), table());
            let refused = SSTableWriter::create(&file_system, options.unwrap()).await;
            assert_taken(refused.map(drop));
            let entries = file_system.read_dir(DIRECTORY).await.unwrap();
            assert_eq!(
                entries.iter().map(|entry| entry.path.to_str()).collect::<Vec<_>>(),
                [Some(name.as_str())]
            );
            assert_eq!(file_system.read(&name).await.unwrap(), [7]);
        }
    });
}

/// A writer leaves no files on a full disk, however far it comes.
#[test]
fn what_fails_to_be_written_is_removed() {
    block_on(async {
        let mut failures = 0;
        for capacity in (0..200).map(|pages| pages * 512) {
            let file_system = FileSystem::simulated(5);
            file_system.create_dir_all(DIRECTORY).await.unwrap();
            file_system.simulated_disk().unwrap().set_capacity(capacity);
            let options = WriterOptions::for_table(descriptor(Path::new(DIRECTORY), 1), table());
            let outcome = async {
                let mut writer = SSTableWriter::create(&file_system, options.unwrap()).await?;
                writer.start_partition(header(&keys()[0]))?;
                for number in 0..2000 {
                    writer.add(row(number)).await?;
                }
                writer.end_partition().await?;
                writer.finish().await
            };
            let is_written = outcome.await.is_ok();
            failures += usize::from(!is_written);
            let left = file_system.read_dir(DIRECTORY).await.unwrap().len();
            assert_eq!(left > 0, is_written, "{capacity}: {left} files");
        }
        assert!((1..200).contains(&failures), "{failures}");
    });
}

/// A caller may continue after a rejection. The file must contain nothing of the rejected input.
#[test]
fn what_was_refused_leaves_nothing_behind() {
    let long = |clustering: u32, length: usize| {
        let mut row = Row::empty(Clustering { values: values(clustering) });
        let cell = Cell::live(1, Bytes::from(vec![7; length]));
        row.columns.push((ColumnId(2), ColumnData::Simple(cell)));
        Unfiltered::Row(row)
    };
    block_on(async {
        let (file_system, mut writer) = writer().await;
        let keys = keys();
        for key in &keys {
            let mut static_row = Row::empty(Clustering::empty());
            static_row.liveness = Liveness::live(1);
            let refused = PartitionHeader { static_row: Some(static_row), ..header(key) };
            let less =
                DecoratedKey { token: espalier_mutation::Token(key.token.0 - 1), ..key.clone() };
            let refused = PartitionHeader { key: less, ..refused };
            assert_rejected(writer.start_partition(refused), "no static column");
            writer.start_partition(header(key)).unwrap();
            for number in 0..300 {
                // Rejected rows also come first in a block.
                assert_rejected(writer.add(long(3 * number + 1, 5)).await, "5 bytes where");
                writer.add(row(3 * number + 2)).await.unwrap();
                assert_rejected(writer.add(long(3 * number + 3, 3)).await, "3 bytes where");
            }
            writer.end_partition().await.unwrap();
        }
        let written = writer.finish().await.unwrap().unwrap();
        assert_eq!((written.partition_count, written.statistics.stats.total_rows), (3, 900));
        let report = verify(&file_system, &written.descriptor).await.unwrap();
        assert!(report.problems.is_empty(), "{report:?}");
        assert!(report.blocks > 3);
    });
}

#[test]
fn chunks_that_a_reader_would_refuse_are_not_written() {
    use espalier_sstable::ChunkFormat;
    use support::writing::compressed;
    block_on(async {
        for chunks in [
            ChunkFormat::Plain { chunk_length: 0 },
            ChunkFormat::Plain { chunk_length: 32 << 20 },
            compressed("LZ4Compressor", 512 << 20, 0.0),
            compressed("LZ4Compressor", 5000, 0.0),
        ] {
            let file_system = FileSystem::simulated(5);
            file_system.create_dir_all(DIRECTORY).await.unwrap();
            let mut options =
                WriterOptions::for_table(descriptor(Path::new(DIRECTORY), 1), table()).unwrap();
            options.chunks = chunks;
            assert_rejected(
                SSTableWriter::create(&file_system, options).await.map(drop),
                "chunks of",
            );
        }
    });
}

#[test]
fn what_holds_nothing_is_not_written() {
    block_on(async {
        let [first, second, third] = keys();
        let (file_system, mut writer) = writer().await;
        writer.start_partition(header(&first)).unwrap();
        writer.end_partition().await.unwrap();
        writer.start_partition(header(&second)).unwrap();
        writer.add(Unfiltered::Row(Row::empty(Clustering { values: values(1) }))).await.unwrap();
        writer.add(row(2)).await.unwrap();
        writer.end_partition().await.unwrap();
        writer.start_partition(header(&third)).unwrap();
        writer.end_partition().await.unwrap();
        let written = writer.finish().await.unwrap().unwrap();
        assert_eq!(written.partition_count, 1);
        assert_eq!(written.statistics.stats.total_rows, 1);
        assert!(verify(&file_system, &written.descriptor).await.unwrap().problems.is_empty());
    });
    block_on(async {
        let (file_system, mut writer) = writer().await;
        writer.start_partition(header(&keys()[0])).unwrap();
        writer.end_partition().await.unwrap();
        assert!(writer.finish().await.unwrap().is_none());
        assert!(file_system.read_dir(DIRECTORY).await.unwrap().is_empty());
    });
}

/// A block of the row index cannot begin inside a deletion with a negative timestamp, so it
/// continues to the end of the deletion.
#[test]
fn a_negative_range_deletion_over_many_rows_is_held() {
    block_on(async {
        let key = &keys()[0];
        let deletion = DeletionTime::new(-500, 5);
        let (file_system, mut writer) = writer().await;
        writer.start_partition(header(key)).unwrap();
        for number in 0..2000 {
            match number {
                300 => {
                    let start = marker(number, BoundKind::InclusiveStart, LIVE, deletion);
                    writer.add(start).await.unwrap();
                }
                1300 => {
                    let end = marker(number, BoundKind::ExclusiveEnd, deletion, LIVE);
                    writer.add(end).await.unwrap();
                }
                _ => {}
            }
            writer.add(row(number)).await.unwrap();
        }
        writer.end_partition().await.unwrap();
        let written = writer.finish().await.unwrap().unwrap();
        let report = verify(&file_system, &written.descriptor).await.unwrap();
        assert!(report.problems.is_empty(), "{report:?}");
        assert!(report.blocks > 5);
        let cache = PageCache::new(1 << 20);
        let open = SSTableReader::open(&file_system, written.descriptor, Some(table()), &cache);
        let reader = open.await.unwrap();
        for direction in [Direction::Forward, Direction::Reverse] {
            let slices = ClusteringSlices { slices: vec![ClusteringSlice::prefix(values(1000))] };
            let all = ColumnSelection::All;
            let stream = reader.read_partition(key, Arc::new(slices), direction, &all).await;
            let mut stream = stream.unwrap().unwrap();
            let mut found = Vec::new();
            while let Some(unfiltered) = stream.next().await.unwrap() {
                found.push(unfiltered);
            }
            let mut expected = vec![
                marker(1000, BoundKind::InclusiveStart, LIVE, deletion),
                row(1000),
                marker(1000, BoundKind::InclusiveEnd, deletion, LIVE),
            ];
            if direction == Direction::Reverse {
                expected.reverse();
            }
            assert_eq!(found, expected);
        }
    });
}

#[test]
fn files_are_not_written_over_and_abort_removes_them() {
    block_on(async {
        let (file_system, writer) = writer().await;
        let path = Path::new(DIRECTORY);
        let again = WriterOptions::for_table(descriptor(path, 1), table()).unwrap();
        assert_taken(SSTableWriter::create(&file_system, again).await.map(drop));
        assert_eq!(list_directory(&file_system, path).await.unwrap().unsealed.len(), 1);
        writer.abort().await.unwrap();
        assert!(file_system.read_dir(DIRECTORY).await.unwrap().is_empty());
    });
}

/// A crash at any moment leaves either a sealed and whole SSTable, or files that are recognised as
/// garbage.
#[test]
fn a_crash_leaves_a_whole_sstable_or_garbage() {
    let (mut sealed, mut unsealed) = (0, 0);
    for seed in espalier_testing::sample(0..120) {
        let shape = Shape { partitions: 20, rows: 30, is_reconciled: true, is_odd: false };
        let mut generator = Generator::new(seed % 4 + 1, shape);
        let table = generator.table();
        let partitions = generator.partitions(&table);
        let chunks = random_chunks(&mut Random(seed));
        let disk = FileSystem::simulated(seed);
        let directory = Path::new(DIRECTORY);
        let survivor = block_on(async {
            disk.create_dir_all(directory).await.unwrap();
            let options = options(descriptor(directory, 1), &table, &partitions, chunks, 1024);
            disk.simulated_disk().unwrap().power_off_after(seed / 2);
            let written = write(&disk, options, &partitions).await;
            if let Ok(Some(written)) = &written {
                assert!(written.partition_count > 0);
            }
            (disk.simulated_disk().unwrap().crash(seed), written.is_ok())
        });
        let (survivor, is_finished) = survivor;
        block_on(async {
            let file_system = FileSystem::on(survivor);
            let listing = list_directory(&file_system, directory).await.unwrap_or_default();
            assert!(
                !is_finished || listing.sealed.len() == 1,
                "seed {seed}: a finished set is lost"
            );
            for descriptor in &listing.sealed {
                let report = verify(&file_system, descriptor).await.unwrap();
                assert!(report.problems.is_empty(), "seed {seed}: {report:#?}");
                remove_sstable(&file_system, descriptor).await.unwrap();
                assert_eq!(list_directory(&file_system, directory).await.unwrap().sealed, []);
                sealed += 1;
            }
            unsealed += usize::from(!listing.unsealed.is_empty());
        });
    }
    assert!(sealed > 0 && unsealed > 0, "{sealed} sealed, {unsealed} not: no crash in between");
}

/// Returns the length of Rows.db in bytes for a partition with this number of small rows.
async fn row_index_bytes(rows: u32, first_block_size: u32) -> u64 {
    let file_system = FileSystem::simulated(5);
    file_system.create_dir_all(DIRECTORY).await.unwrap();
    let descriptor = descriptor(Path::new(DIRECTORY), 1);
    let mut options = WriterOptions::for_table(descriptor.clone(), table()).unwrap();
    (options.column_index_size, options.first_block_size) = (1024, first_block_size);
    let mut writer = SSTableWriter::create(&file_system, options).await.unwrap();
    writer.start_partition(header(&keys()[0])).unwrap();
    for number in 0..rows {
        writer.add(row(number)).await.unwrap();
    }
    writer.end_partition().await.unwrap();
    writer.finish().await.unwrap();
    file_system.metadata(descriptor.path(&Component::Rows)).await.unwrap().length
}

#[test]
fn a_partition_of_a_page_has_no_row_index() {
    block_on(async {
        // Each row takes about ten bytes.
        assert!(row_index_bytes(200, 0).await > 0);
        assert_eq!(row_index_bytes(200, 4096).await, 0);
        // A larger partition has all its blocks except the ones within the first page.
        let (few, many) = (row_index_bytes(3000, 4096).await, row_index_bytes(3000, 0).await);
        assert!(few > many / 2 && few < many, "{few} {many}");
    });
}
