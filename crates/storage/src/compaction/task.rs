//! This module runs one compaction, from its inputs to the exchange of the files.
//!
//! A reader sees the old files or the new ones. Reads under way keep the old ones, which are
//! unlinked but open. The files are exchanged on disk first (see [`Transaction`]), then in the
//! table's view. A failure before that leaves everything as it was.

use std::{rc::Rc, sync::Arc};

use espalier_mutation::{
    KeyRange,
    schema::{DroppedColumn, TableMetadata},
};
use espalier_runtime::time::Instant;
use espalier_sstable::{Descriptor, WrittenSSTable};
use uuid::Uuid;

use super::{
    copy::{Ended, Merge},
    kind::CompactionKind,
    outcome::{CompactionOutcome, Outcome},
    output::Outputs,
    overlap::Outside,
    pace::Pace,
    progress::RunningGuard,
    scrub::Scrub,
    strategy::Split,
    transaction::{CommitFailure, Transaction},
};
use crate::{
    Database, StorageError,
    purge::PurgeLimits,
    table::{SSTable, SSTableSet, Table},
};

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
    let started = Instant::now();
    let running = job.guard.running.clone();
    let metadata = table.metadata();
    let is_split = running.kind == CompactionKind::Split;
    let limits = if is_split || job.scrub.is_some() {
        // Purge nothing: a split's deletions may cover data on any shard, and a scrub changes only
        // what it must.
        PurgeLimits { now_s: 0, gc_before_s: 0 }
    } else {
        PurgeLimits::of(&metadata)
    };
    let mut outside = Outside::new(table, &running.inputs);
    let expired = outside.expired_inputs(limits.gc_before_s);
    let expired = SSTableSet::of(&expired);
    let read: Vec<Rc<SSTable>> =
        running.inputs.iter().filter(|input| !expired.has(input)).cloned().collect();
    if running.total_bytes.get() == 0 && !read.is_empty() {
        // All inputs had expired when room was requested, and then an older write arrived.
        return Ok(Outcome::Stopped);
    }
    running.reads_only(&read);
    let version = database.sstable_features(table).version.to_string();
    let transaction = Transaction::begin(
        database.file_system(),
        &table.directory,
        &version,
        running.kind.log_word(),
        running.id,
    );
    let transaction = transaction.await?;
    let plan = (job.level, job.split);
    let inputs = (read.as_slice(), running.inputs.as_slice());
    let written_as = table_to_write(&metadata, &read);
    let mut outputs = Outputs::new(database, table, &written_as, inputs, plan, transaction);
    let pace = Pace::new(database);
    let waits = pace.waits();
    let read_ahead_bytes = database.read_ahead_bytes();
    let mut merge = Merge::new(&running, &written_as, limits, outside, pace, read_ahead_bytes);
    let merged = waits.of(async {
        match (&job.scrub, read.as_slice()) {
            (Some(scrub), [input]) => merge.scrub(input, scrub, &mut outputs).await,
            _ => merge.copy(&read, &KeyRange::full(), &mut outputs).await,
        }
    });
    let merged = merged.await;
    let rows_merged = merge.into_partitions();
    if let Err(ended) = merged {
        abort(outputs.give_up()).await;
        return match ended {
            Ended::Stopped => Ok(Outcome::Stopped),
            Ended::Failed(error) => Err(error),
        };
    }
    // A scrub leaves out unreadable data, which is not dead.
    let (written, transaction) = outputs.finish(job.scrub.is_none()).await;
    running.writes_nothing();
    let opened = match written {
        Ok(written) if is_split => {
            stage(database, &metadata, &written, running.id).await.map(|()| (Vec::new(), written))
        }
        Ok(written) => open(database, &metadata, &written).await.map(|opened| (opened, written)),
        Err(error) => Err(error),
    };
    let (opened, written) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            unstage(database, &metadata, is_split, running.id).await;
            abort(transaction).await;
            return Err(error);
        }
    };
    if running.is_stopped() || table.is_dropped() {
        drop(opened);
        unstage(database, &metadata, is_split, running.id).await;
        abort(transaction).await;
        return Ok(Outcome::Stopped);
    }
    let _turn = table.exchange_lock.acquire(1).await;
    let removed: Vec<Descriptor> =
        running.inputs.iter().map(|input| input.descriptor().clone()).collect();
    match transaction.commit(&removed).await {
        Ok(()) => {}
        Err(CommitFailure::Undone(error)) => {
            drop(opened);
            unstage(database, &metadata, is_split, running.id).await;
            abort(transaction).await;
            return Err(error);
        }
        Err(CommitFailure::Unknown(error)) => {
            // The old files stay in use. No later compaction may touch them, or the next start
            // could restore data that it removed.
            table.compactions.set_undecided();
            unstage(database, &metadata, is_split, running.id).await;
            tracing::error!(
                %error,
                table = metadata.name,
                "compaction: outcome of the commit unknown, the table is not compacted until the \
                next start; check the disk and restart the node"
            );
            return Err(error);
        }
    }
    let outcome = CompactionOutcome {
        id: running.id,
        kind: running.kind,
        keyspace: metadata.keyspace.clone(),
        table: metadata.name.clone(),
        sstables_in: running.inputs.len(),
        sstables_out: written.len(),
        bytes_in: running.inputs.iter().map(|input| input.reader().stored_data_length()).sum(),
        bytes_out: written.iter().map(|output| output.stored_length).sum(),
        partitions_merged: rows_merged,
        duration: started.elapsed(),
    };
    let has_left_out = job.scrub.is_some_and(|scrub| scrub.has_left_out());
    let exchanged = if is_split {
        let id = metadata.id;
        database.exchange_everywhere(id, running.id, removed.clone(), has_left_out).await
    } else {
        table.exchange(&running.inputs, opened, has_left_out)
    };
    if let Err(error) = exchanged {
        // The files on disk differ from those in the view: no compaction may build on them before
        // the next start.
        table.compactions.set_undecided();
        return Err(error);
    }
    if let Err(error) = transaction.finish(&removed).await {
        tracing::warn!(%error, "compaction: cannot remove its inputs; the next start removes them");
    }
    Ok(Outcome::Done(Box::new(outcome)))
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

/// Opens the parts of a split file on the shards that own them.
async fn stage(
    database: &Database,
    metadata: &TableMetadata,
    written: &[WrittenSSTable],
    split: Uuid,
) -> Result<(), StorageError> {
    let parts: Vec<Descriptor> = written.iter().map(|part| part.descriptor.clone()).collect();
    database.stage_everywhere(metadata.id, split, parts).await
}

async fn unstage(database: &Database, metadata: &TableMetadata, is_split: bool, split: Uuid) {
    if is_split {
        database.unstage_everywhere(metadata.id, split).await;
    }
}
