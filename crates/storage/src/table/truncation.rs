//! The truncation record ensures that data written before a truncation never reappears after a
//! crash.
//!
//! It is a small file in the table's directory, replaced atomically:
//!
//! ```text
//! espalier truncation 1
//! at 1700000000000000       time of the truncation in µs; missing if unknown
//! generations 12            SSTables with this number or less are dead; 0 once they are removed
//! given 12                  the earlier value of `generations`; missing while it is not 0
//! shard 0 1700000000001 33  shard 0's writes before this log position (segment, offset) are dead
//! file da-3h2k…-bti         a dead SSTable without a number; none once they are removed
//! crc 1a2b3c4d              of all lines above
//! ```

use std::path::Path;

use espalier_commitlog::checked_text::{checked_lines, with_checksum};
use espalier_mutation::LogPosition;
use espalier_runtime::file::FileSystem;
use espalier_sstable::{Descriptor, SSTableId};

use crate::StorageError;

/// File name in the table's directory.
pub(crate) const FILE_NAME: &str = "truncated";
const FIRST_LINE: &str = "espalier truncation 1";

/// The time of a table's truncation, and the log positions and SSTables that it covers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TruncationRecord {
    /// Time of the truncation in µs since 1970; logged batches recorded until then are dead. 0 if
    /// unknown, or if the record is that of a new table.
    pub(crate) at_us: i64,
    /// SSTables up to this generation number are dead; 0 for none.
    pub(crate) generations: u64,
    /// Generation numbers up to this one were given to SSTables that are removed by now. The number
    /// may be the greatest that the table has had.
    pub(crate) given: u64,
    /// Position in each shard's commit log before which writes are dead.
    pub(crate) positions: Vec<LogPosition>,
    /// Names of dead SSTables that have no number.
    pub(crate) names: Vec<String>,
}

impl TruncationRecord {
    /// Returns whether an SSTable existed when the table was truncated.
    pub(crate) fn is_dead(&self, descriptor: &Descriptor) -> bool {
        match descriptor.id {
            SSTableId::Generation(generation) => generation.get() <= self.generations,
            SSTableId::Uuid(_) => self.names.contains(&descriptor.to_string()),
        }
    }

    /// Returns whether dead SSTables may still exist.
    pub(crate) fn names_files(&self) -> bool {
        self.generations > 0 || !self.names.is_empty()
    }

    /// Returns the record for the time after the dead SSTables are removed.
    pub(crate) fn without_files(self) -> Self {
        let given = self.greatest_number();
        Self { generations: 0, given, names: Vec::new(), ..self }
    }

    /// Returns the greatest number of an SSTable before the truncation, or a greater one.
    pub(crate) fn greatest_number(&self) -> u64 {
        self.given.max(self.generations)
    }

    /// Returns whether a write of `shard` at this position precedes the truncation. Segment ids
    /// grow over restarts, so the other shards' segments decide about a shard that did not exist
    /// then.
    pub(crate) fn covers(&self, shard: u32, position: LogPosition) -> bool {
        match self.positions.get(shard as usize) {
            Some(before) => position < *before,
            None => {
                let newest = self.positions.iter().map(|position| position.segment).max();
                newest.is_some_and(|newest| position.segment < newest)
            }
        }
    }

    fn to_text(&self) -> String {
        let mut text = format!("{FIRST_LINE}\n");
        if self.at_us != 0 {
            text += &format!("at {}\n", self.at_us);
        }
        text += &format!("generations {}\n", self.generations);
        if self.given != 0 {
            text += &format!("given {}\n", self.given);
        }
        for (shard, position) in self.positions.iter().enumerate() {
            text += &format!("shard {shard} {} {}\n", position.segment, position.offset);
        }
        for name in &self.names {
            text += &format!("file {name}\n");
        }
        with_checksum(text)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = checked_lines(text.trim_end())?.lines();
        if lines.next() != Some(FIRST_LINE) {
            return None;
        }
        let (mut line, mut at_us) = (lines.next()?, 0);
        if let Some(at) = line.strip_prefix("at ") {
            (line, at_us) = (lines.next()?, at.parse().ok()?);
        }
        let generations = line.strip_prefix("generations ")?.parse().ok()?;
        let mut record = Self { at_us, generations, ..Self::default() };
        for line in lines {
            if let Some(given) = line.strip_prefix("given ") {
                record.given = given.parse().ok()?;
                continue;
            }
            if let Some(name) = line.strip_prefix("file ") {
                record.names.push(name.into());
                continue;
            }
            let mut words = line.strip_prefix("shard ")?.split(' ');
            if words.next()?.parse() != Ok(record.positions.len()) {
                return None;
            }
            let segment = words.next()?.parse().ok()?;
            let offset = words.next()?.parse().ok()?;
            record.positions.push(LogPosition { segment, offset });
        }
        Some(record)
    }

    /// Loads the record of a table; `None` if the table has no record.
    pub(crate) async fn load(
        file_system: &FileSystem,
        directory: &Path,
    ) -> Result<Option<Self>, StorageError> {
        let path = directory.join(FILE_NAME);
        let bytes = match file_system.read(&path).await {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        match std::str::from_utf8(&bytes).ok().and_then(Self::parse) {
            Some(record) => Ok(Some(record)),
            None => Err(StorageError::Corrupt {
                what: path.display().to_string(),
                reason: "not a valid truncation record; restore it from a backup, or remove it if \
                         the table may keep rows from before its last truncation"
                    .into(),
            }),
        }
    }

    /// Removes the record of a table, durably.
    pub(crate) async fn remove(
        file_system: &FileSystem,
        directory: &Path,
    ) -> Result<(), StorageError> {
        match file_system.remove_file(directory.join(FILE_NAME)).await {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
        Ok(file_system.sync_dir(directory).await?)
    }

    /// Makes the record durable.
    pub(crate) async fn save(
        &self,
        file_system: &FileSystem,
        directory: &Path,
    ) -> Result<(), StorageError> {
        file_system.create_dir_all(directory).await?;
        Ok(file_system.write_atomically(directory.join(FILE_NAME), self.to_text()).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trip_and_damage() {
        let record = TruncationRecord {
            at_us: 1_700_000_000_000_001,
            generations: 12,
            given: 0,
            positions: vec![
                LogPosition { segment: 100, offset: 33 },
                LogPosition { segment: 99, offset: 7 },
            ],
            names: vec!["da-3h2k_0u2q_3fbok2hhqk0ny4rb6l-bti".into()],
        };
        let text = record.to_text();
        assert_eq!(TruncationRecord::parse(&text), Some(record.clone()));
        assert_eq!(TruncationRecord::parse(&text.replace("12", "13")), None);
        let older = TruncationRecord { at_us: 0, ..record.clone() };
        assert_eq!(TruncationRecord::parse(&older.to_text()), Some(older));
        let finished = record.clone().without_files();
        assert!(!finished.names_files() && finished.greatest_number() == 12);
        assert_eq!(finished.clone().without_files(), finished);
        assert_eq!(TruncationRecord::parse(&finished.to_text()), Some(finished));
        let at = |segment, offset| LogPosition { segment, offset };
        assert!(record.covers(0, at(100, 32)) && !record.covers(0, at(100, 33)));
        assert!(record.covers(1, at(98, 50)) && !record.covers(1, at(100, 0)));
        assert!(record.covers(7, at(99, 0)) && !record.covers(7, at(100, 0)));
    }
}
