//! The errors of storage. They are cheap to clone, because one failed disk write fails many client
//! writes.

use std::{path::PathBuf, sync::Arc, time::Duration};

use espalier_cache::CacheError;
use espalier_commitlog::CommitLogError;
use espalier_compaction::CompactionError;
use espalier_memtable::MemtableError;
use espalier_mutation::schema::TableId;
use espalier_runtime::file::FileError;
use espalier_sstable::SSTableError;
use espalier_types::DecodeError;

use crate::turn_kind::TurnKind;

/// A failed operation, with the object and the reason.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StorageError {
    /// The schema has no table with this id, or has it no more.
    #[error("there is no table with id {0}")]
    UnknownTable(TableId),
    /// The schema has no table of this name.
    #[error("there is no table {keyspace}.{table}")]
    UnknownTableName {
        /// Keyspace.
        keyspace: String,
        /// Table.
        table: String,
    },
    /// An SSTable without TOC.txt.
    #[error(
        "{0} is missing, but other files of its SSTable exist: restore it, or move them to another \
         directory"
    )]
    IncompleteSSTable(std::path::PathBuf),
    /// Files that cannot become part of the table. The operator must inspect them.
    #[error("nothing was imported: {0}")]
    NotImportable(String),
    /// This node cannot take the place of a Cassandra node.
    #[error("{0}")]
    NotReplaceable(String),
    /// The import directory has no SSTable.
    #[error("there is no SSTable in {}", .0.display())]
    NothingToImport(PathBuf),
    /// The schema has no keyspace of this name.
    #[error("there is no keyspace {0}")]
    UnknownKeyspace(String),
    /// The commit log is damaged, cannot be written, or refuses a mutation.
    #[error("{0}")]
    CommitLog(CommitLogError),
    /// No segment of the commit log became free in time.
    #[error("the commit log has no room: {reason}")]
    CommitLogFull {
        /// Reason why no segment is free.
        reason: String,
    },
    /// The memtables are full and flushing does not make room.
    #[error(
        "memtables are full ({used_bytes} of {limit_bytes} bytes) and cannot be flushed: {reason}"
    )]
    MemtablesFull {
        /// Bytes in use on this shard.
        used_bytes: usize,
        /// The limit of this shard, in bytes.
        limit_bytes: usize,
        /// Reason why no flush makes room.
        reason: String,
    },
    /// A write has a column that no version of the table on its shard has.
    #[error("a column of the statement is unknown in the table with id {0}: prepare it again")]
    UnknownColumn(TableId),
    /// Too many failed logged batches wait to be finished, so new ones are refused.
    #[error(
        "{bytes} bytes of logged batches are unfinished: new ones are refused until some are done"
    )]
    TooManyUnfinishedBatches {
        /// Bytes of unfinished batches on this shard.
        bytes: usize,
    },
    /// A stored batch of which a part could not be applied. The node does not retry it any more.
    #[error(
        "a logged batch or transaction is given up, and a part of its writes may be missing: \
         {reason}; read its rows, and write them again"
    )]
    BatchGivenUp {
        /// The last refusal of a shard, or that the batch is too old.
        reason: String,
    },
    /// A statement has not got its turn in time. Nothing was read or written on the rows.
    #[error("{message}")]
    TurnTimedOut {
        /// The kind of the statement.
        kind: TurnKind,
        /// The setting, and Cassandra's text.
        message: String,
    },
    /// A truncation that could not begin in time. It removes nothing, now or later.
    #[error(
        "the truncation did not begin within {0:?}, because a change of the schema, a snapshot, an \
         import, a restore, a flush of the table or, if it has views, a write to it is under way; \
         the table keeps its rows: truncate it again"
    )]
    TruncationTimedOut(Duration),
    /// A write that SSTables cannot hold. It is refused before it is logged, because it could never
    /// be flushed.
    #[error("this cannot be stored: {0}")]
    Unstorable(String),
    /// A write that expires later than the table's version of SSTables can record. The text is
    /// Cassandra's.
    #[error(
        "Request on table {table} with {origin}ttl of {ttl} seconds exceeds maximum supported \
         expiration date of {latest}. In order to avoid this use a lower TTL, change the expiration \
         date overflow policy or upgrade to a version where this limitation is fixed. See \
         CASSANDRA-14092 and CASSANDRA-14227 for more details."
    )]
    ExpiryTooLate {
        /// Keyspace and table.
        table: String,
        /// `default ` if the TTL is the table's, otherwise empty.
        origin: &'static str,
        /// The TTL, in seconds.
        ttl: u32,
        /// The latest possible second, as ISO 8601.
        latest: &'static str,
    },
    /// A file operation failed.
    #[error("{0}")]
    File(Arc<FileError>),
    /// A table file is damaged, or cannot be read or written.
    #[error("{0}")]
    SSTable(#[from] SSTableError),
    /// A file of a table is damaged; the text may name the partition.
    #[error("{0}")]
    Damaged(String),
    /// Damaged data in memory, by a defect of this program or of the machine.
    #[error("{0}")]
    Memtable(MemtableError),
    /// Inconsistent data on disk or in memory.
    #[error("{what}: {reason}")]
    Corrupt {
        /// The damaged file or structure.
        what: String,
        /// Description of the damage.
        reason: String,
    },
    /// The schema tables hold no valid schema, or a schema change cannot be written.
    #[error("schema: {0}")]
    Schema(String),
    /// The operation is not supported.
    #[error("{0} is not supported")]
    NotSupported(&'static str),
    /// Another node or store holds the lock of a directory.
    #[error(
        "{} is in use{}: close the store, or stop the node, that uses it",
        path.display(),
        holder.map_or(String::new(), |pid| format!(" by process {pid}"))
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// Id of the process, if the lock's file names it.
        holder: Option<u32>,
    },
    /// A snapshot cannot be taken, found, restored or removed.
    #[error("{0}")]
    Snapshot(String),
    /// A rejected change to tables that the node starts from.
    #[error("{what} is not possible in keyspace {keyspace}: the node needs its tables to start")]
    NeededForStart {
        /// The rejected operation.
        what: &'static str,
        /// `system` or `system_schema`.
        keyspace: String,
    },
    /// An open file has no name any more: another shard compacted it, or an operator removed it.
    #[error("{}, or another file of its SSTable, is not there any more", .0.display())]
    VanishedSSTable(PathBuf),
    /// No open SSTable has a data file of this name.
    #[error("there is no SSTable with data file {}", .0.display())]
    UnknownSSTable(PathBuf),
    /// Several tables have a data file of this name.
    #[error("there are several data files {}: give it with its directory", .0.display())]
    AmbiguousSSTable(PathBuf),
    /// The file is being compacted, or several shards share it and must split it first.
    #[error(
        "{} is being compacted, or about to be split between shards: try again later",
        .0.display()
    )]
    BusySSTable(PathBuf),
    /// No orphan has this path.
    #[error("{} is not among the directories without a table", .0.display())]
    UnknownOrphan(PathBuf),
    /// A compaction was stopped by request, by another compaction of its files, or because its
    /// table was dropped or truncated.
    #[error("a needed compaction of {0} was stopped: its files are unchanged")]
    CompactionStopped(String),
    /// The outcome of an earlier compaction is unknown, so no other may start.
    #[error(
        "an earlier compaction of {0} may or may not take effect at the next start, and no other \
         starts before: restart the node"
    )]
    CompactionUndecided(String),
    /// A compaction would fill the disk.
    #[error(
        "no disk space for a compaction that may write {needed_bytes} bytes, besides the output of \
         running compactions; free disk space"
    )]
    NoDiskSpace {
        /// Bytes that the output may take.
        needed_bytes: u64,
    },
    /// The node or the store is shutting down.
    #[error("the database is shutting down")]
    ShuttingDown,
}

impl From<FileError> for StorageError {
    fn from(error: FileError) -> Self {
        Self::File(Arc::new(error))
    }
}

impl From<CommitLogError> for StorageError {
    fn from(error: CommitLogError) -> Self {
        match error {
            CommitLogError::File(error) => Self::File(error),
            CommitLogError::ShuttingDown => Self::ShuttingDown,
            error => Self::CommitLog(error),
        }
    }
}

impl From<CacheError> for StorageError {
    fn from(error: CacheError) -> Self {
        match error {
            CacheError::Row(error) => error.into(),
            CacheError::Key(error) => Self::malformed_key("row cache")(error),
        }
    }
}

impl From<CompactionError> for StorageError {
    fn from(error: CompactionError) -> Self {
        match error {
            CompactionError::SSTable(error) => Self::SSTable(error),
            CompactionError::File(error) => Self::File(error),
            CompactionError::Damaged(what) => Self::Damaged(what),
            CompactionError::Corrupt { what, reason } => Self::Corrupt { what, reason },
        }
    }
}

impl From<MemtableError> for StorageError {
    fn from(error: MemtableError) -> Self {
        match error {
            MemtableError::Full { bytes } => Self::MemtablesFull {
                used_bytes: bytes,
                limit_bytes: bytes,
                reason: "the memtable's trie is full".into(),
            },
            error => Self::Memtable(error),
        }
    }
}

impl StorageError {
    /// Returns the error for a malformed partition key in a store of this name.
    pub(crate) fn malformed_key(store: &str) -> impl FnOnce(DecodeError) -> Self {
        move |error| Self::Corrupt {
            what: format!("a partition key in a {store}"),
            reason: error.to_string(),
        }
    }

    /// Returns an error if an operation would change the tables that the node starts from.
    pub(crate) fn unless_needed_for_start(what: &'static str, keyspace: &str) -> Result<(), Self> {
        if crate::system::is_needed_for_start(keyspace) {
            Err(Self::NeededForStart { what, keyspace: keyspace.to_owned() })
        } else {
            Ok(())
        }
    }
}
