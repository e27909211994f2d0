//! Writes the data: the same rows in an SSTable of each format, with the flush's writer, in token
//! order.
//!
//! Memory: 16 bytes for each partition, and the writers' own memory.

use std::path::PathBuf;

use bytes::Bytes;
use espalier_cql::Value;
use espalier_mutation::{
    Cell, Clustering, DecoratedKey, DeletionTime, Liveness, PartitionHeader, Row, Token,
    Unfiltered, schema::TableMetadata,
};
use espalier_runtime::{file::FileSystem, maybe_yield};
use espalier_sstable::{
    Component, Descriptor, EncodingStats, SSTableId, SSTableWriter, WriterOptions,
    versions::Version,
};

use super::contender::{Format, Memory};
use super::population::Population;
use crate::BenchError;
use crate::progress::Progress;

/// Timestamp of all rows, in µs.
const TIMESTAMP: i64 = 1_750_000_000_000_000;

/// Names of components with their sizes in bytes.
pub type Sizes = Vec<(&'static str, u64)>;

/// The files of one format.
#[derive(Clone, Debug)]
pub struct Written {
    pub sizes: Sizes,
    pub data_path: PathBuf,
}

/// Writes the files of all formats.
pub async fn write(
    population: &Population,
    formats: &[Format],
    compression: &str,
    progress: &mut Progress,
) -> Result<Vec<Written>, BenchError> {
    let mut writers = Vec::new();
    for format in formats {
        writers.push(open(population, format, compression).await?);
    }
    let what = format!("{} rows of {} written", population.entries.count, population.test.name());
    let mut step = progress.step(what, population.entries.count);
    let mut order: Vec<(i64, u64)> = (0..population.partitions)
        .map(|partition| (Token::of(&population.key(partition)).0, partition))
        .collect();
    order.sort_unstable_by(|a, b| {
        a.0.cmp(&b.0).then_with(|| population.key(a.1).cmp(&population.key(b.1)))
    });
    let mut written = 0;
    for (_, partition) in order {
        let key = DecoratedKey::new(Bytes::from(population.key(partition)));
        for writer in &mut writers {
            let (key, deletion) = (key.clone(), DeletionTime::LIVE);
            writer
                .start_partition(PartitionHeader { key, deletion, static_row: None })
                .map_err(failed)?;
        }
        for within in 0..population.partition_rows.max(1) {
            let number = partition * population.partition_rows.max(1) + within;
            for writer in &mut writers {
                let row = row(population, writer.table(), number, within);
                writer.add(Unfiltered::Row(row)).await.map_err(failed)?;
            }
            written += 1;
            step.at(written);
            maybe_yield().await;
        }
        for writer in &mut writers {
            writer.end_partition().await.map_err(failed)?;
        }
    }
    let mut all = Vec::new();
    for writer in writers {
        let written = writer.finish().await.map_err(failed)?;
        let written = written.ok_or_else(|| BenchError::Wrong("an SSTable is empty".into()))?;
        all.push(Written {
            sizes: sizes_of(&written.descriptor).await?,
            data_path: written.descriptor.path(&Component::Data),
        });
    }
    Ok(all)
}

fn failed(error: espalier_sstable::SSTableError) -> BenchError {
    BenchError::Storage(error.into())
}

async fn open(
    population: &Population,
    format: &Format,
    compression: &str,
) -> Result<SSTableWriter, BenchError> {
    let (table, directory) = format.create_table(population, compression).await?;
    let file_system = FileSystem::real();
    file_system.create_dir_all(&directory).await?;
    let unknown = || BenchError::Refused(format!("'{}' is no version", format.version));
    let features = Version::named(&format.version).ok_or_else(unknown)?;
    let id = SSTableId::Generation(std::num::NonZeroU64::MIN);
    let mut options = WriterOptions::for_table(Descriptor::new(directory, features, id), table)
        .map_err(failed)?;
    options.encoding_stats = EncodingStats::from_baselines(TIMESTAMP, u32::MAX, 0);
    options.estimated_partitions = population.partitions;
    let configuration = format.configuration(Memory::default());
    options.column_index_size = configuration.column_index_size(features);
    options.first_block_size = configuration.first_block_size(features);
    options.summary_ratio = configuration.sstables.summary_ratio;
    SSTableWriter::create(&file_system, options).await.map_err(failed)
}

fn row(population: &Population, table: &TableMetadata, number: u64, within: u64) -> Row {
    let clustering = if population.has_clustering() {
        Clustering { values: [Some(Bytes::from(population.clustering(within)))].into() }
    } else {
        Clustering::empty()
    };
    let mut row = Row::empty(clustering);
    row.liveness = Liveness::live(TIMESTAMP);
    let values = population.entries.values(number).into_iter().skip(1);
    for (column, value) in table.regular_columns().iter().zip(values) {
        if let Value::Bytes(value) = value {
            row.set_cell(column.id, Cell::live(TIMESTAMP, value));
        }
    }
    row
}

async fn sizes_of(descriptor: &Descriptor) -> Result<Sizes, BenchError> {
    let file_system = FileSystem::real();
    let mut sizes = Vec::new();
    for (name, component) in [
        ("Data.db", Component::Data),
        ("Partitions.db", Component::Partitions),
        ("Rows.db", Component::Rows),
        ("Index.db", Component::Index),
        ("Summary.db", Component::Summary),
        ("Filter.db", Component::Filter),
    ] {
        let path = descriptor.path(&component);
        if file_system.exists(&path).await? {
            sizes.push((name, file_system.open_read(&path).await?.length().await?));
        }
    }
    Ok(sizes)
}
