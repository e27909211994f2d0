//! A file that is written from front to back. Bytes are gathered and written in large pieces; the
//! buffer is reused. A step of many appends, of more than 256 KiB together, fills several buffers:
//! the growth of one buffer by megabytes would copy it and hold the core.
//!
//! The bytes go through the kernel's page cache. A durable file is synced in parts while it is
//! written, because the index of a large SSTable can have hundreds of megabytes, and one sync of
//! that much at the end can block reads of the disk for half a second.

use std::path::Path;

use espalier_runtime::file::{File, FileSystem, TrickleSync};
use espalier_trie::page::Sink;

use crate::{
    checksums::PageChecksums,
    error::{FileName, Result},
};

/// [`AppendFile::flush_if_large`] writes the buffers once they hold this number of bytes.
const BUFFER_BYTES: usize = 256 * 1024;

pub(crate) struct AppendFile {
    file: File,
    name: FileName,
    /// Full buffers, before [`Self::buffer`].
    full: Vec<Vec<u8>>,
    buffer: Vec<u8>,
    /// Bytes that were appended, and bytes of these that were written.
    appended: u64,
    written: u64,
    syncs: TrickleSync,
    checksums: PageChecksums,
}

impl AppendFile {
    /// Creates the file. If `is_durable` is set, [`Self::finish`] makes it durable. An existing
    /// file is an error.
    pub(crate) async fn create(
        file_system: &FileSystem,
        path: &Path,
        is_durable: bool,
    ) -> Result<Self> {
        let file = file_system.create_new(path).await?;
        Ok(Self {
            file,
            name: FileName::new(path),
            full: Vec::new(),
            buffer: Vec::new(),
            appended: 0,
            written: 0,
            syncs: TrickleSync::new(is_durable),
            checksums: PageChecksums::default(),
        })
    }

    pub(crate) fn name(&self) -> &FileName {
        &self.name
    }

    /// Returns the position at which the next byte is appended.
    pub(crate) fn position(&self) -> u64 {
        self.appended
    }

    /// Returns whether [`flush_if_large`](Self::flush_if_large) would write.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        self.appended - self.written >= BUFFER_BYTES as u64
    }

    /// Writes the buffers once they are large. The caller must call this between appends, to bound
    /// memory.
    #[inline]
    pub(crate) async fn flush_if_large(&mut self) -> Result<()> {
        if !self.is_large() { Ok(()) } else { self.flush().await }
    }

    async fn flush(&mut self) -> Result<()> {
        let last = std::mem::take(&mut self.buffer);
        for buffer in std::mem::take(&mut self.full).into_iter().chain([last]) {
            if buffer.is_empty() {
                continue;
            }
            self.checksums.add(&buffer);
            let (_, mut buffer) = self.file.append(buffer).await?;
            self.written += buffer.len() as u64;
            buffer.clear();
            self.buffer = buffer;
            self.syncs.after(&self.file, self.written).await?;
        }
        Ok(())
    }

    /// Overwrites the beginning of the file, at most a page of it.
    pub(crate) async fn rewrite_start(&mut self, bytes: Vec<u8>) -> Result<()> {
        self.flush().await?;
        self.checksums.rewrite_start(&bytes);
        self.file.write_at(0, bytes).await?;
        Ok(())
    }

    /// Writes the rest and, if the file is to be durable, syncs all of it.
    pub(crate) async fn finish(mut self) -> Result<WrittenFile> {
        self.flush().await?;
        self.syncs.finish(&self.file).await?;
        Ok(WrittenFile { length: self.written, pages: self.checksums.finish() })
    }
}

/// A complete file.
pub(crate) struct WrittenFile {
    /// Its length in bytes.
    pub(crate) length: u64,
    /// A checksum for each page.
    pub(crate) pages: Vec<u32>,
}

impl Sink for AppendFile {
    fn append(&mut self, bytes: &[u8]) {
        if self.buffer.len() >= BUFFER_BYTES {
            let next = Vec::with_capacity(self.buffer.capacity());
            self.full.push(std::mem::replace(&mut self.buffer, next));
        }
        self.buffer.extend_from_slice(bytes);
        self.appended += bytes.len() as u64;
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

    /// Writes three times as much as one sync covers.
    async fn write(file_system: &FileSystem, is_durable: bool) -> Result<WrittenFile> {
        let mut file = AppendFile::create(file_system, Path::new("/Rows.db"), is_durable).await?;
        for piece in 0..3 * TRICKLE_SYNC_BYTES as usize / BUFFER_BYTES {
            file.append(&vec![piece as u8; BUFFER_BYTES]);
            file.flush_if_large().await?;
        }
        file.rewrite_start(b"begin".to_vec()).await?;
        file.finish().await
    }

    #[test]
    fn a_synced_append_file_survives_a_crash() {
        block_on(async {
            let file_system = FileSystem::simulated(1);
            let written = write(&file_system, true).await.unwrap();
            file_system.sync_dir("/").await.unwrap();
            let disk = file_system.simulated_disk().unwrap().crash(7);
            let found = FileSystem::on(disk).read("/Rows.db").await.unwrap();
            assert_eq!((found.len() as u64, &found[..5]), (written.length, &b"begin"[..]));
            let pieces = found.chunks(BUFFER_BYTES).enumerate().skip(1);
            assert!(pieces.into_iter().all(|(piece, bytes)| bytes == [piece as u8; BUFFER_BYTES]));
        });
    }

    #[test]
    fn a_long_step_is_written_in_the_order_of_its_pieces() {
        block_on(async {
            let file_system = FileSystem::simulated(1);
            let path = Path::new("/Rows.db");
            let mut file = AppendFile::create(&file_system, path, false).await.unwrap();
            let mut expected = Vec::new();
            for piece in 0..5 * BUFFER_BYTES / 1000 {
                file.append(&vec![piece as u8; 1000]);
                expected.extend(vec![piece as u8; 1000]);
                assert_eq!(file.position(), expected.len() as u64);
            }
            assert!(file.full.len() > 2 && file.is_large());
            file.flush_if_large().await.unwrap();
            assert!(file.full.is_empty() && !file.is_large());
            file.append(b"end");
            expected.extend(b"end");
            let mut checksums = PageChecksums::default();
            checksums.add(&expected);
            let written = file.finish().await.unwrap();
            assert_eq!(written.length, expected.len() as u64);
            assert_eq!(written.pages, checksums.finish());
            assert_eq!(&file_system.read(path).await.unwrap()[..], &expected[..]);
        });
    }

    #[test]
    fn a_sync_that_fails_is_an_error_of_the_whole() {
        block_on(async {
            // A durable file is synced three times while it is written, and once at its end.
            // Another file is never synced.
            for (is_durable, syncs) in [(true, 4), (false, 0)] {
                for nth in 0..=syncs {
                    let file_system = FileSystem::simulated(nth);
                    let disk = file_system.simulated_disk().unwrap();
                    disk.inject(Fault::nth(Operation::Sync, nth, Effect::InputOutput));
                    let has_failed = write(&file_system, is_durable).await.is_err();
                    assert_eq!(has_failed, nth < syncs, "{is_durable}, {nth}");
                }
            }
        });
    }
}
