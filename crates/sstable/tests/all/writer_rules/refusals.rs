//! Tests the input that a writer rejects.

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{
    BoundKind, Cell, Clustering, ColumnData, DecoratedKey, DeletionTime, Liveness, PartitionHeader,
    Row, Unfiltered,
    schema::{ColumnId, TableBuilder, TableId},
};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{SSTableWriter, WriterOptions, components::list_directory, verify::verify};
use espalier_types::CqlType;

use super::{DIRECTORY, LIVE, assert_rejected, header, keys, marker, row, table, values, writer};
use crate::support::{block_on, writing::descriptor};

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
fn the_writer_refuses_data_that_the_format_cannot_store() {
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

/// A caller may continue after a rejection. The file must contain nothing of the rejected input.
#[test]
fn refused_input_leaves_nothing_in_the_file() {
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
    use crate::support::writing::compressed;
    use espalier_sstable::ChunkFormat;
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
