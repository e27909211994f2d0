//! Sorts rows: in memory while they fit, otherwise in sorted runs that are merged.
//!
//! Memory bound: the given memory for sorting; in a merge, a row and a piece of each of at most
//! [`MERGED_AT_ONCE`] runs of each level. A run of a level is the merge of [`MERGED_AT_ONCE`] runs
//! of the level below, so that there are few levels: with 64 MiB of memory, the runs of the levels
//! have 64 MiB, 8 GiB and 1 TiB.

use std::path::PathBuf;
use std::sync::Arc;

use espalier_mutation::schema::TableMetadata;
use espalier_mutation::{Clustering, ClusteringSlices, ColumnData, KeyRange, Row};
use espalier_runtime::file::FileSystem;
use espalier_sstable::components::remove_sstable;
use espalier_sstable::versions::Version;
use espalier_sstable::{
    ChunkFormat, ColumnSelection, Descriptor, EncodingStats, PageCache, SSTableId, SSTableReader,
    SSTableWriter, Scan, WriterOptions, WrittenSSTable,
};

use super::distinct::DistinctTokens;
use super::merge::{Entry, EntryOrder, RowCounts, RunMerge, SortedEntries, write_entries};
use super::rows::Built;
use crate::sstable::progress::Progress;
use crate::sstable::{ToolError, interrupt::Interrupt, paths::unusable};

const CACHE_BYTES: usize = 4 << 20;
/// Number of runs of a level that are merged into a run of the next level. Each run in a merge has
/// a few open files, and a process may have only 1024 open files.
const MERGED_AT_ONCE: usize = 128;
/// Estimated memory of an entry without its values, in bytes.
const ENTRY_BYTES: usize = 160;
const CELL_BYTES: usize = 96;

/// Sorts rows that come in any order and writes them in the order of an SSTable.
pub struct Sorter<'a> {
    file_system: FileSystem,
    table: Arc<TableMetadata>,
    directory: PathBuf,
    memory_bytes: usize,
    undated: Option<i64>,
    interrupt: &'a Interrupt,
    entries: Vec<Entry>,
    used_bytes: usize,
    /// Runs by level. Level 0 has the runs written from memory.
    levels: Vec<Vec<Descriptor>>,
    runs_made: u64,
    partitions: DistinctTokens,
    stats: EncodingStats,
    /// Number of rows added.
    added: RowCounts,
}

/// A written SSTable with its numbers of rows.
pub struct WrittenRows {
    pub sstable: WrittenSSTable,
    /// Rows in the SSTable.
    pub rows: RowCounts,
    /// Rows added, before rows with the same key were merged.
    pub added: RowCounts,
}

impl<'a> Sorter<'a> {
    /// Creates a sorter that keeps runs in `directory`. The directory is created when it is needed
    /// and removed by [`Sorter::remove_runs`]. `undated` is the timestamp, in µs, of rows that
    /// have none in the input, or `None` if the command line gives that timestamp.
    pub fn new(
        file_system: FileSystem,
        table: Arc<TableMetadata>,
        directory: PathBuf,
        memory_bytes: usize,
        undated: Option<i64>,
        interrupt: &'a Interrupt,
    ) -> Self {
        Self {
            file_system,
            table,
            directory,
            memory_bytes,
            undated,
            interrupt,
            entries: Vec::new(),
            used_bytes: 0,
            levels: Vec::new(),
            runs_made: 0,
            partitions: DistinctTokens::default(),
            stats: EncodingStats::default(),
            added: RowCounts::default(),
        }
    }

    /// Adds the rows of a record.
    ///
    /// # Errors
    /// Fails if a run cannot be written or read, or after a signal.
    pub async fn add(&mut self, built: Built) -> Result<(), ToolError> {
        let Built { key, static_row, row } = built;
        self.partitions.add(key.token.0);
        for (row, is_static) in [(static_row, true), (row, false)] {
            let Some(row) = row else { continue };
            self.stats.add_row(&row);
            self.added.add(is_static);
            self.used_bytes += ENTRY_BYTES + key.key.len() + row_bytes(&row);
            self.entries.push(Entry { key: key.clone(), is_static, row });
        }
        if self.used_bytes >= self.memory_bytes {
            self.spill().await?;
        }
        Ok(())
    }

    async fn spill(&mut self) -> Result<(), ToolError> {
        let directory = self.file_system.create_dir_all(&self.directory).await;
        directory.map_err(|error| unusable(&self.directory, error.source.to_string()))?;
        let options = self.run_options()?;
        let run = options.descriptor.clone();
        let entries = self.sorted_in_memory();
        self.write(options, entries, |_| {}).await?;
        self.add_run(0, run);
        for level in 0.. {
            let Some(full) = self.levels.get_mut(level).filter(|runs| runs.len() >= MERGED_AT_ONCE)
            else {
                return Ok(());
            };
            let full = std::mem::take(full);
            let options = self.run_options()?;
            let run = options.descriptor.clone();
            let merge =
                RunMerge::new(EntryOrder(self.table.comparator()), self.scans(&full).await?);
            self.write(options, merge.await?, |_| {}).await?;
            self.add_run(level + 1, run);
            for merged in full {
                remove_sstable(&self.file_system, &merged).await?;
            }
        }
        Ok(())
    }

    fn add_run(&mut self, level: usize, run: Descriptor) {
        if self.levels.len() <= level {
            self.levels.resize_with(level + 1, Vec::new);
        }
        self.levels[level].push(run);
    }

    fn run_options(&mut self) -> Result<WriterOptions, ToolError> {
        let features = Version::DA.features().ok_or_else(|| {
            unusable(&self.directory, "runs cannot be written without version da".to_owned())
        })?;
        self.runs_made += 1;
        let id = SSTableId::parse(&self.runs_made.to_string())
            .ok_or_else(|| unusable(&self.directory, "too many runs".to_owned()))?;
        let descriptor = Descriptor::new(self.directory.clone(), features, id);
        let mut options = WriterOptions::for_table(descriptor, self.table.clone())?;
        // Runs are read once, front to back, and only by this process.
        options.is_durable = false;
        options.chunks = ChunkFormat::Plain { chunk_length: 64 * 1024 };
        options.bloom_filter_fp_chance = 1.0;
        options.encoding_stats = self.stats;
        Ok(options)
    }

    fn sorted_in_memory(&mut self) -> std::vec::IntoIter<Entry> {
        let mut entries = std::mem::take(&mut self.entries);
        self.used_bytes = 0;
        let order = EntryOrder(self.table.comparator());
        entries.sort_by(|left, right| order.compare(left, right));
        entries.into_iter()
    }

    /// Writes all rows. Returns `None` if there were none.
    ///
    /// # Errors
    /// Fails if the SSTable cannot be written, if a run cannot be read, or after a signal.
    pub async fn finish(
        &mut self,
        target: Descriptor,
        chunks: Option<ChunkFormat>,
        progress: &mut Progress,
    ) -> Result<Option<WrittenRows>, ToolError> {
        let mut options = WriterOptions::for_table(target, self.table.clone())?;
        options.encoding_stats = self.stats;
        options.facts.bloom_filter_fp_chance = options.bloom_filter_fp_chance;
        if let Some(chunks) = chunks {
            options.chunks = chunks;
        }
        options.estimated_partitions = self.partitions.estimate();
        if self.levels.is_empty() {
            let entries = self.sorted_in_memory();
            return self.write(options, entries, |_| {}).await;
        }
        if !self.entries.is_empty() {
            self.spill().await?;
        }
        // A higher level has older runs, so rows with one key come in the order of the input.
        let runs: Vec<_> = self.levels.iter().rev().flatten().cloned().collect();
        let scans = self.scans(&runs).await?;
        *progress =
            Progress::new("merge", scans.iter().map(|scan| scan.reader().data_length()).sum());
        let merge = RunMerge::new(EntryOrder(self.table.comparator()), scans).await?;
        self.write(options, merge, |writer| progress.at(writer.data_length())).await
    }

    /// Removes the runs. The caller must call this at the end, after an error too.
    ///
    /// # Errors
    /// Fails if the directory cannot be removed.
    pub async fn remove_runs(&self) -> Result<(), ToolError> {
        if self.runs_made == 0 {
            return Ok(());
        }
        let removed = self.file_system.remove_dir_all(&self.directory).await;
        removed.map_err(|error| unusable(&self.directory, error.source.to_string()))
    }

    async fn scans(&self, runs: &[Descriptor]) -> Result<Vec<Scan>, ToolError> {
        let cache = PageCache::new(CACHE_BYTES);
        let everything = Arc::new(ClusteringSlices::all());
        let mut scans = Vec::with_capacity(runs.len());
        for run in runs {
            let table = Some(self.table.clone());
            let reader = SSTableReader::open(&self.file_system, run.clone(), table, &cache).await?;
            let columns = ColumnSelection::All;
            scans.push(reader.scan(KeyRange::full(), everything.clone(), &columns).await?);
        }
        Ok(scans)
    }

    async fn write(
        &self,
        options: WriterOptions,
        entries: impl SortedEntries,
        watch: impl FnMut(&SSTableWriter),
    ) -> Result<Option<WrittenRows>, ToolError> {
        let mut writer = SSTableWriter::create(&self.file_system, options).await?;
        let (table, undated) = (&self.table, self.undated);
        match write_entries(&mut writer, table, undated, entries, self.interrupt, watch).await {
            Ok(rows) => {
                let sstable = writer.finish().await?;
                Ok(sstable.map(|sstable| WrittenRows { sstable, rows, added: self.added }))
            }
            Err(error) => {
                writer.abort().await?;
                Err(error)
            }
        }
    }
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
