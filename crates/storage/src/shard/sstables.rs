//! Names and opens the SSTables of a shard.

use std::{num::NonZeroU64, rc::Rc, sync::Arc};

use espalier_mutation::schema::{TableId, TableMetadata};
use espalier_sstable::{Descriptor, SSTable, SSTableError, SSTableId, components::component_taken};

use super::ShardStore;
use crate::StorageError;

impl ShardStore {
    /// Opens an SSTable for this shard.
    pub(crate) async fn open_sstable(
        &self,
        table: &Arc<TableMetadata>,
        descriptor: Descriptor,
    ) -> Result<Rc<SSTable>, StorageError> {
        let opened = SSTable::open(&self.file_system, table, descriptor, &self.caches.pages).await;
        Ok(Rc::new(opened?))
    }

    /// Returns the descriptor of the next SSTable of a table, as `named` makes it from its number,
    /// and skips the numbers of existing files. Files that an operator copied into the table's
    /// directory may have numbers that this node does not know before its next start.
    pub(crate) async fn next_descriptor(
        &self,
        table: TableId,
        named: impl Fn(SSTableId) -> Descriptor,
    ) -> Result<Descriptor, SSTableError> {
        loop {
            let number = self.shared.next_generation(table) - 1;
            let id = SSTableId::Generation(NonZeroU64::MIN.saturating_add(number));
            let descriptor = named(id);
            if component_taken(&self.file_system, &descriptor).await?.is_none() {
                return Ok(descriptor);
            }
            tracing::warn!(
                sstable = %descriptor,
                directory = %descriptor.directory.display(),
                "unknown files in the directory of an open table: they are ignored until the next \
                 start, which adds them to the table; to add them at once, use nodetool import"
            );
        }
    }
}
