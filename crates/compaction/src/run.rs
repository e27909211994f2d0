//! Merges the inputs of a compaction into new files. The exchange of the files, in the transaction
//! log and in the table, is up to the caller.

use std::{collections::BTreeMap, pin::pin, rc::Rc, sync::Arc};

use espalier_mutation::{
    LogPosition,
    purge::PurgeLimits,
    schema::{DroppedColumn, TableMetadata},
};
use espalier_sstable::{SSTable, SSTableSet, WrittenSSTable};

use crate::{
    CompactionContext, CompactionError, CompactionKind, Outside, Running, Scrub, Transaction,
    checkpoint::Checkpoint, copy::Merge, ended::Ended, output::Outputs, strategy::Split,
};

/// The result of a merge.
pub struct Merged {
    /// The sealed outputs, or the reason why they could not be sealed.
    pub written: Result<Vec<WrittenSSTable>, CompactionError>,
    /// The log with the outputs, which the caller commits or aborts.
    pub transaction: Transaction,
    /// Intervals of the commit log that no output carries, because all their mutations were purged.
    /// They must be recorded as discarded before the commit.
    pub discarded: Vec<(LogPosition, LogPosition)>,
    /// Number of partitions by the number of inputs that they were merged from.
    pub partitions: BTreeMap<i32, i64>,
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

/// Merges the inputs of `running` into new files of a level. Returns `None` if the compaction was
/// stopped, or if it reserved no room on the disk for an input that turned out not to be expired. A
/// scrub checks its only input partition by partition.
///
/// # Errors
///
/// Fails if an input cannot be read or an output cannot be written; the outputs are removed then.
pub async fn merge(
    context: CompactionContext,
    running: &Running,
    level: u32,
    split: Split,
    scrub: Option<&Scrub>,
) -> Result<Option<Merged>, CompactionError> {
    let limits = if running.kind == CompactionKind::Split || scrub.is_some() {
        // The deletions in a file that is split may cover data on any shard, and a scrub changes
        // only damaged data.
        PurgeLimits::NONE
    } else {
        context.limits
    };
    let is_counter = context.metadata.is_counter();
    let mut outside = Outside::new(context.table.clone(), &running.inputs, is_counter);
    let expired = outside.expired_inputs(limits.gc_before_s);
    let expired = SSTableSet::of(&expired);
    let read: Vec<Rc<SSTable>> =
        running.inputs.iter().filter(|input| !expired.has(input)).cloned().collect();
    if running.total_bytes.get() == 0 && !read.is_empty() {
        // All inputs had expired when room was requested, and then an older write arrived.
        return Ok(None);
    }
    running.reads_only(&read);
    let transaction = begin(&context, running).await?;
    let inputs = (read.as_slice(), running.inputs.as_slice());
    let written_as = table_to_write(&context.metadata, &read);
    let plan = (level, split);
    let mut outputs = Outputs::new(&context, &written_as, inputs, plan, limits.now_s, transaction);
    let checkpoint = Checkpoint::new(running, context.load.clone());
    let mut merge =
        Merge::new(running, &written_as, limits, outside, checkpoint, context.read_ahead_bytes);
    let merged = async {
        match (scrub, read.as_slice()) {
            (Some(scrub), [input]) => merge.scrub(input, scrub, &mut outputs).await?,
            _ => merge.copy(&read, &mut outputs).await?,
        }
        merge.checkpoint.around(pin!(outputs.seal())).await??;
        Ok::<(), Ended>(())
    };
    let merged = merged.await;
    let partitions = merge.into_partitions();
    if let Err(ended) = merged {
        outputs.give_up().abort_or_warn().await;
        return match ended {
            Ended::Stopped => Ok(None),
            Ended::Failed(error) => Err(error),
        };
    }
    // A scrub leaves out unreadable data, which is not dead.
    let (written, transaction, discarded) = outputs.finish(scrub.is_none()).await;
    running.writes_nothing();
    Ok(Some(Merged { written, transaction, discarded, partitions }))
}

async fn begin(
    context: &CompactionContext,
    running: &Running,
) -> Result<Transaction, CompactionError> {
    let (version, operation) = (context.version.to_string(), running.kind.log_word());
    let (file_system, directory) = (&context.file_system, &context.directory);
    Transaction::begin(file_system, directory, &version, operation, running.id).await
}
