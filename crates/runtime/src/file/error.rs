//! An error of a file operation names the operation, the file, the position and the reason.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// An operation on a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// Opening an existing file.
    Open,
    /// Creating a file.
    Create,
    /// Reading bytes.
    Read,
    /// Writing or appending bytes.
    Write,
    /// Making written bytes durable.
    Sync,
    /// Reserving space.
    Allocate,
    /// Setting the length.
    Truncate,
    /// Reading length, kind or age.
    Metadata,
    /// Giving a file or directory another name.
    Rename,
    /// Giving a file a second name.
    HardLink,
    /// Removing a name of a file.
    Remove,
    /// Creating a directory and its parents.
    CreateDirectory,
    /// Removing a directory, with its content or empty.
    RemoveDirectory,
    /// Listing a directory.
    ReadDirectory,
    /// Making the names in a directory durable.
    SyncDirectory,
}

impl Operation {
    fn noun(self) -> &'static str {
        match self {
            Operation::Open => "open",
            Operation::Create => "creation",
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Sync => "sync",
            Operation::Allocate => "allocation",
            Operation::Truncate => "truncation",
            Operation::Metadata => "status",
            Operation::Rename => "rename",
            Operation::HardLink => "hard link",
            Operation::Remove => "removal",
            Operation::CreateDirectory => "creation of directory",
            Operation::RemoveDirectory => "removal of directory",
            Operation::ReadDirectory => "listing of directory",
            Operation::SyncDirectory => "sync of directory",
        }
    }
}

/// A failed operation on a file. Reads like
/// `write of 4096 bytes at offset 8192 of data/ks/t/da-1-bti-Data.db: No space left on device`.
#[derive(Debug)]
pub struct FileError {
    /// The file or directory.
    pub path: PathBuf,
    /// The operation that failed.
    pub operation: Operation,
    /// The position in the file, in bytes.
    pub offset: Option<u64>,
    /// The number of bytes that the operation was to read, write or reserve.
    pub length: Option<u64>,
    /// The new name, for renames and links.
    pub target: Option<PathBuf>,
    /// The reason.
    pub source: io::Error,
}

impl FileError {
    pub(crate) fn new(path: &Path, operation: Operation, source: io::Error) -> Self {
        FileError {
            path: path.to_owned(),
            operation,
            offset: None,
            length: None,
            target: None,
            source,
        }
    }

    pub(crate) fn at(path: &Path, op: Operation, offset: u64, len: usize, why: io::Error) -> Self {
        let mut error = FileError::new(path, op, why);
        error.offset = Some(offset);
        error.length = Some(len as u64);
        error
    }

    pub(crate) fn towards(mut self, target: &Path) -> Self {
        self.target = Some(target.to_owned());
        self
    }

    /// Returns the kind of the reason.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }

    /// Returns whether the file or directory does not exist.
    pub fn is_not_found(&self) -> bool {
        self.kind() == io::ErrorKind::NotFound
    }

    /// Returns whether the disk or quota is full.
    pub fn is_no_space(&self) -> bool {
        matches!(self.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    /// Returns whether the file ends before the requested bytes.
    pub fn is_unexpected_end(&self) -> bool {
        self.kind() == io::ErrorKind::UnexpectedEof
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.operation.noun())?;
        if let Some(length) = self.length {
            write!(f, " of {length} bytes")?;
        }
        if let Some(offset) = self.offset {
            write!(f, " at offset {offset}")?;
        }
        // Writes "sync of directory data", not "sync of directory of data".
        let joined = matches!(
            self.operation,
            Operation::CreateDirectory
                | Operation::RemoveDirectory
                | Operation::ReadDirectory
                | Operation::SyncDirectory
        );
        f.write_str(if joined { " " } else { " of " })?;
        write!(f, "{}", self.path.display())?;
        if let Some(target) = &self.target {
            write!(f, " to {}", target.display())?;
        }
        let reason = self.source.to_string();
        // Cuts off the error number, because it repeats the words.
        let reason = reason.split(" (os error").next().unwrap_or(&reason);
        write!(f, ": {reason}")
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn file_errors_name_operation_path_and_cause() {
        let data = Path::new("data/ks/t/da-1-bti-Data.db");
        let full = FileError::at(data, Operation::Write, 8192, 4096, Errno::NOSPC.into());
        assert_eq!(
            full.to_string(),
            "write of 4096 bytes at offset 8192 of data/ks/t/da-1-bti-Data.db: \
             No space left on device"
        );
        assert!(full.is_no_space());
        let gone = FileError::new(Path::new("a"), Operation::Rename, Errno::NOENT.into())
            .towards(Path::new("b"));
        assert_eq!(gone.to_string(), "rename of a to b: No such file or directory");
        let sync = FileError::new(Path::new("data"), Operation::SyncDirectory, Errno::IO.into());
        assert_eq!(sync.to_string(), "sync of directory data: Input/output error");
    }
}
