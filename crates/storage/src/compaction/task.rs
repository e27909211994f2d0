//! This module runs one compaction, from its inputs to the exchange of the files.
//!
//! A reader sees the old files or the new ones. Reads under way keep the old ones, which are
//! unlinked but open. The files are exchanged on disk first (see [`Transaction`]), then in the
//! table's view. A failure before that leaves everything as it was.

use std::{collections::BTreeMap, rc::Rc, sync::Arc};

use espalier_mutation::{
    KeyRange,
    purge::PurgeLimits,
    schema::{DroppedColumn, TableMetadata},
};
use espalier_runtime::time::{self, Instant};
use espalier_sstable::{Descriptor, SSTable, SSTableSet, WrittenSSTable};

use super::{
    copy::{Ended, Merge},
    kind::CompactionKind,
    outcome::{CompactionOutcome, Outcome},
    output::Outputs,
    overlap::Outside,
    pace::Pace,
    progress::{Running, RunningGuard},
    scrub::Scrub,
    strategy::Split,
    transaction::{CommitFailure, Transaction},
};
use crate::{Database, StorageError, table::Table};

/// The plan of a compaction.
pub(crate) struct Job {
    pub(crate) guard: RunningGuard,
    pub(crate) level: u32,
    pub(crate) split: Split,
    /// The scrub, if the job is one. It checks its only input partition by partition.
    pub(crate) scrub: Option<Rc<Scrub>>,
}

/// Returns the table as a compaction reads and writes it: with the dropped columns for which an
/// input may have cells after the drop.
fn table_to_write(table: &Arc<TableMetadata>, inputs: &[Rc<SSTable>]) -> Arc<TableMetadata> {
    let is_kept = |_, dropped: &DroppedColumn| {
        inputs.iter().any(|input| {
            let reader = input.reader();
            let header = &reader.statistics().header;
            let mut columns = header.static_columns.iter().chain(&header.regular_columns);
            !dropped.deletes(reader.maximum_timestamp())
                && columns.any(|column| column.name == dropped.name)
        })
    };
    table.with_dropped(is_kept).map_or_else(|| table.clone(), Arc::new)
}

/// Runs the compaction.
pub(crate) async fn run(
    database: &Database,
    table: &Rc<Table>,
    job: Job,
) -> Result<Outcome, StorageError> {
    let Job { guard, level, split, scrub } = job;
    let (running, started, metadata) = (&*guard.running, Instant::now(), table.metadata());
    let task = Task { database, table, metadata, running, scrub, started };
    let Some(merged) = task.merge(level, split).await? else { return Ok(Outcome::Stopped) };
    let Merged { written, transaction, partitions } = merged;
    // An abort keeps its turn until the outputs are removed.
    let _turn;
    let aborted = 'abort: {
        let (written, opened) = match task.open(written).await {
            Ok(Some(outputs)) => outputs,
            Ok(None) => break 'abort Ok(Outcome::Stopped),
            Err(error) => break 'abort Err(error),
        };
        _turn = table.exchange_lock.acquire(1).await;
        let removed: Vec<Descriptor> =
            running.inputs.iter().map(|input| input.descriptor().clone()).collect();
        match transaction.commit(&removed).await {
            Ok(()) => {
                let outcome = task.outcome(&written, partitions);
                task.exchange(opened, &removed).await?;
                finish(transaction, &removed).await;
                return Ok(Outcome::Done(Box::new(outcome)));
            }
            Err(CommitFailure::Undone(error)) => Err(error),
            Err(CommitFailure::Unknown(error)) => {
                task.leave_undecided(&error).await;
                return Err(error);
            }
        }
    };
    task.unstage().await;
    abort(transaction).await;
    aborted
}

/// A running compaction.
struct Task<'a> {
    database: &'a Database,
    table: &'a Rc<Table>,
    metadata: Arc<TableMetadata>,
    running: &'a Running,
    scrub: Option<Rc<Scrub>>,
    started: Instant,
}

/// The result of a merge.
struct Merged {
    /// The sealed outputs.
    written: Result<Vec<WrittenSSTable>, StorageError>,
    transaction: Transaction,
    /// Number of partitions by the number of inputs that they were merged from.
    partitions: BTreeMap<i32, i64>,
}

impl Task<'_> {
    fn is_split(&self) -> bool {
        self.running.kind == CompactionKind::Split
    }

    fn purge_limits(&self) -> PurgeLimits {
        if self.is_split() || self.scrub.is_some() {
            // Purge nothing. The deletions in a file that is split may cover data on any shard, and
            // a scrub changes only damaged data.
            PurgeLimits::NONE
        } else {
            PurgeLimits::at(&self.metadata, time::now_seconds())
        }
    }

    /// Merges the inputs into new files. Returns `None` if the compaction was stopped.
    async fn merge(&self, level: u32, split: Split) -> Result<Option<Merged>, StorageError> {
        let (database, table, running) = (self.database, self.table, self.running);
        let limits = self.purge_limits();
        let mut outside = Outside::new(table, &running.inputs);
        let expired = outside.expired_inputs(limits.gc_before_s);
        let expired = SSTableSet::of(&expired);
        let read: Vec<Rc<SSTable>> =
            running.inputs.iter().filter(|input| !expired.has(input)).cloned().collect();
        if running.total_bytes.get() == 0 && !read.is_empty() {
            // All inputs had expired when room was requested, and then an older write arrived.
            return Ok(None);
        }
        running.reads_only(&read);
        let transaction = self.begin().await?;
        let plan = (level, split);
        let inputs = (read.as_slice(), running.inputs.as_slice());
        let written_as = table_to_write(&self.metadata, &read);
        let mut outputs =
            Outputs::new(database, table, &written_as, inputs, plan, limits.now_s, transaction);
        let pace = Pace::new(database);
        let waits = pace.waits();
        let read_ahead_bytes = database.read_ahead_bytes();
        let mut merge = Merge::new(running, &written_as, limits, outside, pace, read_ahead_bytes);
        let merged = waits.of(async {
            match (&self.scrub, read.as_slice()) {
                (Some(scrub), [input]) => merge.scrub(input, scrub, &mut outputs).await,
                _ => merge.copy(&read, &KeyRange::full(), &mut outputs).await,
            }
        });
        let merged = merged.await;
        let partitions = merge.into_partitions();
        if let Err(ended) = merged {
            abort(outputs.give_up()).await;
            return match ended {
                Ended::Stopped => Ok(None),
                Ended::Failed(error) => Err(error),
            };
        }
        // A scrub leaves out unreadable data, which is not dead.
        let (written, transaction) = outputs.finish(self.scrub.is_none()).await;
        running.writes_nothing();
        Ok(Some(Merged { written, transaction, partitions }))
    }

    async fn begin(&self) -> Result<Transaction, StorageError> {
        let version = self.database.sstable_features(self.table).version.to_string();
        let (file_system, directory) = (self.database.file_system(), &self.table.directory);
        let operation = self.running.kind.log_word();
        Transaction::begin(file_system, directory, &version, operation, self.running.id).await
    }

    /// Opens the outputs: those of a split on the shards that own them, others here. Returns `None`
    /// if the compaction was stopped or the table dropped.
    async fn open(
        &self,
        written: Result<Vec<WrittenSSTable>, StorageError>,
    ) -> Result<Option<(Vec<WrittenSSTable>, Vec<Rc<SSTable>>)>, StorageError> {
        let written = written?;
        let opened = if self.is_split() {
            self.stage(&written).await?;
            Vec::new()
        } else {
            open(self.database, &self.metadata, &written).await?
        };
        let is_stopped = self.running.is_stopped() || self.table.is_dropped();
        Ok((!is_stopped).then_some((written, opened)))
    }

    /// Opens the parts of a split file on the shards that own them.
    async fn stage(&self, written: &[WrittenSSTable]) -> Result<(), StorageError> {
        let parts: Vec<Descriptor> = written.iter().map(|part| part.descriptor.clone()).collect();
        self.database.stage_everywhere(self.metadata.id, self.running.id, parts).await
    }

    async fn unstage(&self) {
        if self.is_split() {
            self.database.unstage_everywhere(self.metadata.id, self.running.id).await;
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
            self.database.exchange_everywhere(id, split, removed.to_vec(), has_left_out).await
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

async fn open(
    database: &Database,
    metadata: &Arc<TableMetadata>,
    written: &[WrittenSSTable],
) -> Result<Vec<Rc<SSTable>>, StorageError> {
    let mut opened = Vec::with_capacity(written.len());
    for output in written {
        opened.push(database.open_sstable(metadata, output.descriptor.clone()).await?);
    }
    Ok(opened)
}

async fn abort(transaction: Transaction) {
    if let Err(error) = transaction.abort().await {
        tracing::warn!(
            %error,
            "compaction: cannot remove the outputs of a failed compaction; the next start removes \
            them"
        );
    }
}

async fn finish(transaction: Transaction, removed: &[Descriptor]) {
    if let Err(error) = transaction.finish(removed).await {
        tracing::warn!(%error, "compaction: cannot remove its inputs; the next start removes them");
    }
}
