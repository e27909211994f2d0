//! One file of the commit log, being appended to.

use std::{
    cell::{Cell, RefCell},
    path::PathBuf,
};

use espalier_runtime::file::{File, FileError, FileSystem};

use super::{
    CommitLogConfiguration,
    layout::{HEADER_BYTES, SegmentHeader, checksum_seed},
};

/// A segment whose header is durable. The file is as long as it will ever be.
pub(crate) struct Segment {
    pub(crate) id: u64,
    pub(crate) path: PathBuf,
    /// `None` for a segment of an earlier run, which is only kept until its writes are flushed.
    pub(crate) file: Option<File>,
    /// Where record checksums start from.
    pub(crate) seed: u32,
    /// Where the next record goes.
    pub(crate) end: Cell<u32>,
    /// A failed write has left its tail in an unknown state: never recycled.
    pub(crate) is_damaged: Cell<bool>,
    /// Bit set of the column mappings that are written.
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

    /// Makes segment `id`, in the place of the file `recycled` if there is one.
    ///
    /// Order matters: a recycled file has its new name for good before its header changes, so that a header always
    /// either fits the name or belongs to a segment that nobody needs.
    pub(crate) async fn create(
        file_system: &FileSystem,
        configuration: &CommitLogConfiguration,
        id: u64,
        recycled: Option<&PathBuf>,
    ) -> Result<Segment, FileError> {
        let name = configuration.kind.file_name(configuration.shard, id);
        let path = configuration.directory.join(name);
        let file = match recycled {
            Some(old) => {
                file_system.rename(old, &path).await?;
                file_system.sync_dir(&configuration.directory).await?;
                file_system.open_write(&path).await?
            }
            None => file_system.create(&path).await?,
        };
        let made = Self::prepare(file_system, configuration, id, &file, recycled.is_some()).await;
        if let Err(error) = made {
            drop(file);
            // Half a segment is ignored at start; what matters is the space it takes on a full disk.
            let _ = file_system.remove_file(&path).await;
            return Err(error);
        }
        Ok(Self::new(id, path, Some(file)))
    }

    async fn prepare(
        file_system: &FileSystem,
        configuration: &CommitLogConfiguration,
        id: u64,
        file: &File,
        is_recycled: bool,
    ) -> Result<(), FileError> {
        if !is_recycled {
            file.allocate(u64::from(configuration.segment_bytes)).await?;
        }
        let header = SegmentHeader {
            shard: configuration.shard,
            shard_count: configuration.shard_count,
            id,
        };
        file.write_at(0, header.encode().to_vec()).await?;
        file.sync_all().await?;
        if !is_recycled {
            file_system.sync_dir(&configuration.directory).await?;
        }
        Ok(())
    }

    /// A segment of an earlier run, that ends at `end`.
    pub(crate) fn adopted(id: u64, path: PathBuf, end: u32) -> Self {
        let segment = Self::new(id, path, None);
        segment.end.set(end);
        segment
    }

    /// Whether the mapping's record is written.
    pub(crate) fn is_mapped(&self, number: u32) -> bool {
        let word = self.mapped.borrow().get(number as usize / 64).copied().unwrap_or(0);
        word & (1 << (number % 64)) != 0
    }

    pub(crate) fn set_mapped(&self, number: u32) {
        let mut mapped = self.mapped.borrow_mut();
        let word = number as usize / 64;
        if mapped.len() <= word {
            mapped.resize(word + 1, 0);
        }
        mapped[word] |= 1 << (number % 64);
    }
}
