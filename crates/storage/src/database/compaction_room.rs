//! Checks whether a table's disk has room for a compaction, and how full it is.

use espalier_compaction::Running;

use super::Database;
use crate::{StorageError, compaction::RESERVED_BYTES, table::Table};

impl Database {
    /// Returns the used percentage of the disk with the data, rounded up.
    ///
    /// # Errors
    /// Fails if the data directory cannot be looked up.
    pub async fn disk_usage_percentage(&self) -> Result<u8, StorageError> {
        Ok(self.file_system().used_percentage(&self.configuration().data_directory).await?)
    }

    /// Returns the free bytes of a table's disk, less the bytes that running compactions will still
    /// write there.
    pub(crate) async fn bytes_for_compactions(&self, table: &Table) -> u64 {
        self.bytes_without(table, Running::bytes_to_come).await
    }

    /// Returns the free bytes of a table's disk, less `reserves` of each compaction there and less
    /// `RESERVED_BYTES`.
    async fn bytes_without(
        &self,
        table: &Table,
        reserves: impl Fn(&Running) -> u64 + Copy + Send + 'static,
    ) -> u64 {
        let device = self.device_of(table).await;
        let directory = match self.file_system().exists(&table.directory).await {
            Ok(true) => &table.directory,
            _ => &self.configuration().data_directory,
        };
        let available = self.file_system().available_bytes(directory).await;
        let available = available.unwrap_or_else(|error| {
            tracing::warn!(
                %error,
                "free disk space is unknown: compactions of the table cannot start"
            );
            0
        });
        let reserved = self.on_all_shards(move |database| async move {
            let mut bytes = 0;
            for (table, running) in database.running_compactions() {
                if database.device_of(&table).await == device {
                    bytes += reserves(&running);
                }
            }
            bytes
        });
        let reserved: u64 = reserved.await.into_iter().sum();
        available.saturating_sub(reserved).saturating_sub(RESERVED_BYTES)
    }

    /// Returns the device that a table's directory is on.
    pub(crate) async fn device_of(&self, table: &Table) -> u64 {
        table.device(self.file_system(), &self.configuration().data_directory).await
    }

    /// Checks that the table's disk has room for a compaction that has its files already, besides
    /// the compactions that started before it.
    pub(crate) async fn check_room(
        &self,
        table: &Table,
        running: &Running,
    ) -> Result<(), StorageError> {
        let id = running.id;
        let available =
            self.bytes_without(table, move |other| other.bytes_to_come_before(id)).await;
        let needed_bytes = running.bytes_to_come();
        if needed_bytes > available {
            return Err(StorageError::NoDiskSpace { needed_bytes });
        }
        running.set_has_room();
        Ok(())
    }
}
