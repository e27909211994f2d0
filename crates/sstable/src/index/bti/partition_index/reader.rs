//! Reads Partitions.db: one key, or keys in order.

use espalier_trie::page::{Cursor, Descent, Node, PageSource, PrefixSearch, Walker, read_bytes};

use super::super::error::{IndexError, MalformedIndex};
use super::layout::{
    COMPONENT, Candidate, FOOTER_SIZE, FixedFooter, Footer, IndexPosition, decode_payload,
};

/// An opened partition index. Holds the footer, no pages.
#[derive(Clone, Debug)]
pub struct PartitionIndexReader<S> {
    source: S,
    footer: Footer,
}

type Result<T, S> = std::result::Result<T, IndexError<<S as PageSource>::Error>>;

impl<S: PageSource> PartitionIndexReader<S> {
    /// Opens the index in a file of `file_size` bytes. Reads its last page, or as many as the first
    /// and the last key take.
    pub async fn open(source: S, file_size: u64) -> Result<PartitionIndexReader<S>, S> {
        let short = |position| MalformedIndex {
            component: COMPONENT,
            position,
            reason: "the file ends before its footer does",
        };
        let position = file_size.checked_sub(FOOTER_SIZE as u64).ok_or(short(0))?;
        let mut bytes = Vec::new();
        let wrap = IndexError::of(COMPONENT);
        read_bytes(&source, position, FOOTER_SIZE, &mut bytes).await.map_err(&wrap)?;
        let fixed = bytes.as_slice().try_into().map_err(|_| short(position))?;
        let fixed = FixedFooter::decode(fixed, file_size)?;
        bytes.clear();
        let keys_size = (position - fixed.first_key_position) as usize;
        read_bytes(&source, fixed.first_key_position, keys_size, &mut bytes)
            .await
            .map_err(&wrap)?;
        let footer = fixed.with_keys(&bytes)?;
        Ok(PartitionIndexReader { source, footer })
    }

    /// First and last key, number of keys, and root.
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// Where the pages come from.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Where the partition with this key would be, if it is in the SSTable; none if it is not for
    /// certain. `byte_comparable` is the decorated key's whole byte-comparable form, `hash_byte` the
    /// low byte of the second half of its hash. The key found there must be compared.
    pub async fn exact_candidate(
        &self,
        byte_comparable: &[u8],
        hash_byte: u8,
    ) -> Result<Option<IndexPosition>, S> {
        let mut walker = Walker::new(&self.source);
        self.exact_candidate_by(&mut walker, byte_comparable, hash_byte).await
    }

    /// The same with pages from elsewhere.
    pub async fn exact_candidate_from<T: PageSource>(
        &self,
        source: &T,
        byte_comparable: &[u8],
        hash_byte: u8,
    ) -> Result<Option<IndexPosition>, T> {
        let wrap = IndexError::of(COMPONENT);
        let mut walker = Walker::new(source);
        let found = walker.prefix(self.footer.root, byte_comparable).await.map_err(&wrap)?;
        let Some(position) = found else { return Ok(None) };
        let candidate = decode_payload(&walker.node(position).await.map_err(&wrap)?)?;
        Ok(candidate.position_if(hash_byte))
    }

    /// The same index with pages from elsewhere.
    pub fn with_source<T>(&self, source: T) -> PartitionIndexReader<T> {
        PartitionIndexReader { source, footer: self.footer.clone() }
    }

    /// As [`PartitionIndexReader::exact_candidate`], with a walker that the caller keeps (to count
    /// pages, or for keys that lie near one another).
    pub async fn exact_candidate_by(
        &self,
        walker: &mut Walker<&S>,
        byte_comparable: &[u8],
        hash_byte: u8,
    ) -> Result<Option<IndexPosition>, S> {
        let wrap = IndexError::of(COMPONENT);
        let found = walker.prefix(self.footer.root, byte_comparable).await.map_err(&wrap)?;
        let Some(position) = found else { return Ok(None) };
        let candidate = decode_payload(&walker.node(position).await.map_err(&wrap)?)?;
        Ok(candidate.position_if(hash_byte))
    }

    /// The same where all pages are at hand: `page` gives them by number, or none if it cannot. Then, and where the index is
    /// malformed, there is no answer, and `search` stands where it stopped.
    #[inline]
    pub fn candidate_at_hand<'p>(
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

    /// The same, with what the index reads from.
    pub fn into_cursor(self) -> PartitionCursor<S> {
        PartitionCursor {
            cursor: Cursor::new(self.source, self.footer.root),
            key_count: self.footer.key_count,
            steps: 0,
        }
    }

    /// A cursor that stands nowhere.
    pub fn cursor(&self) -> PartitionCursor<&S> {
        PartitionCursor {
            cursor: Cursor::new(&self.source, self.footer.root),
            key_count: self.footer.key_count,
            steps: 0,
        }
    }
}

/// Walks the partitions in order, in either direction. Holds one page and the way to the current key.
///
/// All moves return the partition stood on then, or none if there is none; a cursor that stands
/// nowhere is moved by `first`, `last` and the seeks only.
pub struct PartitionCursor<S: PageSource> {
    cursor: Cursor<S>,
    key_count: u64,
    /// Steps forward since the last seek, less those backward.
    steps: i64,
}

impl<S: PageSource> PartitionCursor<S> {
    /// To the first partition.
    pub async fn first(&mut self) -> Result<Option<Candidate>, S> {
        self.steps = 0;
        self.cursor.first().await.map_err(IndexError::of(COMPONENT))?;
        self.current().await
    }

    /// To the last partition.
    pub async fn last(&mut self) -> Result<Option<Candidate>, S> {
        self.steps = 0;
        self.cursor.last().await.map_err(IndexError::of(COMPONENT))?;
        self.current().await
    }

    /// To the first partition at or above a bound (a decorated key's byte-comparable form, or a token
    /// with a terminator), or to the one before it: where a stored prefix is all that is known, the
    /// real key must be compared, and if it is below the bound, `next` is the answer.
    pub async fn seek_ceiling(&mut self, byte_comparable: &[u8]) -> Result<Option<Candidate>, S> {
        self.steps = 0;
        let moved = self.cursor.seek_prefix_or_ceiling(byte_comparable).await;
        moved.map_err(IndexError::of(COMPONENT))?;
        self.current().await
    }

    /// To the last partition at or below a bound, or to the one after it: the real key must be
    /// compared, and if it is above the bound, `previous` is the answer.
    pub async fn seek_floor(&mut self, byte_comparable: &[u8]) -> Result<Option<Candidate>, S> {
        self.steps = 0;
        let moved = self.cursor.seek_floor(byte_comparable).await;
        moved.map_err(IndexError::of(COMPONENT))?;
        self.current().await
    }

    /// To the next partition.
    pub async fn next(&mut self) -> Result<Option<Candidate>, S> {
        self.cursor.next().await.map_err(IndexError::of(COMPONENT))?;
        self.count(1)?;
        self.current().await
    }

    /// To the previous partition.
    pub async fn previous(&mut self) -> Result<Option<Candidate>, S> {
        self.cursor.previous().await.map_err(IndexError::of(COMPONENT))?;
        self.count(-1)?;
        self.current().await
    }

    /// The current partition.
    pub async fn current(&mut self) -> Result<Option<Candidate>, S> {
        match self.cursor.node().await.map_err(IndexError::of(COMPONENT))? {
            Some(node) => Ok(Some(decode_payload(&node)?)),
            None => Ok(None),
        }
    }

    /// The stored prefix of the current partition's byte-comparable key. Where it has the length for
    /// it, bytes 1 to 9 are the token.
    pub fn prefix(&self) -> &[u8] {
        self.cursor.key()
    }

    /// Pages asked for so far.
    pub fn pages_touched(&self) -> u64 {
        self.cursor.pages_touched()
    }

    /// A hostile trie, whose branches share nodes, may spell more keys than anyone can walk.
    fn count(&mut self, step: i64) -> std::result::Result<(), MalformedIndex> {
        self.steps += step;
        match self.cursor.position() {
            Some(position) if self.steps.unsigned_abs() >= self.key_count => Err(MalformedIndex {
                component: COMPONENT,
                position,
                reason: "the trie has more keys than the footer counts",
            }),
            _ => Ok(()),
        }
    }
}
