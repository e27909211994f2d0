//! `BigIndex` combines Index.db with its summary and answers the look-ups of the SSTable reader.
//!
//! A look-up costs one binary search in memory, and one search among the entries of an interval
//! between two samples. The entries of an interval are cached in a form that can be searched
//! (`flat_page`).
//!
//! The summary is a hint. The index checks it as far as an answer relies on it: the entries at both
//! ends of the interval must have the keys of the summary's samples. If they do not have these
//! keys, or if Summary.db is missing or damaged, the index rebuilds the summary from Index.db once.
//! Later errors are errors of Index.db.

use std::{
    cell::{Cell, OnceCell, RefCell},
    rc::Rc,
    sync::Arc,
};

use bytes::Bytes;
use espalier_mutation::{DecoratedKey, DecoratedKeyRef, KeyBound, Token};

use super::{
    file::IndexFile,
    flat_page::{FlatEntry, FlatPage, FlatPageBuilder},
    partition_index::{Entries, EntryCursor, IndexEntry, MAX_ENTRY_OVERHEAD, SteppedOver},
    promoted_index::{PositionFormat, PromotedIndexReader},
    summary::{Interval, Summary},
    window::PIECE_BYTES,
};
use crate::{
    error::{FileName, Result, SSTableError},
    versions::DeletionTimeForm,
};

/// An open index of an SSTable in the `big` format. It holds the summary in memory, and no pages.
#[derive(Debug)]
pub struct BigIndex<F> {
    file: F,
    data_length: u64,
    min_index_interval: u32,
    summary: RefCell<Rc<Summary>>,
    /// The number of times that the summary was replaced after the opening. It is part of the cache
    /// key of an interval, so that intervals of an earlier summary are not found.
    summary_number: Cell<u64>,
    /// Set once the summary is rebuilt from Index.db. Holds the fault of Summary.db, or `None` if
    /// the file is missing.
    rebuilt: OnceCell<Option<SSTableError>>,
    first_key: DecoratedKey,
    last_key: DecoratedKey,
}

impl<F: IndexFile + Clone> BigIndex<F> {
    /// Opens Index.db and reads its first entry and the entries after the last sample, or all
    /// entries if the summary cannot be used.
    ///
    /// `summary` is the name and content of Summary.db, if the file exists. `data_length` is the
    /// uncompressed length of Data.db in bytes. `min_index_interval` is the table's setting; it is
    /// used to rebuild the summary.
    ///
    /// # Errors
    /// Fails if Index.db is corrupt, or if a file cannot be read.
    pub async fn open(
        file: F,
        summary: Option<(&FileName, &Bytes)>,
        data_length: u64,
        min_index_interval: u32,
    ) -> Result<Self> {
        let mut rebuilt = OnceCell::new();
        let mut usable = None;
        if let Some((name, bytes)) = summary {
            let opened = match Summary::read(name, bytes).await {
                Ok(summary) => check_ends(&file, &summary, data_length).await.map(|()| summary),
                Err(error) => Err(error),
            };
            match opened {
                Ok(summary) => usable = Some(summary),
                Err(error @ SSTableError::Corrupt { .. }) => rebuilt = OnceCell::from(Some(error)),
                Err(error) => return Err(error),
            }
        }
        let summary = match usable {
            Some(summary) => summary,
            None => {
                rebuilt.get_or_init(|| None);
                Summary::rebuild(&file, data_length, min_index_interval).await?
            }
        };
        // The keys are copied, because the summary may be replaced and its memory freed.
        let owned = |key: &Bytes| DecoratedKey::new(Bytes::copy_from_slice(key));
        let (first_key, last_key) = (owned(summary.first_key()), owned(summary.last_key()));
        let summary = RefCell::new(Rc::new(summary));
        let summary_number = Cell::new(0);
        Ok(Self {
            file,
            data_length,
            min_index_interval,
            summary,
            summary_number,
            rebuilt,
            first_key,
            last_key,
        })
    }

    /// Returns the key of the first partition.
    pub fn first_key(&self) -> &DecoratedKey {
        &self.first_key
    }

    /// Returns the key of the last partition.
    pub fn last_key(&self) -> &DecoratedKey {
        &self.last_key
    }

    /// Returns the file Index.db.
    pub fn file(&self) -> &F {
        &self.file
    }

    /// Returns the current summary.
    pub fn summary(&self) -> Rc<Summary> {
        self.summary.borrow().clone()
    }

    /// Returns `None` while the summary is that of Summary.db. If it was rebuilt, returns
    /// `Some(None)` when Summary.db is missing, and otherwise the fault of Summary.db.
    pub fn summary_fault(&self) -> Option<Option<&SSTableError>> {
        self.rebuilt.get().map(Option::as_ref)
    }

    /// Returns the number of bytes of memory that the index holds.
    pub fn memory_bytes(&self) -> usize {
        let keys = self.first_key.key.len() + self.last_key.key.len();
        size_of::<Self>() + keys + self.summary.borrow().memory_bytes()
    }

    /// Returns the entry with exactly this key. `file` is one reader's handle of the file.
    ///
    /// # Errors
    /// Fails if Index.db is corrupt or cannot be read.
    pub async fn exact(&self, file: &F, key: &DecoratedKey) -> Result<Option<IndexEntry>> {
        if *key < self.first_key || *key > self.last_key {
            return Ok(None);
        }
        loop {
            let summary = self.summary();
            let interval = summary.interval_of(key.token, &key.key);
            let made =
                file.made(self.page_number(&interval), || self.flatten(file, &summary, interval));
            let page = match made.await {
                Ok(page) => page,
                Err(error @ SSTableError::Corrupt { .. }) => {
                    self.replace_summary(&summary, error).await?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            if let Some(page) = FlatPage::new(&page) {
                let (tokens, start, end) = self.ends(&summary, &interval);
                let found = page.find(key.borrowed(), tokens, start, end);
                return Ok(found.map(|entry| IndexEntry {
                    key: key.clone(),
                    data_position: entry.data_position,
                    position: entry.position,
                    promoted: entry.promoted,
                    next_position: entry.next_position,
                }));
            }
            let is_wanted = |found: &[u8]| (*found == *key.key).then_some(key.token);
            match self.scan(file, &summary, interval, is_wanted).await {
                Err(error @ SSTableError::Corrupt { .. }) => {
                    self.replace_summary(&summary, error).await?;
                }
                found => return found,
            }
        }
    }

    /// Works like [`exact`](Self::exact), and uses only cached pages. `page` returns the page with
    /// a number, or `None` if it is not cached. The result is `None` if the page is not cached or
    /// the interval has no flat form.
    #[inline]
    pub(crate) fn exact_cached<'p>(
        &self,
        page: impl Fn(u64) -> Option<&'p [u8]>,
        key: DecoratedKeyRef<'_>,
    ) -> Option<Option<FlatEntry>> {
        let summary = self.summary.borrow();
        let interval = summary.interval_of(key.token, key.key);
        let page = FlatPage::new(page(self.page_number(&interval))?)?;
        let (tokens, start, end) = self.ends(&summary, &interval);
        Some(page.find(key, tokens, start, end))
    }

    /// Builds the page that [`BigIndex::exact_cached`] misses for a key, from the file. The page
    /// is empty if the interval has no flat form.
    pub(crate) async fn interval_of(&self, key: DecoratedKeyRef<'_>) -> Result<Bytes> {
        let summary = self.summary();
        let interval = summary.interval_of(key.token, key.key);
        let make = || self.flatten(&self.file, &summary, interval);
        self.file.made(self.page_number(&interval), make).await
    }

    /// Returns the number under which the entries of an interval are cached.
    fn page_number(&self, interval: &Interval) -> u64 {
        let sample = interval.start.map_or(0, |(sample, _)| sample as u64 + 1);
        self.summary_number.get() << 40 | sample
    }

    /// Returns the tokens and the positions at both ends of an interval.
    fn ends(&self, summary: &Summary, interval: &Interval) -> ((Token, Token), u64, u64) {
        let token = |end: Option<(usize, u64)>| end.and_then(|(sample, _)| summary.token(sample));
        let first = token(interval.start).unwrap_or(self.first_key.token);
        let last = token(interval.end).unwrap_or(self.last_key.token);
        let start = interval.start.map_or(0, |(_, position)| position);
        let end = interval.end.map_or(self.file.length(), |(_, position)| position);
        ((first, last), start, end)
    }

    /// Reads the entries of an interval into a page, by [`walk`](Self::walk). The page is empty if
    /// the entries have no flat form.
    async fn flatten(&self, file: &F, summary: &Summary, interval: Interval) -> Result<Bytes> {
        let (_, start, end) = self.ends(summary, &interval);
        // The read includes the key of the sample that ends the interval.
        let behind = interval
            .end
            .map_or(0, |(sample, _)| (summary.key(sample).len() + MAX_ENTRY_OVERHEAD) as u64);
        let cursor = if end.saturating_add(behind).saturating_sub(start) <= PIECE_BYTES {
            EntryCursor::up_to(file, start, end.saturating_add(behind), self.data_length)
        } else {
            // The entries of wide partitions consist mostly of promoted indexes, which the cursor
            // skips.
            EntryCursor::new(file, start, self.data_length)
        };
        let mut page = FlatPageBuilder::new(start);
        // Adds an entry; returns a value, which ends the walk, if the page cannot hold the entry.
        let add = |cursor: &EntryCursor<&F>, entry: &SteppedOver| {
            let flat = entry.to_flat();
            // The sample at the end begins the next page.
            (flat.position < end && !page.add(cursor.key(entry), &flat)).then_some(())
        };
        let has_no_flat_form = self.walk(cursor, summary, interval, add).await?.is_some();
        Ok(if has_no_flat_form { Bytes::new() } else { page.finish() })
    }

    /// Returns the first entry to the right of a bound. `file` is one reader's handle of the file.
    ///
    /// # Errors
    /// Fails if Index.db is corrupt or cannot be read.
    pub async fn ceiling(&self, file: &F, bound: &KeyBound) -> Result<Option<IndexEntry>> {
        loop {
            let summary = self.summary();
            let interval = summary.interval_of_bound(bound);
            let mut last = Token::MIN;
            let mut is_sorted = true;
            let is_wanted = |found: &[u8]| {
                let token = Token::of(found);
                is_sorted &= last <= token;
                last = token;
                is_before(bound, token, found).then_some(token)
            };
            let found = match self.scan(file, &summary, interval, is_wanted).await {
                Err(error @ SSTableError::Corrupt { .. }) => {
                    self.replace_summary(&summary, error).await?;
                    continue;
                }
                found => found?,
            };
            if !is_sorted {
                let position = interval.start.map_or(0, |(_, position)| position);
                let reason = "tokens do not increase in the entries from here on";
                return Err(SSTableError::corrupt(self.file.name(), position, reason));
            }
            return Ok(found);
        }
    }

    /// Returns all entries in order. They are read in large pieces that bypass the cache.
    pub fn entries(&self) -> Entries<F> {
        Entries::new(self.file.clone(), self.data_length)
    }

    /// Opens the index of the rows of an entry's partition, if the entry has one. `file` is one
    /// reader's handle of the file.
    ///
    /// # Errors
    /// Fails if the promoted index is corrupt or cannot be read.
    pub async fn promoted_index(
        &self,
        file: F,
        entry: &IndexEntry,
        format: &Arc<PositionFormat>,
        form: DeletionTimeForm,
    ) -> Result<Option<PromotedIndexReader<F>>> {
        let Some(location) = entry.promoted else { return Ok(None) };
        PromotedIndexReader::open(file, location, format.clone(), form).await.map(Some)
    }

    /// Reads an interval up to the first wanted entry, for which `is_wanted` returns the token of
    /// its key, by [`walk`](Self::walk).
    async fn scan(
        &self,
        file: &F,
        summary: &Summary,
        interval: Interval,
        mut is_wanted: impl FnMut(&[u8]) -> Option<Token>,
    ) -> Result<Option<IndexEntry>> {
        let start = interval.start.map_or(0, |(_, position)| position);
        let cursor = EntryCursor::new(file, start, self.data_length);
        let find = |cursor: &EntryCursor<&F>, entry: &SteppedOver| {
            is_wanted(cursor.key(entry)).map(|token| cursor.entry(entry, token))
        };
        self.walk(cursor, summary, interval, find).await
    }

    /// Visits the entries of an interval, including the sample at its end, until `visit` returns a
    /// value. `cursor` stands at the start of the interval.
    ///
    /// Returns [`SSTableError::Corrupt`] if Index.db is corrupt or the summary contradicts it: the
    /// entries do not begin and end with the samples of the summary. The walk checks the sample at
    /// the end so that a wrong summary cannot make a key seem absent.
    async fn walk<T>(
        &self,
        mut cursor: EntryCursor<&F>,
        summary: &Summary,
        interval: Interval,
        mut visit: impl FnMut(&EntryCursor<&F>, &SteppedOver) -> Option<T>,
    ) -> Result<Option<T>> {
        let contradiction =
            |cursor: &EntryCursor<&F>| Err(cursor.corrupt("an entry is not where Summary.db says"));
        let mut expected = interval.start.map(|(sample, _)| sample);
        loop {
            let position = cursor.position();
            let last = match interval.end {
                Some((_, end)) if position > end => return contradiction(&cursor),
                Some((sample, end)) if position == end => Some(sample),
                _ => None,
            };
            let Some(entry) = cursor.step().await? else {
                return if interval.end.is_none() { Ok(None) } else { contradiction(&cursor) };
            };
            if let Some(sample) = expected.take().or(last)
                && summary.key(sample) != cursor.key(&entry)
            {
                return contradiction(&cursor);
            }
            let found = visit(&cursor, &entry);
            if found.is_some() || last.is_some() {
                return Ok(found);
            }
        }
    }

    /// Rebuilds the summary, unless it was replaced meanwhile. Returns `error` if the summary was
    /// rebuilt before, because Index.db is corrupt then.
    async fn replace_summary(&self, wrong: &Rc<Summary>, error: SSTableError) -> Result<()> {
        if !Rc::ptr_eq(wrong, &self.summary.borrow()) {
            return Ok(());
        }
        if self.rebuilt.get().is_some() {
            return Err(error);
        }
        let right = Summary::rebuild(&self.file, self.data_length, self.min_index_interval).await?;
        // Another look-up may have replaced the summary during the await.
        if self.rebuilt.set(Some(error)).is_ok() {
            *self.summary.borrow_mut() = Rc::new(right);
            self.summary_number.set(self.summary_number.get() + 1);
        }
        Ok(())
    }
}

/// Compares both ends of a summary with Index.db: the first entry, and the entries after the last
/// sample.
async fn check_ends<F: IndexFile>(file: &F, summary: &Summary, data_length: u64) -> Result<()> {
    let mut cursor = EntryCursor::new(file, 0, data_length);
    let is_first = match cursor.step().await? {
        Some(entry) => *cursor.key(&entry) == **summary.first_key(),
        None => false,
    };
    if !is_first {
        return Err(SSTableError::corrupt(file.name(), 0, "the first key is not Summary.db's"));
    }
    let Some((sample, position)) = summary.last_interval().start else {
        return Err(SSTableError::corrupt(file.name(), 0, "Summary.db has no sample"));
    };
    let mut cursor = EntryCursor::new(file, position, data_length);
    let mut is_sample = true;
    let mut is_last = false;
    while let Some(entry) = cursor.step().await? {
        let key = cursor.key(&entry);
        if std::mem::take(&mut is_sample) && summary.key(sample) != key {
            return Err(cursor.corrupt("an entry is not where Summary.db says"));
        }
        is_last = *key == **summary.last_key();
    }
    if is_last { Ok(()) } else { Err(cursor.corrupt("the last key is not Summary.db's")) }
}

/// Works like [`KeyBound::is_before`] for a borrowed key.
fn is_before(bound: &KeyBound, token: Token, key: &[u8]) -> bool {
    match bound {
        KeyBound::Unbounded => true,
        KeyBound::BeforeToken(bound) => *bound <= token,
        KeyBound::AfterToken(bound) => *bound < token,
        KeyBound::BeforeKey(bound) => (bound.token, &*bound.key) <= (token, key),
        KeyBound::AfterKey(bound) => (bound.token, &*bound.key) < (token, key),
    }
}
