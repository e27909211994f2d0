//! `espalier sstable convert`: writes the same content in another version, partition by partition.
//!
//! The copy has every cell with its times, and the level, repair time, host, commit log intervals
//! and id of the source. The command does not reconcile, purge or merge. Memory bound: one reader
//! and one writer.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use espalier_mutation::schema::CompressionOptions;
use espalier_mutation::{
    Cell, ClusteringSlices, ColumnData, KeyRange, Row, Unfiltered, UnfilteredStream,
};
use espalier_runtime::file::FileSystem;
use espalier_runtime::time::Instant;
use espalier_sstable::versions::{VERSIONS, Version, VersionFeatures};
use espalier_sstable::{
    ChunkFormat, ColumnSelection, Descriptor, PageCache, SSTableError, SSTableReader,
    SSTableWriter, WriterFacts, WriterOptions, WrittenSSTable,
};

use super::ToolError;
use super::arguments::{CompressionArguments, ConvertArguments};
use super::failures::Failures;
use super::interrupt::Interrupt;
use super::made_directories::MadeDirectories;
use super::output::Reports;
use super::paths::{self, unusable};
use super::progress::{Progress, bytes, rate};

const CACHE_BYTES: usize = 8 << 20;
/// Maximum chunk length of the writer.
const MAX_CHUNK_KIB: u32 = 16 << 10;

/// Converts all SSTables. Each copy has the path below the output directory that its source has
/// below the given path.
///
/// # Errors
/// Fails if an argument or a path cannot be used, if an SSTable fails, or after a signal.
pub async fn convert(arguments: &ConvertArguments) -> Result<(), ToolError> {
    let file_system = FileSystem::real();
    let features = version("to", &arguments.to)?;
    let chunks = chunks(&arguments.compression)?;
    let interrupt = Interrupt::watch()?;
    let found = paths::find(&file_system, &arguments.paths.paths).await?;
    let mut failures = Failures::of(&found);
    let mut reports = Reports::default();
    for (source, place) in found.descriptors.iter().zip(&found.places) {
        let directory = arguments.output.join(place);
        match one(&file_system, source, features, directory, &chunks, &interrupt).await {
            Ok(converted) => reports.print(&format!("{converted}\n"))?,
            Err(error) => failures.take(of_source(source, error))?,
        }
    }
    failures.result()
}

/// Names the source in an error that is about the target.
fn of_source(source: &Descriptor, error: ToolError) -> ToolError {
    match error {
        ToolError::SSTable(error) if file_of(&error).parent() != Some(&*source.directory) => {
            unusable(&source.directory.join(source.to_string()), error.to_string())
        }
        error => error,
    }
}

fn file_of(error: &SSTableError) -> PathBuf {
    match error {
        SSTableError::Io(error) => error.path.clone(),
        SSTableError::Corrupt { file, .. }
        | SSTableError::Unsupported { file, .. }
        | SSTableError::OtherTable { file, .. }
        | SSTableError::NameTaken { file, .. }
        | SSTableError::Rejected { file, .. } => file.to_string().into(),
    }
}

/// Returns the features of the version that the user named.
///
/// # Errors
/// Fails if the version is unknown or cannot be written.
pub fn version(argument: &'static str, name: &str) -> Result<&'static VersionFeatures, ToolError> {
    Version::parse(name).and_then(Version::writable_features).ok_or_else(|| {
        let known: Vec<_> = VERSIONS
            .iter()
            .filter(|row| row.is_written)
            .map(|row| row.version.to_string())
            .collect();
        ToolError::Argument {
            name: argument,
            reason: format!("'{name}' is not a version that can be written: {}", known.join(", ")),
        }
    })
}

/// Returns the chunk format of the arguments, or `None` if they do not choose one.
///
/// # Errors
/// Fails if the compressor is unknown, or if the chunk length is invalid or without a compressor.
pub fn chunks(arguments: &CompressionArguments) -> Result<Option<ChunkFormat>, ToolError> {
    let wrong = |reason: String| ToolError::Argument { name: "compression", reason };
    let wrong_length = |reason: String| ToolError::Argument { name: "chunk-length-in-kb", reason };
    let chunk_length = match arguments.chunk_length_in_kb {
        Some(kib) if !kib.is_power_of_two() || kib > MAX_CHUNK_KIB => {
            return Err(wrong_length(format!(
                "{kib} is not a power of 2 from 1 to {MAX_CHUNK_KIB}"
            )));
        }
        kib => kib.map_or(16 * 1024, |kib| kib * 1024),
    };
    let class = match (arguments.compression.as_deref(), arguments.chunk_length_in_kb) {
        (None, None) => return Ok(None),
        (None, Some(_)) => {
            let reason = "give the compression too: --compression lz4, or --compression none";
            return Err(wrong_length(reason.to_owned()));
        }
        (Some("none"), None) => return Ok(Some(ChunkFormat::PLAIN)),
        (Some("none"), Some(_)) => return Ok(Some(ChunkFormat::Plain { chunk_length })),
        (Some("lz4"), _) => "LZ4Compressor",
        (Some("zstd"), _) => "ZstdCompressor",
        (Some("snappy"), _) => "SnappyCompressor",
        (Some("deflate"), _) => "DeflateCompressor",
        (Some(other), _) => {
            return Err(wrong(format!(
                "'{other}' is unknown: give lz4, zstd, snappy, deflate, or none for no compression"
            )));
        }
    };
    Ok(Some(ChunkFormat::Compressed(CompressionOptions {
        class: class.to_owned(),
        chunk_length,
        min_compress_ratio: 0.0,
        parameters: BTreeMap::new(),
    })))
}

async fn one(
    file_system: &FileSystem,
    source: &Descriptor,
    features: &'static VersionFeatures,
    directory: PathBuf,
    chunks: &Option<ChunkFormat>,
    interrupt: &Interrupt,
) -> Result<String, ToolError> {
    let began = Instant::now();
    let cache = PageCache::new(CACHE_BYTES);
    let reader = paths::open(file_system, source, &cache).await?;
    let target = Descriptor::new(directory, features, source.id);
    let made = MadeDirectories::make(file_system, &target.directory).await?;
    let outcome = write(file_system, source, &reader, features, target, chunks, interrupt).await;
    if !matches!(outcome, Ok(Some(_))) {
        made.remove_empty(file_system).await;
    }
    Ok(match outcome? {
        Some(written) => describe(source, &reader, &written.descriptor, began.elapsed()),
        None => format!("{source}: it is empty, nothing was written"),
    })
}

async fn write(
    file_system: &FileSystem,
    source: &Descriptor,
    reader: &SSTableReader,
    features: &VersionFeatures,
    target: Descriptor,
    chunks: &Option<ChunkFormat>,
    interrupt: &Interrupt,
) -> Result<Option<WrittenSSTable>, ToolError> {
    if is_same(&target.directory, &source.directory) {
        let reason = "the source is in this directory; --output must be another directory";
        return Err(unusable(&target.directory, reason.to_owned()));
    }
    let options = options(reader, target, chunks.clone())?;
    let mut writer = SSTableWriter::create(file_system, options).await?;
    let mut progress = Progress::new(source.to_string(), reader.data_length());
    if let Err(error) = copy(source, reader, features, &mut writer, &mut progress, interrupt).await
    {
        writer.abort().await?;
        return Err(error);
    }
    progress.finish();
    Ok(writer.finish().await?)
}

fn options(
    reader: &SSTableReader,
    target: Descriptor,
    chunks: Option<ChunkFormat>,
) -> Result<WriterOptions, ToolError> {
    let statistics = reader.statistics();
    let stats = &statistics.stats;
    let as_before = || match reader.compression() {
        None => ChunkFormat::PLAIN,
        Some(info) => ChunkFormat::Compressed(CompressionOptions {
            class: info.compressor.clone(),
            chunk_length: info.chunk_length,
            min_compress_ratio: match info.max_compressed_length {
                0 => 0.0,
                most if most > info.chunk_length => 0.0,
                most => f64::from(info.chunk_length) / f64::from(most),
            },
            parameters: parameters(&info.options),
        }),
    };
    let mut options = WriterOptions::for_table(target, reader.table())?;
    options.encoding_stats = statistics.header.encoding_stats();
    options.estimated_partitions = reader.partition_count();
    options.bloom_filter_fp_chance = statistics.bloom_filter_fp_chance;
    options.chunks = chunks.unwrap_or_else(as_before);
    options.facts = WriterFacts {
        bloom_filter_fp_chance: statistics.bloom_filter_fp_chance,
        level: stats.level,
        repaired_at: stats.repaired_at,
        originating_host_id: stats.originating_host_id,
        commit_log_intervals: stats.commit_log_intervals.clone(),
    };
    Ok(options)
}

/// Returns the options of a compressor for the writer, without `crc_check_chance`: old files and
/// those of ScyllaDB have this option, but Cassandra 5 refuses files that have it.
fn parameters(options: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut parameters = options.clone();
    parameters.remove("crc_check_chance");
    parameters
}

/// Returns whether two paths lead to the same directory.
fn is_same(left: &Path, right: &Path) -> bool {
    let real = |path: &Path| {
        if path.as_os_str().is_empty() {
            Path::new(".").canonicalize().ok()
        } else {
            path.canonicalize().ok()
        }
    };
    left == right || real(left).is_some_and(|left| Some(left) == real(right))
}

async fn copy(
    source: &Descriptor,
    reader: &SSTableReader,
    features: &VersionFeatures,
    writer: &mut SSTableWriter,
    progress: &mut Progress,
    interrupt: &Interrupt,
) -> Result<(), ToolError> {
    let latest_s = features.local_deletion_times.maximum();
    let check = |row: Option<&Row>| match row.and_then(|row| expires_after(row, latest_s)) {
        Some(second) => Err(unusable(
            &source.directory.join(source.to_string()),
            format!(
                "a cell or row expires at second {second}, but version {} stores times up to {latest_s}",
                features.version
            ),
        )),
        None => Ok(()),
    };
    let everything = ClusteringSlices::all().into();
    let mut scan = reader.scan(KeyRange::full(), everything, &ColumnSelection::All).await?;
    while let Some(mut partition) = scan.next_partition().await? {
        check(partition.header().static_row.as_ref())?;
        writer.start_partition(partition.header().clone())?;
        while let Some(unfiltered) = partition.next().await? {
            if let Unfiltered::Row(row) = &unfiltered {
                check(Some(row))?;
            }
            writer.add(unfiltered).await?;
            progress.at(partition.position());
            interrupt.check()?;
        }
        writer.end_partition().await?;
    }
    Ok(())
}

/// Returns the expiry of a cell or of the row's liveness if it is later than `latest_s`. Later
/// deletion times need no check: the writer stores `latest_s` instead, as Cassandra does.
fn expires_after(row: &Row, latest_s: u32) -> Option<u32> {
    let liveness = (row.liveness.ttl, row.liveness.local_expiration);
    let of_cell = |cell: &Cell| (cell.ttl, cell.local_deletion_time);
    let cells = row.columns.iter().flat_map(|(_, data)| {
        let (simple, complex) = match data {
            ColumnData::Simple(cell) => (Some(cell), None),
            ColumnData::Complex(column) => (None, Some(column)),
        };
        let elements = complex.into_iter().flat_map(|column| &column.cells);
        simple.into_iter().chain(elements.map(|(_, cell)| cell)).map(of_cell)
    });
    let mut expiring = std::iter::once(liveness).chain(cells).filter(|(ttl, _)| *ttl > 0);
    expiring.find(|(_, second)| *second > latest_s).map(|(_, second)| second)
}

fn describe(
    source: &Descriptor,
    reader: &SSTableReader,
    target: &Descriptor,
    elapsed: Duration,
) -> String {
    format!(
        "{} -> {}: {} partitions, {} of rows, {} stored before, in {:.2} s at {}",
        source.directory.join(source.to_string()).display(),
        target.directory.join(target.to_string()).display(),
        reader.partition_count(),
        bytes(reader.data_length()),
        bytes(reader.stored_data_length()),
        elapsed.as_secs_f64(),
        rate(reader.data_length(), elapsed)
    )
}
