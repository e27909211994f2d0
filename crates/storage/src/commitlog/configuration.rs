//! How a commit log is written, by the names that cassandra.yaml gives the settings.

use std::{path::PathBuf, time::Duration};

use super::layout::LogKind;

/// When a write is acknowledged (`commitlog_sync`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitLogSync {
    /// After fdatasync. Writes gather while one is under way, and for `window` after the first of them.
    Group {
        /// `commitlog_sync_group_window`; zero for none.
        window: Duration,
    },
    /// After fdatasync, without any window.
    Batch,
    /// At once; fdatasync `period` after the last one began, or sooner where much is written. A crash of the machine loses up to `period` of
    /// acknowledged writes, and those of the sync under way.
    Periodic {
        /// `commitlog_sync_period`.
        period: Duration,
    },
}

impl CommitLogSync {
    /// Of periodic sync, under which writes are acknowledged before it.
    pub(crate) fn period(self) -> Option<Duration> {
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

/// What to do about damage found at start (`commit_failure_policy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplayPolicy {
    /// Refuse to start; nothing is changed on disk.
    #[default]
    Stop,
    /// Leave out the rest of the damaged segment, say so in the log, and start.
    Ignore,
}

/// The settings of one shard's log.
#[derive(Clone, Debug)]
pub struct CommitLogConfiguration {
    /// Directory of the segments.
    pub directory: PathBuf,
    /// Which log.
    pub kind: LogKind,
    /// This shard.
    pub shard: u32,
    /// Of how many.
    pub shard_count: u32,
    /// When a write is acknowledged.
    pub sync: CommitLogSync,
    /// Bytes of a segment (`commitlog_segment_size`).
    pub segment_bytes: u32,
    /// Bytes of all segments of this shard (`commitlog_total_space`, shared among the shards). Beyond it the oldest
    /// dirty tables are to be flushed; half as much again is never passed.
    pub total_bytes: u64,
}

impl CommitLogConfiguration {
    /// The largest record that is taken: half a segment, as in Cassandra.
    pub fn maximum_record_bytes(&self) -> usize {
        self.segment_bytes as usize / 2
    }

    /// How many segments may exist before writers wait.
    pub(crate) fn maximum_segments(&self) -> usize {
        let segments = self.total_bytes / u64::from(self.segment_bytes.max(1));
        (segments + segments / 2).max(3) as usize
    }
}
