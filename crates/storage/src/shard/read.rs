//! Reads of the partitions of a shard.

use espalier_runtime::{trace, trace_event};

use super::{ShardStore, counters::add};
use crate::{
    ReadCommand, ReadResult, ReadTarget, StorageError,
    read::{
        FragmentVisitor, TableAccess, Visit, read_on_shard, trace_partition_query, trace_result,
        visit_on_shard,
    },
    table::TableView,
};

impl ShardStore {
    /// Executes a read command on the partitions of this shard. The caller asks for one partition
    /// only on the shard that owns it; another shard does not find it.
    ///
    /// # Errors
    ///
    /// Fails if the table is unknown, or if an SSTable is damaged or cannot be read.
    pub async fn read(&self, command: &ReadCommand) -> Result<ReadResult, StorageError> {
        debug_assert!(
            match &command.target {
                ReadTarget::Partition(key) => self.routing.owns(&command.table, key.token),
                ReadTarget::Range(_) => true,
            },
            "another shard owns the partition"
        );
        let table = self.tables.get(command.table.id)?;
        let (view, mut cache) = (table.view(), table.row_cache());
        // A command with an older version of the table must not use the caches.
        let is_version = table.is_version(&command.table);
        cache = cache.filter(|_| is_version);
        let empty = (is_version && !command.bypass_cache).then(|| table.empty_ranges().access());
        add(&self.counters.reads.all, 1);
        let own = self.routing.own_range(&command.table);
        if trace::is_on() {
            trace_command(command, view.sstables.len());
        }
        let access = TableAccess { view: &view, cache: cache.as_ref(), empty: empty.as_ref() };
        let result = read_on_shard(access, command, &own).await;
        if let (Some(_), Ok(result)) = (&command.search, &result) {
            count_index_read(self, &view, result);
        }
        if trace::is_on()
            && let Ok(result) = &result
        {
            trace_result(result);
        }
        result
    }

    /// Shows a visitor all that the partitions of this shard hold, as [`crate::Node::visit`] does.
    pub(crate) async fn visit(
        &self,
        command: &ReadCommand,
        visitor: &mut dyn FragmentVisitor,
    ) -> Result<Visit, StorageError> {
        let table = self.tables.get(command.table.id)?;
        let (view, cache) = (table.view(), table.row_cache());
        // A command with an older version of the table must not use the cache.
        let cache = cache.filter(|_| table.is_version(&command.table));
        add(&self.counters.reads.all, 1);
        let own = self.routing.own_range(&command.table);
        if trace::is_on() {
            trace_command(command, view.sstables.len());
        }
        let access = TableAccess { view: &view, cache: cache.as_ref(), empty: None };
        visit_on_shard(access, command, &own, visitor).await
    }
}

/// Counts a read that looked for rows by indexes. If a component is damaged, wakes the background
/// task that makes the entries again.
fn count_index_read(store: &ShardStore, view: &TableView, result: &ReadResult) {
    let counters = &store.counters.reads;
    add(&counters.passed_entries, result.passed_entries);
    if result.used_index {
        add(&counters.by_index, 1);
    } else if view.damaged_indexes() > 0 {
        store.wakers.indexes.notify_one();
    }
}

/// Traces the command in Cassandra's words.
#[cold]
fn trace_command(command: &ReadCommand, sstables: usize) {
    let table = &command.table.name;
    match &command.target {
        ReadTarget::Partition(key) => trace_partition_query(table, key.token, sstables),
        ReadTarget::Range(_) => {
            trace_event!("Executing seq scan on {table}: {sstables} sstables");
        }
    }
}
