//! The parts of a split file on one shard.

use std::rc::Rc;

use espalier_mutation::schema::TableId;
use espalier_sstable::{Descriptor, SSTable};
use uuid::Uuid;

use super::ShardStore;
use crate::StorageError;

/// Opens those parts of a split file that have partitions of this shard.
pub(crate) async fn stage(
    store: &ShardStore,
    id: TableId,
    split: Uuid,
    parts: Vec<Descriptor>,
) -> Result<(), StorageError> {
    let Ok(table) = store.tables.get(id) else { return Ok(()) };
    let metadata = table.metadata();
    for part in parts {
        let part = store.open_sstable(&metadata, part).await?;
        if store.routing.may_own_part(&metadata, &part) {
            table.exchanges.staged.borrow_mut().entry(split).or_default().push(part);
        }
    }
    Ok(())
}

/// Drops the parts that [`stage`] opened.
pub(crate) fn unstage(store: &ShardStore, id: TableId, split: Uuid) {
    if let Ok(table) = store.tables.get(id) {
        let parts = table.exchanges.staged.borrow_mut().remove(&split);
        drop(parts);
    }
}

/// Replaces a split file by its parts.
pub(crate) fn exchange(
    store: &ShardStore,
    id: TableId,
    split: Uuid,
    removed: &[Descriptor],
    has_left_out: bool,
) -> Result<(), StorageError> {
    let Ok(table) = store.tables.get(id) else { return Ok(()) };
    let staged = table.exchanges.staged.borrow_mut().remove(&split).unwrap_or_default();
    let view = table.view();
    let is_removed = |sstable: &&Rc<SSTable>| removed.contains(sstable.descriptor());
    let gone: Vec<_> = view.sstables.iter().filter(is_removed).cloned().collect();
    table.exchange(&gone, staged, has_left_out)?;
    store.wakers.compaction.notify_one();
    Ok(())
}
