//! This module reads Partitions.db: one key, or keys in order.

use espalier_trie::page::{Cursor, Descent, Node, PageSource, PrefixSearch, Walker, read_bytes};

use super::super::error::{IndexError, MalformedIndex};
use super::layout::{Candidate, FOOTER_SIZE, FixedFooter, Footer, IndexPosition, decode_payload};

/// An open partition index. It holds the footer and no pages.
#[derive(Clone, Debug)]
pub struct PartitionIndexReader<S> {
    source: S,
    footer: Footer,
}

type Result<T, S> = std::result::Result<T, IndexError<<S as PageSource>::Error>>;

impl<S: PageSource> PartitionIndexReader<S> {
    /// Opens the index in a file of `file_size` bytes. Reads its last page, or as many pages as the
    /// first and the last key take.
    ///
    /// # Errors
    /// Returns [`IndexError`] if the footer is malformed, or if a page cannot be read.
    pub async fn open(source: S, file_size: u64) -> Result<PartitionIndexReader<S>, S> {
        let short =
            |position| MalformedIndex { position, reason: "the file ends before its footer does" };
        let position = file_size.checked_sub(FOOTER_SIZE as u64).ok_or(short(0))?;
        let mut bytes = Vec::new();
        read_bytes(&source, position, FOOTER_SIZE, &mut bytes).await?;
        let fixed = bytes.as_slice().try_into().map_err(|_| short(position))?;
        let fixed = FixedFooter::decode(fixed, file_size)?;
        bytes.clear();
        let keys_size = (position - fixed.first_key_position) as usize;
        read_bytes(&source, fixed.first_key_position, keys_size, &mut bytes).await?;
        let footer = fixed.with_keys(&bytes)?;
        Ok(PartitionIndexReader { source, footer })
    }

    /// Returns the footer: first and last key, number of keys, and root.
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// Returns the source of the pages.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Returns the location at which the partition with this key would be. Returns `None` if the
    /// SSTable does not contain the partition. `source` is one reader's handle of the pages.
    /// `byte_comparable` is the whole byte-comparable form of the decorated key, and `hash_byte`
    /// the low byte of the second half of its hash. The caller must compare the key at the
    /// location.
    ///
    /// # Errors
    /// Returns [`IndexError`] if the index is malformed, or if a page cannot be read.
    pub async fn exact_candidate<T: PageSource>(
        &self,
        source: &T,
        byte_comparable: &[u8],
        hash_byte: u8,
    ) -> Result<Option<IndexPosition>, T> {
        let mut walker = Walker::new(source);
        let found = walker.prefix(self.footer.root, byte_comparable).await?;
        let Some(position) = found else { return Ok(None) };
        let candidate = decode_payload(&walker.node(position).await?)?;
        Ok(candidate.position_if(hash_byte))
    }

    /// Works like [`exact_candidate`](Self::exact_candidate), and uses only cached pages. `page`
    /// returns a page by its number, or `None` if it is not cached. The result is `None` if a page
    /// is missing or the index is malformed; `search` remains where it stopped.
    #[inline]
    pub fn cached_candidate<'p>(
        &self,
        page: impl Fn(u64) -> Option<&'p [u8]>,
        search: &mut PrefixSearch<'_>,
        hash_byte: u8,
    ) -> Option<Option<IndexPosition>> {
        loop {
            let page = page(search.page_number())?;
            match search.advance(page).ok()? {
                Descent::Page(_) => {}
                Descent::Nothing => return Some(None),
                Descent::Payload(position) => {
                    let candidate = decode_payload(&Node::at(page, position).ok()?).ok()?;
                    return Some(candidate.position_if(hash_byte));
                }
            }
        }
    }

    /// Creates a cursor without a position. `source` is one reader's handle of the pages.
    pub fn cursor<T: PageSource>(&self, source: T) -> PartitionCursor<T> {
        PartitionCursor {
            cursor: Cursor::new(source, self.footer.root),
            key_count: self.footer.key_count,
            steps: 0,
        }
    }
}

/// A cursor over the partitions in order. It holds one page and the path to the current key.
///
/// Each move returns the partition at the new position, or `None` if there is none. A cursor
/// without a position can only be moved by `first` and the seek. Each move returns [`IndexError`]
/// if the index is malformed, or if a page cannot be read.
pub struct PartitionCursor<S: PageSource> {
    cursor: Cursor<S>,
    key_count: u64,
    /// Number of steps since the first key or the last seek.
    steps: u64,
}

impl<S: PageSource> PartitionCursor<S> {
    /// Moves to the first partition.
    ///
    /// # Errors
    /// Returns [`IndexError`] if the index is malformed, or if a page cannot be read.
    pub async fn first(&mut self) -> Result<Option<Candidate>, S> {
        self.steps = 0;
        self.cursor.first().await?;
        self.current().await
    }

    /// Moves to the first partition at or above a bound, or to the partition before it. A bound is
    /// a decorated key's byte-comparable form, or a token with a terminator. The index may hold
    /// only a prefix of the key, so the caller must compare the real key. If this key is below the
    /// bound, `next` moves to the wanted partition.
    ///
    /// # Errors
    /// Returns [`IndexError`] if the index is malformed, or if a page cannot be read.
    pub async fn seek_ceiling(&mut self, byte_comparable: &[u8]) -> Result<Option<Candidate>, S> {
        self.steps = 0;
        self.cursor.seek_prefix_or_ceiling(byte_comparable).await?;
        self.current().await
    }

    /// Moves to the next partition.
    ///
    /// # Errors
    /// Returns [`IndexError`] if the index is malformed, or if a page cannot be read.
    pub async fn next(&mut self) -> Result<Option<Candidate>, S> {
        self.cursor.next().await?;
        self.count_step()?;
        self.current().await
    }

    /// Returns the current partition.
    ///
    /// # Errors
    /// Returns [`IndexError`] if the index is malformed, or if a page cannot be read.
    pub async fn current(&mut self) -> Result<Option<Candidate>, S> {
        match self.cursor.node().await? {
            Some(node) => Ok(Some(decode_payload(&node)?)),
            None => Ok(None),
        }
    }

    /// Returns the stored prefix of the current partition's byte-comparable key. If it is long
    /// enough, the eight bytes after the first one are the token with its sign bit inverted.
    pub fn prefix(&self) -> &[u8] {
        self.cursor.key()
    }

    /// Counts a step and checks it against the footer. In a hostile trie, branches share nodes and
    /// can encode more keys than a walk could ever finish.
    fn count_step(&mut self) -> std::result::Result<(), MalformedIndex> {
        self.steps += 1;
        match self.cursor.position() {
            Some(position) if self.steps >= self.key_count => Err(MalformedIndex {
                position,
                reason: "the trie has more keys than the footer counts",
            }),
            _ => Ok(()),
        }
    }
}
