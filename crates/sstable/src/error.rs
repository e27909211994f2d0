//! What can be wrong with an SSTable: always which file, where in it, and why.

use std::{path::Path, sync::Arc};

use espalier_runtime::file::FileError;

use crate::index::bti::{IndexError, MalformedIndex};

/// The name of a file in errors: its path, shared, because every open file keeps one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileName(Arc<str>);

impl FileName {
    /// From a path; what is not UTF-8 in it is replaced.
    pub fn new(path: &Path) -> Self {
        Self(path.to_string_lossy().into())
    }

    /// The file alone, without its directory.
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
    /// The file system refused. Names file, operation and place itself.
    #[error("{0}")]
    Io(Arc<FileError>),
    /// The bytes are not what the format says. Nothing of the part that holds them is believed.
    #[error("{file} is corrupt at byte {offset}: {reason}")]
    Corrupt {
        /// Which file.
        file: FileName,
        /// Where in the file; in Data.db of a compressed table the offset in the uncompressed data.
        offset: u64,
        /// What was expected and what was found.
        reason: String,
    },
    /// The file may be right, but this version of Espalier cannot read or write it.
    #[error("{file}: {what} not supported")]
    Unsupported {
        /// Which file.
        file: FileName,
        /// What is not supported, ending in "is" or "are".
        what: String,
    },
    /// The file may be right, but its columns are not those of the table that it is to be read as.
    #[error("{file} is of another table: {reason}")]
    OtherTable {
        /// Statistics.db, which has the columns.
        file: FileName,
        /// Where they differ.
        reason: String,
    },
    /// There is something of the name that was to be written; none of it was touched.
    #[error("cannot write {file}: {found} of this name is there")]
    NameTaken {
        /// Data.db of that name.
        file: FileName,
        /// A component that is there.
        found: String,
    },
    /// The caller asked for something that the format cannot hold, or broke an order.
    #[error("cannot write {file}: {reason}")]
    Rejected {
        /// Which file was being written.
        file: FileName,
        /// Why not.
        reason: String,
    },
}

impl SSTableError {
    /// Bytes that are not what the format says.
    pub fn corrupt(file: &FileName, offset: u64, reason: impl Into<String>) -> Self {
        Self::Corrupt { file: file.clone(), offset, reason: reason.into() }
    }

    /// Something that this version does not know.
    pub fn unsupported(file: &FileName, what: impl Into<String>) -> Self {
        Self::Unsupported { file: file.clone(), what: what.into() }
    }

    /// Columns that are not those of the table.
    pub(crate) fn other_table(file: &FileName, reason: impl Into<String>) -> Self {
        Self::OtherTable { file: file.clone(), reason: reason.into() }
    }

    /// The file whose bytes are not what the format says.
    pub(crate) fn file(&self) -> Option<&FileName> {
        match self {
            Self::Corrupt { file, .. } => Some(file),
            _ => None,
        }
    }

    /// Whether the file of that path is what is missing, unreadable or wrong.
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

    /// Whether what was to be written could not be. Reading it once more makes it no better.
    pub fn is_rejected(&self) -> bool {
        matches!(self, Self::Rejected { .. })
    }

    /// Input that cannot be written.
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
    /// An error of the index reader of `file`.
    pub(crate) fn index(file: &FileName, error: IndexError<SSTableError>) -> Self {
        match error {
            IndexError::Source(error) => error,
            IndexError::Node { node, .. } => Self::corrupt(file, node.position, node.to_string()),
            IndexError::Malformed(MalformedIndex { position, reason, .. }) => {
                Self::corrupt(file, position, reason)
            }
        }
    }
}

/// The result of everything here.
pub type Result<T, E = SSTableError> = std::result::Result<T, E>;
