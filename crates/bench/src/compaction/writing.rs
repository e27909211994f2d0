//! Measures a writer alone, which writes the compaction's output file again from rows in memory,
//! and LZ4 on the blocks of that file.

use std::{num::NonZeroU64, path::Path, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{
    ClusteringSlices, KeyRange, PartitionHeader, Unfiltered, UnfilteredStream,
    schema::TableMetadata,
};
use espalier_runtime::{cpu::process_time, file::FileSystem, maybe_yield};
use espalier_sstable::{
    ColumnSelection, DataReader, Descriptor, PageCache, PresentColumns, SSTableId, SSTableReader,
    SSTableWriter, WHOLE_READ_AHEAD_BYTES, WriterOptions, components::remove_sstable,
    compression::Compressor,
};

use super::BenchError;

/// Number of rounds. Each round has all measurements; the best result of each counts.
const ROUNDS: u32 = 5;
/// Numbers of rows that are read into memory, outside the measured time, before they are written.
/// The first is so large that the processor's caches have lost the rows when the writer begins. The
/// second is so small that the caches still have the rows, as in a compaction, which reads and
/// writes row after row.
const ROWS_AT_ONCE: [usize; 2] = [20_000, 500];
/// Number of chunks that are compressed, spread over the whole file.
const SAMPLE_CHUNKS: u64 = 4096;
/// Size of the page cache, for pages of the index and a few chunks.
const CACHE_BYTES: usize = 4 << 20;

/// Speeds in bytes before compression for each second of core time.
pub(super) struct Speeds {
    /// Speeds of a writer, from rows to a sealed file, for each entry of [`ROWS_AT_ONCE`].
    pub(super) write: [f64; 2],
    /// Speed of LZ4 compression of the blocks of that file.
    pub(super) compress: f64,
    /// Speed of LZ4 decompression of these blocks.
    pub(super) decompress: f64,
}

/// The compaction's output file and its writer's parameters.
pub(super) struct Original {
    pub(super) descriptor: Descriptor,
    pub(super) table: Arc<TableMetadata>,
    /// Bytes of a block of the row index, and of the first block of a partition.
    pub(super) blocks: (u32, u32),
}

/// Measures all speeds; the files that it writes are removed.
pub(super) async fn measure(
    files: &FileSystem,
    original: &Original,
    directory: &Path,
) -> Result<Speeds, BenchError> {
    let cache = PageCache::new(CACHE_BYTES);
    let data = DataReader::open(files, original.descriptor.clone(), &cache).await?;
    let chunks = sample(&data).await?;
    let mut best = Speeds { write: [0.0; 2], compress: 0.0, decompress: 0.0 };
    for round in 0..ROUNDS {
        let (compress, decompress) = lz4(&chunks).await?;
        best.compress = best.compress.max(compress);
        best.decompress = best.decompress.max(decompress);
        for (best, at_once) in best.write.iter_mut().zip(ROWS_AT_ONCE) {
            *best = best.max(write(files, original, directory, (round, at_once), &cache).await?);
        }
    }
    Ok(best)
}

/// Reads about [`SAMPLE_CHUNKS`] chunks of a file, as they are before compression.
async fn sample(data: &DataReader) -> Result<Vec<Bytes>, BenchError> {
    let Some(first) = data.read_chunk(0).await? else { return Ok(Vec::new()) };
    let count = data.data_length().div_ceil(first.len().max(1) as u64);
    let step = count.div_ceil(SAMPLE_CHUNKS).max(1);
    let mut chunks = Vec::new();
    for number in (0..count).step_by(usize::try_from(step).unwrap_or(1)) {
        // A copy has memory of its own, of exactly the chunk's length.
        chunks.extend(data.read_chunk(number).await?.map(|chunk| Bytes::copy_from_slice(&chunk)));
        maybe_yield().await;
    }
    Ok(chunks)
}

/// Returns the speeds of compression and of decompression.
async fn lz4(chunks: &[Bytes]) -> Result<(f64, f64), BenchError> {
    let most = chunks.iter().map(|chunk| chunk.len()).max().unwrap_or(0);
    let mut stored = vec![0; Compressor::Lz4.maximum_length(most)];
    let mut plain = vec![0; most];
    let (mut there_s, mut back_s) = (0.0, 0.0);
    for some in chunks.chunks(16) {
        let started = process_time();
        for chunk in some {
            Compressor::Lz4.compress_into(chunk, &mut stored).map_err(BenchError::Wrong)?;
        }
        there_s += (process_time() - started).as_secs_f64();
        let mut compressed = Vec::new();
        for chunk in some {
            let length =
                Compressor::Lz4.compress_into(chunk, &mut stored).map_err(BenchError::Wrong)?;
            compressed.push(stored[..length].to_vec());
        }
        let started = process_time();
        for (chunk, stored) in some.iter().zip(&compressed) {
            let plain = &mut plain[..chunk.len()];
            Compressor::Lz4.decompress_into(stored, plain).map_err(BenchError::Wrong)?;
        }
        back_s += (process_time() - started).as_secs_f64();
        maybe_yield().await;
    }
    let bytes: usize = chunks.iter().map(|chunk| chunk.len()).sum();
    Ok((bytes as f64 / there_s, bytes as f64 / back_s))
}

/// Writes the rows of the original again, and returns the speed.
async fn write(
    files: &FileSystem,
    original: &Original,
    directory: &Path,
    (round, rows_at_once): (u32, usize),
    cache: &PageCache,
) -> Result<f64, BenchError> {
    let Original { descriptor, table, blocks } = original;
    let reader = SSTableReader::open(files, descriptor.clone(), Some(table.clone()), cache).await?;
    let features = reader.features();
    let id = SSTableId::Generation(NonZeroU64::MIN.saturating_add(round.into()));
    let copy = Descriptor::new(directory, features, id);
    let mut options = WriterOptions::for_table(copy.clone(), table.clone())?;
    options.columns = PresentColumns::none();
    options.columns.add_header(&reader.statistics().header, table);
    options.encoding_stats = reader.statistics().header.encoding_stats();
    options.estimated_partitions = reader.partition_count();
    (options.column_index_size, options.first_block_size) = *blocks;
    let mut rows = Rows::of(&reader).await?;
    let started = process_time();
    let mut writer = SSTableWriter::create(files, options).await?;
    let mut seconds = (process_time() - started).as_secs_f64();
    loop {
        let partitions = rows.next(rows_at_once).await?;
        if partitions.is_empty() {
            break;
        }
        let started = process_time();
        for (header, unfiltereds) in partitions {
            writer.start_partition(header)?;
            for unfiltered in unfiltereds {
                writer.put(unfiltered)?;
                writer.make_room().await?;
            }
            writer.end_partition().await?;
            maybe_yield().await;
        }
        seconds += (process_time() - started).as_secs_f64();
    }
    let started = process_time();
    let written = writer.finish().await?;
    seconds += (process_time() - started).as_secs_f64();
    remove_sstable(files, &copy).await?;
    let length = reader.data_length();
    match written {
        Some(written) if written.data_length == length => Ok(length as f64 / seconds),
        _ => Err(BenchError::Wrong("the rows make another file than before".into())),
    }
}

/// Partitions with their rows.
type Partitions = Vec<(PartitionHeader, Vec<Unfiltered>)>;

/// The rows of a file, read in batches.
struct Rows {
    scan: espalier_sstable::Scan,
}

impl Rows {
    async fn of(reader: &SSTableReader) -> Result<Self, BenchError> {
        let all = Arc::new(ClusteringSlices::all());
        let mut scan = reader.scan(KeyRange::full(), all, &ColumnSelection::All).await?;
        scan.expect_all(WHOLE_READ_AHEAD_BYTES);
        Ok(Self { scan })
    }

    async fn next(&mut self, rows_at_once: usize) -> Result<Partitions, BenchError> {
        let (mut partitions, mut rows) = (Vec::new(), 0);
        while rows < rows_at_once {
            let Some(mut partition) = self.scan.next_partition().await? else { break };
            let header = partition.header().clone();
            let mut unfiltereds = Vec::new();
            while let Some(unfiltered) = partition.next().await? {
                unfiltereds.push(unfiltered);
            }
            rows += unfiltereds.len();
            partitions.push((header, unfiltereds));
            maybe_yield().await;
        }
        Ok(partitions)
    }
}
