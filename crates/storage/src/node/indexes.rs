//! Records which secondary indexes all shards have built.

use std::{rc::Rc, sync::Arc};

use espalier_mutation::{
    Mutation,
    schema::{Schema, TableMetadata},
};
use espalier_runtime::time;
use uuid::Uuid;

use super::{Node, record_times::next_record_timestamp_us};
use crate::{StorageError, engine::has_entries_of, system::index_info_update, table::Table};

/// An SSTable for which the last build of its index entries failed.
pub(super) struct FailedIndexBuild {
    pub(super) id: Uuid,
    pub(super) keyspace: String,
    pub(super) table: String,
    pub(super) total_bytes: u64,
    pub(super) total_stored_bytes: u64,
    pub(super) directory: String,
}

impl Node {
    /// Returns whether all memtables and SSTables of a table have the entries of its secondary
    /// indexes, on all shards. A shard that does not know the indexes yet has not built them.
    pub async fn has_built_indexes(&self, table: &Arc<TableMetadata>) -> bool {
        let wanted = table.clone();
        let shards = self.on_all_shards(move |node| async move {
            let table = node.store().tables.get(wanted.id);
            table.is_ok_and(|table| has_entries_of(&table, &wanted))
        });
        shards.await.into_iter().all(|is_built| is_built)
    }
}

/// Removes dropped indexes from `system."IndexInfo"`.
pub(super) async fn forget_dropped_indexes(node: &Node, old: &Schema, new: &Schema) {
    let now = next_record_timestamp_us(node, i64::MIN);
    let now_s = u32::try_from(time::now_seconds()).unwrap_or(0);
    let mut updates = Vec::new();
    for table in old.tables().filter(|table| !table.indexes.is_empty()) {
        let present = new.table_by_id(table.id);
        for index in &table.indexes {
            if present.is_none_or(|present| present.index(&index.name).is_none()) {
                let keyspace = &table.keyspace;
                updates.push(index_info_update(keyspace, &index.name, now, Some(now_s)));
            }
        }
    }
    if !updates.is_empty()
        && let Err(error) = node.apply(Mutation { updates }).await
    {
        tracing::warn!(%error, "system.IndexInfo still lists a dropped index");
    }
}

/// Records the indexes of a table in `system."IndexInfo"` once all shards have built them. Shard 0
/// writes the record; each other shard wakes shard 0 when its own part is built.
pub(super) async fn record_built_indexes(
    node: &Node,
    table: &Rc<Table>,
) -> Result<(), StorageError> {
    let metadata = table.metadata();
    let is_new = |name: &&String| !table.indexes.is_recorded(name);
    let names = metadata.indexes.iter().map(|index| &index.name).filter(is_new);
    let names: Vec<String> = names.cloned().collect();
    if names.is_empty() {
        return Ok(());
    }
    if node.store().shard().index != 0 {
        if has_entries_of(table, &metadata) {
            let wake = |node: Node| async move { node.store().wakers.indexes.notify_one() };
            node.on_shard(0, wake).await;
            if is_unchanged(node, table, &metadata) {
                table.indexes.record(names);
            }
        }
        return Ok(());
    }
    if !node.has_built_indexes(&metadata).await || !is_unchanged(node, table, &metadata) {
        return Ok(());
    }
    // If an index is dropped from here on, the removal of its record has a later timestamp.
    let now = next_record_timestamp_us(node, i64::MIN);
    let update = |name: &String| index_info_update(&metadata.keyspace, name, now, None);
    let updates = names.iter().map(update).collect();
    node.apply(Mutation { updates }).await?;
    if is_unchanged(node, table, &metadata) {
        table.indexes.record(names);
    }
    Ok(())
}

/// Returns whether a table still has this version. If not, an index may have been dropped and
/// created again under its name, and SSTables may lack the entries of the new index. Then this
/// function wakes the task that builds indexes, which looks again.
fn is_unchanged(node: &Node, table: &Table, metadata: &Arc<TableMetadata>) -> bool {
    let is_unchanged = !table.is_dropped() && Arc::ptr_eq(&table.borrow_metadata(), metadata);
    if !is_unchanged {
        node.store().wakers.indexes.notify_one();
    }
    is_unchanged
}

/// Returns the SSTables of all shards for which the last build of their index entries failed.
pub(super) async fn failed_index_builds(node: &Node) -> Vec<FailedIndexBuild> {
    let all = node.on_all_shards(|node| async move {
        let tables = node.store().tables.all();
        let failures = tables.iter().flat_map(|table| {
            let metadata = table.metadata();
            table.indexes.failures.all().into_iter().map(move |(id, sstable)| FailedIndexBuild {
                id,
                keyspace: metadata.keyspace.clone(),
                table: metadata.name.clone(),
                total_bytes: sstable.reader().data_length(),
                total_stored_bytes: sstable.reader().stored_data_length(),
                directory: table.home.directory.display().to_string(),
            })
        });
        failures.collect::<Vec<_>>()
    });
    all.await.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        task::{Context, Waker},
        time::Duration,
    };

    use espalier_mutation::schema::{TableBuilder, TableId};
    use espalier_runtime::{block_on, file::FileSystem, time::timeout, yield_now};
    use espalier_types::CqlType;

    use super::*;
    use crate::test_database::{create, index_of, open, table};

    #[test]
    fn an_index_that_is_created_again_is_not_recorded_for_the_old_one() {
        block_on(async {
            let node = open(FileSystem::simulated(1)).await;
            let builder = TableBuilder::new("ks", "t", TableId(Uuid::from_u128(1)));
            let builder = builder.partition_key("k", CqlType::Int).regular("v", CqlType::Int);
            let builder = builder.indexes(vec![index_of("by_v", "v")]);
            let metadata = create(&node, builder.build()).await;
            let table = table(&node, &metadata);
            let create_again = || {
                for indexes in [Vec::new(), metadata.indexes.clone()] {
                    let changed = metadata.rebuild().indexes(indexes).build();
                    let mapping = (**table.borrow_mapping()).clone();
                    table.alter(Arc::new(changed), mapping).unwrap();
                }
            };
            let mut record = pin!(record_built_indexes(&node, &table));
            assert!(record.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            create_again();
            record.await.unwrap();
            assert!(!table.indexes.is_recorded("by_v"));
            // The build task, which was woken, records the new index.
            let is_recorded = async {
                while !table.indexes.is_recorded("by_v") {
                    yield_now().await;
                }
            };
            timeout(Duration::from_secs(60), is_recorded).await.expect("the task is woken");
        });
    }
}
