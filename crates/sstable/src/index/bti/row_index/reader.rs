//! This module reads Rows.db: the block for a position, or blocks in order.
//!
//! Callers pass positions in byte-comparable form with the terminator of their kind, so that
//! positions and separators compare as byte strings. The block of a position is the block of the
//! greatest separator that is at or below the position.

use espalier_mutation::DeletionTime;
use espalier_trie::page::{
    Cursor, Descent, FloorSearch, Node, PAGE_SIZE, PageSource, Walker, read_bytes,
};

use super::super::error::{IndexError, MalformedIndex};
use super::layout::{BlockStart, MAX_ENTRY_TAIL_SIZE, RowIndexEntry, decode_block};

type Result<T, S> = std::result::Result<T, IndexError<<S as PageSource>::Error>>;

/// A block of rows and markers. Offsets are in bytes from the start of the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Offset of its first byte.
    pub start: u64,
    /// Offset after its last byte: the start of the next block, or the end-of-partition byte.
    pub end: u64,
    /// The range deletion that is open at the start of the block, or [`DeletionTime::LIVE`].
    pub open_deletion: DeletionTime,
}

/// The block that [`cached_block`] has found for a position, with the facts of its partition.
#[derive(Clone, Copy, Debug)]
pub struct CachedBlock {
    /// Position of the partition in Data.db.
    pub data_position: u64,
    /// Deletion of the whole partition.
    pub partition_deletion: DeletionTime,
    /// Start of the block in which the position would be.
    pub block: BlockStart,
}

/// Finds the block of a position with cached pages only. Does what [`RowIndexReader::open`] and
/// [`RowIndexReader::floor_block`] do together. `entry` is the position of the partition's entry.
/// `page` returns a page by its number, or `None` if it is not cached. `buffer` is scratch memory
/// for the entry.
///
/// The result is `None` if a page is not cached or the index is malformed, and `Some(None)` if the
/// entry has another key than `key`.
#[inline]
pub fn cached_block<'p>(
    page: impl Fn(u64) -> Option<&'p [u8]>,
    entry: u64,
    key: &[u8],
    position: &[u8],
    buffer: &mut Vec<u8>,
) -> Option<Option<CachedBlock>> {
    buffer.clear();
    let wanted = 2 + key.len() + MAX_ENTRY_TAIL_SIZE;
    let mut at = entry;
    while buffer.len() < wanted {
        let bytes = page(at / PAGE_SIZE as u64)?;
        let rest = bytes.get((at % PAGE_SIZE as u64) as usize..).unwrap_or_default();
        let part = rest.get(..wanted - buffer.len()).unwrap_or(rest);
        buffer.extend_from_slice(part);
        at = at.checked_add(part.len() as u64)?;
        if part.is_empty() || bytes.len() < PAGE_SIZE {
            break;
        }
    }
    let entry = RowIndexEntry::decode(buffer, entry).ok()?;
    if entry.key != key {
        return Some(None);
    }
    let mut search = FloorSearch::new(entry.root, position);
    loop {
        let page = page(search.page_number())?;
        match search.advance(page).ok()? {
            Descent::Page(_) => {}
            Descent::Nothing => return None,
            Descent::Payload(node) => {
                let block = decode_block(&Node::at(page, node).ok()?).ok()?;
                let RowIndexEntry { data_position, partition_deletion, .. } = entry;
                return Some(Some(CachedBlock { data_position, partition_deletion, block }));
            }
        }
    }
}

/// A reader of the row index of one partition. It holds the entry and no pages.
#[derive(Clone, Debug)]
pub struct RowIndexReader<S> {
    source: S,
    entry: RowIndexEntry,
}

impl<S: PageSource> RowIndexReader<S> {
    /// Reads the entry at `position`, which Partitions.db names.
    ///
    /// # Errors
    /// Returns [`IndexError`] if the entry is malformed, or if a page cannot be read.
    pub async fn open(source: S, position: u64) -> Result<RowIndexReader<S>, S> {
        let mut bytes = Vec::new();
        read_bytes(&source, position, 2, &mut bytes).await?;
        if let [high, low] = bytes[..] {
            let length = usize::from(u16::from_be_bytes([high, low])) + MAX_ENTRY_TAIL_SIZE;
            let rest = position.saturating_add(2);
            read_bytes(&source, rest, length, &mut bytes).await?;
        }
        let entry = RowIndexEntry::decode(&bytes, position)?.into_owned();
        Ok(RowIndexReader { source, entry })
    }

    /// Returns the entry: key, position in Data.db, number of blocks, and deletion.
    pub fn entry(&self) -> &RowIndexEntry {
        &self.entry
    }

    /// Returns the source of the pages.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Returns the start of the block in which `position` would be: all rows before the block are
    /// below `position`. For a position after the last row, the result is the last block or the end
    /// of the partition.
    ///
    /// # Errors
    /// Returns [`IndexError`] if the index is malformed, or if a page cannot be read.
    pub async fn floor_block(&self, position: &[u8]) -> Result<BlockStart, S> {
        let mut walker = Walker::new(&self.source);
        let found = walker.floor(self.entry.root, position).await?;
        let node = found.ok_or(self.malformed("no separator is below a position"))?;
        Ok(decode_block(&walker.node(node).await?)?)
    }

    /// Returns the offset after the block in which `position` would be. All rows from this offset
    /// on are above `position`.
    ///
    /// # Errors
    /// Returns [`IndexError`] if the index is malformed, or if a page cannot be read.
    pub async fn end_offset(&self, position: &[u8]) -> Result<u64, S> {
        let mut walker = Walker::new(&self.source);
        let node = match walker.higher(self.entry.root, position).await? {
            Some(node) => node,
            None => walker.maximum(self.entry.root).await?,
        };
        Ok(decode_block(&walker.node(node).await?)?.offset)
    }

    /// Returns the blocks in order, beginning with the block in which `from` would be, or with the
    /// first one.
    ///
    /// # Errors
    /// Returns [`IndexError`] if the index is malformed, or if a page cannot be read.
    pub async fn forward(&self, from: Option<&[u8]>) -> Result<ForwardBlocks<'_, S>, S> {
        let mut cursor = self.cursor();
        match from {
            Some(position) => cursor.seek_floor(position).await?,
            None => cursor.first().await?,
        };
        let start = block_at(&mut cursor).await?;
        if start.is_none() {
            return Err(self.malformed("no separator is below a position").into());
        }
        Ok(ForwardBlocks { cursor, bounds: self.bounds(), start })
    }

    /// Returns the blocks in reverse order, beginning with the block in which `to` would be, or
    /// with the last one.
    ///
    /// # Errors
    /// Returns [`IndexError`] if the index is malformed, or if a page cannot be read.
    pub async fn backward(&self, to: Option<&[u8]>) -> Result<BackwardBlocks<'_, S>, S> {
        let mut cursor = self.cursor();
        let found = match to {
            Some(position) => cursor.seek_higher(position).await?,
            None => false,
        };
        if !found {
            cursor.last().await?;
        }
        let end = block_at(&mut cursor).await?;
        let end = end.ok_or(self.malformed("the trie has no separator"))?.offset;
        Ok(BackwardBlocks { cursor, bounds: self.bounds(), end })
    }

    fn cursor(&self) -> Cursor<&S> {
        Cursor::new(&self.source, self.entry.root)
    }

    fn bounds(&self) -> Bounds {
        Bounds { root: self.entry.root, blocks_left: self.entry.block_count }
    }

    fn malformed(&self, reason: &'static str) -> MalformedIndex {
        MalformedIndex { position: self.entry.root, reason }
    }
}

/// Checks the blocks of an iteration. An empty block is an error, and so are more blocks than the
/// entry counts, because a hostile trie can encode more blocks than a walk could ever finish.
struct Bounds {
    root: u64,
    blocks_left: u64,
}

impl Bounds {
    fn check(&mut self, block: Block) -> std::result::Result<Block, MalformedIndex> {
        let reason = match self.blocks_left.checked_sub(1) {
            None => "the trie has more blocks than the entry counts",
            Some(_) if block.start >= block.end => "offsets of blocks do not increase",
            Some(left) => {
                self.blocks_left = left;
                return Ok(block);
            }
        };
        Err(MalformedIndex { position: self.root, reason })
    }
}

/// An iterator over blocks in order.
pub struct ForwardBlocks<'index, S: PageSource> {
    cursor: Cursor<&'index S>,
    bounds: Bounds,
    /// The start of the next block, or the end of the last block if no block follows. The cursor
    /// stands at the separator with this offset. `None` if the iteration has ended.
    start: Option<BlockStart>,
}

impl<S: PageSource> ForwardBlocks<'_, S> {
    /// Returns the next block, or `None` after the last one.
    ///
    /// # Errors
    /// Returns [`IndexError`] if the index is malformed, or if a page cannot be read.
    pub async fn next(&mut self) -> Result<Option<Block>, S> {
        let Some(BlockStart { offset: start, open_deletion }) = self.start.take() else {
            return Ok(None);
        };
        self.cursor.next().await?;
        // The last separator begins no block.
        let Some(next) = block_at(&mut self.cursor).await? else { return Ok(None) };
        self.start = Some(next);
        let block = Block { start, end: next.offset, open_deletion };
        Ok(Some(self.bounds.check(block)?))
    }
}

/// An iterator over blocks in reverse order.
pub struct BackwardBlocks<'index, S: PageSource> {
    cursor: Cursor<&'index S>,
    bounds: Bounds,
    /// The end of the block that `next` returns: the offset of the current separator.
    end: u64,
}

impl<S: PageSource> BackwardBlocks<'_, S> {
    /// Returns the next block in reverse order, or `None` after the partition's first block.
    ///
    /// # Errors
    /// Returns [`IndexError`] if the index is malformed, or if a page cannot be read.
    pub async fn next(&mut self) -> Result<Option<Block>, S> {
        self.cursor.previous().await?;
        let Some(block) = block_at(&mut self.cursor).await? else { return Ok(None) };
        let BlockStart { offset: start, open_deletion } = block;
        let end = std::mem::replace(&mut self.end, start);
        Ok(Some(self.bounds.check(Block { start, end, open_deletion })?))
    }
}

/// Returns the block of the separator at which the cursor stands.
async fn block_at<S: PageSource>(cursor: &mut Cursor<S>) -> Result<Option<BlockStart>, S> {
    let node = cursor.node().await?;
    Ok(node.map(|node| decode_block(&node)).transpose()?)
}
