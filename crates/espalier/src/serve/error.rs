//! The errors of `serve`: one line each, most with advice to the operator.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use espalier_internode::ring::JoinError;
use espalier_runtime::file::FileError;
use espalier_runtime::net::tls::TlsError;
use espalier_runtime::shard::ShardPanic;
use espalier_sstable::SSTableError;
use espalier_storage::StorageError;

use crate::configuration::ConfigurationError;

/// The error of a node that cannot serve or did not stop cleanly.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The filter of the log cannot be parsed.
    #[error("{0}")]
    Logging(String),
    /// The settings cannot be used.
    #[error(transparent)]
    Configuration(Box<ConfigurationError>),
    /// The certificates of a setting cannot be used.
    #[error("{0}: {1}")]
    Tls(&'static str, TlsError),
    /// A directory cannot be used.
    #[error(
        "{} cannot be used: {error}; {} with {flag}",
        path.display(),
        advice_on_directory(error)
    )]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The reason.
        error: Box<FileError>,
        /// The flag for another directory.
        flag: &'static str,
    },
    /// Another node holds the lock of the directory.
    #[error(
        "{} is in use by another espalier{}; stop that one, or give another directory with {flag}",
        path.display(),
        holder.map_or(String::new(), |pid| format!(" (process {pid})"))
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// Process id of the other node, if the lock file names it.
        holder: Option<u32>,
        /// The flag for another directory.
        flag: &'static str,
    },
    /// The node cannot listen on an address.
    #[error(
        "cannot listen on {address} for {purpose}: {}; {}",
        reason(error),
        advice(error, setting)
    )]
    Listen {
        /// The use of the address, such as CQL.
        purpose: &'static str,
        /// The address.
        address: SocketAddr,
        /// The reason.
        error: io::Error,
        /// The flag for another address or port.
        setting: &'static str,
    },
    /// The node cannot join its ring.
    #[error("cannot join the ring: {0}")]
    Join(JoinError),
    /// The files of the replaced Cassandra node cannot become those of this node.
    #[error("replace_in_place: {0}")]
    Replace(Box<StorageError>),
    /// The kernel refuses threads, event loops or the handlers of signals.
    #[error("the shards cannot be started: {0}")]
    Start(io::Error),
    /// The first superuser cannot be made.
    #[error("the first superuser cannot be made: {0}; see auth_superuser_salted_password")]
    Superuser(String),
    /// Storage cannot open the data, or cannot read or write the system tables.
    #[error("the data cannot be opened: {error}{advice}", error = .0, advice = advice_on_data(.0))]
    Open(Box<StorageError>),
    /// The node did not write all memtables to SSTables before it ended; the next start replays the
    /// commit log.
    #[error("the node did not stop cleanly: {0}; the next start replays the commit log")]
    Shutdown(Box<StorageError>),
    /// A shard panicked, which is a defect.
    #[error(transparent)]
    Panic(#[from] ShardPanic),
}

impl From<ConfigurationError> for ServeError {
    fn from(error: ConfigurationError) -> Self {
        Self::Configuration(Box::new(error))
    }
}

/// Returns the advice about a directory that cannot be used; the flag follows it.
fn advice_on_directory(error: &FileError) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => "give a directory",
        _ => "make it writable, or give another one",
    }
}

/// Returns the end of a message about data that cannot be opened: the section of the documentation
/// that helps, or nothing if no section does.
fn advice_on_data(error: &StorageError) -> String {
    let is_full = error.to_string().contains("No space left on device");
    let section = match error {
        StorageError::MemtablesFull { .. } => "The disk is full",
        _ if is_full => "The disk is full",
        StorageError::SSTable(SSTableError::Corrupt { .. } | SSTableError::Io(_))
        | StorageError::IncompleteSSTable(_)
        | StorageError::Corrupt { .. }
        | StorageError::Damaged(_) => "A file is damaged",
        _ => return String::new(),
    };
    format!("; docs/operations.md, \"{section}\", says how to continue")
}

/// Returns the error's text without ` (os error N)`.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

fn advice(error: &io::Error, setting: &str) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("stop the program that uses this port, or give another one with {setting}")
        }
        io::ErrorKind::PermissionDenied => {
            format!("give a port above 1023 with {setting}, or run with the right to bind this one")
        }
        io::ErrorKind::AddrNotAvailable => "give an address that this machine has".to_owned(),
        _ => format!("give another address or port with {setting}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_data_names_the_section_that_helps() {
        let shown = |error: StorageError| ServeError::Open(Box::new(error)).to_string();
        let corrupt = StorageError::Corrupt { what: "da-1-bti-Data.db".into(), reason: "x".into() };
        assert!(shown(corrupt).ends_with("\"A file is damaged\", says how to continue"));
        let full =
            StorageError::MemtablesFull { used_bytes: 2, limit_bytes: 1, reason: "slow".into() };
        assert!(shown(full).ends_with("\"The disk is full\", says how to continue"));
        assert!(!shown(StorageError::ShuttingDown).contains("docs/"));
    }
}
