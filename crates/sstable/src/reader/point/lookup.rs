//! A look-up of one row that can resume page by page.
//!
//! It records the step that it reached, so that it neither reads earlier pages again nor counts
//! them as used again. It keeps the pages that were read for its current stage: a node of
//! Partitions.db, an entry of Rows.db, or a place in Data.db. It returns an error only if a page is
//! damaged or cannot be read. It leaves any other fault to the general read, which meets the fault
//! again and reports the file and the position.
//!
//! Memory: the pages of one stage, which the caller bounds by its calls of
//! [`PointLookup::fetch_page`].

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
    page_cache::{CachedFile, CachedPages, PageKey},
    reader::{Index, SSTableReader},
};

/// Maximum number of times that the number of chunks of one read is doubled. `DataFile::chunk` has
/// a limit of its own for one read.
const MAX_DOUBLED: usize = 8;

/// The progress of a look-up.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Begin,
    /// At a node of Partitions.db, with `rest` bytes of the key left.
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
    /// Returns whether `next` may need the pages again that `self` missed.
    fn shares_pages_with(self, next: Step) -> bool {
        match (self, next) {
            (Step::RowIndex(entry), Step::RowIndex(other)) => entry == other,
            (Step::Data(place), Step::Data(other)) => place.position == other.position,
            _ => false,
        }
    }
}

/// A point look-up that records its missing page.
#[derive(Debug, Default)]
pub struct PointLookup {
    hash: Option<(u64, u64)>,
    /// The SSTable of the look-up, and the step that it reached there.
    at: Option<(SSTableReader, Step)>,
    missing_page: Option<MissingPage>,
    pages: SmallVec<[(PageKey, Bytes); 2]>,
    /// The position in Data.db up to which the look-up probably reads.
    wanted_end: u64,
}

#[derive(Clone, Copy, Debug)]
struct MissingPage {
    key: PageKey,
    /// True if the pages that the look-up holds belong to an earlier stage.
    is_new_stage: bool,
}

impl PointLookup {
    /// Returns the Murmur3 hash of the key, which must be the same in each call.
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
        self.missing_page = Some(MissingPage { key, is_new_stage });
    }

    /// Reads the page that the last look-up missed, from disk or by joining another task's read.
    /// Returns false if no page was missing, or if the page belongs to none of the files that this
    /// function reads. Key and clustering must be those of the look-up.
    ///
    /// # Errors
    ///
    /// Returns an error if the page is damaged or cannot be read.
    pub async fn fetch_page<V: AsRef<[u8]>>(
        &mut self,
        key: DecoratedKeyRef<'_>,
        clustering: &[Option<V>],
    ) -> Result<bool> {
        let (Some((reader, step)), Some(missing_page)) = (&self.at, self.missing_page.take())
        else {
            return Ok(false);
        };
        if missing_page.is_new_stage {
            self.wanted_end = match *step {
                Step::Data(place) => reader.wanted_end(place, clustering, &self.pages),
                _ => 0,
            };
            self.pages.clear();
        }
        let wanted_end = self.wanted_end.max(reader.end_of_run(missing_page.key, self.pages.len()));
        let page = reader.page_for_look_up(missing_page.key, key, wanted_end).await?;
        let is_found = page.is_some();
        self.pages.extend(page.map(|page| (missing_page.key, page)));
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

    /// Returns the position up to which the next read goes; 0 if it takes one page only. If a
    /// look-up has taken two chunks already, the row is long. From the third chunk on, each read
    /// takes twice as many chunks as the one before, as in streams.
    fn end_of_run(&self, wanted: PageKey, chunks: usize) -> u64 {
        if chunks < 2 || !self.0.data.is_chunk(wanted) {
            return 0;
        }
        let count = 1 << (chunks - 1).min(MAX_DOUBLED);
        wanted.page.saturating_add(count).saturating_mul(self.0.data.chunk_length())
    }

    /// Returns the position up to which a look-up that enters Data.db at `place` probably reads:
    /// the end of the block if the pages of the row index are cached, or else the position of
    /// `place`.
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
        let pages = self.0.data.cached_pages(held);
        let source = CachedSource { pages: &pages, file: &trie.rows };
        let end = pin!(async {
            let index = RowIndexReader::open(source, block.entry).await.ok()?;
            let end = index.end_offset(&position).await.ok()?;
            index.entry().data_position.checked_add(end)
        });
        // The future never waits.
        match end.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(end)) => end,
            _ => place.position,
        }
    }
}

/// The cached pages of a file.
struct CachedSource<'a> {
    pages: &'a CachedPages<'a>,
    file: &'a CachedFile,
}

impl<'a> PageSource for CachedSource<'a> {
    type Page = &'a [u8];
    type Error = NotCached;

    async fn page(&self, number: u64) -> std::result::Result<&'a [u8], NotCached> {
        self.pages.look_at(self.file.key(number)).map(|page| &page[..]).ok_or(NotCached)
    }
}

/// The error for a page that is not cached.
struct NotCached;
