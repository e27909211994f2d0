//! An SSTable as one shard has it open.
//!
//! A file whose keys span the ranges of several shards is opened by each of them; each looks only at its own part.

use std::{
    cell::{Cell, OnceCell},
    sync::Arc,
};

use espalier_mutation::{
    ClusteringSlices, DecoratedKey, DecoratedKeyRef, DeletionTime, schema::TableMetadata,
};
use espalier_runtime::{file::FileSystem, time};
use espalier_sstable::{
    ColumnSelection, Component, Descriptor, PageCache, PartitionStream, SSTableId, SSTableReader,
    WriterFacts,
    statistics::{
        CommitLogInterval, CommitLogPosition, StatsComponent,
        estimated_histogram::EstimatedHistogram,
    },
};
use uuid::Uuid;

use super::Droppable;
use crate::{StorageError, commitlog::LogPosition, read::ReadCommand};

/// Bytes of an SSTable's files.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BytesOnDisk {
    /// Of all of them.
    pub(crate) all: u64,
    /// Of Filter.db.
    pub(crate) filter: u64,
}

/// An opened SSTable, and what reads ask of it before they touch the disk.
pub(crate) struct SSTable {
    reader: SSTableReader,
    /// When Data.db was written, in milliseconds since 1970.
    made_ms: i64,
    /// Set by the first who asks.
    bytes_on_disk: OnceCell<BytesOnDisk>,
    /// Whether a compaction could not read it.
    is_suspect: Cell<bool>,
}

impl SSTable {
    pub(crate) async fn open(
        file_system: &FileSystem,
        table: &Arc<TableMetadata>,
        descriptor: Descriptor,
        cache: &PageCache,
    ) -> Result<Self, StorageError> {
        let table = Some(table.clone());
        let data = descriptor.path(&Component::Data);
        let reader = SSTableReader::open(file_system, descriptor, table, cache).await?;
        let made_ms = match file_system.metadata(data).await {
            Ok(metadata) => metadata.modified_ms,
            // Open, and removed already.
            Err(_) => time::now_millis(),
        };
        Ok(Self { reader, made_ms, bytes_on_disk: OnceCell::new(), is_suspect: Cell::new(false) })
    }

    pub(crate) fn reader(&self) -> &SSTableReader {
        &self.reader
    }

    pub(crate) fn descriptor(&self) -> &Descriptor {
        self.reader.descriptor()
    }

    fn stats(&self) -> &StatsComponent {
        &self.reader.statistics().stats
    }

    /// Greatest write timestamp in µs.
    pub(crate) fn maximum_timestamp(&self) -> i64 {
        self.reader.maximum_timestamp()
    }

    /// Least write timestamp in µs.
    pub(crate) fn minimum_timestamp(&self) -> i64 {
        self.stats().min_timestamp
    }

    /// The latest second at which anything inside expires or was deleted; `u32::MAX` if there is something that lives on.
    pub(crate) fn maximum_local_deletion_time(&self) -> u32 {
        self.stats().max_local_deletion_time
    }

    /// The tokens of the first and the last partition.
    pub(crate) fn tokens(&self) -> (i64, i64) {
        (self.reader.first_key().token.0, self.reader.last_key().token.0)
    }

    /// Bytes of Data.db and its index at most when it is written again: as many as there are, or those before compression where the table is
    /// compressed in another way by now.
    pub(crate) fn bytes_rewritten(&self) -> u64 {
        let reader = &self.reader;
        let table = reader.table();
        let wanted = table.options.compression_options().ok().flatten();
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

    /// Whether a compaction of its own accord would fail on it: it waits for a scrub, or for the next start.
    pub(crate) fn is_suspect(&self) -> bool {
        self.is_suspect.get()
    }

    /// It has been looked through, and nothing is wrong.
    pub(crate) fn set_right(&self) {
        self.is_suspect.set(false);
    }

    /// Makes it a suspect if an error of a compaction is about one of its files; or about what cannot be written, which is told of the
    /// output and came from any of the inputs. Gives whether it is.
    pub(crate) fn suspect(&self, error: &StorageError) -> bool {
        let StorageError::SSTable(error) = error else { return false };
        let mut components = self.reader.components().iter();
        let is_meant = error.is_rejected()
            || components.any(|component| error.is_about(&self.descriptor().path(component)));
        self.is_suspect.set(self.is_suspect.get() || is_meant);
        is_meant
    }

    /// Seconds since it was made.
    pub(crate) fn age_s(&self) -> u64 {
        u64::try_from(time::now_millis().saturating_sub(self.made_ms)).unwrap_or(0) / 1000
    }

    /// The number in its name; files with other names count as the oldest.
    pub(crate) fn number(&self) -> u64 {
        match self.descriptor().id {
            SSTableId::Generation(number) => number.get(),
            SSTableId::Uuid(_) => 0,
        }
    }

    /// Bytes of its files.
    pub(crate) async fn bytes_on_disk(&self, file_system: &FileSystem) -> BytesOnDisk {
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
                // A compaction has replaced it, most likely; what is known without looking will do then.
                Err(_) => {
                    let filter =
                        self.reader.bloom_filter().map_or(0, |filter| filter.memory_size());
                    return BytesOnDisk { all: self.reader.bytes_on_disk(), filter: filter as u64 };
                }
            }
        }
        *self.bytes_on_disk.get_or_init(|| bytes)
    }

    /// Bytes of its partitions before compression, as the statistics have them.
    pub(crate) fn partition_sizes(&self) -> &EstimatedHistogram {
        &self.stats().partition_sizes
    }

    /// Level of a levelled compaction.
    pub(crate) fn level(&self) -> u32 {
        self.stats().level
    }

    pub(crate) fn row_count(&self) -> u64 {
        self.stats().total_rows
    }

    pub(crate) fn droppable(&self, before_s: u32) -> Droppable {
        Droppable::of(self.reader.statistics(), before_s)
    }

    /// Whether the key range and the filter allow the partition to be inside.
    #[inline]
    pub(crate) fn may_contain(&self, key: DecoratedKeyRef<'_>) -> bool {
        self.reader.may_contain(key)
    }

    /// Whether the key range allows it.
    #[inline]
    pub(crate) fn spans(&self, key: DecoratedKeyRef<'_>) -> bool {
        self.reader.spans(key)
    }

    /// Whether the filter allows it.
    #[inline]
    pub(crate) fn passes_filter(&self, hash: (u64, u64)) -> bool {
        self.reader.passes_filter(hash)
    }

    /// Brings the memory that its filter is about to look at.
    #[inline]
    pub(crate) fn look_ahead_in_filter(&self, hash: (u64, u64)) {
        self.reader.look_ahead_in_filter(hash);
    }

    /// A partition, through the cache or around it.
    pub(crate) async fn read_partition(
        &self,
        key: &DecoratedKey,
        slices: &Arc<ClusteringSlices>,
        command: &ReadCommand,
    ) -> Result<Option<PartitionStream>, StorageError> {
        let (slices, direction, all) = (slices.clone(), command.direction, &ColumnSelection::All);
        Ok(match command.bypass_cache {
            false => self.reader.read_partition(key, slices, direction, all).await?,
            true => self.reader.read_partition_privately(key, slices, direction, all).await?,
        })
    }

    /// Whether its keys meet a range of tokens, both ends included.
    pub(crate) fn overlaps(&self, first: i64, last: i64) -> bool {
        self.reader.first_key().token.0 <= last && first <= self.reader.last_key().token.0
    }

    /// Whether rows, range deletions or partition deletions may be in the slices of any partition.
    pub(crate) fn may_contain_slices(
        &self,
        table: &TableMetadata,
        slices: &ClusteringSlices,
    ) -> bool {
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

    /// Whether a partition deletion covers everything inside.
    pub(crate) fn is_covered_by(&self, deletion: DeletionTime) -> bool {
        deletion.deletes(self.maximum_timestamp())
    }

    /// Which parts of this node's commit log are inside.
    pub(crate) fn commit_log_intervals(&self, host: Uuid) -> Vec<(LogPosition, LogPosition)> {
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

/// Notes in an SSTable's statistics which parts of this node's commit log it holds.
pub(crate) fn set_commit_log_facts(
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
