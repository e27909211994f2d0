//! The surroundings of a compaction: its table and its shard.

use std::{rc::Rc, sync::Arc};

use espalier_compaction::{
    CompactionContext, CompactionError, OutputFactory, ShardLoad, TableData, Throughput,
};
use espalier_mutation::{DecoratedKey, purge::PurgeLimits, schema::TableMetadata};
use espalier_runtime::time;
use espalier_sstable::{Descriptor, SSTable, WriterOptions, versions::SpecialData};
use futures_util::future::LocalBoxFuture;

use super::backlog::{read_ahead_bytes, running};
use crate::{ShardStore, table::Table};

/// Returns the surroundings of a compaction of a table.
pub(super) fn context_of(
    store: &Rc<ShardStore>,
    table: &Rc<Table>,
    metadata: &Arc<TableMetadata>,
) -> CompactionContext {
    let outputs = Outputs { store: store.clone(), table: table.clone() };
    CompactionContext {
        file_system: store.file_system().clone(),
        metadata: metadata.clone(),
        directory: table.home.directory.clone(),
        version: store.tables.features_of(table).version,
        host: store.host_id(),
        oldest_segment: store.logs.oldest_segment_of(table),
        limits: PurgeLimits::at(metadata, time::now_seconds()),
        read_ahead_bytes: read_ahead_bytes(store),
        vector_limits: store.configuration().vectors.index,
        table: table.clone(),
        outputs: Rc::new(outputs),
        load: store.clone(),
    }
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

/// Names the outputs of a table's compactions and chooses their options.
struct Outputs {
    store: Rc<ShardStore>,
    table: Rc<Table>,
}

impl OutputFactory for Outputs {
    fn next<'a>(
        &'a self,
        metadata: &'a Arc<TableMetadata>,
        special: SpecialData,
    ) -> LocalBoxFuture<'a, Result<WriterOptions, CompactionError>> {
        Box::pin(async move {
            let features = self.store.tables.features_with_room_for(&self.table, special);
            let named = |id| Descriptor::new(self.table.home.directory.clone(), features, id);
            let descriptor = self.store.next_descriptor(metadata.id, named).await?;
            let mut options = WriterOptions::for_table(descriptor, metadata.clone())?;
            let configuration = self.store.configuration();
            options.column_index_size = configuration.column_index_size(features);
            options.first_block_size = configuration.first_block_size(features);
            options.summary_ratio = configuration.sstables.summary_ratio;
            Ok(options)
        })
    }
}

impl ShardLoad for ShardStore {
    fn running_compactions(&self) -> usize {
        running(self).len()
    }

    fn throughput(&self) -> &Throughput {
        &self.compactions.throughput
    }

    fn shard_count(&self) -> usize {
        self.shard().count
    }
}
