//! Exchanges the parts of a split file between shards.

use std::rc::Rc;

use espalier_mutation::schema::TableId;
use espalier_sstable::{Descriptor, SSTable};
use uuid::Uuid;

use super::Database;
use crate::StorageError;

impl Database {
    /// Opens the parts of a split file, each on the shards that own some of it.
    pub(crate) async fn stage_everywhere(
        &self,
        id: TableId,
        split: Uuid,
        parts: Vec<Descriptor>,
    ) -> Result<(), StorageError> {
        let staged = self.on_all_shards(move |database| {
            let parts = parts.clone();
            async move {
                let Ok(table) = database.table(id) else { return Ok(()) };
                let metadata = table.metadata();
                for part in parts {
                    let part = database.open_sstable(&metadata, part).await?;
                    if database.may_own_part(&metadata, &part) {
                        table.staged.borrow_mut().entry(split).or_default().push(part);
                    }
                }
                Ok(())
            }
        });
        staged.await.into_iter().collect()
    }

    /// Drops the parts that [`Self::stage_everywhere`] opened.
    pub(crate) async fn unstage_everywhere(&self, id: TableId, split: Uuid) {
        let forgotten = self.on_all_shards(move |database| async move {
            if let Ok(table) = database.table(id) {
                let parts = table.staged.borrow_mut().remove(&split);
                drop(parts);
            }
        });
        forgotten.await;
    }

    /// Replaces a split file by its parts, shard by shard. The shards may do so at different times,
    /// because a shard reads only its own partitions, and its parts have the same data as the file.
    /// Only after a scrub, the parts may lack data (`has_left_out`).
    pub(crate) async fn exchange_everywhere(
        &self,
        id: TableId,
        split: Uuid,
        removed: Vec<Descriptor>,
        has_left_out: bool,
    ) -> Result<(), StorageError> {
        let exchanged = self.on_all_shards(move |database| {
            let removed = removed.clone();
            async move {
                let Ok(table) = database.table(id) else { return Ok(()) };
                let staged = table.staged.borrow_mut().remove(&split).unwrap_or_default();
                let view = table.view();
                let is_removed = |sstable: &&Rc<SSTable>| removed.contains(sstable.descriptor());
                let gone: Vec<_> = view.sstables.iter().filter(is_removed).cloned().collect();
                table.exchange(&gone, staged, has_left_out)?;
                database.compaction_wanted().notify_one();
                Ok(())
            }
        });
        exchanged.await.into_iter().collect()
    }
}
