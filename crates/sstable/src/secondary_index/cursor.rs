//! Iterates over the entries of a component, through the page cache.

use espalier_trie::page::{PAGE_SIZE, ReadError, Walker, read_bytes};

use super::{
    block::{BlockCursor, Fault, block_bytes, pages_of},
    layout::Description,
};
use crate::{
    error::{Result, SSTableError},
    page_cache::CachedFile,
};

/// A cursor over the entries of one component, in ascending order. At first it stands at no entry.
///
/// It holds one page of the trie and one block. A move within the block allocates nothing.
pub struct EntryCursor {
    /// Reads the trie; its source reads the blocks as well.
    walker: Walker<CachedFile>,
    /// The position of the root of the trie; 0 if there is no trie.
    root: u64,
    /// The number of pages of all blocks.
    pages: u64,
    block: BlockCursor,
    /// The first page of the block, and the page behind it.
    page: u64,
    next_page: u64,
    is_there: bool,
}

impl EntryCursor {
    pub(super) fn new(file: CachedFile, description: &Description) -> Self {
        Self {
            walker: Walker::new(file),
            root: description.root,
            pages: description.pages,
            block: BlockCursor::default(),
            page: 0,
            next_page: 0,
            is_there: false,
        }
    }

    /// Returns the present entry.
    #[inline]
    pub fn entry(&self) -> &[u8] {
        self.block.entry()
    }

    /// Moves to the least entry that is not below `entry`. Returns whether there is one. The move
    /// is fast if this entry is one of the next ones.
    ///
    /// # Errors
    /// Fails if a page cannot be read or is damaged. The cursor then stands at no entry.
    pub async fn seek(&mut self, entry: &[u8]) -> Result<bool> {
        if self.is_there && self.block.entry() <= entry {
            self.is_there = false;
            let found = self.block.seek_ahead(entry);
            self.is_there = found.map_err(|fault| self.corrupt(fault))?;
            if self.is_there {
                return Ok(true);
            }
        }
        self.is_there = false;
        if self.pages == 0 {
            return Ok(false);
        }
        self.next_page = self.page_of(entry).await?;
        while self.next_page < self.pages {
            self.enter_next().await?;
            if self.block.seek(entry).map_err(|fault| self.corrupt(fault))? {
                self.is_there = true;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Moves to the next entry. Returns whether there is one.
    ///
    /// # Errors
    /// Fails if a page cannot be read or is damaged. The cursor then stands at no entry.
    pub async fn next(&mut self) -> Result<bool> {
        if !std::mem::take(&mut self.is_there) {
            return Ok(false);
        }
        if !self.block.step().map_err(|fault| self.corrupt(fault))? {
            if self.next_page >= self.pages {
                return Ok(false);
            }
            self.enter_next().await?;
            self.block.check_order().map_err(|fault| self.corrupt(fault))?;
        }
        self.is_there = true;
        Ok(true)
    }

    /// Returns the first page of the last block whose first entry may be `entry` or below it.
    async fn page_of(&mut self, entry: &[u8]) -> Result<u64> {
        if self.root == 0 {
            return Ok(0);
        }
        let found = self.walker.floor(self.root, entry).await;
        let Some(position) = found.map_err(|error| self.trie_error(error))? else { return Ok(0) };
        let node = self.walker.node(position).await;
        // The number borrows nothing of the walker, which the errors below need.
        let page = node.map(|node| {
            let bytes = node.payload().get(..usize::from(node.payload_bits()));
            bytes.unwrap_or_default().iter().fold(0_u64, |page, byte| page << 8 | u64::from(*byte))
        });
        match page {
            Ok(page) if page < self.pages => Ok(page),
            Ok(_) => {
                let name = self.walker.source().name();
                Err(SSTableError::corrupt(name, position, "a block lies behind the last one"))
            }
            Err(error) => Err(self.trie_error(error)),
        }
    }

    /// Enters the block that begins with the next page.
    async fn enter_next(&mut self) -> Result<()> {
        self.page = self.next_page;
        let file = self.walker.source();
        let mut block = file.page(self.page).await?;
        let bytes = block_bytes(&block).map_err(|fault| self.corrupt(fault))?;
        self.next_page = self.page.saturating_add(pages_of(bytes));
        if self.next_page > self.pages {
            return Err(self.corrupt("a block ends behind the last one"));
        }
        if bytes > PAGE_SIZE {
            let mut whole = Vec::new();
            let read = read_bytes(file, self.position(), bytes, &mut whole).await;
            read.map_err(|error| self.trie_error(error))?;
            block = whole.into();
        }
        self.block.enter(block).map_err(|fault| self.corrupt(fault))
    }

    /// Returns the position of the block.
    fn position(&self) -> u64 {
        self.page.saturating_mul(PAGE_SIZE as u64)
    }

    fn corrupt(&self, fault: Fault) -> SSTableError {
        SSTableError::corrupt(self.walker.source().name(), self.position(), fault)
    }

    fn trie_error(&self, error: ReadError<SSTableError>) -> SSTableError {
        SSTableError::index(self.walker.source().name(), error.into())
    }
}
