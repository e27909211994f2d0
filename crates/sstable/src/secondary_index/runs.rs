//! Sorts the entries of an index that do not fit in memory.
//!
//! 1. The owner adds sorted runs of entries, each as large as the owner's memory allows. The runs
//!    are written to a file beside the component, in blocks of the same format.
//! 2. [`IndexRuns::merge_into`] reads all runs at once, merges them into the component, and removes
//!    the file.
//!
//! After a crash, the file is removed with the files of its unsealed SSTable, whose name it has.
//!
//! Memory: one block and the buffer of the file while runs are written. While they are merged:
//! [`MAX_AHEAD_BYTES`], and a block and a page for each run.

use std::{cmp::Ordering, ops::Range, path::PathBuf};

use bytes::Bytes;
use espalier_runtime::{
    file::{File, FileSystem},
    maybe_yield,
};
use espalier_trie::page::PAGE_SIZE;

use super::{
    block::{BlockCursor, Fault, block_bytes, pages_of},
    block_writer::BlockWriter,
    writer::SecondaryIndexWriter,
};
use crate::{
    append_file::AppendFile,
    checksums::FileChecksums,
    components::{Component, Descriptor},
    error::{FileName, Result, SSTableError},
};

/// Maximum number of bytes that a merge reads ahead in all runs together (arbitrary).
const MAX_AHEAD_BYTES: usize = 8 << 20;
/// Maximum number of pages that a merge reads ahead in one run (arbitrary).
const MAX_AHEAD_PAGES: usize = 16;

/// Sorted runs of entries in a file.
pub struct IndexRuns {
    file_system: FileSystem,
    path: PathBuf,
    file: AppendFile,
    blocks: BlockWriter,
    /// The pages of each run.
    runs: Vec<Range<u64>>,
}

impl IndexRuns {
    /// Creates the file.
    ///
    /// # Errors
    /// Fails if the file exists or cannot be created.
    pub async fn create(
        file_system: &FileSystem,
        descriptor: &Descriptor,
        index: &str,
    ) -> Result<Self> {
        let path = descriptor.path(&Component::Other(format!("SecondaryIndex_{index}.runs")));
        let file = AppendFile::create(file_system, &path, false).await?;
        let (file_system, blocks) = (file_system.clone(), BlockWriter::default());
        Ok(Self { file_system, path, file, blocks, runs: Vec::new() })
    }

    /// Adds an entry, which must be above the last one of its run. The caller must call
    /// [`make_room`](Self::make_room) regularly.
    ///
    /// # Errors
    /// Fails if the entry is out of order, malformed or too long.
    pub fn add(&mut self, entry: &[u8]) -> Result<()> {
        match self.blocks.add(&mut self.file, entry) {
            Ok(_) => Ok(()),
            Err(reason) => Err(SSTableError::rejected(self.file.name(), reason)),
        }
    }

    /// Writes the buffered bytes once there are many.
    ///
    /// # Errors
    /// Fails if the write fails.
    pub async fn make_room(&mut self) -> Result<()> {
        self.file.flush_if_large().await
    }

    /// Ends a run: the next entry may be below the last one.
    pub fn end_run(&mut self) {
        let start = self.runs.last().map_or(0, |run| run.end);
        self.blocks.end_run(&mut self.file);
        if self.blocks.pages() > start {
            self.runs.push(start..self.blocks.pages());
        }
    }

    /// Adds the entries of all runs to the component, each once, and removes the file.
    ///
    /// # Errors
    /// Fails if the file cannot be written, read or removed, if a block in it is damaged, or if the
    /// writer of the component fails.
    pub async fn merge_into(mut self, writer: &mut SecondaryIndexWriter) -> Result<()> {
        self.end_run();
        let Self { file_system, path, file, runs, .. } = self;
        let name = file.name().clone();
        let written = file.finish().await?;
        let checksums = FileChecksums { length: written.length, pages: written.pages.into() };
        let file = file_system.open_read(&path).await?;
        let ahead = MAX_AHEAD_BYTES / PAGE_SIZE / runs.len().max(1);
        let source = Source { file, name, checksums, ahead: ahead.clamp(1, MAX_AHEAD_PAGES) };
        let mut merge = Merge::open(source, runs).await?;
        let mut last = Vec::new();
        while let Some(entry) = merge.entry() {
            // Rows of one partition may have put the same entry into several runs.
            if entry != last {
                writer.add(entry)?;
                writer.make_room().await?;
                last.clear();
                last.extend_from_slice(entry);
            }
            merge.next().await?;
            maybe_yield().await;
        }
        drop(merge);
        Ok(file_system.remove_file(&path).await?)
    }
}

/// The file of the runs.
struct Source {
    file: File,
    name: FileName,
    checksums: FileChecksums,
    /// Pages that are read at a time.
    ahead: usize,
}

impl Source {
    fn corrupt(&self, page: u64, fault: Fault) -> SSTableError {
        SSTableError::corrupt(&self.name, page.saturating_mul(PAGE_SIZE as u64), fault)
    }
}

/// A run that is being read.
#[derive(Default)]
struct Run {
    block: BlockCursor,
    /// The pages behind the present block.
    pages: Range<u64>,
    /// The bytes of some pages, and the number of the first one.
    ahead: Bytes,
    ahead_page: u64,
}

impl Run {
    /// Moves to the next entry. Returns whether there is one.
    async fn next(&mut self, source: &Source) -> Result<bool> {
        let page = self.pages.start;
        Ok(self.block.step().map_err(|fault| source.corrupt(page, fault))?
            || self.enter_next(source).await?)
    }

    /// Enters the next block. Returns whether there is one.
    async fn enter_next(&mut self, source: &Source) -> Result<bool> {
        let page = self.pages.start;
        if self.pages.is_empty() {
            return Ok(false);
        }
        let corrupt = |fault| source.corrupt(page, fault);
        let first = self.read(source, PAGE_SIZE).await?;
        let bytes = block_bytes(&first).map_err(corrupt)?;
        let block = self.read(source, bytes).await?;
        self.block.enter(block).map_err(corrupt)?;
        self.pages.start = page.saturating_add(pages_of(bytes));
        Ok(true)
    }

    /// Reads the first `bytes` bytes of the pages behind the present block.
    async fn read(&mut self, source: &Source, bytes: usize) -> Result<Bytes> {
        let page = self.pages.start;
        let left = self.pages.end.saturating_sub(page);
        if pages_of(bytes) > left {
            return Err(source.corrupt(page, "a block ends behind its run"));
        }
        let within = |ahead: &Bytes, first: u64| {
            let start = page.checked_sub(first)? as usize * PAGE_SIZE;
            (start + bytes <= ahead.len()).then(|| ahead.slice(start..start + bytes))
        };
        if let Some(found) = within(&self.ahead, self.ahead_page) {
            return Ok(found);
        }
        let pages = pages_of(bytes).max(left.min(source.ahead as u64));
        let (offset, length) = (page * PAGE_SIZE as u64, pages as usize * PAGE_SIZE);
        let read = source.file.read_exact_at(offset, length).await?;
        source.checksums.check_pages(&source.name, page, &read)?;
        (self.ahead, self.ahead_page) = (read.into_bytes(), page);
        within(&self.ahead, page).ok_or_else(|| source.corrupt(page, "a block is cut"))
    }
}

/// The entries of all runs in order.
struct Merge {
    source: Source,
    runs: Vec<Run>,
    /// Indexes of the runs that have not ended, as a binary heap: the least entry is first.
    heap: Vec<usize>,
}

impl Merge {
    async fn open(source: Source, pages: Vec<Range<u64>>) -> Result<Self> {
        let mut runs = Vec::with_capacity(pages.len());
        for pages in pages {
            let mut run = Run { pages, ..Run::default() };
            if run.enter_next(&source).await? {
                runs.push(run);
            }
        }
        let heap = (0..runs.len()).collect();
        let mut this = Self { source, runs, heap };
        (0..this.heap.len() / 2).rev().for_each(|at| this.sift_down(at));
        Ok(this)
    }

    fn entry(&self) -> Option<&[u8]> {
        self.heap.first().map(|run| self.runs[*run].block.entry())
    }

    async fn next(&mut self) -> Result<()> {
        let Some(run) = self.heap.first() else { return Ok(()) };
        if !self.runs[*run].next(&self.source).await? {
            self.heap.swap_remove(0);
        }
        self.sift_down(0);
        Ok(())
    }

    /// Restores the order of the heap, in which only element `at` may be too near the top.
    fn sift_down(&mut self, mut at: usize) {
        loop {
            let children = (2 * at + 1..self.heap.len()).take(2);
            let Some(least) = children.min_by(|one, other| self.compare(*one, *other)) else {
                return;
            };
            if self.compare(at, least).is_le() {
                return;
            }
            self.heap.swap(at, least);
            at = least;
        }
    }

    fn compare(&self, one: usize, other: usize) -> Ordering {
        let entry = |at: usize| self.runs[self.heap[at]].block.entry();
        entry(one).cmp(entry(other))
    }
}
