//! The settings of a commit log, with their names in cassandra.yaml.

use std::{path::PathBuf, time::Duration};

use super::layout::LogKind;

/// The point at which the log acknowledges a write (`commitlog_sync`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitLogSync {
    /// After fdatasync. Writes gather while a sync is under way, and for `window` after the first
    /// of them.
    Group {
        /// `commitlog_sync_group_window`; zero for none.
        window: Duration,
    },
    /// After fdatasync, without a window.
    Batch,
    /// At once. The next fdatasync begins `period` after the last one began, or sooner if many
    /// bytes are dirty or a flush waits for it. A crash of the machine loses up to `period` of
    /// acknowledged writes, and the writes of the sync under way.
    Periodic {
        /// `commitlog_sync_period`.
        period: Duration,
    },
}

impl CommitLogSync {
    /// Returns the period of periodic sync, under which writes are acknowledged before they are
    /// synced.
    pub fn period(self) -> Option<Duration> {
        match self {
            Self::Periodic { period } => Some(period),
            _ => None,
        }
    }
}

impl Default for CommitLogSync {
    fn default() -> Self {
        Self::Group { window: Duration::ZERO }
    }
}

/// The reaction to damage found at start (`commit_failure_policy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplayPolicy {
    /// Refuse to start, and keep the damaged file.
    #[default]
    Stop,
    /// Skip the damaged file or the rest of the damaged segment, log an error, and start.
    Ignore,
}

/// The settings of the log of one shard.
#[derive(Clone, Debug)]
pub struct CommitLogConfiguration {
    /// Directory of the segments.
    pub directory: PathBuf,
    /// The kind of the log.
    pub kind: LogKind,
    /// Number of this shard.
    pub shard: u32,
    /// Number of shards.
    pub shard_count: u32,
    /// The point at which the log acknowledges a write.
    pub sync: CommitLogSync,
    /// Size of a segment in bytes (`commitlog_segment_size`).
    pub segment_bytes: u32,
    /// Size of all segments of this shard in bytes (`commitlog_total_space`, divided among the
    /// shards). Beyond it the oldest dirty tables are flushed; at 1.5 times the size, but at least
    /// three segments, writers wait.
    pub total_bytes: u64,
}

impl CommitLogConfiguration {
    /// Returns the size limit of a record in bytes: half a segment, as in Cassandra.
    pub fn maximum_record_bytes(&self) -> usize {
        self.segment_bytes as usize / 2
    }

    /// Returns the number of segments in use at which no more are created, so that writers wait.
    pub(crate) fn maximum_segments(&self) -> usize {
        let segments = self.total_bytes / u64::from(self.segment_bytes.max(1));
        (segments + segments / 2).max(3) as usize
    }
}
