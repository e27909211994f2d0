//! The discarded-intervals file names intervals of the commit log that contain no live writes: no
//! SSTable holds these writes any more, because a compaction has purged them all.
//!
//! The statistics of an SSTable name the intervals of the commit log that it holds, and a
//! compaction copies them to its outputs. A compaction without output adds its intervals to this
//! file instead. Otherwise a replay could restore a write without the deletion that covers it,
//! because the segment of the deletion may be removed long before that of the write.
//!
//! The log's directory contains one such file for each shard. A compaction replaces the file
//! atomically, before its inputs are removed. The format:
//!
//! ```text
//! espalier settled 1
//! host 1b4e28ba-2fa1-11d2-883f-0016d3cca427   host id of the node that owns the commit log
//! <table id> 1700000000001 33 1700000000002 7 a purged interval: start, end (segment, offset)
//! crc 1a2b3c4d                                of all lines above
//! ```

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use espalier_mutation::{LogPosition, joined_intervals, schema::TableId};
use espalier_runtime::file::FileSystem;
use uuid::Uuid;

use crate::{
    CommitLogError, ReplayPolicy,
    checked_text::{checked_lines, with_checksum},
};

const PREFIX: &str = "settled-";
/// Number of the latest intervals of each table that stay even if their segments have no files.
/// Only a safeguard (arbitrary): the log counts a removed segment until the removal is durable.
const KEPT_INTERVALS: usize = 64;
const FIRST_LINE: &str = "espalier settled 1";

/// Discarded intervals of the commit log, by table.
pub type DiscardedIntervals = BTreeMap<Uuid, Vec<(LogPosition, LogPosition)>>;

/// The discarded-intervals file of one shard.
pub struct DiscardedIntervalsFile {
    path: PathBuf,
    host: Uuid,
}

impl DiscardedIntervalsFile {
    /// Names the file of a shard in the log's directory.
    pub fn new(directory: &Path, shard: usize, host: Uuid) -> Self {
        Self { path: directory.join(format!("{PREFIX}{shard}")), host }
    }

    /// Adds `intervals` of `table` to the file and makes it durable. The caller must not run two
    /// calls at once.
    ///
    /// `oldest_segment` returns the oldest segment of a table's log that a restart may read. If it
    /// returns `None`, the table is gone, and its intervals are left out of the file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or written. A damaged file is logged and written anew.
    pub async fn add(
        &self,
        file_system: &FileSystem,
        table: TableId,
        intervals: &[(LogPosition, LogPosition)],
        oldest_segment: impl Fn(TableId) -> Option<u64>,
    ) -> Result<(), CommitLogError> {
        let mut discarded = match self.load(file_system).await {
            Err(error @ CommitLogError::DiscardedIntervals(_)) => {
                tracing::error!(
                    %error,
                    "discarded-intervals file damaged, rewriting it; purged rows may reappear \
                    after a crash before the next flush"
                );
                DiscardedIntervals::new()
            }
            loaded => loaded?,
        };
        discarded.entry(table.0).or_default().extend(intervals);
        discarded.retain(|table, intervals| {
            let oldest = oldest_segment(TableId(*table));
            *intervals = joined_intervals(std::mem::take(intervals), oldest, KEPT_INTERVALS);
            oldest.is_some()
        });
        Ok(file_system.write_atomically(&self.path, to_text(self.host, &discarded)).await?)
    }

    /// Loads the file. The result is empty if there is no file, or if it belongs to another node.
    async fn load(&self, file_system: &FileSystem) -> Result<DiscardedIntervals, CommitLogError> {
        let bytes = match file_system.read(&self.path).await {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() => return Ok(DiscardedIntervals::new()),
            Err(error) => return Err(error.into()),
        };
        match std::str::from_utf8(&bytes).ok().and_then(parse) {
            Some((host, discarded)) if host == self.host => Ok(discarded),
            Some(_) => Ok(DiscardedIntervals::new()),
            None => Err(CommitLogError::DiscardedIntervals(self.path.clone())),
        }
    }

    /// Loads the files of all shards of all earlier runs, even if these had more shards. Under
    /// [`ReplayPolicy::Ignore`] a damaged file is logged and skipped.
    ///
    /// # Errors
    ///
    /// [`CommitLogError::DiscardedIntervals`] for a damaged file under [`ReplayPolicy::Stop`]; I/O
    /// errors.
    pub async fn load_all(
        file_system: &FileSystem,
        directory: &Path,
        host: Uuid,
        policy: ReplayPolicy,
    ) -> Result<DiscardedIntervals, CommitLogError> {
        let mut all = DiscardedIntervals::new();
        for entry in file_system.read_dir(directory).await? {
            // A temporary file that a crash has left does not parse: its name continues behind the
            // number.
            let shard = entry.name.strip_prefix(PREFIX).and_then(|shard| shard.parse().ok());
            let Some(shard) = shard else { continue };
            let loaded = match Self::new(directory, shard, host).load(file_system).await {
                Err(error @ CommitLogError::DiscardedIntervals(_))
                    if policy == ReplayPolicy::Ignore =>
                {
                    tracing::error!(
                        %error,
                        "discarded-intervals file damaged, ignoring it (commit_failure_policy: \
                        ignore); purged rows may reappear"
                    );
                    continue;
                }
                loaded => loaded?,
            };
            for (table, intervals) in loaded {
                all.entry(table).or_default().extend(intervals);
            }
        }
        Ok(all)
    }
}

fn to_text(host: Uuid, discarded: &DiscardedIntervals) -> String {
    let mut text = format!("{FIRST_LINE}\nhost {host}\n");
    for (table, intervals) in discarded {
        for (start, end) in intervals {
            let [from, to] = [start, end].map(|at| format!("{} {}", at.segment, at.offset));
            text += &format!("{table} {from} {to}\n");
        }
    }
    with_checksum(text)
}

fn parse(text: &str) -> Option<(Uuid, DiscardedIntervals)> {
    let mut lines = checked_lines(text.strip_suffix('\n')?)?.lines();
    if lines.next() != Some(FIRST_LINE) {
        return None;
    }
    let host = lines.next()?.strip_prefix("host ")?.parse().ok()?;
    let mut discarded = DiscardedIntervals::new();
    for line in lines {
        let mut words = line.split(' ');
        let table = words.next()?.parse().ok()?;
        let mut position = || {
            let (segment, offset) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            Some(LogPosition { segment, offset })
        };
        discarded.entry(table).or_default().push((position()?, position()?));
    }
    Some((host, discarded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trip_and_damage() {
        let host = Uuid::from_u128(7);
        let at = |segment, offset| LogPosition { segment, offset };
        let discarded = DiscardedIntervals::from([
            (Uuid::from_u128(1), vec![(at(1, 2), at(3, 4)), (at(5, 0), at(5, 99))]),
            (Uuid::from_u128(2), vec![(at(1, 2), at(3, 4))]),
        ]);
        let text = to_text(host, &discarded);
        assert_eq!(parse(&text), Some((host, discarded)));
        assert_eq!(parse(&text.replace("99", "98")), None);
        for length in 0..text.len() {
            assert_eq!(parse(&text[..length]), None, "{length}");
        }
        let nothing = DiscardedIntervals::new();
        assert_eq!(parse(&to_text(host, &nothing)), Some((host, nothing)));
    }
}
