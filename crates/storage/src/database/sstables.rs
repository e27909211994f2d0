//! Opens SSTables on this shard.

use std::{rc::Rc, sync::Arc};

use espalier_mutation::schema::TableMetadata;
use espalier_sstable::Descriptor;

use super::Database;
use crate::{StorageError, table::SSTable};

impl Database {
    /// Opens an SSTable for this shard.
    pub(crate) async fn open_sstable(
        &self,
        table: &Arc<TableMetadata>,
        descriptor: Descriptor,
    ) -> Result<Rc<SSTable>, StorageError> {
        let inner = &self.inner;
        SSTable::open(&inner.file_system, table, descriptor, &inner.page_cache).await.map(Rc::new)
    }
}
