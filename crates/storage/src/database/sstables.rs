//! Opens SSTables on this shard.

use std::{rc::Rc, sync::Arc};

use espalier_mutation::schema::TableMetadata;
use espalier_sstable::{Descriptor, SSTable};

use super::Database;
use crate::StorageError;

impl Database {
    /// Opens an SSTable for this shard.
    pub(crate) async fn open_sstable(
        &self,
        table: &Arc<TableMetadata>,
        descriptor: Descriptor,
    ) -> Result<Rc<SSTable>, StorageError> {
        let inner = &self.inner;
        let opened = SSTable::open(&inner.file_system, table, descriptor, &inner.page_cache).await;
        Ok(Rc::new(opened?))
    }
}
