//! A lock on a directory that ends with the process, however it ends.
//!
//! Guaranteed: two holders of the lock of one directory never exist on one machine. The lock is the kernel's (`flock`) on a
//! file of the directory, so a crash leaves nothing to clean up. Who holds it stands in the file, best effort.

use super::{FileError, Operation};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The lock of a directory, until it is dropped.
#[derive(Debug)]
pub struct DirectoryLock {
    _file: fs::File,
}

/// Why a directory cannot be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody else holds the lock.
    #[error("locked by {}", holder.map_or("another process".to_owned(), |pid| format!("process {pid}")))]
    Held {
        /// The process, if it says so.
        holder: Option<u32>,
    },
    /// The file of the lock cannot be made.
    #[error(transparent)]
    File(#[from] FileError),
}

impl DirectoryLock {
    /// Locks `directory`, which must exist, by its file `name`. Does not wait. Blocks the thread for the time that it takes to
    /// open a file, so it is for start-up.
    pub fn acquire(directory: &Path, name: &str) -> Result<Self, LockError> {
        let path = directory.join(name);
        let failed = |error| FileError::new(&path, Operation::Create, error);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o644);
        let mut file = options.open(&path).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let holder = fs::read_to_string(&path).ok();
                let holder = holder.and_then(|text| text.trim().parse().ok());
                return Err(LockError::Held { holder });
            }
            Err(error) => return Err(failed(error.into()).into()),
        }
        let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        written.map_err(|error| FileError::new(&path, Operation::Write, error))?;
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let held = DirectoryLock::acquire(directory.path(), "lock").unwrap();
        let refused = DirectoryLock::acquire(directory.path(), "lock").unwrap_err();
        assert_eq!(refused.to_string(), format!("locked by process {}", std::process::id()));
        drop(held);
        DirectoryLock::acquire(directory.path(), "lock").unwrap();
    }

    #[test]
    fn a_missing_directory_is_told() {
        let missing = Path::new("/nonexistent/directory");
        let refused = DirectoryLock::acquire(missing, "lock").unwrap_err();
        assert!(refused.to_string().starts_with("creation of /nonexistent/directory/lock: "));
    }
}
