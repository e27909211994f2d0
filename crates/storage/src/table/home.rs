//! The directory of a table, as one shard sees it.

use std::{
    cell::Cell,
    path::{Path, PathBuf},
};

use espalier_runtime::file::{FileError, FileSystem};

/// The directory of a table.
pub(crate) struct TableHome {
    pub(crate) directory: PathBuf,
    /// True if this shard has made the directory's own name durable.
    has_durable_name: Cell<bool>,
    /// The disk that the directory is on, once it was determined.
    device: Cell<Option<u64>>,
}

impl TableHome {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory, has_durable_name: Cell::new(false), device: Cell::new(None) }
    }

    /// Creates the directory, and makes its name durable.
    pub(crate) async fn make(&self, file_system: &FileSystem) -> Result<(), FileError> {
        if self.has_durable_name.get() {
            return Ok(());
        }
        file_system.create_dir_all(&self.directory).await?;
        // Another shard or an earlier run may have created the directory without making its name
        // durable.
        let above = self.directory.ancestors().skip(1).take(2);
        for directory in above.filter(|directory| !directory.as_os_str().is_empty()) {
            file_system.sync_dir(directory).await?;
        }
        self.has_durable_name.set(true);
        Ok(())
    }

    /// Returns the device number of the disk that the directory is on. The directory may be a link
    /// to another disk; as long as it does not exist, the data directory's disk counts.
    pub(crate) async fn device(&self, file_system: &FileSystem, data_directory: &Path) -> u64 {
        if let Some(device) = self.device.get() {
            return device;
        }
        match file_system.metadata(&self.directory).await {
            Ok(found) => {
                self.device.set(Some(found.device));
                found.device
            }
            Err(_) => file_system.metadata(data_directory).await.map_or(0, |found| found.device),
        }
    }
}
