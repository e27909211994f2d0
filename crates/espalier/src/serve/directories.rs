//! The directories of a node. The node creates missing directories and locks all of them, so that
//! two nodes never write to one directory.

use std::path::PathBuf;

use espalier_runtime::file::{DirectoryLock, FileSystem, LockError};

use espalier_storage::DIRECTORY_LOCK;

use super::ServeError;
use crate::configuration::NodeConfiguration;

/// The locks of a node's directories. The caller keeps them for as long as the node lives.
#[derive(Debug)]
pub struct Directories {
    locks: Vec<(PathBuf, DirectoryLock)>,
}

impl Directories {
    /// Creates and locks the working directory.
    ///
    /// # Errors
    /// Fails if the directory cannot be created or locked, or if another node uses it.
    pub async fn claim_working(configuration: &NodeConfiguration) -> Result<Self, ServeError> {
        let mut directories = Self { locks: Vec::new() };
        directories.claim(configuration.directory.clone(), "--workdir").await?;
        Ok(directories)
    }

    /// Creates and locks the directories of the data and of the commit log. A program that opens a
    /// store without a node locks only these two directories.
    ///
    /// # Errors
    /// As [`Self::claim_working`].
    pub async fn claim_storage(
        &mut self,
        configuration: &NodeConfiguration,
    ) -> Result<(), ServeError> {
        let storage = &configuration.storage;
        self.claim(storage.data_directory.clone(), "--set data_file_directories=").await?;
        self.claim(storage.commit_log.directory.clone(), "--set commitlog_directory=").await
    }

    async fn claim(&mut self, path: PathBuf, flag: &'static str) -> Result<(), ServeError> {
        if self.locks.iter().any(|(known, _)| *known == path) {
            return Ok(());
        }
        if let Err(error) = FileSystem::real().create_dir_all(&path).await {
            return Err(ServeError::Directory { path, error: Box::new(error), flag });
        }
        match DirectoryLock::acquire(&path, DIRECTORY_LOCK) {
            Ok(lock) => {
                self.locks.push((path, lock));
                Ok(())
            }
            Err(LockError::Held { holder }) => Err(ServeError::InUse { path, holder, flag }),
            Err(LockError::File(error)) => {
                Err(ServeError::Directory { path, error: Box::new(error), flag })
            }
        }
    }
}
