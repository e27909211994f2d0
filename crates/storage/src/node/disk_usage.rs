//! The used share of the disk with the data.

use super::Node;
use crate::StorageError;

impl Node {
    /// Returns the used percentage of the disk with the data, rounded up.
    ///
    /// # Errors
    /// Fails if the data directory cannot be looked up.
    pub async fn disk_usage_percentage(&self) -> Result<u8, StorageError> {
        let store = self.store();
        Ok(store.file_system.used_percentage(&store.configuration.data_directory).await?)
    }
}
