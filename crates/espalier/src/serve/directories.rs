//! The directories of a node. The node creates missing ones and locks all of them, so that two
//! nodes never write to the same one.

use std::path::PathBuf;

use espalier_runtime::file::{DirectoryLock, FileSystem, LockError};

use espalier_storage::DIRECTORY_LOCK;

use super::ServeError;
use crate::configuration::NodeConfiguration;

/// The locks of a node's directories. The caller keeps them for as long as the node lives.
#[derive(Debug)]
pub struct Directories {
    _locks: Vec<DirectoryLock>,
}

impl Directories {
    /// Creates and locks the directories. The data and the commit log have locks of their own,
    /// which a store that another program opens alone takes too.
    ///
    /// # Errors
    /// Fails if a directory cannot be created or locked, or if another node uses it.
    pub async fn claim(configuration: &NodeConfiguration) -> Result<Self, ServeError> {
        let working = &configuration.directory;
        let storage = &configuration.storage;
        let mut directories = vec![(working.clone(), "--workdir")];
        for (path, flag) in [
            (&storage.data_directory, "--set data_file_directories="),
            (&storage.commitlog_directory, "--set commitlog_directory="),
        ] {
            if directories.iter().all(|(known, _)| known != path) {
                directories.push((path.clone(), flag));
            }
        }
        let mut locks = Vec::new();
        for (path, flag) in directories {
            locks.push(claim(path, flag).await?);
        }
        Ok(Self { _locks: locks })
    }
}

async fn claim(path: PathBuf, flag: &'static str) -> Result<DirectoryLock, ServeError> {
    if let Err(error) = FileSystem::real().create_dir_all(&path).await {
        return Err(ServeError::Directory { path, error: Box::new(error), flag });
    }
    match DirectoryLock::acquire(&path, DIRECTORY_LOCK) {
        Ok(lock) => Ok(lock),
        Err(LockError::Held { holder }) => Err(ServeError::InUse { path, holder, flag }),
        Err(LockError::File(error)) => {
            Err(ServeError::Directory { path, error: Box::new(error), flag })
        }
    }
}
