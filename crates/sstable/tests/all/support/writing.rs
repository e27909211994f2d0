//! This module writes generated partitions.

use std::{path::Path, sync::Arc};

use espalier_mutation::schema::{CompressionOptions, TableMetadata};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{
    ChunkFormat, Descriptor, EncodingStats, PresentColumns, SSTableId, SSTableWriter,
    WriterOptions, WrittenSSTable,
    versions::{VERSIONS, VersionFeatures},
};

use super::{generate::Partition, slicing::Random};

/// Creates a descriptor of the default version.
pub fn descriptor(directory: &Path, number: u64) -> Descriptor {
    descriptor_of(&VERSIONS[0], directory, number)
}

pub fn descriptor_of(features: &VersionFeatures, directory: &Path, number: u64) -> Descriptor {
    let id = SSTableId::Generation(number.try_into().unwrap());
    Descriptor::new(directory, features, id)
}

/// Returns all versions that can be written.
pub fn written_versions() -> Vec<&'static VersionFeatures> {
    VERSIONS.iter().filter(|features| features.is_written).collect()
}

pub fn compressed(class: &str, chunk_length: u32, min_compress_ratio: f64) -> ChunkFormat {
    ChunkFormat::Compressed(CompressionOptions {
        class: class.into(),
        chunk_length,
        min_compress_ratio,
        parameters: Default::default(),
    })
}

pub fn random_chunks(random: &mut Random) -> ChunkFormat {
    match random.below(8) {
        0 => ChunkFormat::Plain { chunk_length: 65_536 },
        1 => ChunkFormat::PLAIN,
        2 => compressed("LZ4Compressor", 16_384, 0.0),
        3 => compressed("LZ4Compressor", 4096, 1.1),
        4 => compressed("SnappyCompressor", 1024, 0.0),
        5 => compressed("DeflateCompressor", 4096, 2.0),
        6 => compressed("ZstdCompressor", 4096, 0.0),
        _ => compressed("LZ4Compressor", 512, 1.0),
    }
}

/// Returns the options that a flush of these partitions would use.
pub fn options(
    descriptor: Descriptor,
    table: &Arc<TableMetadata>,
    partitions: &[Partition],
    chunks: ChunkFormat,
    column_index_size: u32,
) -> WriterOptions {
    let mut options = WriterOptions::for_table(descriptor, table.clone()).unwrap();
    let (mut columns, mut stats) = (PresentColumns::none(), EncodingStats::default());
    for partition in partitions {
        stats.add_deletion(partition.header.deletion);
        for row in partition.header.static_row.iter() {
            columns.add_row(row);
            stats.add_row(row);
        }
        for unfiltered in &partition.unfiltereds {
            match unfiltered {
                espalier_mutation::Unfiltered::Row(row) => {
                    columns.add_row(row);
                    stats.add_row(row);
                }
                espalier_mutation::Unfiltered::Marker(marker) => {
                    stats.add_deletion(marker.before);
                    stats.add_deletion(marker.after);
                }
            }
        }
    }
    options.columns = columns;
    options.encoding_stats = stats;
    options.estimated_partitions = partitions.len() as u64;
    options.chunks = chunks;
    options.column_index_size = column_index_size;
    options
}

pub async fn write(
    file_system: &FileSystem,
    options: WriterOptions,
    partitions: &[Partition],
) -> espalier_sstable::Result<Option<WrittenSSTable>> {
    let mut writer = SSTableWriter::create(file_system, options).await?;
    for partition in partitions {
        writer.start_partition(partition.header.clone())?;
        for unfiltered in &partition.unfiltereds {
            writer.add(unfiltered.clone()).await?;
        }
        writer.end_partition().await?;
    }
    writer.finish().await
}
