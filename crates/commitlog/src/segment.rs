//! This module creates the files of the commit log and holds the state of a file that receives
//! records.

use std::{
    cell::{Cell, RefCell},
    path::{Path, PathBuf},
};

use espalier_runtime::file::{File, FileError, FileSystem};

use super::{
    CommitLogConfiguration,
    layout::{HEADER_BYTES, SegmentHeader, checksum_seed},
};

/// A segment with a durable header. Its file has its final length.
pub(crate) struct Segment {
    pub(crate) id: u64,
    pub(crate) path: PathBuf,
    /// The open file; `None` for a segment of an earlier run, which is kept only until its writes
    /// are flushed.
    pub(crate) file: Option<File>,
    /// Initial value of the checksums of the segment's records.
    pub(crate) seed: u32,
    /// Offset in bytes of the next record.
    pub(crate) end: Cell<u32>,
    /// True if a failed write or sync has left the tail in an unknown state. Such a segment is
    /// never recycled.
    pub(crate) is_damaged: Cell<bool>,
    /// Bit set of the numbers of the column mappings that were written to the segment.
    mapped: RefCell<Vec<u64>>,
}

impl Segment {
    fn new(id: u64, path: PathBuf, file: Option<File>) -> Self {
        Self {
            id,
            path,
            file,
            seed: checksum_seed(id),
            end: Cell::new(HEADER_BYTES as u32),
            is_damaged: Cell::new(false),
            mapped: RefCell::default(),
        }
    }

    /// Creates segment `id`, in the file `recycled` if one is given.
    ///
    /// The order matters. A recycled file gets its new name durably before its header changes. So a
    /// header always matches the name, or belongs to a segment that is no longer needed.
    pub(crate) async fn create(
        file_system: &FileSystem,
        configuration: &CommitLogConfiguration,
        id: u64,
        recycled: Option<&PathBuf>,
    ) -> Result<Segment, FileError> {
        let name = configuration.kind.file_name(configuration.shard, id);
        let path = configuration.directory.join(name);
        let created = match recycled {
            Some(old) => {
                file_system.rename(old, &path).await?;
                None
            }
            None => Some(file_system.create(&path).await?),
        };
        match Self::prepare(file_system, configuration, id, &path, created).await {
            Ok(file) => Ok(Self::new(id, path, Some(file))),
            Err(error) => {
                // A restart ignores an unfinished segment; the removal frees its space on a full
                // disk.
                let _ = file_system.remove_file(&path).await;
                Err(error)
            }
        }
    }

    /// Writes the header of a segment into a created file, or into the renamed file at `path`.
    async fn prepare(
        file_system: &FileSystem,
        configuration: &CommitLogConfiguration,
        id: u64,
        path: &Path,
        created: Option<File>,
    ) -> Result<File, FileError> {
        let is_new = created.is_some();
        let file = match created {
            Some(file) => {
                file.allocate(u64::from(configuration.segment_bytes)).await?;
                file
            }
            None => {
                file_system.sync_dir(&configuration.directory).await?;
                file_system.open_write(path).await?
            }
        };
        let header = SegmentHeader {
            shard: configuration.shard,
            shard_count: configuration.shard_count,
            id,
        };
        file.write_at(0, header.encode().to_vec()).await?;
        file.sync_all().await?;
        if is_new {
            file_system.sync_dir(&configuration.directory).await?;
        }
        Ok(file)
    }

    /// Returns a segment of an earlier run that ends at offset `end`.
    pub(crate) fn adopted(id: u64, path: PathBuf, end: u32) -> Self {
        let segment = Self::new(id, path, None);
        segment.end.set(end);
        segment
    }

    /// Returns whether the segment has the record of mapping `number`.
    pub(crate) fn is_mapped(&self, number: u32) -> bool {
        let word = self.mapped.borrow().get(number as usize / 64).copied().unwrap_or(0);
        word & (1 << (number % 64)) != 0
    }

    /// Records that the segment has the record of mapping `number`.
    pub(crate) fn set_mapped(&self, number: u32) {
        let mut mapped = self.mapped.borrow_mut();
        let word = number as usize / 64;
        if mapped.len() <= word {
            mapped.resize(word + 1, 0);
        }
        mapped[word] |= 1 << (number % 64);
    }
}
