//! The transaction log of a compaction makes the exchange of its files atomic. Layout and rules are
//! Cassandra's, so that Cassandra completes a transaction that this node has left unfinished, and
//! the other way round (`LogFile`, `LogRecord` of Cassandra 5.0;
//! docs/decisions/0021-compaction.md).
//!
//! ```text
//! da_txn_compaction_<timeuuid>.log
//! ADD:[<path of the set>,0,<files>][<crc>]              synced before an output has data
//! REMOVE:[<path of the set>,<mtime ms>,<files>][<crc>]  synced when all outputs are sealed
//! COMMIT:[,0,0][<crc>]                                  synced: from here on the inputs are dead
//! ABORT:[,0,0][<crc>]                                   synced if the write of COMMIT has failed
//! ```
//!
//! If COMMIT is the last intact line of a log, recovery removes the log's REMOVE sets; otherwise it
//! removes the ADD sets. Then it removes the log itself.
//!
//! A damaged line before a final COMMIT is an error. In a log without a final COMMIT, a damaged
//! line is the trace of a crash during the last writes. It is an error there only if a REMOVE set
//! has lost files, because the damaged line may then be the COMMIT. Files of a REMOVE set that
//! changed after the line was written stay, because an operator may have restored them from a copy.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use espalier_runtime::{
    file::{File, FileSystem, Metadata},
    random, time,
};
use espalier_sstable::{
    Component, Descriptor,
    components::{files_found, files_of_each, remove_sstables},
};
use uuid::Uuid;

use crate::CompactionError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Add,
    Remove,
    Commit,
    Abort,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Add, Kind::Remove, Kind::Commit, Kind::Abort];

    fn name(self) -> &'static str {
        match self {
            Self::Add => "ADD",
            Self::Remove => "REMOVE",
            Self::Commit => "COMMIT",
            Self::Abort => "ABORT",
        }
    }
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    kind: Kind,
    /// Directory and common prefix of the file names of the set, without the last `-`.
    path: String,
    modified_ms: i64,
    files: i32,
}

impl Record {
    fn end(kind: Kind) -> Self {
        Self { kind, path: String::new(), modified_ms: 0, files: 0 }
    }

    fn checksum(&self) -> u32 {
        let mut crc = crc32fast::Hasher::new();
        crc.update(self.path.as_bytes());
        crc.update(self.kind.name().as_bytes());
        crc.update(&(self.modified_ms as i32).to_be_bytes());
        crc.update(&((self.modified_ms as u64 >> 32) as i32).to_be_bytes());
        crc.update(&self.files.to_be_bytes());
        crc.finalize()
    }

    fn to_line(&self) -> String {
        let Self { kind, path, modified_ms, files } = self;
        format!("{}:[{path},{modified_ms},{files}][{}]\n", kind.name(), self.checksum())
    }

    fn parse(line: &str) -> Option<Self> {
        let (kind, rest) = line.split_once(":[")?;
        let kind = *Kind::ALL.iter().find(|known| known.name().eq_ignore_ascii_case(kind))?;
        let (content, checksum) = rest.strip_suffix(']')?.rsplit_once("][")?;
        let mut fields = content.rsplitn(3, ',');
        let (files, modified_ms) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let path = fields.next()?.to_owned();
        let record = Self { kind, path, modified_ms, files };
        (checksum.parse() == Ok(record.checksum())).then_some(record)
    }

    /// Returns the set, in the directory of the log, because the whole directory may have been
    /// moved.
    fn descriptor(&self, directory: &Path) -> Option<Descriptor> {
        let name = Path::new(&self.path).file_name()?.to_str()?;
        let path = directory.join(format!("{name}-Data.db"));
        Descriptor::parse(&path).ok().map(|(descriptor, _)| descriptor)
    }
}

/// A log being written. The owner must end it by `commit` and `finish`, or by `abort`; the next
/// start undoes a log that was only dropped.
pub struct Transaction {
    file_system: FileSystem,
    directory: PathBuf,
    path: PathBuf,
    file: File,
    added: Vec<Descriptor>,
}

/// The result of a failed commit.
pub enum CommitFailure {
    /// The transaction has no effect.
    Undone(CompactionError),
    /// The next start may complete the transaction or undo it.
    Unknown(CompactionError),
}

impl Transaction {
    /// Creates an empty log.
    ///
    /// # Errors
    ///
    /// Fails if the log cannot be created or made durable.
    pub async fn begin(
        file_system: &FileSystem,
        directory: &Path,
        version: &str,
        operation: &str,
        id: Uuid,
    ) -> Result<Self, CompactionError> {
        let path = directory.join(format!("{version}_txn_{operation}_{id}.log"));
        let file = file_system.create_new(&path).await?;
        file_system.sync_dir(directory).await?;
        let (file_system, directory) = (file_system.clone(), directory.to_owned());
        Ok(Self { file_system, directory, path, file, added: Vec::new() })
    }

    async fn append(&self, records: &[Record]) -> Result<(), CompactionError> {
        let text: String = records.iter().map(Record::to_line).collect();
        self.file.append(text.into_bytes()).await?;
        Ok(self.file.sync_all().await?)
    }

    /// Returns the absolute path of a set: Cassandra looks there, wherever it was started.
    fn path_of(descriptor: &Descriptor) -> String {
        let path = descriptor.directory.join(descriptor.to_string());
        std::path::absolute(&path).unwrap_or(path).display().to_string()
    }

    /// Records a set whose name is reserved, before its other files are created. [`Self::abort`]
    /// removes the files, even if this call fails.
    ///
    /// # Errors
    ///
    /// Fails if the log cannot be written.
    pub async fn add(&mut self, descriptor: &Descriptor) -> Result<(), CompactionError> {
        self.added.push(descriptor.clone());
        let path = Self::path_of(descriptor);
        self.append(&[Record { kind: Kind::Add, path, modified_ms: 0, files: 0 }]).await
    }

    /// Commits the transaction. After a success, the added sets are valid and the removed ones are
    /// garbage.
    ///
    /// # Errors
    ///
    /// [`CommitFailure`] says whether the transaction may still have an effect.
    pub async fn commit(&self, removed: &[Descriptor]) -> Result<(), CommitFailure> {
        let prepared = async {
            let mut records = Vec::new();
            let files = files_of_each(&self.file_system, removed).await?;
            for (descriptor, files) in removed.iter().zip(files) {
                records.push(removal(descriptor, &files));
            }
            self.append(&records).await
        };
        prepared.await.map_err(CommitFailure::Undone)?;
        let Err(error) = self.append(&[Record::end(Kind::Commit)]).await else { return Ok(()) };
        // The COMMIT may still reach the disk. An ABORT behind it undoes the transaction, because
        // recovery acts by the last line.
        match self.append(&[Record::end(Kind::Abort)]).await {
            Ok(()) => Err(CommitFailure::Undone(error)),
            Err(_) => Err(CommitFailure::Unknown(error)),
        }
    }

    /// Completes a committed transaction: removes the dead sets, then the log.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be removed; the next start removes it.
    pub async fn finish(self, removed: &[Descriptor]) -> Result<(), CompactionError> {
        let Self { file_system, directory, path, file, .. } = self;
        drop(file);
        end(&file_system, &directory, &path, removed).await
    }

    /// Aborts the transaction: removes the added sets, then the log.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be removed; the next start removes it.
    pub async fn abort(self) -> Result<(), CompactionError> {
        let Self { file_system, directory, path, file, added } = self;
        drop(file);
        end(&file_system, &directory, &path, &added).await
    }

    /// Aborts the transaction. Logs a warning if that fails; the next start then removes the added
    /// sets.
    pub async fn abort_or_warn(self) {
        if let Err(error) = self.abort().await {
            tracing::warn!(
                %error,
                "compaction: cannot remove the outputs of a failed compaction; the next start \
                removes them"
            );
        }
    }
}

fn removal(descriptor: &Descriptor, files: &BTreeMap<Component, Metadata>) -> Record {
    let modified_ms = youngest_ms(files);
    let files = i32::try_from(files.len()).unwrap_or(i32::MAX);
    let path = Transaction::path_of(descriptor);
    Record { kind: Kind::Remove, path, modified_ms, files }
}

/// Returns the time of the latest change of a file of the set, in ms since 1970; 0 if there are no
/// files.
fn youngest_ms(files: &BTreeMap<Component, Metadata>) -> i64 {
    files.values().map(|file| file.modified_ms).fold(0, i64::max)
}

async fn end(
    file_system: &FileSystem,
    directory: &Path,
    log: &Path,
    dead: &[Descriptor],
) -> Result<(), CompactionError> {
    remove_sstables(file_system, dead).await?;
    file_system.remove_file(log).await?;
    Ok(file_system.sync_dir(directory).await?)
}

/// Completes or undoes all transactions in a table's directory. The start calls this before it
/// lists the table's SSTables.
///
/// # Errors
///
/// Fails if a log is damaged, or a file cannot be read or removed.
pub async fn recover(file_system: &FileSystem, directory: &Path) -> Result<(), CompactionError> {
    for log in logs_in(file_system, directory).await? {
        let Leftover { is_committed, dead, changed } =
            leftover_of(file_system, directory, &log).await?;
        for descriptor in changed {
            tracing::warn!(
                log = %log.display(),
                sstable = %descriptor,
                "compaction recovery: keeping files that changed after a compaction had replaced \
                them; remove them if they were not restored on purpose"
            );
        }
        tracing::info!(
            log = %log.display(),
            is_committed,
            sets = dead.len(),
            "compaction recovery: completing or undoing a compaction that a crash interrupted"
        );
        end(file_system, directory, &log, &dead).await?;
    }
    Ok(())
}

/// Returns the sets of a directory that its logs declare garbage, so that an import can skip them.
/// The result includes sets that have changed since, because a copy may have got new times.
///
/// # Errors
///
/// Fails if a log is damaged or cannot be read.
pub async fn dead_sets(
    file_system: &FileSystem,
    directory: &Path,
) -> Result<Vec<Descriptor>, CompactionError> {
    let mut dead = Vec::new();
    for log in logs_in(file_system, directory).await? {
        let Leftover { dead: of_log, changed, .. } =
            leftover_of(file_system, directory, &log).await?;
        for descriptor in of_log.into_iter().chain(changed) {
            tracing::warn!(
                log = %log.display(),
                sstable = %descriptor,
                "skipping an SSTable that a compaction log in its directory declares garbage"
            );
            dead.push(descriptor);
        }
    }
    Ok(dead)
}

async fn logs_in(
    file_system: &FileSystem,
    directory: &Path,
) -> Result<Vec<PathBuf>, CompactionError> {
    let mut entries = file_system.read_dir(directory).await?;
    entries.retain(|entry| {
        !entry.is_directory && entry.name.ends_with(".log") && entry.name.contains("_txn_")
    });
    Ok(entries.into_iter().map(|entry| entry.path).collect())
}

/// The contents of a log that was not completed.
struct Leftover {
    is_committed: bool,
    dead: Vec<Descriptor>,
    /// Sets that would be dead if they had not changed since.
    changed: Vec<Descriptor>,
}

async fn leftover_of(
    file_system: &FileSystem,
    directory: &Path,
    log: &Path,
) -> Result<Leftover, CompactionError> {
    let bytes = file_system.read(log).await?;
    let corrupt = |reason| CompactionError::Corrupt { what: log.display().to_string(), reason };
    let Parsed { records, damage } = parse(&bytes).map_err(corrupt)?;
    let is_committed = records.last().is_some_and(|record| record.kind == Kind::Commit);
    let (mut dead, mut changed) = (Vec::new(), Vec::new());
    for record in records {
        let Some(descriptor) = record.descriptor(directory) else { continue };
        match record.kind {
            Kind::Remove if is_committed => {
                // An interrupted removal leaves no file that is younger than recorded. So a younger
                // file was changed after the line was written.
                let found = files_found(file_system, &descriptor).await?;
                let is_changed = youngest_ms(&found) > record.modified_ms;
                if is_changed { &mut changed } else { &mut dead }.push(descriptor);
            }
            // A damaged line may have been the COMMIT. Missing files of an input show that.
            Kind::Remove => {
                let Some(damage) = &damage else { continue };
                let found = files_found(file_system, &descriptor).await?.len();
                if i64::from(record.files) > i64::try_from(found).unwrap_or(i64::MAX) {
                    return Err(corrupt(format!(
                        "{damage}; compaction input {descriptor} has {found} of {} files",
                        record.files
                    )));
                }
            }
            Kind::Add if !is_committed => dead.push(descriptor),
            Kind::Add | Kind::Commit | Kind::Abort => {}
        }
    }
    Ok(Leftover { is_committed, dead, changed })
}

/// Parses the intact lines. A crash may leave any part of a write on the disk, so damage is not an
/// error by itself. Damage before a final COMMIT is an error, because a COMMIT is written after all
/// lines before it are synced.
fn parse(bytes: &[u8]) -> Result<Parsed, String> {
    let text = String::from_utf8_lossy(bytes);
    let mut records = Vec::new();
    let (mut damaged, mut damaged_before_last) = (None, None);
    for (index, line) in text.lines().enumerate() {
        match Record::parse(line) {
            Some(record) => {
                records.push(record);
                damaged_before_last.clone_from(&damaged);
            }
            None => {
                let reason = || format!("line {} is not a record: {line}", index + 1);
                damaged = damaged.or_else(|| Some(reason()));
            }
        }
    }
    let is_committed = records.last().is_some_and(|record| record.kind == Kind::Commit);
    match damaged_before_last.filter(|_| is_committed) {
        Some(reason) => Err(reason),
        None => Ok(Parsed { records, damage: damaged }),
    }
}

/// The readable part of a log.
struct Parsed {
    records: Vec<Record>,
    /// Describes the first line that is not a record.
    damage: Option<String>,
}

/// Returns a new compaction id: a timeuuid, as in Cassandra.
pub fn compaction_id() -> Uuid {
    let micros = u64::try_from(time::next_timestamp_micros()).unwrap_or(0);
    let context = uuid::timestamp::context::NoContext;
    let (seconds, rest) = (micros / 1_000_000, (micros % 1_000_000) as u32 * 1000);
    let stamp = uuid::Timestamp::from_unix(context, seconds, rest);
    let mut node = [0; 6];
    node.copy_from_slice(&random::uuid_v4().as_bytes()[10..]);
    // The multicast bit marks a random node id instead of a network card's address.
    node[0] |= 1;
    Uuid::new_v1(stamp, &node)
}

#[cfg(test)]
mod tests;
