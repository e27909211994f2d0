//! A file that is written from front to back by direct I/O, while its owner makes the next bytes.
//!
//! The kernel's page cache would hold pages that no reader uses, because SSTables are read by
//! direct I/O. To copy bytes into that cache takes a sixth of the core time of a compaction. Bytes
//! are gathered in pieces of whole pages; at most one piece is being written at any time. The last
//! piece, which may end anywhere, goes through the kernel's cache. If the write of a piece fails,
//! the call that starts the next write or ends the file returns the error. Disk space is allocated
//! ahead of the writes, because the kernel runs each write that extends a file in a worker thread,
//! which waits for the disk.
//!
//! The caller can make bytes directly in the piece ([`WriteBehindFile::append_with`]), if the piece
//! has room for their maximum length.
//!
//! Memory: three pieces (one being filled, one full, one being written), and the bytes that are
//! appended between two calls of [`WriteBehindFile::flush_if_large`]. Pieces are reused.

use std::{collections::VecDeque, path::Path};

use espalier_runtime::{
    file::{File, FileError, FileSystem, PageBufferMut, TrickleSync, wait_for_disk},
    task::{JoinHandle, spawn_local},
};

use crate::error::{FileName, Result};

/// The length of a piece in bytes (arbitrary). Core time rises only if pieces are shorter than a
/// quarter of this length.
const PIECE_BYTES: usize = 512 * 1024;
/// The most bytes of disk space that are allocated ahead of the writes (arbitrary). A file that is
/// shorter than this is allocated to twice its length. The excess is freed at the end, which makes
/// work for a disk that receives discards.
const MAX_AHEAD_BYTES: u64 = 8 << 20;

pub(crate) struct WriteBehindFile {
    file: File,
    name: FileName,
    /// The piece that is being filled, at its final length; `None` before the first byte.
    open: Option<PageBufferMut>,
    /// Bytes of `open` that are filled.
    filled: usize,
    /// The full pieces, in order.
    full: VecDeque<PageBufferMut>,
    under_way: Option<JoinHandle<std::result::Result<PageBufferMut, FileError>>>,
    /// A piece that was written and can be reused.
    spare: Option<PageBufferMut>,
    /// A buffer for bytes whose maximum length exceeds the room in the piece.
    scratch: Vec<u8>,
    length: u64,
    /// Bytes of the file for which disk space is allocated, whether written or not.
    allocated: u64,
    syncs: TrickleSync,
}

impl WriteBehindFile {
    /// Creates the file. If `is_durable` is set, [`Self::finish`] makes it durable. An existing
    /// file is an error.
    pub(crate) async fn create(
        file_system: &FileSystem,
        path: &Path,
        is_durable: bool,
    ) -> Result<Self> {
        let file = file_system.create_new_direct(path).await?;
        let (full, name) = (VecDeque::new(), FileName::new(path));
        Ok(Self {
            file,
            name,
            open: None,
            filled: 0,
            full,
            under_way: None,
            spare: None,
            scratch: Vec::new(),
            length: 0,
            allocated: 0,
            syncs: TrickleSync::new(is_durable),
        })
    }

    pub(crate) fn name(&self) -> &FileName {
        &self.name
    }

    /// Returns the length of the file, including bytes that are not written yet.
    pub(crate) fn position(&self) -> u64 {
        self.length
    }

    pub(crate) fn append(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self.room();
            let (part, rest) = bytes.split_at(bytes.len().min(room.len()));
            room[..part.len()].copy_from_slice(part);
            self.count(part.len());
            bytes = rest;
        }
    }

    /// Appends the bytes that `make` makes. `make` gets `most` bytes with any content, and returns
    /// the number of bytes that it has made. Appends nothing if `make` fails.
    pub(crate) fn append_with<E>(
        &mut self,
        most: usize,
        make: impl FnOnce(&mut [u8]) -> std::result::Result<usize, E>,
    ) -> std::result::Result<(), E> {
        if let Some(room) = self.room().get_mut(..most) {
            let made = make(room)?;
            assert!(made <= most, "{made} bytes were made, at most {most} were announced");
            self.count(made);
            return Ok(());
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        if scratch.len() < most {
            scratch.resize(most, 0);
        }
        let made = make(&mut scratch[..most]);
        if let Ok(made) = made {
            self.append(&scratch[..made]);
        }
        self.scratch = scratch;
        made.map(|_| ())
    }

    /// Returns the rest of the open piece, at least a byte.
    fn room(&mut self) -> &mut [u8] {
        let spare = &mut self.spare;
        let new = || spare.take().unwrap_or_else(|| PageBufferMut::of_anything(PIECE_BYTES));
        &mut self.open.get_or_insert_with(new)[self.filled..]
    }

    /// Counts `bytes` more bytes of the open piece as filled.
    fn count(&mut self, bytes: usize) {
        self.filled += bytes;
        self.length += bytes as u64;
        if self.open.as_ref().is_some_and(|open| open.len() == self.filled) {
            self.full.extend(self.open.take());
            self.filled = 0;
        }
    }

    /// Writes the full pieces one after another, and returns while the last of them is being
    /// written. The caller must call this between appends, to bound memory.
    #[inline]
    pub(crate) async fn flush_if_large(&mut self) -> Result<()> {
        if self.full.is_empty() { Ok(()) } else { self.write_full().await }
    }

    async fn write_full(&mut self) -> Result<()> {
        while let Some(piece) = self.full.pop_front() {
            self.settle().await?;
            let file = self.file.clone();
            let start = file.append_position();
            self.syncs.after(&file, start).await?;
            let end = start + piece.len() as u64;
            let room = (end > self.allocated).then_some(end + end.min(MAX_AHEAD_BYTES));
            self.allocated = room.unwrap_or(self.allocated);
            let written = async move {
                if let Some(room) = room
                    && file.allocate(room).await.is_err()
                {
                    // If the disk has no space, the write reports it. The truncation frees what was
                    // allocated on a nearly full disk, for other writers.
                    file.truncate(start).await?;
                }
                file.append(piece).await.map(|(_, piece)| piece)
            };
            self.under_way = Some(spawn_local(written));
        }
        Ok(())
    }

    /// Waits for the piece that is being written.
    async fn settle(&mut self) -> Result<()> {
        if let Some(under_way) = self.under_way.take() {
            self.spare = Some(wait_for_disk(under_way).await?);
        }
        Ok(())
    }

    /// Writes the rest and, if the file is to be durable, syncs all of it. Returns the length in
    /// bytes.
    pub(crate) async fn finish(mut self) -> Result<u64> {
        self.write_full().await?;
        self.settle().await?;
        if let Some(mut last) = self.open.take() {
            last.resize(self.filled);
            self.file.append(last).await?;
        }
        if self.allocated > self.length {
            self.file.truncate(self.length).await?;
        }
        self.syncs.finish(&self.file).await?;
        debug_assert_eq!(self.file.append_position(), self.length);
        Ok(self.length)
    }
}

#[cfg(test)]
mod tests {
    use espalier_runtime::{
        block_on,
        file::{
            Operation, TRICKLE_SYNC_BYTES,
            simulated::{Effect, Fault},
        },
    };

    use super::*;

    /// Returns appends of odd lengths. Some are longer than a piece.
    fn appends() -> Vec<Vec<u8>> {
        let length = |index: usize| match index % 7 {
            3 => PIECE_BYTES + 4097,
            index => 1 + 50_021 * index,
        };
        (0..20).map(|index| vec![index as u8; length(index)]).collect()
    }

    async fn write(file_system: &FileSystem, path: &Path) -> Result<u64> {
        let mut file = WriteBehindFile::create(file_system, path, true).await?;
        for (index, bytes) in appends().into_iter().enumerate() {
            match index % 2 {
                0 => file.append(&bytes),
                // The closure gets more room than it needs.
                _ => file
                    .append_with(bytes.len() + index * 999, |room| {
                        room[..bytes.len()].copy_from_slice(&bytes);
                        Ok::<_, FileError>(bytes.len())
                    })
                    .unwrap(),
            }
            assert!(file.append_with(10, |_| Err::<usize, _>("no")).is_err());
            file.flush_if_large().await?;
            assert!(file.full.is_empty());
        }
        assert_eq!(file.position(), appends().concat().len() as u64);
        file.finish().await
    }

    #[test]
    fn appended_bytes_are_in_the_file_after_a_crash() {
        block_on(async {
            let file_system = FileSystem::simulated(1);
            file_system.create_dir_all("/t").await.unwrap();
            let length = write(&file_system, Path::new("/t/Data.db")).await.unwrap();
            file_system.sync_dir("/t").await.unwrap();
            let disk = file_system.simulated_disk().unwrap().crash(7);
            let found = FileSystem::on(disk).read("/t/Data.db").await.unwrap();
            assert!(found == appends().concat());
            assert_eq!(found.len() as u64, length);
        });
    }

    #[test]
    fn a_write_that_fails_behind_the_back_is_an_error_of_the_whole() {
        block_on(async {
            let pieces = appends().concat().len() / PIECE_BYTES;
            for nth in 0..=pieces as u64 {
                let file_system = FileSystem::simulated(nth);
                let disk = file_system.simulated_disk().unwrap();
                disk.inject(Fault::nth(Operation::Write, nth, Effect::NoSpace));
                assert!(write(&file_system, Path::new("/Data.db")).await.is_err(), "{nth}");
            }
        });
    }

    #[test]
    fn a_sync_that_fails_is_an_error_of_the_whole() {
        block_on(async {
            let mut failed = 0;
            loop {
                let file_system = FileSystem::simulated(failed);
                let disk = file_system.simulated_disk().unwrap();
                disk.inject(Fault::nth(Operation::Sync, failed, Effect::InputOutput));
                match write(&file_system, Path::new("/Data.db")).await {
                    Err(_) => failed += 1,
                    Ok(_) => break,
                }
            }
            // The file is synced several times while it is written, and once at its end.
            let bytes = appends().concat().len() as u64;
            assert!(failed > bytes / TRICKLE_SYNC_BYTES / 2 && failed > 1, "{failed}");
        });
    }

    #[test]
    fn a_failed_preallocation_does_not_fail_the_write() {
        block_on(async {
            for nth in 0..3 {
                let file_system = FileSystem::simulated(nth);
                let disk = file_system.simulated_disk().unwrap();
                disk.inject(Fault::nth(Operation::Allocate, nth, Effect::NoSpace));
                write(&file_system, Path::new("/Data.db")).await.unwrap();
                let found = file_system.read("/Data.db").await.unwrap();
                assert!(found == appends().concat(), "{nth}");
            }
            // A failure to free the excess at the end is an error.
            let file_system = FileSystem::simulated(1);
            let disk = file_system.simulated_disk().unwrap();
            disk.inject(Fault::nth(Operation::Truncate, 0, Effect::NoSpace));
            assert!(write(&file_system, Path::new("/Data.db")).await.is_err());
        });
    }
}
