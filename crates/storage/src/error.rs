//! What can go wrong in storage. Errors are cheap to clone: one failed write to the disk answers many writers.

use std::{path::PathBuf, sync::Arc};

use espalier_mutation::{PackError, schema::TableId};
use espalier_runtime::file::FileError;
use espalier_sstable::SSTableError;

/// A failed operation: what, where and why.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StorageError {
    /// The schema has no such table (any more).
    #[error("there is no table with id {0}")]
    UnknownTable(TableId),
    /// The schema has no table of that name.
    #[error("there is no table {keyspace}.{table}")]
    UnknownTableName {
        /// Keyspace.
        keyspace: String,
        /// Table.
        table: String,
    },
    /// A set of files without TOC.txt.
    #[error(
        "{0} is missing, but other files of its SSTable are there: bring it back, or move them to another directory"
    )]
    IncompleteSSTable(std::path::PathBuf),
    /// Files that cannot become part of the table: whoever asked for it has to look at them.
    #[error("nothing was imported: {0}")]
    NotImportable(String),
    /// An import finds nothing.
    #[error("there is no SSTable in {}", .0.display())]
    NothingToImport(PathBuf),
    /// The schema has no such keyspace.
    #[error("there is no keyspace {0}")]
    UnknownKeyspace(String),
    /// A write that would not fit into half a segment of the commit log.
    #[error("a mutation of {bytes} bytes is larger than the maximum of {maximum} bytes")]
    MutationTooLarge {
        /// Its length in the commit log.
        bytes: usize,
        /// The limit.
        maximum: usize,
    },
    /// The commit log could not be written. The write may or may not survive; later writes fail too until the disk
    /// takes them again.
    #[error("the commit log cannot be written: {0}")]
    CommitLogWrite(Arc<FileError>),
    /// No segment can be had in time.
    #[error("the commit log has no room: {reason}")]
    CommitLogFull {
        /// Why none is free.
        reason: String,
    },
    /// Damage in the commit log that loses acknowledged writes.
    #[error("commit log {path} is corrupt at offset {offset}: {reason}")]
    CommitLogCorrupt {
        /// The segment.
        path: PathBuf,
        /// Bytes from its start.
        offset: u64,
        /// What was found.
        reason: String,
    },
    /// The memtables are full and flushing does not make room.
    #[error(
        "memtables are full ({used_bytes} of {limit_bytes} bytes) and cannot be flushed: {reason}"
    )]
    MemtablesFull {
        /// Bytes in use on this shard.
        used_bytes: usize,
        /// The shard's share.
        limit_bytes: usize,
        /// Why no flush makes room.
        reason: String,
    },
    /// Logged batches that failed wait to be finished, and there is no room for more of them.
    #[error(
        "{bytes} bytes of logged batches are unfinished: there are no more before some of them are done"
    )]
    TooManyUnfinishedBatches {
        /// What those of this shard take.
        bytes: usize,
    },
    /// A write that SSTables have no room for. It is refused before it is logged, as it could never be flushed.
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
        /// `default ` if the TTL is the table's, else nothing.
        origin: &'static str,
        /// The TTL, in seconds.
        ttl: u32,
        /// The latest second, as ISO 8601.
        latest: &'static str,
    },
    /// A file operation failed.
    #[error("{0}")]
    File(Arc<FileError>),
    /// A table file is damaged, or cannot be read or written.
    #[error("{0}")]
    SSTable(#[from] SSTableError),
    /// A file of a table, and perhaps which partition of it, is damaged.
    #[error("{0}")]
    Damaged(String),
    /// A row in memory that is not one: a defect of this program or of the machine.
    #[error("a row in the memtable of {table}: {source}")]
    PackedRow {
        /// Keyspace and table.
        table: String,
        /// What was found.
        source: PackError,
    },
    /// Something on disk or in memory that cannot be.
    #[error("{what}: {reason}")]
    Corrupt {
        /// The file or structure.
        what: String,
        /// What was found.
        reason: String,
    },
    /// The schema tables do not make a schema, or the change cannot be written.
    #[error("schema: {0}")]
    Schema(String),
    /// The operation does not exist here.
    #[error("{0} is not supported")]
    NotSupported(&'static str),
    /// A snapshot cannot be taken.
    #[error("{0}")]
    Snapshot(String),
    /// Older or fewer rows in tables that the node starts from.
    #[error(
        "{what} is not possible in keyspace {keyspace}: the node starts from what its tables say, and may not do so any more"
    )]
    NeededForStart {
        /// What was asked for.
        what: &'static str,
        /// `system` or `system_schema`.
        keyspace: String,
    },
    /// A file that is open has no name any more: another shard has compacted it, or somebody has removed it.
    #[error("{}, or another file of its SSTable, is not there any more", .0.display())]
    VanishedSSTable(PathBuf),
    /// Nothing that is open is named so.
    #[error("there is no SSTable with data file {}", .0.display())]
    UnknownSSTable(PathBuf),
    /// Files of several tables are named so.
    #[error("there are several data files {}: give it with its directory", .0.display())]
    AmbiguousSSTable(PathBuf),
    /// It is being compacted, or shards share it, who split it first.
    #[error("{} is being compacted, or about to be split between shards: try again later", .0.display())]
    BusySSTable(PathBuf),
    /// No directory of a table that the schema does not have.
    #[error("{} is not among the directories without a table", .0.display())]
    UnknownOrphan(PathBuf),
    /// Somebody asked for the compactions that run to end, or for another one of the same files, or has dropped or truncated the table.
    #[error("a compaction of {0} that this needs was stopped: its files are as before")]
    CompactionStopped(String),
    /// The end of an earlier one is not known, so none may begin.
    #[error(
        "an earlier compaction of {0} may or may not take effect at the next start, and there is none before that"
    )]
    CompactionUndecided(String),
    /// A compaction would fill the disk.
    #[error(
        "a compaction needs up to {needed_bytes} bytes, and with what others that run still write the disk has not so many left"
    )]
    NoDiskSpace {
        /// What the inputs take.
        needed_bytes: u64,
    },
    /// The database is shutting down.
    #[error("the database is shutting down")]
    ShuttingDown,
}

impl From<FileError> for StorageError {
    fn from(error: FileError) -> Self {
        Self::File(Arc::new(error))
    }
}

impl StorageError {
    /// Refuses what would change the tables that the node starts from.
    pub(crate) fn unless_needed_for_start(what: &'static str, keyspace: &str) -> Result<(), Self> {
        match crate::system::is_needed_for_start(keyspace) {
            true => Err(Self::NeededForStart { what, keyspace: keyspace.to_owned() }),
            false => Ok(()),
        }
    }
}
