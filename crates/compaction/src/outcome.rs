//! The facts about finished compactions.

use std::{collections::BTreeMap, time::Duration};

use uuid::Uuid;

use super::kind::CompactionKind;

/// The facts about a finished compaction.
#[derive(Clone, Debug)]
pub struct CompactionOutcome {
    /// Its id.
    pub id: Uuid,
    /// The reason why it ran.
    pub kind: CompactionKind,
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
    /// Number of inputs.
    pub sstables_in: usize,
    /// Number of outputs.
    pub sstables_out: usize,
    /// Bytes of Data.db of the inputs, as stored.
    pub bytes_in: u64,
    /// Bytes of Data.db of the outputs, as stored.
    pub bytes_out: u64,
    /// Number of partitions by the number of files that they were merged from.
    pub partitions_merged: BTreeMap<i32, i64>,
    /// The time that it took.
    pub duration: Duration,
}
