//! An SSTable that one shard has opened, with the facts that reads and compactions need.
//!
//! If the keys of an SSTable span the token ranges of several shards, each of these shards opens it
//! and reads only its own part.

mod droppable;
mod set;

use std::{
    cell::{Cell, OnceCell},
    sync::Arc,
};

use espalier_mutation::{
    ClusteringSlices, DecoratedKey, DecoratedKeyRef, DeletionTime, Direction, LogPosition,
    schema::TableMetadata,
};
use espalier_runtime::{file::FileSystem, time};
use uuid::Uuid;

pub use droppable::Droppable;
pub use set::SSTableSet;

use crate::{
    ColumnSelection, Component, Descriptor, PageCache, PartitionStream, Result, SSTableError,
    SSTableId, SSTableReader, WriterFacts,
    statistics::{
        CommitLogInterval, CommitLogPosition, StatsComponent,
        estimated_histogram::EstimatedHistogram,
    },
};

/// Sizes of an SSTable's files in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct BytesOnDisk {
    /// Size of all files.
    pub all: u64,
    /// Size of Filter.db.
    pub filter: u64,
}

/// An opened SSTable, with the facts that reads need before they touch the disk.
pub struct SSTable {
    reader: SSTableReader,
    /// Modification time of Data.db, in milliseconds since 1970.
    made_ms: i64,
    /// Set by the first call of [`SSTable::bytes_on_disk`].
    bytes_on_disk: OnceCell<BytesOnDisk>,
    /// True if this SSTable has made a compaction fail.
    is_suspect: Cell<bool>,
}

impl SSTable {
    /// Opens the files of a descriptor. The reader returns rows by the schema version `table`.
    ///
    /// # Errors
    ///
    /// Fails if the version is unknown, or if a needed file is missing, damaged, unreadable or of
    /// another table.
    pub async fn open(
        file_system: &FileSystem,
        table: &Arc<TableMetadata>,
        descriptor: Descriptor,
        cache: &PageCache,
    ) -> Result<Self> {
        let table = Some(table.clone());
        let data = descriptor.path(&Component::Data);
        let reader = SSTableReader::open(file_system, descriptor, table, cache).await?;
        let made_ms = match file_system.metadata(data).await {
            Ok(metadata) => metadata.modified_ms,
            // Probably the file was removed after it was opened.
            Err(_) => time::now_millis(),
        };
        Ok(Self { reader, made_ms, bytes_on_disk: OnceCell::new(), is_suspect: Cell::new(false) })
    }

    /// Returns the reader of the files.
    #[inline]
    pub fn reader(&self) -> &SSTableReader {
        &self.reader
    }

    /// Returns the descriptor: directory, version and name.
    #[inline]
    pub fn descriptor(&self) -> &Descriptor {
        self.reader.descriptor()
    }

    fn stats(&self) -> &StatsComponent {
        &self.reader.statistics().stats
    }

    /// Returns the greatest write timestamp in µs.
    #[inline]
    pub fn maximum_timestamp(&self) -> i64 {
        self.reader.maximum_timestamp()
    }

    /// Returns the least write timestamp in µs.
    #[inline]
    pub fn minimum_timestamp(&self) -> i64 {
        self.stats().min_timestamp
    }

    /// Returns the latest second at which any data expires or was deleted; `u32::MAX` if some data
    /// never expires.
    #[inline]
    pub fn maximum_local_deletion_time(&self) -> u32 {
        self.stats().max_local_deletion_time
    }

    /// Returns the tokens of the first and the last partition.
    #[inline]
    pub fn tokens(&self) -> (i64, i64) {
        (self.reader.first_key().token.0, self.reader.last_key().token.0)
    }

    /// Returns an upper limit of the bytes of Data.db and its index after a rewrite: the present
    /// size, or the uncompressed size if the table now has another compression than the file.
    pub fn bytes_rewritten(&self) -> u64 {
        let reader = &self.reader;
        let table = reader.table();
        let wanted = table.options.compression_to_write();
        let is_same = match (&wanted, reader.compression()) {
            (None, None) => true,
            (Some(wanted), Some(its)) => {
                wanted.class == its.compressor
                    && wanted.chunk_length == its.chunk_length
                    && wanted.parameters == its.options
            }
            _ => false,
        };
        let bytes = reader.bytes_on_disk();
        let of_compression = reader.data_length().saturating_sub(reader.stored_data_length());
        if is_same { bytes } else { bytes + of_compression }
    }

    /// Returns whether automatic compactions avoid this SSTable, because they would fail on it. A
    /// validating scrub that finds the SSTable intact, or a restart, ends this state.
    pub fn is_suspect(&self) -> bool {
        self.is_suspect.get()
    }

    /// Clears the mark of [`Self::suspect`]. A validating scrub calls this if it has found the
    /// SSTable intact.
    pub fn set_right(&self) {
        self.is_suspect.set(false);
    }

    /// Marks the SSTable as suspect if a compaction's error concerns one of its files. A rejected
    /// output concerns every input, because the fault may come from any of them. Returns whether
    /// the error concerns this SSTable.
    pub fn suspect(&self, error: &SSTableError) -> bool {
        let mut components = self.reader.components().iter();
        let is_meant = error.is_rejected()
            || components.any(|component| error.is_about(&self.descriptor().path(component)));
        self.is_suspect.set(self.is_suspect.get() || is_meant);
        is_meant
    }

    /// Returns the seconds since Data.db was modified.
    pub fn age_s(&self) -> u64 {
        u64::try_from(time::now_millis().saturating_sub(self.made_ms)).unwrap_or(0) / 1000
    }

    /// Returns the generation number in the file name; 0 (the oldest) for names without a number.
    pub fn number(&self) -> u64 {
        match self.descriptor().id {
            SSTableId::Generation(number) => number.get(),
            SSTableId::Uuid(_) => 0,
        }
    }

    /// Returns the sizes of the files. The first call asks the file system.
    pub async fn bytes_on_disk(&self, file_system: &FileSystem) -> BytesOnDisk {
        if let Some(bytes) = self.bytes_on_disk.get() {
            return *bytes;
        }
        let mut bytes = BytesOnDisk::default();
        for component in self.reader.components() {
            match file_system.metadata(self.descriptor().path(component)).await {
                Ok(metadata) => {
                    bytes.all += metadata.length;
                    if *component == Component::Filter {
                        bytes.filter = metadata.length;
                    }
                }
                // Most likely a compaction has removed the file. Then the sizes in the reader
                // suffice.
                Err(_) => {
                    let filter =
                        self.reader.bloom_filter().map_or(0, |filter| filter.memory_size());
                    return BytesOnDisk { all: self.reader.bytes_on_disk(), filter: filter as u64 };
                }
            }
        }
        *self.bytes_on_disk.get_or_init(|| bytes)
    }

    /// Returns the histogram of partition sizes in bytes before compression, from the statistics.
    pub fn partition_sizes(&self) -> &EstimatedHistogram {
        &self.stats().partition_sizes
    }

    /// Returns the SSTable's level in leveled compaction.
    pub fn level(&self) -> u32 {
        self.stats().level
    }

    /// Returns the number of rows.
    pub fn row_count(&self) -> u64 {
        self.stats().total_rows
    }

    /// Estimates the tombstones and the expired data that are older than the second `before_s`.
    pub fn droppable(&self, before_s: u32) -> Droppable {
        Droppable::of(self.reader.statistics(), before_s)
    }

    /// Returns whether the key range and the filter admit the partition.
    #[inline]
    pub fn may_contain(&self, key: DecoratedKeyRef<'_>) -> bool {
        self.reader.may_contain(key)
    }

    /// Returns whether the key range admits the partition.
    #[inline]
    pub fn spans(&self, key: DecoratedKeyRef<'_>) -> bool {
        self.reader.spans(key)
    }

    /// Returns whether the filter admits the key with this hash.
    #[inline]
    pub fn passes_filter(&self, hash: (u64, u64)) -> bool {
        self.reader.passes_filter(hash)
    }

    /// Prefetches the memory that the filter reads first for this hash.
    #[inline]
    pub fn look_ahead_in_filter(&self, hash: (u64, u64)) {
        self.reader.look_ahead_in_filter(hash);
    }

    /// Reads a partition through the page cache. With `bypass_cache`, the read uses cached pages,
    /// but leaves the cache as it is.
    ///
    /// # Errors
    ///
    /// Fails if the index or the beginning of the partition is damaged or cannot be read.
    pub async fn read_partition(
        &self,
        key: &DecoratedKey,
        slices: &Arc<ClusteringSlices>,
        direction: Direction,
        bypass_cache: bool,
    ) -> Result<Option<PartitionStream>> {
        let (slices, all) = (slices.clone(), &ColumnSelection::All);
        self.reader.read_partition_by(key, slices, direction, all, bypass_cache).await
    }

    /// Returns whether the SSTable's keys overlap the tokens from `first` to `last`, both included.
    #[inline]
    pub fn overlaps(&self, first: i64, last: i64) -> bool {
        self.reader.first_key().token.0 <= last && first <= self.reader.last_key().token.0
    }

    /// Returns whether any partition may have a static row, a partition deletion, or rows or range
    /// deletions in the slices.
    pub fn may_contain_slices(&self, table: &TableMetadata, slices: &ClusteringSlices) -> bool {
        let stats = self.stats();
        if slices.is_all() || stats.has_partition_deletions || table.has_static_columns() {
            return true;
        }
        if table.clustering_columns().is_empty() {
            return true;
        }
        let (comparator, covered) = (table.comparator(), &stats.covered_clustering);
        slices.slices.iter().any(|slice| {
            comparator.compare(slice.start.position(), covered.end.position()).is_le()
                && comparator.compare(covered.start.position(), slice.end.position()).is_le()
        })
    }

    /// Returns whether a partition deletion is newer than all data of the SSTable, so that nothing
    /// of this data remains in the partition.
    ///
    /// At equal timestamps, a deletion with a later wall clock remains, and so does the deletion of
    /// a collection. Digests of reads count both, so Cassandra reads such an SSTable, too.
    #[inline]
    pub fn is_covered_by(&self, deletion: DeletionTime) -> bool {
        self.maximum_timestamp() < deletion.marked_for_delete_at
    }

    /// Returns the intervals of this node's commit log whose mutations are in the SSTable. Returns
    /// no interval if another node wrote the SSTable; `host` is the id of this node.
    pub fn commit_log_intervals(&self, host: Uuid) -> Vec<(LogPosition, LogPosition)> {
        if self.stats().originating_host_id != Some(host) {
            return Vec::new();
        }
        let position = |position: CommitLogPosition| LogPosition {
            segment: u64::try_from(position.segment).unwrap_or(0),
            offset: u32::try_from(position.offset).unwrap_or(0),
        };
        let intervals = self.stats().commit_log_intervals.iter();
        intervals.map(|interval| (position(interval.start), position(interval.end))).collect()
    }
}

/// Records in the statistics of a new SSTable the intervals of this node's commit log whose
/// mutations are in the SSTable.
pub fn set_commit_log_facts(
    facts: &mut WriterFacts,
    intervals: &[(LogPosition, LogPosition)],
    host: Uuid,
) {
    let position = |position: LogPosition| CommitLogPosition {
        segment: position.segment as i64,
        offset: position.offset as i32,
    };
    facts.commit_log_intervals = intervals
        .iter()
        .map(|(start, end)| CommitLogInterval { start: position(*start), end: position(*end) })
        .collect();
    facts.originating_host_id = Some(host);
}
