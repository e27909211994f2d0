//! The settings of storage, with their names in cassandra.yaml and scylla.yaml.

use std::{path::PathBuf, sync::Arc, time::Duration};

use espalier_commitlog::{CommitLogSync, ReplayPolicy};
use espalier_memtable::{MAX_TRIE_BYTES, MemtableConfigurations};
use espalier_mutation::schema::TableMetadata;
use espalier_sstable::{VectorLimits, versions::VersionFeatures};

use crate::{TurnDeadline, TurnKind, guardrails::Guardrails};

/// Settings of the whole node. Limits that shards share are divided by their number.
#[derive(Clone, Debug)]
pub struct StorageConfiguration {
    /// Directory with the directories of keyspaces (`data_file_directories`, which may list only
    /// one).
    pub data_directory: PathBuf,
    /// The commit log.
    pub commit_log: CommitLogSettings,
    /// The memtables.
    pub memtables: MemtableSettings,
    /// The caches.
    pub caches: CacheSettings,
    /// New SSTables.
    pub sstables: SSTableSettings,
    /// The limits of searches for vectors. No setting changes them.
    pub vectors: VectorSearchLimits,
    /// True if compactions start automatically.
    pub autocompaction: bool,
    /// Bytes per second that compactions of all shards may read (`compaction_throughput`); `None`
    /// means no limit.
    pub compaction_bytes_per_second: Option<u64>,
    /// Minimum number of consecutive dead fragments that a read records as an empty range; tests
    /// reduce it.
    pub min_dropped: u32,
    /// Number of tombstones, and of rows that they cover, after which a page of a query ends even
    /// if it is empty (`query_tombstone_page_limit`); 0 means no limit.
    pub query_tombstone_page_limit: u32,
    /// The guardrails, which the node can change while it runs.
    pub guardrails: Arc<Guardrails>,
    /// The features that schema statements may use.
    pub schema_features: SchemaFeatures,
    /// The builds of materialized views. No setting changes them.
    pub view_builds: ViewBuildLimits,
    /// The longest waits of statements.
    pub timeouts: Timeouts,
}

/// The settings of the commit log.
#[derive(Clone, Debug)]
pub struct CommitLogSettings {
    /// Directory of the segments (`commitlog_directory`).
    pub directory: PathBuf,
    /// The point at which a write is acknowledged (`commitlog_sync` and the settings for its
    /// modes).
    pub sync: CommitLogSync,
    /// Bytes of a segment (`commitlog_segment_size`). A mutation may have half of that.
    pub segment_bytes: u32,
    /// Bytes of all segments of all shards (`commitlog_total_space`).
    pub total_bytes: u64,
    /// The treatment of a damaged segment at a start (`commit_failure_policy`).
    pub failure_policy: ReplayPolicy,
}

impl CommitLogSettings {
    /// Returns the size limit of a mutation in bytes: half a segment.
    #[inline]
    pub fn maximum_record_bytes(&self) -> usize {
        self.segment_bytes as usize / 2
    }
}

/// The settings of memtables.
#[derive(Clone, Debug)]
pub struct MemtableSettings {
    /// Memory for the memtables of all shards, in bytes (`memtable_heap_space` and similar
    /// settings). A hard limit.
    pub bytes: usize,
    /// Fraction of the memory at which the largest memtable is flushed
    /// (`memtable_cleanup_threshold`).
    pub cleanup_threshold: f64,
    /// Maximum bytes of one trie of a memtable, up to 4 GiB; tests reduce it. The memtable is
    /// flushed at five eighths of it.
    pub trie_bytes: usize,
    /// The memtable configurations that tables may name (`memtable`).
    pub configurations: MemtableConfigurations,
}

/// The settings of caches.
#[derive(Clone, Debug)]
pub struct CacheSettings {
    /// Memory of all shards for cached data of SSTables, in bytes: pages, chunks and rows.
    pub page_cache_bytes: usize,
    /// Maximum part of `page_cache_bytes` for rows; 0 disables the row cache (`enable_cache`).
    pub row_cache_bytes: usize,
    /// True if the page cache keeps pages of indexes (`enable_index_cache`).
    pub enable_index_cache: bool,
}

/// The settings of new SSTables.
#[derive(Clone, Debug)]
pub struct SSTableSettings {
    /// Version (`sstable_format`) for tables without one of their own; the default is `da`.
    pub format: String,
    /// Bytes of Summary.db for each byte of Data.db (`sstable_summary_ratio`); `None` uses
    /// `min_index_interval`.
    pub summary_ratio: Option<f64>,
    /// Bytes of rows between entries of the row index (`column_index_size`). The default is 1 KiB
    /// for a trie index, which needs few pages for that, and 64 KiB otherwise.
    pub column_index_bytes: Option<u32>,
}

/// The limits of builds of materialized views. Tests reduce them.
#[derive(Clone, Copy, Debug)]
pub struct ViewBuildLimits {
    /// Rows of a page that a build reads (arbitrary): enough that the wait for the commit log is
    /// shared, and few enough that the turns on them are short.
    pub page_rows: usize,
    /// Pages between two records of a build's progress (arbitrary).
    pub record_pages: u64,
}

/// The limits of searches for vectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VectorSearchLimits {
    /// The sizes from which indexes on vectors have other forms.
    pub index: VectorLimits,
    /// The limits of the statements.
    pub statement: NearestLimits,
}

/// The limits of statements that order rows by their similarity to a vector. Tests reduce them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NearestLimits {
    /// If other indexes find at most this many rows, the statement compares them all (arbitrary).
    pub few_rows: usize,
    /// Maximum rows that the statement asks an index on vectors for (arbitrary). If they do not
    /// suffice, the statement compares all rows.
    pub max_candidates: usize,
}

impl Default for NearestLimits {
    fn default() -> Self {
        Self { few_rows: 1024, max_candidates: 16 << 10 }
    }
}

/// The features that schema statements may use, each by a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemaFeatures {
    /// True if a keyspace may be replicated to data centers that this node does not know
    /// (`allow_unknown_data_centers`), so that schemas can be copied.
    pub allow_unknown_data_centers: bool,
    /// True if ALTER TABLE … DROP COMPACT STORAGE is allowed (`drop_compact_storage_enabled`).
    pub drop_compact_storage_enabled: bool,
    /// True if CREATE MATERIALIZED VIEW is allowed (`materialized_views_enabled`).
    pub materialized_views_enabled: bool,
    /// True if CREATE CUSTOM INDEX may make SASI indexes (`sasi_indexes_enabled`).
    pub sasi_indexes_enabled: bool,
    /// True if masks of columns can be made, and hide values (`dynamic_data_masking_enabled`).
    pub dynamic_data_masking_enabled: bool,
}

impl Default for SchemaFeatures {
    fn default() -> Self {
        Self {
            allow_unknown_data_centers: true,
            drop_compact_storage_enabled: false,
            materialized_views_enabled: true,
            sasi_indexes_enabled: false,
            dynamic_data_masking_enabled: false,
        }
    }
}

/// The longest waits of statements.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Maximum time that a write waits for room in memtables or log, or for its turn
    /// (`write_request_timeout`).
    pub write: Duration,
    /// Maximum time that a conditional statement, a transaction or a read at SERIAL waits for its
    /// turn (`cas_contention_timeout`).
    pub cas_contention: Duration,
    /// Maximum time that a change of counters waits for its turn (`counter_write_request_timeout`).
    pub counter_write: Duration,
}

impl Timeouts {
    /// Returns the deadline of a statement that begins to wait for its turn now.
    pub fn turn_deadline(&self, kind: TurnKind) -> TurnDeadline {
        let wait = match kind {
            TurnKind::Conditional | TurnKind::SerialRead => self.cas_contention,
            TurnKind::Counter => self.counter_write,
            TurnKind::Write => self.write,
        };
        TurnDeadline::after(kind, wait)
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            write: Duration::from_secs(2),
            cas_contention: Duration::from_millis(1_800),
            counter_write: Duration::from_secs(5),
        }
    }
}

impl StorageConfiguration {
    /// Returns the bytes of rows between entries of the row index in SSTables of a version.
    pub fn column_index_size(&self, features: &VersionFeatures) -> u32 {
        let default = if features.has_trie_index() { 1024 } else { 64 * 1024 };
        self.sstables.column_index_bytes.unwrap_or(default)
    }

    /// Returns the minimum size in bytes of a partition that has a row index in SSTables of a
    /// version. With a trie index and without `column_index_size`, it is a page, because a look-up
    /// of a row reads a whole page. Otherwise it is 0.
    pub fn first_block_size(&self, features: &VersionFeatures) -> u32 {
        let is_ours_to_choose =
            features.has_trie_index() && self.sstables.column_index_bytes.is_none();
        if is_ours_to_choose { 4096 } else { 0 }
    }

    /// Returns the directory of a table's files.
    pub(crate) fn directory_of(&self, table: &TableMetadata) -> PathBuf {
        self.data_directory.join(&table.keyspace).join(table.directory_name())
    }

    /// Returns the defaults, with directories below a working directory.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        Self {
            data_directory: directory.join("data"),
            commit_log: CommitLogSettings {
                directory: directory.join("commitlog"),
                sync: CommitLogSync::default(),
                segment_bytes: 32 << 20,
                total_bytes: 1 << 30,
                failure_policy: ReplayPolicy::Stop,
            },
            memtables: MemtableSettings {
                bytes: 256 << 20,
                cleanup_threshold: 0.5,
                trie_bytes: MAX_TRIE_BYTES,
                configurations: MemtableConfigurations::default(),
            },
            caches: CacheSettings {
                page_cache_bytes: 256 << 20,
                row_cache_bytes: 192 << 20,
                enable_index_cache: true,
            },
            sstables: SSTableSettings {
                format: "da".into(),
                summary_ratio: None,
                column_index_bytes: None,
            },
            vectors: VectorSearchLimits::default(),
            autocompaction: true,
            compaction_bytes_per_second: None,
            min_dropped: 64,
            query_tombstone_page_limit: 10_000,
            guardrails: Arc::default(),
            schema_features: SchemaFeatures::default(),
            view_builds: ViewBuildLimits { page_rows: 128, record_pages: 64 },
            timeouts: Timeouts::default(),
        }
    }
}
