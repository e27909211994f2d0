//! A lock on a directory. The kernel releases it at the latest when the process ends, even in a
//! crash.
//!
//! Invariant: on one machine, at most one process holds the lock of a directory. The lock is the
//! kernel's (`flock`) on a file of the directory, so a crash leaves nothing to clean up. The file
//! contains the id of the process that holds the lock, best effort.

use super::{FileError, Operation};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The lock of a directory, held until it is dropped.
#[derive(Debug)]
pub struct DirectoryLock {
    _file: fs::File,
}

/// The reason why a directory cannot be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process, or another lock of this process, has locked the directory.
    #[error("locked by {}", holder.map_or("another process".to_owned(), |pid| format!("process {pid}")))]
    Held {
        /// The id of the process that holds the lock, if the file contains it.
        holder: Option<u32>,
    },
    /// The lock's file cannot be opened, locked or written.
    #[error(transparent)]
    File(#[from] FileError),
}

impl DirectoryLock {
    /// Locks `directory`, which must exist, by its file `name`. It does not wait. It blocks the
    /// thread while the file is opened, so it is for start-up.
    ///
    /// # Errors
    /// Fails if the lock is held, or its file cannot be opened, locked or written.
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
    fn a_directory_lock_has_one_holder_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let held = DirectoryLock::acquire(directory.path(), "lock").unwrap();
        let refused = DirectoryLock::acquire(directory.path(), "lock").unwrap_err();
        assert_eq!(refused.to_string(), format!("locked by process {}", std::process::id()));
        drop(held);
        DirectoryLock::acquire(directory.path(), "lock").unwrap();
    }

    #[test]
    fn a_lock_in_a_missing_directory_is_an_error_that_names_it() {
        let missing = Path::new("/nonexistent/directory");
        let refused = DirectoryLock::acquire(missing, "lock").unwrap_err();
        assert!(refused.to_string().starts_with("creation of /nonexistent/directory/lock: "));
    }
}
