//! Sorts rows: in memory as long as they fit, otherwise by runs that are merged.

use std::path::PathBuf;
use std::sync::Arc;

use espalier_mutation::reconcile::{MergedPartition, merge_rows_into};
use espalier_mutation::schema::TableMetadata;
use espalier_mutation::{
    Clustering, ClusteringSlices, ColumnData, DecoratedKey, DeletionTime, Direction, KeyRange,
    PartitionHeader, Row, Unfiltered,
};
use espalier_runtime::file::FileSystem;
use espalier_sstable::versions::Version;
use espalier_sstable::{
    ChunkFormat, ColumnSelection, Descriptor, EncodingStats, PageCache, SSTableError, SSTableId,
    SSTableReader, SSTableWriter, Scan, StreamWriteError, WriterOptions, WrittenSSTable,
};

use super::{distinct::DistinctTokens, rows::Built};
use crate::sstable::{ToolError, paths::unusable};

const CACHE_BYTES: usize = 4 << 20;
/// Bytes of an entry beside its values.
const ENTRY_BYTES: usize = 160;
const CELL_BYTES: usize = 96;

struct Entry {
    key: DecoratedKey,
    is_static: bool,
    row: Row,
}

/// Takes rows in any order and writes them in theirs.
pub struct Sorter {
    file_system: FileSystem,
    table: Arc<TableMetadata>,
    directory: PathBuf,
    memory_bytes: usize,
    entries: Vec<Entry>,
    used_bytes: usize,
    runs: Vec<Descriptor>,
    partitions: DistinctTokens,
    stats: EncodingStats,
}

impl Sorter {
    /// Keeps runs in `directory`, which is made when it is needed and removed at the end.
    pub fn new(
        file_system: FileSystem,
        table: Arc<TableMetadata>,
        directory: PathBuf,
        memory_bytes: usize,
    ) -> Self {
        Self {
            file_system,
            table,
            directory,
            memory_bytes,
            entries: Vec::new(),
            used_bytes: 0,
            runs: Vec::new(),
            partitions: DistinctTokens::default(),
            stats: EncodingStats::default(),
        }
    }

    /// Takes a row.
    pub async fn add(&mut self, built: Built) -> Result<(), ToolError> {
        let Built { key, static_row, row } = built;
        self.partitions.add(key.token.0);
        for (row, is_static) in [(static_row, true), (row, false)] {
            let Some(row) = row else { continue };
            self.stats.add_row(&row);
            self.used_bytes += ENTRY_BYTES + key.key.len() + row_bytes(&row);
            self.entries.push(Entry { key: key.clone(), is_static, row });
        }
        if self.used_bytes >= self.memory_bytes {
            self.spill().await?;
        }
        Ok(())
    }

    async fn spill(&mut self) -> Result<(), ToolError> {
        let wrong = |error: espalier_runtime::file::FileError| {
            unusable(&self.directory, error.source.to_string())
        };
        self.file_system.create_dir_all(&self.directory).await.map_err(wrong)?;
        let features = Version::DA.features().ok_or_else(|| {
            unusable(&self.directory, "runs cannot be written without version da".to_owned())
        })?;
        let id = SSTableId::parse(&(self.runs.len() + 1).to_string())
            .ok_or_else(|| unusable(&self.directory, "too many runs".to_owned()))?;
        let descriptor = Descriptor::new(self.directory.clone(), features, id);
        let mut options = WriterOptions::for_table(descriptor.clone(), self.table.clone())?;
        // Runs are read once, front to back.
        options.chunks = ChunkFormat::Plain { chunk_length: 64 * 1024 };
        options.bloom_filter_fp_chance = 1.0;
        options.encoding_stats = self.stats;
        let entries = std::mem::take(&mut self.entries);
        self.used_bytes = 0;
        write_sorted(&self.file_system, &self.table, options, entries).await?;
        self.runs.push(descriptor);
        Ok(())
    }

    /// Writes all; nothing if no row came.
    pub async fn finish(
        mut self,
        target: Descriptor,
        chunks: Option<ChunkFormat>,
    ) -> Result<Option<WrittenSSTable>, ToolError> {
        let mut options = WriterOptions::for_table(target, self.table.clone())?;
        options.encoding_stats = self.stats;
        options.facts.bloom_filter_fp_chance = options.bloom_filter_fp_chance;
        if let Some(chunks) = chunks {
            options.chunks = chunks;
        }
        options.estimated_partitions = self.partitions.estimate();
        if self.runs.is_empty() {
            return write_sorted(&self.file_system, &self.table, options, self.entries).await;
        }
        self.spill().await?;
        let merged = self.merge(options).await;
        let removed = self.file_system.remove_dir_all(&self.directory).await;
        let merged = merged?;
        removed.map_err(|error| unusable(&self.directory, error.source.to_string()))?;
        Ok(merged)
    }

    async fn merge(&self, options: WriterOptions) -> Result<Option<WrittenSSTable>, ToolError> {
        let cache = PageCache::new(CACHE_BYTES);
        let mut scans = Vec::with_capacity(self.runs.len());
        for run in &self.runs {
            let table = Some(self.table.clone());
            let reader = SSTableReader::open(&self.file_system, run.clone(), table, &cache).await?;
            let everything = Arc::new(ClusteringSlices::all());
            let columns = ColumnSelection::All;
            let mut scan = reader.scan(KeyRange::full(), everything, &columns).await?;
            if scan.next_partition().await?.is_some() {
                scans.push(scan);
            }
        }
        let mut writer = SSTableWriter::create(&self.file_system, options).await?;
        match self.merge_into(&mut writer, scans).await {
            Ok(()) => Ok(writer.finish().await?),
            Err(error) => {
                writer.abort().await?;
                Err(error)
            }
        }
    }

    async fn merge_into(
        &self,
        writer: &mut SSTableWriter,
        mut scans: Vec<Scan>,
    ) -> Result<(), ToolError> {
        loop {
            let keys = scans.iter().filter_map(Scan::header).map(|header| &header.key);
            let Some(least) = keys.min().cloned() else { return Ok(()) };
            let is_least = |scan: &Scan| scan.header().is_some_and(|header| header.key == least);
            let streams = scans.iter_mut().filter(|scan| is_least(scan));
            let streams: Vec<_> = streams.filter_map(Scan::partition).collect();
            let merged =
                MergedPartition::new(self.table.clone(), Direction::Forward, streams).await?;
            if let Some(mut merged) = merged {
                writer.write_partition(&mut merged).await.map_err(unwrapped)?;
            }
            for scan in scans.iter_mut().filter(|scan| is_least(scan)) {
                scan.next_partition().await?;
            }
            scans.retain(|scan| scan.header().is_some());
        }
    }
}

fn unwrapped(error: StreamWriteError<SSTableError>) -> ToolError {
    match error {
        StreamWriteError::Read(error) | StreamWriteError::Write(error) => error.into(),
    }
}

async fn write_sorted(
    file_system: &FileSystem,
    table: &TableMetadata,
    options: WriterOptions,
    mut entries: Vec<Entry>,
) -> Result<Option<WrittenSSTable>, ToolError> {
    let comparator = table.comparator();
    let compare = |left: &Entry, right: &Entry| {
        left.key.cmp(&right.key).then_with(|| right.is_static.cmp(&left.is_static)).then_with(
            || comparator.compare(left.row.clustering.position(), right.row.clustering.position()),
        )
    };
    entries.sort_by(compare);
    let mut writer = SSTableWriter::create(file_system, options).await?;
    match write_entries(&mut writer, table, entries, compare).await {
        Ok(()) => Ok(writer.finish().await?),
        Err(error) => {
            writer.abort().await?;
            Err(error.into())
        }
    }
}

async fn write_entries(
    writer: &mut SSTableWriter,
    table: &TableMetadata,
    entries: Vec<Entry>,
    compare: impl Fn(&Entry, &Entry) -> std::cmp::Ordering,
) -> Result<(), SSTableError> {
    let mut current: Option<DecoratedKey> = None;
    let mut entries = entries.into_iter().peekable();
    while let Some(mut entry) = entries.next() {
        while let Some(same) = entries.next_if(|next| compare(&entry, next).is_eq()) {
            merge_rows_into(table, &mut entry.row, same.row);
        }
        let Entry { key, is_static, row } = entry;
        if current.as_ref() != Some(&key) {
            if current.is_some() {
                writer.end_partition().await?;
            }
            writer.start_partition(PartitionHeader {
                key: key.clone(),
                deletion: DeletionTime::LIVE,
                static_row: is_static.then(|| row.clone()),
            })?;
            current = Some(key);
        }
        if !is_static {
            writer.add(Unfiltered::Row(row)).await?;
        }
    }
    if current.is_some() {
        writer.end_partition().await?;
    }
    Ok(())
}

fn row_bytes(row: &Row) -> usize {
    let clustering = |clustering: &Clustering| -> usize {
        clustering.values.iter().flatten().map(|value| CELL_BYTES + value.len()).sum()
    };
    let columns = row.columns.iter().map(|(_, data)| match data {
        ColumnData::Simple(cell) => CELL_BYTES + cell.value.len(),
        ColumnData::Complex(column) => {
            let cells = column.cells.iter();
            cells.map(|(path, cell)| 2 * CELL_BYTES + path.len() + cell.value.len()).sum()
        }
    });
    clustering(&row.clustering) + columns.sum::<usize>()
}
