//! Runs one compaction, from its inputs to the exchange of the files.
//!
//! A reader sees the old files or the new ones. Reads under way keep the old ones, which are
//! unlinked but open. The files are exchanged on disk first (see [`Transaction`]), then in the
//! table's view. A failure before the exchange on disk leaves the table as it was.

use std::{collections::BTreeMap, rc::Rc, sync::Arc};

use espalier_commitlog::DiscardedIntervalsFile;
use espalier_compaction::{
    CommitFailure, CompactionKind, CompactionOutcome, Merged, Running, RunningGuard, Scrub,
    Transaction, merge, strategy::Split,
};
use espalier_mutation::{LogPosition, schema::TableMetadata};
use espalier_runtime::time::Instant;
use espalier_sstable::{Descriptor, SSTable, WrittenSSTable};

use super::surroundings::context_of;
use crate::{ShardStore, StorageError, shard::Peers, table::Table};

/// The plan of a compaction.
pub(crate) struct Job {
    pub(crate) guard: RunningGuard,
    pub(crate) level: u32,
    pub(crate) split: Split,
    /// The scrub, if the job is one. It checks its only input partition by partition.
    pub(crate) scrub: Option<Rc<Scrub>>,
}

/// Runs the compaction. Returns `None` if it was stopped by request, without an effect.
pub(super) async fn run(
    store: &Rc<ShardStore>,
    table: &Rc<Table>,
    job: Job,
) -> Result<Option<CompactionOutcome>, StorageError> {
    let Job { guard, level, split, scrub } = job;
    let (running, started, metadata) = (&*guard.running, Instant::now(), table.metadata());
    let task = Task { store, table, metadata, running, scrub, started };
    let context = context_of(store, table, &task.metadata);
    let merged = merge(context, running, level, split, task.scrub.as_deref()).await?;
    let Some(merged) = merged else { return Ok(None) };
    let Merged { written, transaction, discarded, partitions } = merged;
    // The permit to exchange files. An abort after a failed commit keeps it until the outputs are
    // removed.
    let _turn;
    let aborted = 'abort: {
        let written = match written {
            Ok(written) => written,
            Err(error) => break 'abort Err(error.into()),
        };
        if !discarded.is_empty()
            && let Err(error) = record_discarded(store, table, &discarded).await
        {
            break 'abort Err(error);
        }
        let opened = match task.open(&written).await {
            Ok(Some(opened)) => opened,
            Ok(None) => break 'abort Ok(None),
            Err(error) => break 'abort Err(error),
        };
        _turn = table.exchanges.lock.acquire(1).await;
        let removed: Vec<Descriptor> =
            running.inputs.iter().map(|input| input.descriptor().clone()).collect();
        match transaction.commit(&removed).await {
            Ok(()) => {
                let outcome = task.outcome(&written, partitions);
                task.exchange(opened, &removed).await?;
                finish(transaction, &removed).await;
                return Ok(Some(outcome));
            }
            Err(CommitFailure::Undone(error)) => Err(error.into()),
            Err(CommitFailure::Unknown(error)) => {
                let error = error.into();
                task.leave_undecided(&error).await;
                return Err(error);
            }
        }
    };
    task.unstage().await;
    transaction.abort_or_warn().await;
    aborted
}

/// A running compaction.
struct Task<'a> {
    store: &'a Rc<ShardStore>,
    table: &'a Rc<Table>,
    metadata: Arc<TableMetadata>,
    running: &'a Running,
    scrub: Option<Rc<Scrub>>,
    started: Instant,
}

impl Task<'_> {
    fn is_split(&self) -> bool {
        self.running.kind == CompactionKind::Split
    }

    /// Opens the outputs: those of a split on the shards that own them, others here. Returns `None`
    /// if the compaction was stopped or the table dropped.
    async fn open(
        &self,
        written: &[WrittenSSTable],
    ) -> Result<Option<Vec<Rc<SSTable>>>, StorageError> {
        let outputs = written.iter().map(|output| output.descriptor.clone());
        let mut opened = Vec::new();
        if self.is_split() {
            self.peers()?.stage(self.metadata.id, self.running.id, outputs.collect()).await?;
        } else {
            for output in outputs {
                opened.push(self.store.open_sstable(&self.metadata, output).await?);
            }
        }
        let is_stopped = self.running.is_stopped() || self.table.is_dropped();
        Ok((!is_stopped).then_some(opened))
    }

    /// Returns the other shards. A file is split only if it has partitions of another shard, so a
    /// store that is used alone splits none.
    fn peers(&self) -> Result<&dyn Peers, StorageError> {
        self.store.peers().ok_or(StorageError::ShuttingDown)
    }

    async fn unstage(&self) {
        if self.is_split()
            && let Some(peers) = self.store.peers()
        {
            peers.unstage(self.metadata.id, self.running.id).await;
        }
    }

    /// Keeps the old files in use after a commit with an unknown outcome. No later compaction may
    /// touch them, because the next start could restore data that the later compaction removed.
    async fn leave_undecided(&self, error: &StorageError) {
        self.table.compactions.set_undecided();
        self.unstage().await;
        tracing::error!(
            %error,
            table = self.metadata.name,
            "compaction: outcome of the commit unknown, the table is not compacted until the \
            next start; check the disk and restart the node"
        );
    }

    fn outcome(
        &self,
        written: &[WrittenSSTable],
        partitions_merged: BTreeMap<i32, i64>,
    ) -> CompactionOutcome {
        let (running, metadata) = (self.running, &self.metadata);
        CompactionOutcome {
            id: running.id,
            kind: running.kind,
            keyspace: metadata.keyspace.clone(),
            table: metadata.name.clone(),
            sstables_in: running.inputs.len(),
            sstables_out: written.len(),
            bytes_in: running.inputs.iter().map(|input| input.reader().stored_data_length()).sum(),
            bytes_out: written.iter().map(|output| output.stored_length).sum(),
            partitions_merged,
            duration: self.started.elapsed(),
        }
    }

    /// Exchanges the files in the table's view, after they are exchanged on disk.
    async fn exchange(
        &self,
        opened: Vec<Rc<SSTable>>,
        removed: &[Descriptor],
    ) -> Result<(), StorageError> {
        let has_left_out = self.scrub.as_ref().is_some_and(|scrub| scrub.has_left_out());
        let exchanged = if self.is_split() {
            let (id, split) = (self.metadata.id, self.running.id);
            self.peers()?.exchange(id, split, removed.to_vec(), has_left_out).await
        } else {
            self.table.exchange(&self.running.inputs, opened, has_left_out)
        };
        if exchanged.is_err() {
            // The files on disk differ from those in the view: no compaction may build on them
            // before the next start.
            self.table.compactions.set_undecided();
        }
        exchanged
    }
}

async fn finish(transaction: Transaction, removed: &[Descriptor]) {
    if let Err(error) = transaction.finish(removed).await {
        tracing::warn!(%error, "compaction: cannot remove its inputs; the next start removes them");
    }
}

/// Records intervals of the commit log that no SSTable of the table accounts for any more, because
/// a compaction purged their mutations. The record is durable when this returns.
async fn record_discarded(
    store: &ShardStore,
    table: &Table,
    intervals: &[(LogPosition, LogPosition)],
) -> Result<(), StorageError> {
    let directory = &store.configuration.commit_log.directory;
    let note = DiscardedIntervalsFile::new(directory, store.shard().index, store.host_id());
    let id = table.borrow_metadata().id;
    let oldest = |id| match store.tables.get(id) {
        Ok(table) => store.logs.oldest_segment_of(&table),
        // A later start may replay the copy of a segment of any age (see `shard::replay`).
        Err(_) => store.with_schema(|schema| schema.is_unreadable(id)).then_some(0),
    };
    let _lock = store.logs.discarded_lock.acquire(1).await;
    Ok(note.add(&store.file_system, id, intervals, oldest).await?)
}
