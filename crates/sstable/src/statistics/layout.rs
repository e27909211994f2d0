//! Statistics.db as values: validation, compaction, stats and header.

use bytes::Bytes;
use espalier_mutation::{BoundKind, ClusteringBound};
use espalier_types::CqlType;
use uuid::Uuid;

use super::{
    drop_times::DropTimes, estimated_histogram::EstimatedHistogram,
    serialization_header::SerializationHeader,
};

/// Everything in Statistics.db.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// Full class name of the partitioner.
    pub partitioner: String,
    /// What the filter was sized for.
    pub bloom_filter_fp_chance: f64,
    /// The stream of the cardinality estimate; carried along, not interpreted.
    pub cardinality: Bytes,
    /// Numbers about the content.
    pub stats: StatsComponent,
    /// How to read Data.db.
    pub header: SerializationHeader,
}

/// Java's name of the only partitioner that is supported.
pub const MURMUR3_PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";

/// The order of the parts in the file is the order of their numbers.
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

/// A place in the commit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitLogPosition {
    /// Segment id.
    pub segment: i64,
    /// Offset in the segment, in bytes.
    pub offset: i32,
}

impl CommitLogPosition {
    /// No place.
    pub const NONE: CommitLogPosition = CommitLogPosition { segment: -1, offset: 0 };
}

/// A stretch of the commit log whose writes are in the SSTable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitLogInterval {
    /// From here.
    pub start: CommitLogPosition,
    /// To here.
    pub end: CommitLogPosition,
}

/// A slice that covers all rows and range deletions of all partitions. Of versions that have the least and the greatest
/// value of each column instead, the bounds have those; without any they cover everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoveredClustering {
    /// Types of the clustering columns; the flag says whether the column is reversed.
    pub types: Vec<(CqlType, bool)>,
    /// Before everything.
    pub start: ClusteringBound,
    /// Behind everything.
    pub end: ClusteringBound,
}

impl CoveredClustering {
    /// Covers nothing: what Cassandra writes where there is neither row nor range deletion.
    pub fn nothing(types: Vec<(CqlType, bool)>) -> Self {
        let bound = |kind| ClusteringBound { kind, values: Box::default() };
        Self { types, start: bound(BoundKind::ExclusiveStart), end: bound(BoundKind::ExclusiveEnd) }
    }
}

/// Numbers about the content. Times in µs are write timestamps, those in seconds wall clock.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct StatsComponent {
    /// Bytes of each partition in Data.db before compression.
    pub partition_sizes: EstimatedHistogram,
    /// Cells of each partition.
    pub cell_counts: EstimatedHistogram,
    pub commit_log_upper: CommitLogPosition,
    pub min_timestamp: i64,
    pub max_timestamp: i64,
    /// `u32::MAX` for none.
    pub min_local_deletion_time: u32,
    /// `u32::MAX` as soon as one cell neither expires nor is a tombstone.
    pub max_local_deletion_time: u32,
    pub min_ttl: u32,
    pub max_ttl: u32,
    /// Stored by plain bytes, checksums left out; −1 if not compressed.
    pub compression_ratio: f64,
    pub drop_times: DropTimes,
    pub level: u32,
    /// ms since 1970, 0 if not repaired.
    pub repaired_at: i64,
    pub covered_clustering: CoveredClustering,
    pub has_legacy_counter_shards: bool,
    pub total_columns: u64,
    /// Static rows count.
    pub total_rows: u64,
    pub commit_log_lower: CommitLogPosition,
    pub commit_log_intervals: Vec<CommitLogInterval>,
    pub pending_repair: Option<Uuid>,
    pub is_transient: bool,
    pub originating_host_id: Option<Uuid>,
    /// True, too, where a version does not say.
    pub has_partition_deletions: bool,
    /// Empty where a version does not say, as the last one.
    pub first_key: Bytes,
    pub last_key: Bytes,
    /// NaN for unknown.
    pub token_space_coverage: f64,
}
