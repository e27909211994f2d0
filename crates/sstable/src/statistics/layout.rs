//! This module defines the content of Statistics.db as values: validation, compaction, stats and
//! header.

use bytes::Bytes;
use espalier_mutation::{BoundKind, ClusteringBound};
use espalier_types::CqlType;
use uuid::Uuid;

use super::{
    drop_times::DropTimes, estimated_histogram::EstimatedHistogram,
    serialization_header::SerializationHeader,
};

/// The content of Statistics.db.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// Full class name of the partitioner.
    pub partitioner: String,
    /// The false positive chance for which the filter was sized.
    pub bloom_filter_fp_chance: f64,
    /// The stream of the cardinality estimate. It is copied and not interpreted.
    pub cardinality: Bytes,
    /// Numbers about the content of the SSTable.
    pub stats: StatsComponent,
    /// The header that Data.db is decoded with.
    pub header: SerializationHeader,
}

/// Class name in Java of the only supported partitioner.
pub const MURMUR3_PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";

/// The kind of a part. The parts of the file are in the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PartKind {
    Validation = 0,
    Compaction = 1,
    Stats = 2,
    Header = 3,
}

impl PartKind {
    pub(super) const ALL: [PartKind; 4] =
        [Self::Validation, Self::Compaction, Self::Stats, Self::Header];
}

/// A position in the commit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitLogPosition {
    /// Segment id.
    pub segment: i64,
    /// Offset in the segment, in bytes.
    pub offset: i32,
}

impl CommitLogPosition {
    /// The value that the file stores if there is no position.
    pub const NONE: CommitLogPosition = CommitLogPosition { segment: -1, offset: 0 };
}

/// An interval of the commit log with writes that the SSTable contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitLogInterval {
    /// Start of the interval.
    pub start: CommitLogPosition,
    /// End of the interval.
    pub end: CommitLogPosition,
}

/// A slice that covers all rows and range deletions of all partitions. Some versions store only the
/// values of the least and the greatest clustering; the bounds have those values then, and cover
/// everything if there are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoveredClustering {
    /// Types of the clustering columns, each with a flag that is true if the column is reversed.
    pub types: Vec<(CqlType, bool)>,
    /// A bound before all rows and range deletions.
    pub start: ClusteringBound,
    /// A bound after all rows and range deletions.
    pub end: ClusteringBound,
}

impl CoveredClustering {
    /// Creates a slice that covers nothing. Cassandra writes it if there is no row and no range
    /// deletion.
    pub fn nothing(types: Vec<(CqlType, bool)>) -> Self {
        let bound = |kind| ClusteringBound { kind, values: Box::default() };
        Self { types, start: bound(BoundKind::ExclusiveStart), end: bound(BoundKind::ExclusiveEnd) }
    }

    /// Returns the values of a bound up to the first null, for the versions that store values
    /// without a mark for null. A bound of fewer values covers more rows, never fewer.
    pub(crate) fn values_before_null(bound: &ClusteringBound) -> &[Option<Bytes>] {
        let values = &bound.values;
        let end = values.iter().position(Option::is_none).unwrap_or(values.len());
        values.get(..end).unwrap_or_default()
    }
}

/// Numbers about the content. Times in µs are write timestamps, and times in seconds are wall
/// clock.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct StatsComponent {
    /// Length of each partition in Data.db before compression, in bytes.
    pub partition_sizes: EstimatedHistogram,
    /// Number of cells of each partition.
    pub cell_counts: EstimatedHistogram,
    pub commit_log_upper: CommitLogPosition,
    pub min_timestamp: i64,
    pub max_timestamp: i64,
    /// In seconds; `u32::MAX` for none.
    pub min_local_deletion_time: u32,
    /// In seconds; `u32::MAX` if some cell or row never expires, or if there are no times.
    pub max_local_deletion_time: u32,
    pub min_ttl: u32,
    pub max_ttl: u32,
    /// Stored bytes divided by plain bytes, without checksums; −1 if not compressed.
    pub compression_ratio: f64,
    pub drop_times: DropTimes,
    pub level: u32,
    /// Time of the repair in ms since 1970, 0 if not repaired.
    pub repaired_at: i64,
    pub covered_clustering: CoveredClustering,
    pub has_legacy_counter_shards: bool,
    pub total_columns: u64,
    /// Number of rows, static rows included.
    pub total_rows: u64,
    pub commit_log_lower: CommitLogPosition,
    pub commit_log_intervals: Vec<CommitLogInterval>,
    pub pending_repair: Option<Uuid>,
    pub is_transient: bool,
    pub originating_host_id: Option<Uuid>,
    /// True also if the version does not store it.
    pub has_partition_deletions: bool,
    /// The first key of the SSTable. It is empty if the version does not store it, as is the last
    /// key.
    pub first_key: Bytes,
    pub last_key: Bytes,
    /// NaN if unknown.
    pub token_space_coverage: f64,
}
