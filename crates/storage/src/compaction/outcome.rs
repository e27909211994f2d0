//! This module defines the results of compactions.

use std::{collections::BTreeMap, time::Duration};

use uuid::Uuid;

use super::kind::CompactionKind;

/// The end of a compaction that did not fail.
#[derive(Debug)]
pub(crate) enum Outcome {
    Done(Box<CompactionOutcome>),
    /// Stopped by request, without an effect.
    Stopped,
}

/// The facts about a finished compaction.
#[derive(Clone, Debug)]
pub(crate) struct CompactionOutcome {
    pub(crate) id: Uuid,
    pub(crate) kind: CompactionKind,
    pub(crate) keyspace: String,
    pub(crate) table: String,
    pub(crate) sstables_in: usize,
    pub(crate) sstables_out: usize,
    /// Bytes of Data.db, as stored.
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    /// Number of partitions by the number of files that they were merged from.
    pub(crate) partitions_merged: BTreeMap<i32, i64>,
    pub(crate) duration: Duration,
}
