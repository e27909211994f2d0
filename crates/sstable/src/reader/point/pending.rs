//! A look-up of one row that goes on page by page.
//!
//! It remembers how far it got, so that pages behind it are neither looked at nor counted as used again, and it holds what it
//! was given of the stage it is in. What goes wrong on the way, it does not tell: the path that waits comes
//! upon the same, and says what and where.
//!
//! Memory: the pages of one stage, no more than the caller's bound on [`PendingRow::fetch_page`].

use std::{
    pin::pin,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use espalier_mutation::{DecoratedKeyRef, murmur3};
use espalier_trie::page::PageSource;
use espalier_types::byte_comparable::{TERMINATOR, encode_ordered_clustering};
use smallvec::SmallVec;

use super::index::Place;
use crate::{
    error::Result,
    index::bti::row_index::RowIndexReader,
    page_cache::{CachedFile, PageKey, PagesAtHand},
    reader::{Index, SSTableReader},
};

/// How often the number of chunks is doubled; what one read takes is bounded elsewhere too.
const MOST_DOUBLED: usize = 8;

/// How far a look-up got.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Begin,
    /// At a node of Partitions.db, with so many bytes of the key left.
    Partitions {
        node: u64,
        rest: usize,
    },
    /// At the beginning of an entry of Rows.db.
    RowIndex(u64),
    /// In Data.db.
    Data(Place),
}

impl Step {
    /// Whether pages that `self` lacked may be wanted in `next` once more.
    fn shares_pages_with(self, next: Step) -> bool {
        match (self, next) {
            (Step::RowIndex(entry), Step::RowIndex(other)) => entry == other,
            (Step::Data(place), Step::Data(other)) => place.position == other.position,
            _ => false,
        }
    }
}

/// A look-up that may lack a page.
#[derive(Debug, Default)]
pub struct PendingRow {
    hash: Option<(u64, u64)>,
    /// The SSTable that it stands in, and where.
    at: Option<(SSTableReader, Step)>,
    lacking: Option<Lacking>,
    pages: SmallVec<[(PageKey, Bytes); 2]>,
    /// In Data.db: up to where more is likely to be wanted.
    wanted_end: u64,
}

#[derive(Clone, Copy, Debug)]
struct Lacking {
    key: PageKey,
    /// Whether the pages that it holds are for nothing any more.
    is_new_stage: bool,
}

impl PendingRow {
    /// The Murmur3 hash of the key, which is always the same one.
    #[inline]
    pub fn hash_of(&mut self, key: DecoratedKeyRef<'_>) -> (u64, u64) {
        *self.hash.get_or_insert_with(|| murmur3::hash(key.key))
    }

    #[inline]
    pub(super) fn step_of(&self, reader: &SSTableReader) -> Step {
        match &self.at {
            Some((at, step)) if Rc::ptr_eq(&at.0, &reader.0) => *step,
            _ => Step::Begin,
        }
    }

    #[inline]
    pub(super) fn pages(&self) -> &[(PageKey, Bytes)] {
        &self.pages
    }

    pub(super) fn stop(&mut self, reader: &SSTableReader, step: Step, key: PageKey) {
        let is_new_stage = !self.step_of(reader).shares_pages_with(step);
        match &mut self.at {
            Some((at, old)) if Rc::ptr_eq(&at.0, &reader.0) => *old = step,
            at => *at = Some((reader.clone(), step)),
        }
        self.lacking = Some(Lacking { key, is_new_stage });
    }

    /// Gets the page that the last look-up lacked, from the disk or another's read of it. False if it lacked none, or if
    /// that is not for here. Key and clustering are those of the look-up.
    pub async fn fetch_page<V: AsRef<[u8]>>(
        &mut self,
        key: DecoratedKeyRef<'_>,
        clustering: &[Option<V>],
    ) -> Result<bool> {
        let (Some((reader, step)), Some(lacking)) = (&self.at, self.lacking.take()) else {
            return Ok(false);
        };
        if lacking.is_new_stage {
            self.wanted_end = match *step {
                Step::Data(place) => reader.wanted_end(place, clustering, &self.pages),
                _ => 0,
            };
            self.pages.clear();
        }
        let wanted_end = self.wanted_end.max(reader.end_of_run(lacking.key, self.pages.len()));
        let page = reader.page_for_look_up(lacking.key, key, wanted_end).await?;
        let is_found = page.is_some();
        self.pages.extend(page.map(|page| (lacking.key, page)));
        Ok(is_found)
    }
}

impl SSTableReader {
    async fn page_for_look_up(
        &self,
        wanted: PageKey,
        key: DecoratedKeyRef<'_>,
        wanted_end: u64,
    ) -> Result<Option<Bytes>> {
        let is_of = |file: &CachedFile| file.key(wanted.page) == wanted;
        let page = match &self.0.index {
            _ if self.0.data.is_chunk(wanted) => self.0.data.chunk(wanted.page, wanted_end).await,
            Index::Trie(trie) if is_of(trie.partitions.source()) => {
                trie.partitions.source().page_for_look_up(wanted.page).await
            }
            Index::Trie(trie) if is_of(&trie.rows) => trie.rows.page_for_look_up(wanted.page).await,
            Index::Big(big) if big.file().made_key(wanted.page) == wanted => {
                big.interval_of(key).await
            }
            _ => return Ok(None),
        };
        page.map(Some)
    }

    /// Up to where a look-up that has got so many chunks wants the data: from the third on it doubles, as streams do. The row is a
    /// long one.
    fn end_of_run(&self, wanted: PageKey, chunks: usize) -> u64 {
        if chunks < 2 || !self.0.data.is_chunk(wanted) {
            return 0;
        }
        let count = 1 << (chunks - 1).min(MOST_DOUBLED);
        wanted.page.saturating_add(count).saturating_mul(self.0.data.chunk_length())
    }

    /// Up to where a look-up that enters Data.db at a place is likely to want it: to the end of its block, if the index has
    /// that at hand.
    fn wanted_end<V: AsRef<[u8]>>(
        &self,
        place: Place,
        clustering: &[Option<V>],
        held: &[(PageKey, Bytes)],
    ) -> u64 {
        let (Some(block), Index::Trie(trie)) = (place.block, &self.0.index) else {
            return place.position;
        };
        let layout = self.0.layout.borrow();
        let mut position = Vec::new();
        let types = &layout.table.comparator().types;
        encode_ordered_clustering(types, clustering, TERMINATOR, &mut position);
        let pages = self.0.data.pages_at_hand(held);
        let source = AtHand { pages: &pages, file: &trie.rows };
        let end = pin!(async {
            let index = RowIndexReader::open(source, block.entry).await.ok()?;
            let end = index.end_offset(&position).await.ok()?;
            index.entry().data_position.checked_add(end)
        });
        // It waits for nothing.
        match end.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(end)) => end,
            _ => place.position,
        }
    }
}

/// A file as far as it is in memory.
struct AtHand<'a> {
    pages: &'a PagesAtHand<'a>,
    file: &'a CachedFile,
}

impl<'a> PageSource for AtHand<'a> {
    type Page = &'a [u8];
    type Error = NotAtHand;

    async fn page(&self, number: u64) -> std::result::Result<&'a [u8], NotAtHand> {
        self.pages.look_at(self.file.key(number)).map(|page| &page[..]).ok_or(NotAtHand)
    }
}

/// The page is not in memory.
struct NotAtHand;
