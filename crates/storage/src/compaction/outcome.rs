//! What a compaction came to.

use std::{collections::BTreeMap, time::Duration};

use uuid::Uuid;

use super::kind::CompactionKind;

/// How a compaction ended that did not fail.
#[derive(Debug)]
pub(crate) enum Outcome {
    Done(Box<CompactionOutcome>),
    /// By request, without an effect.
    Stopped,
}

/// What was done.
#[derive(Clone, Debug)]
pub(crate) struct CompactionOutcome {
    pub(crate) id: Uuid,
    pub(crate) kind: CompactionKind,
    pub(crate) keyspace: String,
    pub(crate) table: String,
    pub(crate) sstables_in: usize,
    pub(crate) sstables_out: usize,
    /// Of Data.db as stored.
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    /// How many partitions came from how many files.
    pub(crate) partitions_merged: BTreeMap<i32, i64>,
    pub(crate) duration: Duration,
}
