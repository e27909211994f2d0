//! Output directories that a command creates, and that it removes at the end if they are empty.

use std::path::{Path, PathBuf};

use espalier_runtime::file::FileSystem;

use super::{ToolError, paths::unusable};

/// The directories that did not exist before, the innermost first.
pub struct MadeDirectories(Vec<PathBuf>);

impl MadeDirectories {
    /// Creates a directory and its missing parents.
    ///
    /// # Errors
    /// Fails if a directory cannot be created; the ones created before are removed.
    pub async fn make(file_system: &FileSystem, directory: &Path) -> Result<Self, ToolError> {
        let mut made = Vec::new();
        for ancestor in directory.ancestors().filter(|path| !path.as_os_str().is_empty()) {
            match file_system.exists(ancestor).await {
                Ok(false) => made.push(ancestor.to_owned()),
                _ => break,
            }
        }
        let made = Self(made);
        match file_system.create_dir_all(directory).await {
            Ok(()) => Ok(made),
            Err(error) => {
                made.remove_empty(file_system).await;
                Err(unusable(directory, error.source.to_string()))
            }
        }
    }

    /// Removes the empty directories. A directory with content stays, and so do its parents.
    pub async fn remove_empty(&self, file_system: &FileSystem) {
        for directory in &self.0 {
            if file_system.remove_empty_dir(directory).await.is_err() {
                break;
            }
        }
    }
}
