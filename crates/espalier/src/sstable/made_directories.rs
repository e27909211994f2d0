//! Directories that a command makes for what it writes, and takes back if there is nothing in them in the end.

use std::path::{Path, PathBuf};

use espalier_runtime::file::FileSystem;

use super::{ToolError, paths::unusable};

/// Those that were not there before, the innermost first.
pub struct MadeDirectories(Vec<PathBuf>);

impl MadeDirectories {
    /// Makes a directory and those above it that are missing.
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

    /// Removes those in which nothing is. One that somebody has put something into stays, and so do those above it.
    pub async fn remove_empty(&self, file_system: &FileSystem) {
        for directory in &self.0 {
            if file_system.remove_empty_dir(directory).await.is_err() {
                break;
            }
        }
    }
}
