//! This module computes the checksums of pages while a file is written from front to back, and
//! verifies a page that a reader has read.

use espalier_runtime::file::PAGE_BYTES;

use crate::error::{FileName, Result, SSTableError};

/// The checksums of the pages of a growing file.
#[derive(Default)]
pub(crate) struct PageChecksums {
    pages: Vec<u32>,
    /// Checksum of the last page, while it is not full.
    open: crc32fast::Hasher,
    open_bytes: usize,
    /// The first page. It is kept because its beginning may be rewritten.
    first_page: Vec<u8>,
}

impl PageChecksums {
    /// Appends bytes.
    pub(crate) fn add(&mut self, mut bytes: &[u8]) {
        let missing = PAGE_BYTES - self.first_page.len();
        self.first_page.extend_from_slice(&bytes[..missing.min(bytes.len())]);
        while !bytes.is_empty() {
            let room = PAGE_BYTES - self.open_bytes;
            let (part, rest) = bytes.split_at(room.min(bytes.len()));
            self.open.update(part);
            self.open_bytes += part.len();
            if self.open_bytes == PAGE_BYTES {
                self.close_page();
            }
            bytes = rest;
        }
    }

    fn close_page(&mut self) {
        self.pages.push(std::mem::take(&mut self.open).finalize());
        self.open_bytes = 0;
    }

    /// Overwrites the beginning of the file. `bytes` must fit in a page and in the file.
    pub(crate) fn rewrite_start(&mut self, bytes: &[u8]) {
        if let Some(start) = self.first_page.get_mut(..bytes.len()) {
            start.copy_from_slice(bytes);
        }
        let mut first = crc32fast::Hasher::new();
        first.update(&self.first_page);
        match self.pages.first_mut() {
            Some(page) => *page = first.finalize(),
            None => self.open = first,
        }
    }

    /// Returns a checksum for each page.
    pub(crate) fn finish(mut self) -> Vec<u32> {
        if self.open_bytes > 0 {
            self.close_page();
        }
        self.pages
    }

    /// Returns the checksums of the pages of a file in memory.
    pub(crate) fn of(bytes: &[u8]) -> Vec<u32> {
        bytes.chunks(PAGE_BYTES).map(crc32fast::hash).collect()
    }
}

/// Returns the checksum of a whole file of `length` bytes, computed from the checksums of its
/// pages.
pub(crate) fn combine(pages: &[u32], length: u64) -> u32 {
    let mut whole = crc32fast::Hasher::new();
    let mut rest = length;
    for page in pages {
        let length = rest.min(PAGE_BYTES as u64);
        whole.combine(&crc32fast::Hasher::new_with_initial_len(*page, length));
        rest -= length;
    }
    whole.finalize()
}

/// Verifies the checksum of a page.
pub(crate) fn check_page(name: &FileName, number: u64, page: &[u8], expected: u32) -> Result<()> {
    let found = crc32fast::hash(page);
    if found == expected {
        return Ok(());
    }
    let offset = number.saturating_mul(PAGE_BYTES as u64);
    let reason =
        format!("the page there has the checksum {found:08x}; Checksums.db says {expected:08x}");
    Err(SSTableError::corrupt(name, offset, reason))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_make_the_checksums_of_the_whole(
            pieces in prop::collection::vec((any::<u8>(), 1usize..6000), 1..12),
            start in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let (mut whole, mut checksums) = (Vec::new(), PageChecksums::default());
            for (byte, length) in pieces {
                let piece: Vec<u8> = (0..length).map(|i| byte.wrapping_add(i as u8)).collect();
                checksums.add(&piece);
                whole.extend(piece);
            }
            if start.len() <= whole.len() {
                checksums.rewrite_start(&start);
                whole[..start.len()].copy_from_slice(&start);
            }
            checksums.add(b"more");
            whole.extend(b"more");
            let pages = checksums.finish();
            prop_assert_eq!(combine(&pages, whole.len() as u64), crc32fast::hash(&whole));
            prop_assert_eq!(pages, PageChecksums::of(&whole));
        }
    }
}
