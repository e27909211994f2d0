//! The settings of storage, by the names that cassandra.yaml and scylla.yaml give them.

use std::{path::PathBuf, time::Duration};

use espalier_sstable::versions::VersionFeatures;

use crate::{
    commitlog::{CommitLogSync, ReplayPolicy},
    memtable::MemtableConfigurations,
};

/// Settings of the whole node; what is shared among shards is divided by their number.
#[derive(Clone, Debug)]
pub struct StorageConfiguration {
    /// Where keyspaces have their directories (`data_file_directories`, of which there is one).
    pub data_directory: PathBuf,
    /// Where the segments lie (`commitlog_directory`).
    pub commitlog_directory: PathBuf,
    /// When a write is acknowledged (`commitlog_sync` and what belongs to it).
    pub commitlog_sync: CommitLogSync,
    /// Bytes of a segment (`commitlog_segment_size`). A mutation may have half of it.
    pub commitlog_segment_bytes: u32,
    /// Bytes of all segments of all shards (`commitlog_total_space`).
    pub commitlog_total_bytes: u64,
    /// What to do about a damaged segment at start (`commit_failure_policy`).
    pub commit_failure_policy: ReplayPolicy,
    /// Memory for the memtables of all shards, in bytes (`memtable_heap_space` and its like). Never passed.
    pub memtable_bytes: usize,
    /// Share of the memory at which the largest memtable is flushed (`memtable_cleanup_threshold`).
    pub memtable_cleanup_threshold: f64,
    /// What one trie of a memtable may hold, at most the 4 GiB that it can, in bytes; tests make it less. The memtable is
    /// flushed at five eighths of it.
    pub memtable_trie_bytes: usize,
    /// The kinds of memtables that tables may ask for (`memtable`).
    pub memtables: MemtableConfigurations,
    /// Memory for what is cached of SSTables, of all shards, in bytes: pages and chunks, and rows.
    pub page_cache_bytes: usize,
    /// The most that rows may take of that; 0: rows are not cached (`enable_cache`).
    pub row_cache_bytes: usize,
    /// Whether pages of indexes stay in the page cache (`enable_index_cache`).
    pub enable_index_cache: bool,
    /// Bytes of Summary.db for each byte of Data.db (`sstable_summary_ratio`); by `min_index_interval` if there is none.
    pub sstable_summary_ratio: Option<f64>,
    /// Version of the SSTables that are written (`sstable_format`) where a table has none of its own: `da` unless told
    /// otherwise.
    pub sstable_format: String,
    /// Bytes of rows between entries of the row index (`column_index_size`). Without it 1 KiB where the index is a trie, whose
    /// pages are few for that, and 64 KiB elsewhere.
    pub column_index_bytes: Option<u32>,
    /// Whether compactions begin by themselves.
    pub autocompaction: bool,
    /// Bytes a second that compactions of all shards read (`compaction_throughput`); as many as they can if there is none.
    pub compaction_bytes_per_second: Option<u64>,
    /// Fragments that reads have to drop one after another before they note that there is nothing visible; tests make them fewer.
    pub fewest_dropped: u32,
    /// Tombstones, and rows that they cover, after which a page of a query ends, even if it is empty (`query_tombstone_page_limit`);
    /// 0: it goes on.
    pub query_tombstone_page_limit: u32,
    /// How long a write waits for room in memtables or log before it fails (`write_request_timeout`).
    pub write_timeout: Duration,
}

impl StorageConfiguration {
    /// Bytes of rows between entries of the row index in files of a version.
    pub fn column_index_size(&self, features: &VersionFeatures) -> u32 {
        let default = if features.has_trie_index() { 1024 } else { 64 * 1024 };
        self.column_index_bytes.unwrap_or(default)
    }

    /// Bytes of a partition from which on it has a row index in files of a version, unless `column_index_size` is given: a page, which
    /// who looks for a row reads whole.
    pub fn first_block_size(&self, features: &VersionFeatures) -> u32 {
        let is_ours_to_choose = features.has_trie_index() && self.column_index_bytes.is_none();
        if is_ours_to_choose { 4096 } else { 0 }
    }

    /// The defaults, below a working directory.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        Self {
            data_directory: directory.join("data"),
            commitlog_directory: directory.join("commitlog"),
            commitlog_sync: CommitLogSync::default(),
            commitlog_segment_bytes: 32 << 20,
            commitlog_total_bytes: 1 << 30,
            commit_failure_policy: ReplayPolicy::Stop,
            memtable_bytes: 256 << 20,
            memtable_cleanup_threshold: 0.5,
            memtable_trie_bytes: crate::memtable::LARGEST_TRIE_BYTES,
            memtables: MemtableConfigurations::default(),
            page_cache_bytes: 256 << 20,
            row_cache_bytes: 192 << 20,
            enable_index_cache: true,
            sstable_summary_ratio: None,
            sstable_format: "da".into(),
            column_index_bytes: None,
            autocompaction: true,
            compaction_bytes_per_second: None,
            fewest_dropped: 64,
            query_tombstone_page_limit: 10_000,
            write_timeout: Duration::from_secs(2),
        }
    }
}
