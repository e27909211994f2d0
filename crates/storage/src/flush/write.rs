//! One flush.

use std::{collections::BTreeSet, rc::Rc, sync::Arc};

use espalier_mutation::schema::TableMetadata;
use espalier_runtime::file::FileError;
use espalier_sstable::{
    Descriptor, EncodingStats, PresentColumns, SSTableError, SSTableWriter, WriterOptions,
    components::remove_sstable,
    statistics::encoding_stats::{DELETION_TIME_EPOCH_S, TIMESTAMP_EPOCH_US},
};

use super::{copy::Copy, pace::FlushPace};
use crate::{
    Database, StorageError,
    commitlog::LogPosition,
    flush::FlushProgress,
    memtable::{Memtable, MemtableStatistics},
    table::{SSTable, Table},
};

impl Database {
    /// Writes all that the table has in memory on this shard to SSTables, for somebody who waits for it. Waits for a flush of it that is under way.
    pub(crate) async fn flush_table(&self, table: &Table) -> Result<(), StorageError> {
        let _awaiting = self.await_flush();
        self.flush_in_background(table).await
    }

    /// The same where nobody waits.
    pub(super) async fn flush_in_background(&self, table: &Table) -> Result<(), StorageError> {
        let _turn = table.flush_lock.acquire(1).await;
        if table.is_dropped() {
            return Ok(());
        }
        let _under_way = self.begin_flush();
        let mut is_frozen = false;
        loop {
            // Oldest first. Beside one whose flush has failed none is frozen before that one is written, or each attempt would leave one more for reads
            // to look at; unless its successor has no room either.
            let oldest = table.view().flushing.first().cloned();
            if !is_frozen && (oldest.is_none() || table.memtable().wants_flush()) {
                is_frozen = true;
                let memtable = table.memtable();
                // One in which nothing is may be of writes that changed nothing, and holds the log as well.
                if !memtable.is_empty() || memtable.positions().is_some() {
                    table.switch_memtable();
                    // The new one has room, if theirs had none.
                    self.budget().wake_waiters();
                    continue;
                }
            }
            let Some(memtable) = oldest else { break };
            let progress = self.flush_estimate().begin(memtable.used_bytes());
            match self.flush_memtable(table, &memtable, &progress).await {
                Ok(sstable) => {
                    if let Some(sstable) = &sstable {
                        table.note_flush(sstable.reader().stored_data_length());
                    }
                    self.exchange_flushed(table, &memtable, sstable).await;
                    drop(progress);
                    table.set_flush_failure(None);
                    self.count_flush(&memtable);
                }
                Err(error) => {
                    progress.fail();
                    tracing::error!(%error, "a flush failed; its memtable stays");
                    table.set_flush_failure(Some(error.to_string()));
                    self.count_failed_flush();
                    // The scheduler tries again after a pause.
                    self.flush_wanted().notify_one();
                    self.budget().wake_waiters();
                    return Err(error);
                }
            }
        }
        self.reclaim_log();
        self.compaction_wanted().notify_one();
        Ok(())
    }

    /// A file comes in place of the memtable that was written to it. Until the row cache has what is in it, both are there.
    async fn exchange_flushed(
        &self,
        table: &Table,
        memtable: &Rc<Memtable>,
        sstable: Option<Rc<SSTable>>,
    ) {
        if let Some(sstable) = sstable {
            table.add_flushed(sstable);
            let mut pace = FlushPace::new(self);
            let give_way = async || pace.look().await;
            let updated = table.cache().update(memtable, &table.metadata(), give_way).await;
            if let Err(error) = updated {
                tracing::warn!(%error, "the row cache could not take in a memtable, and forgets the table");
                table.cache().forget();
            }
        }
        table.change_view(|view| view.without(&[], std::slice::from_ref(memtable)));
    }

    async fn flush_memtable(
        &self,
        table: &Table,
        memtable: &Rc<Memtable>,
        progress: &FlushProgress<'_>,
    ) -> Result<Option<Rc<SSTable>>, StorageError> {
        let metadata = memtable.table_to_write(&table.metadata());
        self.make_directory(table).await?;
        let options = self.writer_options(table, memtable, &metadata).await?;
        let descriptor = options.descriptor.clone();
        let outcome = match SSTableWriter::create(self.file_system(), options).await {
            // Somebody else's files.
            Err(error @ SSTableError::NameTaken { .. }) => return Err(error.into()),
            Err(error) => Err(error.into()),
            Ok(writer) => {
                let written = self.write_sstable(memtable, &metadata, writer, progress).await;
                match written {
                    Ok(Some(descriptor)) => {
                        self.open_sstable(&table.metadata(), descriptor).await.map(Some)
                    }
                    Ok(None) => Ok(None),
                    Err(error) => Err(error),
                }
            }
        };
        let outcome = outcome.and_then(|sstable| {
            table.adopt(sstable.as_slice())?;
            Ok(sstable)
        });
        // A disk that is full must not fill up further with what each attempt leaves.
        if outcome.is_err()
            && let Err(error) = remove_sstable(self.file_system(), &descriptor).await
        {
            tracing::warn!(%error, "files of a failed flush are left");
        }
        outcome
    }

    async fn write_sstable(
        &self,
        memtable: &Rc<Memtable>,
        metadata: &Arc<TableMetadata>,
        mut writer: SSTableWriter,
        progress: &FlushProgress<'_>,
    ) -> Result<Option<Descriptor>, StorageError> {
        Copy::new(self, memtable, metadata, &mut writer, progress).run().await?;
        progress.all_rows_written();
        Ok(writer.finish().await?.map(|written| written.descriptor))
    }

    pub(crate) async fn make_directory(&self, table: &Table) -> Result<(), FileError> {
        if table.has_durable_directory.get() {
            return Ok(());
        }
        self.file_system().create_dir_all(&table.directory).await?;
        // It may have been there, made by another shard or an earlier life that had no time to make its name durable.
        let above = table.directory.ancestors().skip(1).take(2);
        for directory in above.filter(|directory| !directory.as_os_str().is_empty()) {
            self.file_system().sync_dir(directory).await?;
        }
        table.has_durable_directory.set(true);
        Ok(())
    }

    async fn writer_options(
        &self,
        table: &Table,
        memtable: &Memtable,
        metadata: &Arc<TableMetadata>,
    ) -> Result<WriterOptions, StorageError> {
        let statistics = memtable.statistics();
        let mut features = self.sstable_features(table);
        // It was accepted for another version, before ALTER TABLE or a restart, and is not to be lost for that.
        if statistics.has_negative_deletion && !features.has_room_for_negative_deletions() {
            features = features.with_room_for_negative_deletions();
        }
        let named = |id| Descriptor::new(table.directory.clone(), features, id);
        let descriptor = self.next_descriptor(metadata.id, named).await?;
        let mut options = WriterOptions::for_table(descriptor, metadata.clone())?;
        let columns = metadata.static_columns().iter().chain(metadata.regular_columns());
        let present: BTreeSet<_> =
            columns.map(|column| column.id).filter(|id| statistics.has_column(*id)).collect();
        options.columns = PresentColumns::Only(present);
        options.encoding_stats = encoding_stats(&statistics);
        options.estimated_partitions = statistics.partitions;
        options.column_index_size = self.configuration().column_index_size(features);
        options.first_block_size = self.configuration().first_block_size(features);
        options.summary_ratio = self.configuration().sstable_summary_ratio;
        let intervals = match memtable.positions() {
            Some((first, last)) => self.log_intervals(table, first, last),
            None => Vec::new(),
        };
        crate::table::set_commit_log_facts(&mut options.facts, &intervals, self.host_id());
        Ok(options)
    }

    fn log_intervals(
        &self,
        table: &Table,
        first: LogPosition,
        last: LogPosition,
    ) -> Vec<(LogPosition, LogPosition)> {
        // While it is replayed there is no log that is written to; a file that does not tell what it has of the old one would have
        // it replayed once more, beside what was deleted and purged since.
        match self.log_for(table) {
            Some(log) => log.intervals(first, last),
            None => self.replayed_intervals(first, last),
        }
    }
}

/// The minima as the header of an SSTable wants them: the epochs stand for none.
fn encoding_stats(statistics: &MemtableStatistics) -> EncodingStats {
    let some = |value: u32, none: u32| if value == u32::MAX { none } else { value };
    let timestamp = match statistics.minimum_timestamp {
        i64::MAX => TIMESTAMP_EPOCH_US,
        timestamp => timestamp,
    };
    let deletion_time = some(statistics.minimum_local_deletion_time, DELETION_TIME_EPOCH_S);
    EncodingStats::from_baselines(timestamp, deletion_time, some(statistics.minimum_ttl, 0))
}
