//! The host id identifies this node. The first start creates it in a file of the data directory.
//!
//! Recovery needs the host id before the replay, because the id determines which SSTables refer to
//! this node's commit log.

use std::path::Path;

use espalier_runtime::{file::FileSystem, random};
use uuid::Uuid;

use crate::StorageError;

const FILE_NAME: &str = "host_id";

/// Loads the host id; creates it if there is none.
pub(crate) async fn load_or_make_host_id(
    file_system: &FileSystem,
    data_directory: &Path,
) -> Result<Uuid, StorageError> {
    let path = data_directory.join(FILE_NAME);
    match file_system.read(&path).await {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            Uuid::try_parse(text.trim()).map_err(|error| StorageError::Corrupt {
                what: path.display().to_string(),
                reason: error.to_string(),
            })
        }
        Err(error) if error.is_not_found() => {
            let id = random::uuid_v4();
            save_host_id(file_system, data_directory, id).await?;
            Ok(id)
        }
        Err(error) => Err(error.into()),
    }
}

pub(crate) async fn save_host_id(
    file_system: &FileSystem,
    data_directory: &Path,
    id: Uuid,
) -> Result<(), StorageError> {
    Ok(file_system.write_atomically(data_directory.join(FILE_NAME), format!("{id}\n")).await?)
}
