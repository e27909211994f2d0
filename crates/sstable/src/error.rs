//! Errors of SSTables. Each names the file and the reason; an error about damaged bytes also names
//! their offset.

use std::{path::Path, sync::Arc};

use espalier_runtime::file::FileError;

use crate::index::bti::{IndexError, MalformedIndex};

/// The path of a file, as errors show it. Clones share the text, because every open file keeps one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileName(Arc<str>);

impl FileName {
    /// Makes a name from a path. Bytes that are not UTF-8 are replaced.
    pub fn new(path: &Path) -> Self {
        Self(path.to_string_lossy().into())
    }

    /// Returns the file name without its directory.
    pub(crate) fn short(&self) -> &str {
        self.0.rsplit_once('/').map_or(&self.0, |(_, name)| name)
    }
}

impl std::fmt::Display for FileName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// An error of reading or writing an SSTable.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SSTableError {
    /// The file system reported an error, which itself names file, operation and place.
    #[error("{0}")]
    Io(Arc<FileError>),
    /// The bytes do not follow the format. The reader uses no part of the item to which they
    /// belong.
    #[error("{file} is corrupt at byte {offset}: {reason}")]
    Corrupt {
        /// The damaged file.
        file: FileName,
        /// The offset in the file; in Data.db of a compressed table the offset before compression.
        offset: u64,
        /// The fault, often as the expected and the found value.
        reason: String,
    },
    /// The file may be right, but this version of Espalier cannot read or write it.
    #[error("{file}: {what} not supported")]
    Unsupported {
        /// The file.
        file: FileName,
        /// The unsupported feature, ending in "is" or "are".
        what: String,
    },
    /// The file may be right, but its columns do not fit the table whose rows it should hold.
    #[error("{file} is of another table: {reason}")]
    OtherTable {
        /// Statistics.db, which lists the columns.
        file: FileName,
        /// The difference between the columns and the table.
        reason: String,
    },
    /// A file of an SSTable with this name exists. It was not changed.
    #[error("cannot write {file}: {found} of this name exists")]
    NameTaken {
        /// Data.db of that name.
        file: FileName,
        /// The component that exists.
        found: String,
    },
    /// The caller's input is out of order, or the format cannot hold it.
    #[error("cannot write {file}: {reason}")]
    Rejected {
        /// The file that was being written.
        file: FileName,
        /// The reason why the writer rejected it.
        reason: String,
    },
}

impl SSTableError {
    /// Makes the error for bytes that do not follow the format.
    pub fn corrupt(file: &FileName, offset: u64, reason: impl Into<String>) -> Self {
        Self::Corrupt { file: file.clone(), offset, reason: reason.into() }
    }

    /// Makes the error for a feature that this version of Espalier does not support.
    pub fn unsupported(file: &FileName, what: impl Into<String>) -> Self {
        Self::Unsupported { file: file.clone(), what: what.into() }
    }

    /// Makes the error for columns that do not fit the table.
    pub(crate) fn other_table(file: &FileName, reason: impl Into<String>) -> Self {
        Self::OtherTable { file: file.clone(), reason: reason.into() }
    }

    /// Returns the file whose bytes do not follow the format, if the error is about such bytes.
    pub(crate) fn file(&self) -> Option<&FileName> {
        match self {
            Self::Corrupt { file, .. } => Some(file),
            _ => None,
        }
    }

    /// Returns whether the error says that the file at this path is missing, unreadable or damaged.
    pub fn is_about(&self, path: &Path) -> bool {
        match self {
            Self::Io(error) => error.path == path,
            Self::Corrupt { file, .. } => *file == FileName::new(path),
            Self::Unsupported { .. }
            | Self::OtherTable { .. }
            | Self::NameTaken { .. }
            | Self::Rejected { .. } => false,
        }
    }

    /// Returns whether the writer rejected the data. Another attempt would fail, too.
    pub fn is_rejected(&self) -> bool {
        matches!(self, Self::Rejected { .. })
    }

    /// Makes the error for input that cannot be written.
    pub fn rejected(file: &FileName, reason: impl Into<String>) -> Self {
        Self::Rejected { file: file.clone(), reason: reason.into() }
    }
}

impl From<FileError> for SSTableError {
    fn from(error: FileError) -> Self {
        Self::Io(Arc::new(error))
    }
}

impl SSTableError {
    /// Converts an error of the index reader of `file`.
    pub(crate) fn index(file: &FileName, error: IndexError<SSTableError>) -> Self {
        match error {
            IndexError::Source(error) => error,
            IndexError::Node(node) => Self::corrupt(file, node.position, node.to_string()),
            IndexError::Malformed(MalformedIndex { position, reason }) => {
                Self::corrupt(file, position, reason)
            }
        }
    }
}

/// The result type of this crate.
pub type Result<T, E = SSTableError> = std::result::Result<T, E>;
