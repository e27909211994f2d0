//! This module implements one flush of a table.
//!
//! A flush writes the table's memtables one after another, the oldest first. A failed flush leaves
//! its memtable frozen and readable, and removes the files of the attempt. **Invariant.** The
//! memtable leaves the view only after the SSTable has entered the view and the row cache has the
//! memtable's writes or has forgotten the table, so a reader misses no write. An SSTable is sealed
//! only after its writes are durable in the commit log, unless the log could not be written.

use std::{collections::BTreeSet, rc::Rc, sync::Arc};

use espalier_memtable::{Memtable, MemtableStatistics};
use espalier_mutation::schema::TableMetadata;
use espalier_runtime::{SchedulingGroup, log_limit::LogLimit};
use espalier_sstable::{
    Descriptor, EncodingStats, PresentColumns, SSTable, SSTableWriter, WriterOptions,
    components::{remove_sstable, reserve_name},
    set_commit_log_facts,
    statistics::encoding_stats::{DELETION_TIME_EPOCH_S, TIMESTAMP_EPOCH_US},
    versions::SpecialData,
};
use futures_util::{
    future::LocalBoxFuture,
    stream::{self, StreamExt},
};

use super::copy::Copy;
use crate::{
    FirstFailure, ShardStore, StorageError,
    index::write_memtable,
    recovery::mark_unsynced_views,
    shard::{FlushProgress, add},
    table::Table,
};

/// Maximum number of flushes that a request or a shutdown runs at once on a shard. Each holds about
/// 2 MiB of buffers.
const FLUSHES_AT_ONCE: usize = 16;

thread_local! {
    /// Limits the log lines about shortened TTLs to ten a minute on each shard (arbitrary).
    static SHORTENED_TTLS: LogLimit = const { LogLimit::at_most(10) };
}

/// Writes all memtables of the table on this shard to SSTables. Waits for a flush of the table that
/// is under way. Flushes get more of the core meanwhile, because the caller waits.
async fn flush_table(store: &Rc<ShardStore>, table: &Rc<Table>) -> Result<(), StorageError> {
    let _awaiting = store.memtables.await_flush();
    flush_in_background(store, table).await
}

/// Flushes the table like [`flush_table`], but gives flushes no larger share of the core for it.
pub(crate) fn flush_in_background(
    store: &Rc<ShardStore>,
    table: &Rc<Table>,
) -> LocalBoxFuture<'static, Result<(), StorageError>> {
    let (store, table) = (store.clone(), table.clone());
    SchedulingGroup::Flush.run(async move {
        let flush = TableFlush { store: &store, table: &table };
        Box::pin(flush.run()).await
    })
}

/// Flushes tables on this shard. Most of a small flush waits for the disk, which syncs several
/// files in about the time of one. A failure stops no other flush; returns the first one.
pub(crate) async fn flush_tables(
    store: &Rc<ShardStore>,
    tables: Vec<Rc<Table>>,
) -> Result<(), StorageError> {
    let flushes = tables.iter().map(|table| flush_table(store, table));
    let mut outcomes = stream::iter(flushes).buffer_unordered(FLUSHES_AT_ONCE);
    let (mut failure, mut ended) = (FirstFailure::none(), Ok(()));
    while let Some(outcome) = outcomes.next().await {
        // Whatever ends one flush, the others under way are not dropped half done.
        ended = ended.and(failure.keep(outcome));
    }
    ended.and_then(|()| failure.into_result())
}

struct TableFlush<'a> {
    store: &'a ShardStore,
    table: &'a Table,
}

impl TableFlush<'_> {
    /// Writes all memtables of the table, one after another.
    async fn run(&self) -> Result<(), StorageError> {
        let table = self.table;
        let _permit = table.flushes.lock.acquire(1).await;
        if table.is_dropped() {
            return Ok(());
        }
        let _under_way = self.store.memtables.begin_flush();
        let mut is_frozen = false;
        loop {
            // Write the oldest memtable first. After a failed flush, freeze no other memtable
            // before the failed one is written. Otherwise each attempt would leave one more for
            // reads to search. But an active memtable that wants a flush is frozen: its trie is
            // filling up.
            let oldest = table.view().flushing.first().cloned();
            if !is_frozen && (oldest.is_none() || table.memtable().wants_flush()) {
                is_frozen = true;
                if table.switch_used_memtable() {
                    // The new memtable has room for the writes that wait.
                    self.store.memtables.budget.wake_waiters();
                    continue;
                }
            }
            let Some(memtable) = oldest else { break };
            let progress = self.store.memtables.flush_estimate.begin(memtable.used_bytes());
            match self.flush_memtable(&memtable, &progress).await {
                Ok(sstable) => {
                    if let Some(sstable) = &sstable {
                        table.flushes.record(sstable.reader().stored_data_length());
                    }
                    self.exchange_flushed(&memtable, sstable).await;
                    drop(progress);
                    table.flushes.set_failure(None);
                    self.store.counters.flushes.count(memtable.used_bytes());
                }
                Err(error) => {
                    progress.fail();
                    tracing::error!(
                        %error,
                        "flush failed, retrying after a pause; its rows stay in the memtable, \
                        check the disk"
                    );
                    table.flushes.set_failure(Some(error.to_string()));
                    add(&self.store.counters.flushes.failed, 1);
                    // The scheduler retries after a pause.
                    self.store.wakers.flush.notify_one();
                    self.store.memtables.budget.wake_waiters();
                    return Err(error);
                }
            }
        }
        self.store.logs.reclaim(&self.store.tables);
        self.store.wakers.compaction.notify_one();
        // The scheduler excludes a table while its flush lock is held.
        self.store.wakers.flush.notify_one();
        Ok(())
    }

    /// Replaces the memtable by the SSTable that was written from it. Both are in the view until
    /// the row cache is updated.
    async fn exchange_flushed(&self, memtable: &Rc<Memtable>, sstable: Option<Rc<SSTable>>) {
        let table = self.table;
        if let Some(sstable) = sstable {
            table.add_flushed(sstable);
            let (cache, memtable) = (table.cache().clone(), memtable.clone());
            let (metadata, number) = (table.metadata(), cache.number());
            let update = async move { Box::pin(cache.update(&memtable, &metadata, number)).await };
            let updated = SchedulingGroup::CacheUpdate.run(update).await;
            if let Err(error) = updated {
                tracing::warn!(
                    %error,
                    "row cache: update from a flushed memtable failed, dropping the table's cached \
                    rows; reads load them again"
                );
                table.cache().forget();
            }
        }
        table.change_view(|view| view.without(&[], std::slice::from_ref(memtable)));
    }

    /// Writes the SSTable of a memtable. If that fails after the name is reserved, removes its
    /// files. The SSTable has the present version of the table (see `Table::adopt`), so the caller
    /// must add it to the view before it yields. Returns `None` if the memtable has no data to
    /// write.
    async fn flush_memtable(
        &self,
        memtable: &Rc<Memtable>,
        progress: &FlushProgress<'_>,
    ) -> Result<Option<Rc<SSTable>>, StorageError> {
        let table = self.table;
        let metadata = memtable.table_to_write(&table.metadata());
        table.home.make(&self.store.file_system).await?;
        let options = self.writer_options(memtable, &metadata).await?;
        let descriptor = options.descriptor.clone();
        reserve_name(self.store.file_system(), &descriptor).await?;
        let outcome = self.write_sstable(memtable, &metadata, options, progress).await;
        if matches!(outcome, Ok(Some(_))) {
            warn_of_shortened_ttls(&memtable.statistics(), &metadata);
        }
        // Remove the files of a failed attempt, so that retries do not fill a full disk.
        if outcome.is_err()
            && let Err(error) = remove_sstable(self.store.file_system(), &descriptor).await
        {
            tracing::warn!(
                %error,
                sstable = %descriptor,
                "flush: cannot remove the files of a failed flush; the next start removes \
                unfinished ones"
            );
        }
        outcome
    }

    /// Writes and opens the SSTable, whose name is reserved, and gives it the present version of
    /// the table (see `Table::adopt`), so the caller must add it to the view before it yields.
    /// Returns `None` if the memtable has no data to write.
    async fn write_sstable(
        &self,
        memtable: &Rc<Memtable>,
        metadata: &Arc<TableMetadata>,
        options: WriterOptions,
        progress: &FlushProgress<'_>,
    ) -> Result<Option<Rc<SSTable>>, StorageError> {
        let file_system = self.store.file_system();
        let mut writer = SSTableWriter::create_reserved(file_system, options).await?;
        Copy::new(memtable, metadata, &mut writer, progress).run().await?;
        let limits = &self.store.configuration().vectors.index;
        write_memtable(file_system, memtable, &mut writer, limits).await?;
        progress.all_rows_written();
        self.wait_for_log(memtable).await?;
        let Some(written) = writer.finish().await? else { return Ok(None) };
        let sstable = self.store.open_sstable(&self.table.metadata(), written.descriptor).await?;
        self.table.adopt(std::slice::from_ref(&sstable))?;
        Ok(Some(sstable))
    }

    /// Waits until the log has the memtable's writes on disk. One record may hold writes to several
    /// tables, such as a row and its view row. If the SSTable were sealed first, a crash could keep
    /// the writes to this table only. If the log could not be written, marks the views.
    async fn wait_for_log(&self, memtable: &Memtable) -> Result<(), StorageError> {
        // During the replay, the shard has no active log to wait for.
        let Some(log) = self.store.logs.of_table(self.table) else { return Ok(()) };
        if let Some((_, end)) = memtable.positions() {
            log.wait_until_durable(end).await;
        }
        let metadata = self.table.metadata();
        let has_failed = log.failure_in_memory().is_some();
        if has_failed && (metadata.is_view() || metadata.has_views()) {
            let data_directory = &self.store.configuration().data_directory;
            mark_unsynced_views(self.store.file_system(), data_directory).await?;
        }
        Ok(())
    }

    async fn writer_options(
        &self,
        memtable: &Memtable,
        metadata: &Arc<TableMetadata>,
    ) -> Result<WriterOptions, StorageError> {
        let table = self.table;
        let statistics = memtable.statistics();
        // A deletion at a negative timestamp or a late expiry was accepted for another SSTable
        // version, before ALTER TABLE or a restart. The deletion must not be lost, nor the TTL
        // shortened. If there are both, only the deletion is kept as it is.
        let special = if statistics.has_negative_deletion {
            SpecialData::NegativeDeletions
        } else if statistics.has_late_expiry {
            SpecialData::LateExpiries
        } else {
            SpecialData::None
        };
        let features = self.store.tables.features_with_room_for(table, special);
        let named = |id| Descriptor::new(table.home.directory.clone(), features, id);
        let descriptor = self.store.next_descriptor(metadata.id, named).await?;
        let mut options = WriterOptions::for_table(descriptor, metadata.clone())?;
        let columns = metadata.static_columns().iter().chain(metadata.regular_columns());
        let present: BTreeSet<_> =
            columns.map(|column| column.id).filter(|id| statistics.has_column(*id)).collect();
        options.columns = PresentColumns::Only(present);
        options.encoding_stats = encoding_stats(&statistics);
        options.estimated_partitions = statistics.partitions;
        options.column_index_size = self.store.configuration().column_index_size(features);
        options.first_block_size = self.store.configuration().first_block_size(features);
        options.summary_ratio = self.store.configuration().sstables.summary_ratio;
        let intervals = match memtable.positions() {
            Some((first, last)) => self.store.logs.intervals(table, first, last),
            None => Vec::new(),
        };
        set_commit_log_facts(&mut options.facts, &intervals, self.store.host_id());
        Ok(options)
    }
}

/// Logs that the SSTable of a memtable with these statistics has shortened TTLs, if so.
fn warn_of_shortened_ttls(statistics: &MemtableStatistics, metadata: &TableMetadata) {
    if statistics.has_negative_deletion
        && statistics.has_late_expiry
        && let Some(left_out) = SHORTENED_TTLS.with(|limit| limit.due("shortened TTLs"))
    {
        tracing::warn!(
            table = metadata.name,
            left_out,
            "flush shortened TTLs to January 2038, because the memtable also has a deletion at a \
            negative timestamp; to keep rows longer, write them again after this flush, with \
            sstable_format oa or da"
        );
    }
}

/// Converts the minima for the header of an SSTable, in which the epochs represent missing values.
fn encoding_stats(statistics: &MemtableStatistics) -> EncodingStats {
    let some = |value: u32, none: u32| if value == u32::MAX { none } else { value };
    let timestamp = match statistics.minimum_timestamp {
        i64::MAX => TIMESTAMP_EPOCH_US,
        timestamp => timestamp,
    };
    let deletion_time = some(statistics.minimum_local_deletion_time, DELETION_TIME_EPOCH_S);
    EncodingStats::from_baselines(timestamp, deletion_time, some(statistics.minimum_ttl, 0))
}
