//! Errors of the settings. An error about one setting names its key, its place and the allowed
//! values.

use std::fmt;
use std::path::PathBuf;

use espalier_commands::memory::MemoryError;
use espalier_runtime::file::FileError;

/// The place at which the operator gave a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A line of the file of `--config`, counted from 1.
    File {
        /// The file.
        path: PathBuf,
        /// The line of the key.
        line: u64,
    },
    /// `--set`.
    Set,
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File { path, line } => write!(formatter, "{}:{line}", path.display()),
            Origin::Set => formatter.write_str("--set"),
        }
    }
}

/// The error of settings that cannot be used. Each prints as one line.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// The file of `--config`, or the file of the snitch beside it, cannot be read.
    #[error("the configuration cannot be read: {0}")]
    Unreadable(#[from] FileError),
    /// The file is not UTF-8.
    #[error("{}: not UTF-8, from byte {offset} on", path.display())]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// Bytes before the first bad one.
        offset: usize,
    },
    /// The file is not YAML, or is YAML without keys.
    #[error("{}: {message}", path.display())]
    NotYaml {
        /// The file.
        path: PathBuf,
        /// The parser's message.
        message: String,
    },
    /// `--set` without `=`, or with a value that is not YAML.
    #[error("--set {argument}: {message}")]
    BadSet {
        /// The argument.
        argument: String,
        /// The fault.
        message: String,
    },
    /// A key that neither this node nor Cassandra nor ScyllaDB has.
    #[error("{origin}: there is no setting {key:?}{}", suggest(.suggestion))]
    UnknownKey {
        /// The place at which the operator gave the key.
        origin: Origin,
        /// The key.
        key: String,
        /// The closest known key.
        suggestion: Option<String>,
    },
    /// A key of Cassandra or ScyllaDB for a feature that does not exist here.
    #[error("{origin}: {key} is not supported here: {reason}")]
    Absent {
        /// The place at which the operator gave the key.
        origin: Origin,
        /// The key.
        key: String,
        /// The reason, or the setting to give instead.
        reason: String,
    },
    /// A key that is accepted only with the values that describe this node's behaviour.
    #[error("{origin}: {key}: {value} is not supported here, only {allowed}")]
    OnlyValue {
        /// The place at which the operator gave the key.
        origin: Origin,
        /// The key.
        key: String,
        /// The given value.
        value: String,
        /// The accepted values.
        allowed: String,
    },
    /// A value that is not of the key's type or range.
    #[error("{origin}: {key}: {value}: {reason}")]
    BadValue {
        /// The place at which the operator gave the key.
        origin: Origin,
        /// The key.
        key: String,
        /// The given value.
        value: String,
        /// The reason, mostly the expected form.
        reason: String,
    },
    /// A setting that one file has twice, by its new and its old name.
    #[error("{second}: {key} was given before, at {first}")]
    Twice {
        /// The new name of the setting.
        key: String,
        /// The first place.
        first: Origin,
        /// The second place.
        second: Origin,
    },
    /// A memory budget that this machine cannot have.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// Settings that contradict each other.
    #[error("{0}")]
    Inconsistent(String),
}

fn suggest(suggestion: &Option<String>) -> String {
    match suggestion {
        Some(key) => format!("; did you mean {key}?"),
        None => "; docs/settings.md lists the settings".to_owned(),
    }
}
