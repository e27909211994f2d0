//! The collector computes the numbers of Statistics.db while an SSTable is written. It follows
//! Cassandra's rules for counting cells, columns and rows and for collecting times, so that equal
//! data yields equal statistics.
//!
//! Memory: the sketches, which are bounded, two keys (the first and the last), and two clusterings
//! (the minimum and the maximum).

use bytes::Bytes;
use espalier_mutation::{
    BoundKind, CellRef, ClusteringBound, ClusteringComparator, ColumnRef, DeletionTime, Liveness,
    NO_DELETION_TIME, PositionRef, RangeTombstoneMarker, Row, RowContent,
};
use uuid::Uuid;

use super::{
    cardinality::CardinalityEstimator,
    drop_times::DropTimesBuilder,
    estimated_histogram::{CELL_COUNT_BUCKETS, EstimatedHistogram, PARTITION_SIZE_BUCKETS},
    layout::{
        CommitLogInterval, CommitLogPosition, CoveredClustering, MURMUR3_PARTITIONER, Statistics,
        StatsComponent,
    },
    serialization_header::SerializationHeader,
};

/// The minimum and the maximum of the values seen.
#[derive(Clone, Copy, Debug)]
struct Range<T>(Option<(T, T)>);

impl<T: Ord + Copy> Range<T> {
    fn add(&mut self, value: T) {
        self.0 = Some(match self.0 {
            None => (value, value),
            Some((least, greatest)) => (least.min(value), greatest.max(value)),
        });
    }

    fn or(self, least: T, greatest: T) -> (T, T) {
        self.0.unwrap_or((least, greatest))
    }
}

/// Facts of Statistics.db that do not follow from the data.
#[derive(Clone, Debug, Default)]
pub struct WriterFacts {
    /// The false positive chance for which the filter was sized.
    pub bloom_filter_fp_chance: f64,
    /// Level in a leveled compaction.
    pub level: u32,
    /// Time of the repair in ms since 1970, 0 if not repaired.
    pub repaired_at: i64,
    /// Host id of the node that wrote the commit log to which the intervals refer.
    pub originating_host_id: Option<Uuid>,
    /// Intervals of the commit log with the writes that the SSTable contains, in order.
    pub commit_log_intervals: Vec<CommitLogInterval>,
}

/// Counters of some uniform rows, which do not expire and have cells with the row's timestamp.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UniformCounts {
    rows: u32,
    cells: u64,
    oldest: i64,
    newest: i64,
}

impl UniformCounts {
    pub(crate) const NONE: Self = Self { rows: 0, cells: 0, oldest: i64::MAX, newest: i64::MIN };

    /// Returns the number of rows.
    pub(crate) fn rows(&self) -> u32 {
        self.rows
    }

    #[inline]
    pub(crate) fn add(&mut self, timestamp: i64, cells: u32) {
        self.rows += 1;
        self.cells += u64::from(cells);
        self.oldest = self.oldest.min(timestamp);
        self.newest = self.newest.max(timestamp);
    }
}

/// The numbers collected so far.
#[derive(Clone, Debug)]
pub struct StatisticsCollector {
    comparator: ClusteringComparator,
    partition_sizes: EstimatedHistogram,
    cell_counts: EstimatedHistogram,
    /// The buckets of the previous partition in both histograms.
    last_buckets: (usize, usize),
    cells_of_partition: u64,
    timestamps: Range<i64>,
    local_deletion_times: Range<u32>,
    ttls: Range<u32>,
    drop_times: DropTimesBuilder,
    cardinality: CardinalityEstimator,
    minimum: Option<ClusteringBound>,
    maximum: Option<ClusteringBound>,
    has_legacy_counter_shards: bool,
    has_partition_deletions: bool,
    total_columns: u64,
    total_rows: u64,
    first_key: Option<Bytes>,
    last_key: Vec<u8>,
}

impl StatisticsCollector {
    /// Creates a collector for a table with these clustering columns.
    pub fn new(comparator: ClusteringComparator) -> Self {
        Self {
            comparator,
            partition_sizes: EstimatedHistogram::new(PARTITION_SIZE_BUCKETS),
            cell_counts: EstimatedHistogram::new(CELL_COUNT_BUCKETS),
            last_buckets: (0, 0),
            cells_of_partition: 0,
            timestamps: Range(None),
            local_deletion_times: Range(None),
            ttls: Range(None),
            drop_times: DropTimesBuilder::default(),
            cardinality: CardinalityEstimator::new(),
            minimum: None,
            maximum: None,
            has_legacy_counter_shards: false,
            has_partition_deletions: false,
            total_columns: 0,
            total_rows: 0,
            first_key: None,
            last_key: Vec::new(),
        }
    }

    /// Begins a partition.
    pub fn start_partition(&mut self, key: &Bytes, deletion: DeletionTime) {
        self.first_key.get_or_insert_with(|| key.clone());
        // The key is copied, because a copy costs less than a reference count for each key.
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.cardinality.add_key(key);
        self.has_partition_deletions |= !deletion.is_live();
        self.add_deletion(deletion);
    }

    /// Ends the partition. It takes `length` bytes in Data.db before compression.
    pub fn end_partition(&mut self, length: u64) {
        let cells = std::mem::take(&mut self.cells_of_partition);
        self.partition_sizes.add_alike(length, &mut self.last_buckets.0);
        self.cell_counts.add_alike(cells, &mut self.last_buckets.1);
    }

    /// Counts a row, in clustering order.
    pub fn add_row(&mut self, row: &Row) {
        self.cover_first_row(&row.clustering.values);
        self.cover_last_row(&row.clustering.values);
        self.add_row_data(row);
    }

    /// Counts the static row.
    pub fn add_static_row(&mut self, row: &Row) {
        self.add_row_data(row);
    }

    /// Counts a range tombstone marker.
    pub fn add_marker(&mut self, marker: &RangeTombstoneMarker) {
        self.cover_marker(&marker.position);
        self.add_deletion(marker.before);
        self.add_deletion(marker.after);
    }

    /// Counts a row without its position. Only the first and the last row of a partition can extend
    /// the covered slice, and only if no marker comes before the first or after the last one. The
    /// caller covers these rows by [`cover_first_row`](Self::cover_first_row) and
    /// [`cover_last_row`](Self::cover_last_row).
    #[inline]
    pub(crate) fn add_row_data(&mut self, row: &impl RowContent) {
        self.add_liveness(&row.liveness());
        self.add_deletion(row.deletion());
        self.add_deletion(row.shadowable_deletion());
        for (_, data) in row.columns() {
            match data {
                ColumnRef::Simple(cell) => {
                    self.add_cell(cell);
                    self.total_columns += 1;
                }
                ColumnRef::Complex(column) => {
                    self.add_deletion(column.deletion);
                    column.cells.iter().for_each(|(_, cell)| self.add_cell(cell.into()));
                    self.total_columns += u64::from(!column.cells.is_empty());
                }
            }
        }
        self.total_rows += 1;
    }

    /// Counts uniform rows, which do not expire, as [`add_row_data`](Self::add_row_data) would.
    pub(crate) fn add_uniform_rows(&mut self, rows: &UniformCounts) {
        if rows.rows > 0 {
            self.timestamps.add(rows.oldest);
            self.timestamps.add(rows.newest);
            self.ttls.add(0);
            self.local_deletion_times.add(NO_DELETION_TIME);
            self.cells_of_partition += rows.cells;
            self.total_columns += rows.cells;
            self.total_rows += u64::from(rows.rows);
        }
    }

    fn add_liveness(&mut self, liveness: &Liveness) {
        if !liveness.is_none() {
            self.timestamps.add(liveness.timestamp);
            self.ttls.add(liveness.ttl);
            self.add_local_deletion_time(liveness.local_expiration);
        }
    }

    fn add_deletion(&mut self, deletion: DeletionTime) {
        if !deletion.is_live() {
            self.timestamps.add(deletion.marked_for_delete_at);
            self.add_local_deletion_time(deletion.local_deletion_time);
        }
    }

    fn add_cell(&mut self, cell: CellRef<'_>) {
        self.cells_of_partition += 1;
        self.timestamps.add(cell.timestamp);
        self.ttls.add(cell.ttl);
        self.add_local_deletion_time(cell.local_deletion_time);
    }

    /// Records whether the context of a counter cell has shards that are not global.
    pub fn add_counter_context(&mut self, context: &[u8]) {
        self.has_legacy_counter_shards |= has_legacy_shards(context);
    }

    fn add_local_deletion_time(&mut self, time: u32) {
        self.local_deletion_times.add(time);
        if time != NO_DELETION_TIME {
            self.drop_times.add(time);
        }
    }

    /// Extends the covered slice by the first row of a partition. No marker may come before it.
    pub(crate) fn cover_first_row(&mut self, clustering: &[Option<Bytes>]) {
        if self.is_before_minimum(PositionRef { values: clustering, weight: 0 }) {
            self.minimum = Some(bound(BoundKind::InclusiveStart, clustering));
        }
    }

    /// Works like [`cover_first_row`](Self::cover_first_row) for borrowed values. `shared` converts
    /// them into values that can be kept.
    #[inline]
    pub(crate) fn cover_first_uniform<'a>(
        &mut self,
        values: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
        shared: impl FnOnce() -> Box<[Option<Bytes>]>,
    ) {
        let is_before = |minimum: &ClusteringBound| {
            self.comparator.compare_values(values, 0, minimum.position()).is_lt()
        };
        if self.minimum.as_ref().is_none_or(is_before) {
            self.minimum =
                Some(ClusteringBound { kind: BoundKind::InclusiveStart, values: shared() });
        }
    }

    /// Extends the covered slice by the last row of a partition. No marker may come after it.
    pub(crate) fn cover_last_row(&mut self, clustering: &[Option<Bytes>]) {
        if self.is_beyond_maximum(PositionRef { values: clustering, weight: 0 }) {
            self.maximum = Some(bound(BoundKind::InclusiveEnd, clustering));
        }
    }

    /// Extends the covered slice by a marker. Only a start can be the minimum and only an end the
    /// maximum, because each range that opens also closes, and a boundary lies inside.
    fn cover_marker(&mut self, bound: &ClusteringBound) {
        if bound.kind.is_boundary() {
        } else if bound.kind.is_start() {
            if self.is_before_minimum(bound.position()) {
                self.minimum = Some(bound.clone());
            }
        } else if self.is_beyond_maximum(bound.position()) {
            self.maximum = Some(bound.clone());
        }
    }

    fn is_before_minimum(&self, position: PositionRef<'_>) -> bool {
        let minimum = self.minimum.as_ref();
        minimum.is_none_or(|minimum| self.comparator.compare(position, minimum.position()).is_lt())
    }

    fn is_beyond_maximum(&self, position: PositionRef<'_>) -> bool {
        let maximum = self.maximum.as_ref();
        maximum.is_none_or(|maximum| self.comparator.compare(position, maximum.position()).is_gt())
    }

    /// Combines all numbers into the statistics. `compression_ratio` is −1 for an uncompressed
    /// Data.db.
    pub async fn finish(
        self,
        header: SerializationHeader,
        facts: &WriterFacts,
        compression_ratio: f64,
    ) -> Statistics {
        let types = self.comparator.types.to_vec();
        let covered_clustering = match (self.minimum, self.maximum) {
            (Some(start), Some(end)) => CoveredClustering { types, start, end },
            _ => CoveredClustering::nothing(types),
        };
        let (min_timestamp, max_timestamp) = self.timestamps.or(i64::MIN, i64::MAX);
        let none = NO_DELETION_TIME;
        let (min_local_deletion_time, max_local_deletion_time) =
            self.local_deletion_times.or(none, none);
        let (min_ttl, max_ttl) = self.ttls.or(0, 0);
        let intervals = &facts.commit_log_intervals;
        let stats = StatsComponent {
            partition_sizes: self.partition_sizes,
            cell_counts: self.cell_counts,
            commit_log_upper: intervals.last().map_or(CommitLogPosition::NONE, |last| last.end),
            min_timestamp,
            max_timestamp,
            min_local_deletion_time,
            max_local_deletion_time,
            min_ttl,
            max_ttl,
            compression_ratio,
            drop_times: self.drop_times.build().await,
            level: facts.level,
            repaired_at: facts.repaired_at,
            covered_clustering,
            has_legacy_counter_shards: self.has_legacy_counter_shards,
            total_columns: self.total_columns,
            total_rows: self.total_rows,
            commit_log_lower: intervals
                .first()
                .map_or(CommitLogPosition::NONE, |first| first.start),
            commit_log_intervals: intervals.clone(),
            pending_repair: None,
            is_transient: false,
            originating_host_id: facts.originating_host_id,
            has_partition_deletions: self.has_partition_deletions,
            first_key: self.first_key.unwrap_or_default(),
            last_key: self.last_key.into(),
            token_space_coverage: f64::NAN,
        };
        Statistics {
            partitioner: MURMUR3_PARTITIONER.into(),
            bloom_filter_fp_chance: facts.bloom_filter_fp_chance,
            cardinality: self.cardinality.to_bytes().into(),
            stats,
            header,
        }
    }
}

fn bound(kind: BoundKind, clustering: &[Option<Bytes>]) -> ClusteringBound {
    ClusteringBound { kind, values: clustering.into() }
}

/// Returns whether a counter context has local or remote shards, which only Cassandra before 2.1
/// wrote.
fn has_legacy_shards(context: &[u8]) -> bool {
    let Some((head, rest)) = context.split_first_chunk::<2>() else { return false };
    let headers = usize::from(u16::from_be_bytes(*head));
    let Some(body) = rest.len().checked_sub(2 * headers) else { return false };
    let shards = body / 32;
    let all_global = rest[..2 * headers].chunks_exact(2).all(|index| index[0] >= 0x80);
    shards > headers || !all_global
}
