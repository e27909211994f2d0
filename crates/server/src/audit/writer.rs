//! Writes the lines of the audit log to files, on one shard.
//!
//! The name of a file is the time of its beginning, so that names sort by age. The next file begins
//! with the next cycle, or when the file has an eighth of the allowed bytes (but at least
//! [`MIN_FILE_BYTES`]). Then the writer removes the oldest files, until the others have at most the
//! allowed bytes together. If the writer cannot write a line, the line is lost, and the log of the
//! node says so.

use std::path::{Path, PathBuf};

use espalier_runtime::file::{File, FileSystem, Result};
use espalier_runtime::time;
use espalier_types::literal::print_timestamp;

use super::AuditOptions;

const PREFIX: &str = "audit-";
const SUFFIX: &str = ".jsonl";

/// Minimum size in bytes at which a file ends before its cycle ends. Arbitrary.
const MIN_FILE_BYTES: u64 = 64 << 10;

/// The open file.
#[derive(Default)]
pub(super) struct Writer {
    open: Option<Open>,
}

struct Open {
    file: File,
    directory: PathBuf,
    bytes: u64,
    /// The cycle in which the file began.
    cycle: u64,
}

impl Writer {
    /// Appends whole lines. Begins a new file first if one is due, and returns whether it did. Then
    /// [`remove_old`] is due, too.
    ///
    /// # Errors
    /// Fails if a file cannot be created or written; the lines may have been written in part, or
    /// not at all.
    pub async fn append(
        &mut self,
        files: &FileSystem,
        options: &AuditOptions,
        lines: Vec<u8>,
    ) -> Result<bool> {
        let now_ms = u64::try_from(time::now_millis()).unwrap_or(0);
        let period_ms = u64::try_from(options.roll_cycle.period().as_millis()).unwrap_or(1);
        let cycle = now_ms / period_ms.max(1);
        let max_bytes = (options.max_log_bytes / 8).max(MIN_FILE_BYTES);
        let goes_on = |open: &Open| {
            open.cycle == cycle && open.bytes < max_bytes && open.directory == options.directory
        };
        let begins = !self.open.as_ref().is_some_and(goes_on);
        if begins {
            self.open = None;
            files.create_dir_all(&options.directory).await?;
            let file = begin(files, &options.directory, now_ms).await?;
            let directory = options.directory.clone();
            self.open = Some(Open { file, directory, bytes: 0, cycle });
        }
        let Some(open) = &mut self.open else { return Ok(begins) };
        open.bytes += lines.len() as u64;
        let appended = open.file.append(lines).await;
        if appended.is_err() {
            // The next attempt begins a new file, because this file may end within a line.
            self.open = None;
        }
        appended.map(|_| begins)
    }
}

/// Creates the file for a time. Two files of one millisecond differ by a number.
async fn begin(files: &FileSystem, directory: &Path, now_ms: u64) -> Result<File> {
    let printed = print_timestamp(i64::try_from(now_ms).unwrap_or(0));
    let time: String = printed.chars().filter(char::is_ascii_digit).take(17).collect();
    let mut number = 0_u32;
    loop {
        let path = directory.join(format!("{PREFIX}{time}-{number}{SUFFIX}"));
        match files.create_new(&path).await {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && number < 1000 => {
                number += 1;
            }
            created => return created,
        }
    }
}

/// Removes the oldest files until the others are within the allowed bytes. Keeps the newest file.
/// A file that another program removes meanwhile does not count.
///
/// # Errors
/// Fails if the directory cannot be listed, or if a file can be neither measured nor removed. The
/// other files are removed nevertheless.
pub async fn remove_old(files: &FileSystem, options: &AuditOptions) -> Result<()> {
    let mut entries = files.read_dir(&options.directory).await?;
    entries.retain(|entry| {
        !entry.is_directory && entry.name.starts_with(PREFIX) && entry.name.ends_with(SUFFIX)
    });
    entries.sort_by(|left, right| right.name.cmp(&left.name));
    let (mut total, mut outcome) = (0, Ok(()));
    for (index, entry) in entries.iter().enumerate() {
        let done = match files.metadata(&entry.path).await {
            Ok(metadata) => {
                total += metadata.length;
                if index > 0 && total > options.max_log_bytes {
                    files.remove_file(&entry.path).await
                } else {
                    Ok(())
                }
            }
            Err(error) => Err(error),
        };
        match done {
            Err(error) if !error.is_not_found() => outcome = Err(error),
            _ => {}
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use espalier_runtime::block_on;
    use espalier_runtime::time::ManualClock;

    use super::*;

    async fn contents(files: &FileSystem) -> Vec<String> {
        let mut found = Vec::new();
        for entry in files.read_dir("audit").await.unwrap() {
            found.push(String::from_utf8(files.read(&entry.path).await.unwrap()).unwrap());
        }
        found
    }

    async fn append(writer: &mut Writer, files: &FileSystem, options: &AuditOptions, line: &str) {
        if writer.append(files, options, line.into()).await.unwrap() {
            remove_old(files, options).await.unwrap();
        }
    }

    #[test]
    fn a_cycle_has_its_file_and_the_oldest_files_go() {
        let clock = ManualClock::new(1_800_000_000_000_000);
        let _installed = clock.install();
        block_on(async {
            let files = FileSystem::simulated(1);
            let mut options = AuditOptions::new("audit");
            options.set("roll_cycle", "MINUTELY").unwrap();
            options.set("max_log_size", "7").unwrap();
            let mut writer = Writer::default();
            append(&mut writer, &files, &options, "1\n").await;
            append(&mut writer, &files, &options, "2\n").await;
            assert_eq!(contents(&files).await, ["1\n2\n"]);
            clock.advance(Duration::from_secs(60));
            append(&mut writer, &files, &options, "3\n").await;
            assert_eq!(contents(&files).await, ["1\n2\n", "3\n"]);
            clock.advance(Duration::from_secs(60));
            append(&mut writer, &files, &options, "4\n").await;
            assert_eq!(contents(&files).await, ["3\n", "4\n"], "8 bytes were too many");
            // Another writer, as after a start in the same cycle, begins a file of its own.
            let mut writer = Writer::default();
            append(&mut writer, &files, &options, "5\n").await;
            assert_eq!(contents(&files).await, ["3\n", "4\n", "5\n"]);
        });
    }

    #[test]
    fn a_large_file_ends_before_its_cycle() {
        block_on(async {
            let files = FileSystem::simulated(1);
            let mut options = AuditOptions::new("audit");
            options.set("roll_cycle", "DAILY").unwrap();
            options.set("max_log_size", "300000").unwrap();
            let mut writer = Writer::default();
            for _ in 0..12 {
                append(&mut writer, &files, &options, &"x".repeat(60_000)).await;
            }
            let found = contents(&files).await;
            let total: usize = found.iter().map(String::len).sum();
            assert!(found.len() > 1 && total <= 300_000 + 120_000, "{}: {total}", found.len());
        });
    }
}
