//! Why a node cannot serve: one line each, with what to do about it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use espalier_runtime::file::FileError;
use espalier_runtime::shard::ShardPanic;
use espalier_storage::StorageError;

use crate::configuration::ConfigurationError;

/// Why a node cannot serve, or did not stop cleanly.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The filter of the log is no filter.
    #[error("{0}")]
    Logging(String),
    /// The settings cannot be used.
    #[error(transparent)]
    Configuration(Box<ConfigurationError>),
    /// A directory cannot be used.
    #[error("{} cannot be used: {error}; make it writable, or give another one with {flag}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why not.
        error: Box<FileError>,
        /// How to give another one.
        flag: &'static str,
    },
    /// Another node has the directory.
    #[error(
        "{} is in use by another espalier{}; stop that one, or give another directory with {flag}",
        path.display(),
        holder.map_or(String::new(), |pid| format!(" (process {pid})"))
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process of the other node.
        holder: Option<u32>,
        /// How to give another one.
        flag: &'static str,
    },
    /// An address cannot be listened on.
    #[error(
        "cannot listen on {address} for {purpose}: {}; {}",
        reason(error),
        advice(error, setting)
    )]
    Listen {
        /// What for.
        purpose: &'static str,
        /// The address.
        address: SocketAddr,
        /// Why not.
        error: io::Error,
        /// How to give another one.
        setting: &'static str,
    },
    /// The kernel refuses threads or event loops.
    #[error("the shards cannot be started: {0}")]
    Start(io::Error),
    /// Storage cannot start.
    #[error("the data cannot be opened: {0}")]
    Open(Box<StorageError>),
    /// The node started and stopped, but not all writes are in files: the next start replays the commit log.
    #[error("the node did not stop cleanly: {0}; the next start replays the commit log")]
    Shutdown(Box<StorageError>),
    /// A defect.
    #[error(transparent)]
    Panic(#[from] ShardPanic),
}

impl From<ConfigurationError> for ServeError {
    fn from(error: ConfigurationError) -> Self {
        Self::Configuration(Box::new(error))
    }
}

/// The words without the number that repeats them.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

fn advice(error: &io::Error, setting: &str) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("stop the program that has this port, or give another one with {setting}")
        }
        io::ErrorKind::PermissionDenied => {
            format!("give a port above 1023 with {setting}, or start with the right to bind it")
        }
        io::ErrorKind::AddrNotAvailable => "give an address that this machine has".to_owned(),
        _ => format!("give another address or port with {setting}"),
    }
}
