//! The surroundings of a compaction: its table and its shard.

use std::{rc::Rc, sync::Arc};

use espalier_compaction::{
    CompactionBacklog, CompactionContext, CompactionError, OutputFactory, ShardLoad, TableData,
    Throughput,
};
use espalier_mutation::{DecoratedKey, purge::PurgeLimits, schema::TableMetadata};
use espalier_runtime::time;
use espalier_sstable::{Descriptor, SSTable, WriterOptions};
use futures_util::future::LocalBoxFuture;

use crate::{Database, table::Table};

/// Returns the surroundings of a compaction of a table.
pub(super) fn context_of(
    database: &Database,
    table: &Rc<Table>,
    metadata: &Arc<TableMetadata>,
) -> CompactionContext {
    let outputs = Outputs { database: database.clone(), table: table.clone() };
    CompactionContext {
        file_system: database.file_system().clone(),
        metadata: metadata.clone(),
        directory: table.directory.clone(),
        version: database.sstable_features(table).version,
        host: database.host_id(),
        oldest_segment: database.oldest_segment_for(table),
        limits: PurgeLimits::at(metadata, time::now_seconds()),
        read_ahead_bytes: database.read_ahead_bytes(),
        vector_limits: database.configuration().vector_limits,
        table: table.clone(),
        outputs: Rc::new(outputs),
        load: load_of(database),
    }
}

/// Returns the load of the shard, which sets the pace of its compactions.
pub(crate) fn load_of(database: &Database) -> Rc<dyn ShardLoad> {
    Rc::new(database.clone())
}

impl TableData for Table {
    fn sstables(&self) -> Rc<[Rc<SSTable>]> {
        self.borrow_view().sstables.clone()
    }

    fn oldest_in_memory(&self, key: &DecoratedKey, path: &mut Vec<u8>) -> Option<i64> {
        self.borrow_view().oldest_in_memory(key, path)
    }

    fn minimum_timestamp_in_memory(&self) -> Option<i64> {
        let view = self.borrow_view();
        let memtables = view.memtables().filter(|memtable| !memtable.is_empty());
        memtables.map(|memtable| memtable.minimum_timestamp()).min()
    }
}

/// Makes the outputs of a table's compactions.
struct Outputs {
    database: Database,
    table: Rc<Table>,
}

impl OutputFactory for Outputs {
    fn next<'a>(
        &'a self,
        metadata: &'a Arc<TableMetadata>,
        has_old_timestamps: bool,
    ) -> LocalBoxFuture<'a, Result<WriterOptions, CompactionError>> {
        Box::pin(async move {
            let mut features = self.database.sstable_features(&self.table);
            if has_old_timestamps && !features.has_room_for_negative_deletions() {
                features = features.with_room_for_negative_deletions();
            }
            let named = |id| Descriptor::new(self.table.directory.clone(), features, id);
            let descriptor = self.database.next_descriptor(metadata.id, named).await?;
            let mut options = WriterOptions::for_table(descriptor, metadata.clone())?;
            let configuration = self.database.configuration();
            options.column_index_size = configuration.column_index_size(features);
            options.first_block_size = configuration.first_block_size(features);
            options.summary_ratio = configuration.sstable_summary_ratio;
            Ok(options)
        })
    }
}

impl ShardLoad for Database {
    fn backlog(&self) -> CompactionBacklog {
        self.compaction_backlog_here()
    }

    fn running_compactions(&self) -> usize {
        Database::running_compactions(self).len()
    }

    fn is_flushing(&self) -> bool {
        Database::is_flushing(self)
    }

    fn is_flush_urgent(&self) -> bool {
        Database::is_flush_urgent(self)
    }

    fn throughput(&self) -> &Throughput {
        self.compaction_throughput()
    }

    fn shard_count(&self) -> usize {
        self.shard().count
    }
}
