//! Walks the partitions of the index. The caller checks each to its end, to find out which part of
//! a damaged file is reliable.
//!
//! The index has the position of each partition, which is also the end of the partition before it.
//! A fault between a partition's position and its end belongs to that partition, and the walk still
//! finds the next one. An error names the damaged file. If the damaged file is Data.db, only this
//! partition is lost. If the damaged file is the index, the partitions of Data.db are unknown.
//!
//! Memory: the bytes of Data.db that are read ahead, a chunk and a row. The page cache does not
//! change.

use espalier_mutation::{DecoratedKey, DeletionTime, Unfiltered};

use super::{
    index::Index, index_entries::IndexEntries, row_source::RowSource, sstable_reader::SSTableReader,
};
use crate::{
    data::read_ahead::WHOLE_READ_AHEAD_BYTES,
    data::{column_map::ColumnSelection, stream::DataStream},
    error::{Result, SSTableError},
    page_cache::Caching,
};

/// The place of a partition according to the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedPartition {
    /// The first byte in Data.db, before compression.
    pub start: u64,
    /// The byte after the partition's last one.
    pub end: u64,
    /// The key, if the index stores it.
    pub key: Option<DecoratedKey>,
    /// The least and the greatest token that the key can have.
    pub tokens: (i64, i64),
}

/// Walks the index. The caller may enter each partition, step through it, and leave it at any
/// place.
pub struct Inspection<'reader> {
    reader: &'reader SSTableReader,
    entries: IndexEntries<'reader>,
    /// The entry of the partition after the current one.
    next: Option<Entry>,
    has_begun: bool,
    count: u64,
    current: Option<Entry>,
    /// The end of the current partition according to the index.
    end: u64,
    source: RowSource,
    /// The key of the last partition that was entered.
    key: Option<DecoratedKey>,
    /// True if `key` is the key of the current partition.
    is_entered: bool,
    last: Option<Unfiltered>,
    open: DeletionTime,
}

struct Entry {
    position: u64,
    key: Option<DecoratedKey>,
    /// The key's prefix, in a trie.
    prefix: Option<Vec<u8>>,
}

impl SSTableReader {
    /// Starts to walk the partitions of the index in order.
    pub fn inspect(&self) -> Inspection<'_> {
        let mut stream = DataStream::sequential(self.0.data.clone(), 0);
        stream.expect_all(WHOLE_READ_AHEAD_BYTES);
        Inspection {
            reader: self,
            entries: self.index_entries(Caching::Private),
            next: None,
            has_begun: false,
            count: 0,
            current: None,
            end: 0,
            source: RowSource::new(stream, self.decoder(&ColumnSelection::All)),
            key: None,
            is_entered: false,
            last: None,
            open: DeletionTime::LIVE,
        }
    }
}

impl Inspection<'_> {
    /// Goes to the next partition, no matter how much of the current one was read. Returns `None`
    /// after the last one.
    ///
    /// # Errors
    ///
    /// Returns an error if the index is damaged or cannot be read.
    pub async fn next_partition(&mut self) -> Result<Option<IndexedPartition>> {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.next = self.next_entry(None).await?;
            if self.next.as_ref().is_none_or(|first| first.position != 0) {
                return Err(self.wrong_index(0, "it does not begin with the first partition"));
            }
        }
        let Some(current) = self.next.take() else {
            self.check_end()?;
            return Ok(None);
        };
        self.next = self.next_entry(Some(current.position)).await?;
        self.end =
            self.next.as_ref().map_or(self.reader.data_length(), |following| following.position);
        self.is_entered = false;
        let partition = IndexedPartition {
            start: current.position,
            end: self.end,
            key: current.key.clone(),
            tokens: current.tokens(),
        };
        self.current = Some(current);
        Ok(Some(partition))
    }

    async fn next_entry(&mut self, before: Option<u64>) -> Result<Option<Entry>> {
        let Some((position, key)) = self.entries.next().await? else { return Ok(None) };
        if position >= self.reader.data_length() {
            return Err(self.wrong_index(position, "it leads past the end of Data.db"));
        }
        if before.is_some_and(|before| before >= position) {
            return Err(self.wrong_index(position, "it leads before the previous entry"));
        }
        self.count += 1;
        Ok(Some(Entry { position, key, prefix: self.entries.prefix().map(<[u8]>::to_vec) }))
    }

    /// Checks that the walk found as many partitions as a trie's footer counts. If the last
    /// partition was entered, also checks that its key is the last key of the index.
    fn check_end(&self) -> Result<()> {
        let counted = match &self.reader.0.index {
            Index::Trie(trie) => trie.partitions.footer().key_count,
            Index::Big(_) => self.count,
        };
        if counted != self.count {
            let reason = format!("it counts {counted} partitions and leads to {}", self.count);
            return Err(SSTableError::corrupt(self.reader.0.index.name(), 0, reason));
        }
        match &self.key {
            Some(key) if self.is_entered && key != self.reader.last_key() => {
                let length = self.reader.data_length();
                Err(self.wrong_index(length, "it names another last partition"))
            }
            _ => Ok(()),
        }
    }

    /// Makes an error of the index; `position` is a position in Data.db.
    fn wrong_index(&self, position: u64, reason: &str) -> SSTableError {
        let reason = format!("{reason} (byte {position} of Data.db)");
        SSTableError::corrupt(self.reader.0.index.name(), 0, reason)
    }

    /// Reads the head of the current partition and compares it with the index.
    ///
    /// # Errors
    ///
    /// Returns an error if the head is damaged or cannot be read, if it differs from the index, or
    /// if the partition is out of key order.
    pub async fn enter(&mut self) -> Result<DecoratedKey> {
        let Some(start) = self.current.as_ref().map(|current| current.position) else {
            return Err(self.source.corrupt("no partition is selected"));
        };
        (self.last, self.open) = (None, DeletionTime::LIVE);
        self.source.stream.seek(start);
        let (header, _) = self.source.read_header().await?;
        self.check_inside(start)?;
        let wrong = |reason| Err(self.reader.0.data.corrupt(start, reason));
        if !self.current.as_ref().is_some_and(|current| current.is_of(self.reader, &header.key)) {
            return wrong("another partition than the index says");
        }
        if self.key.as_ref().is_some_and(|last| *last >= header.key) {
            return wrong("a partition is out of key order");
        }
        self.key = Some(header.key.clone());
        self.is_entered = true;
        Ok(header.key)
    }

    /// Returns the key of the current partition, if it was entered.
    pub fn entered_key(&self) -> Option<&DecoratedKey> {
        self.key.as_ref().filter(|_| self.is_entered)
    }

    /// Reads the next row or marker of the partition that was entered. Returns false at the
    /// partition's end, if all of it was right.
    ///
    /// # Errors
    ///
    /// Returns an error if the row, the marker or the end of the partition is damaged or cannot be
    /// read, or if the index disagrees.
    pub async fn step(&mut self) -> Result<bool> {
        let position = self.source.stream.position();
        let Some(head) = self.source.head().await? else {
            return self.check_partition_end(position).map(|()| false);
        };
        let unfiltered = self.source.take(head).await?;
        self.check_inside(position)?;
        let wrong = |reason| Err(self.reader.0.data.corrupt(position, reason));
        if let Some(last) = &self.last
            && self.source.comparator().compare(last.position(), unfiltered.position()).is_ge()
        {
            return wrong("a row or marker is out of clustering order");
        }
        if let Unfiltered::Marker(marker) = &unfiltered {
            if marker.before != self.open {
                return wrong("a marker ends another deletion than was open");
            }
            self.open = marker.after;
        }
        self.last = Some(unfiltered);
        Ok(true)
    }

    /// Checks the state at the byte that ends the partition.
    fn check_partition_end(&self, position: u64) -> Result<()> {
        if !self.open.is_live() {
            let reason = "a range deletion is open at the end of the partition";
            return Err(self.reader.0.data.corrupt(position, reason));
        }
        match position + 1 {
            end if end == self.end => Ok(()),
            // All items that were read are right, and perhaps also the items that follow.
            end if end < self.end => {
                Err(self.wrong_index(end, "it omits the data after a partition"))
            }
            _ => self.check_inside(position),
        }
    }

    /// Checks that the item that begins at `position` does not reach into the next partition.
    fn check_inside(&self, position: u64) -> Result<()> {
        // At least the byte that ends the partition must follow.
        if self.source.stream.position() < self.end {
            Ok(())
        } else {
            let reason =
                format!("this reaches into the partition that the index has at {}", self.end);
            Err(self.reader.0.data.corrupt(position, reason))
        }
    }
}

impl Entry {
    /// Returns whether the entry may lead to this key.
    fn is_of(&self, reader: &SSTableReader, key: &DecoratedKey) -> bool {
        if let Some(known) = &self.key {
            return known == key;
        }
        let (Some(prefix), Index::Trie(trie)) = (&self.prefix, &reader.0.index) else {
            return false;
        };
        let mut bytes = Vec::new();
        trie.keys.encode(key, &mut bytes);
        bytes.starts_with(prefix)
    }

    /// Returns the least and the greatest token that the key can have.
    fn tokens(&self) -> (i64, i64) {
        if let Some(key) = &self.key {
            return (key.token.0, key.token.0);
        }
        // The token follows a byte that announces a component.
        let stored = self.prefix.as_deref().and_then(|prefix| prefix.get(1..)).unwrap_or_default();
        let filled = |rest: u8| {
            let mut bytes = [rest; 8];
            bytes.iter_mut().zip(stored).for_each(|(byte, stored)| *byte = *stored);
            i64::from_be_bytes(bytes) ^ i64::MIN
        };
        (filled(0), filled(u8::MAX))
    }
}
