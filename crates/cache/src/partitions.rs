//! Continuous ranges of partitions: ranges in which each partition of the files has an entry (rule
//! 15 of docs/cache.md).
//!
//! The entries of partitions form a sequence in ring order. Such an entry is a header or, in a
//! table whose partitions are one row, the entry of that row. The entry is continuous if the files
//! have no partition between the previous entry of the sequence and this one. The first entry is
//! continuous if the files have no partition before it. A fence is an entry of the sequence where a
//! range does not end at a partition: at a token, or behind all partitions.

use std::collections::VecDeque;

use espalier_mutation::{
    DecoratedKey, KeyBound, KeyRange, Row,
    path::{self, BEHIND, TOP},
    schema::TableMetadata,
};
use espalier_trie::{cursor::Direction, memory::InMemoryTrie};

use super::{Inner, TableCache, Ticket, entry::Entry};
use crate::CacheError;

/// The length of the table's number, with which all paths of a table begin.
pub(super) const NUMBER_BYTES: usize = 4;

/// Partitions examined without yielding: some ten microseconds.
const ENTRIES_PER_STEP: usize = 32;

/// Bytes of rows that are copied without yielding.
const COPIED_BYTES: usize = 128 << 10;
/// Entries passed without yielding. Most of them can be fences, because each token at which a
/// read's range began or ended may have one.
const PASSED_AT_ONCE: usize = 1024;

/// A batch of consecutive partitions from a continuous range.
pub struct ContinuousRange {
    /// The partitions.
    pub partitions: VecDeque<KnownPartition>,
    /// The end of the batch.
    pub end: ContinuousEnd,
    /// The bound at which the next batch begins, if this batch ended after it had passed only
    /// fences.
    pub passed: Option<KeyBound>,
}

impl ContinuousRange {
    /// Creates an empty batch, before the first read.
    pub fn to_be_read() -> Self {
        Self { partitions: VecDeque::new(), end: ContinuousEnd::More, passed: None }
    }
}

/// A partition that has an entry. The files may have no data of it.
pub struct KnownPartition {
    /// Its key.
    pub key: DecoratedKey,
    /// In a table whose partitions are one row, `Some` with that row, or `Some(None)` if the
    /// partition has no row. `None` in other tables.
    pub only_row: Option<Option<Row>>,
}

/// The ways in which a batch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContinuousEnd {
    /// The batch is full; the range may have more partitions.
    More,
    /// No more partitions follow, up to the end of the requested range.
    Range,
    /// The range is not continuous from here on.
    Unknown,
}

/// The state of a key's partition in the cache.
pub(super) enum Continuity {
    /// The partition has an entry.
    Known,
    /// No file had the partition so far.
    Absent,
    /// The cache does not know whether files have the partition. The next partition or fence is at
    /// this bound, if there is one.
    Unknown(Option<KeyBound>),
}

impl TableCache {
    /// Returns a batch of the partitions of a range from a bound on, as far as the range is
    /// continuous.
    ///
    /// # Errors
    ///
    /// Fails if a key or a row in the cache is damaged.
    pub fn continuous_range(
        &self,
        ticket: Ticket,
        table: &TableMetadata,
        range: &KeyRange,
        from: &KeyBound,
    ) -> Result<ContinuousRange, CacheError> {
        let (mut partitions, mut end, mut passed) = (VecDeque::new(), ContinuousEnd::Unknown, None);
        let inner = self.cache.0.borrow();
        if !self.is_valid(ticket) || !inner.has_partition_ranges {
            return Ok(ContinuousRange { partitions, end, passed });
        }
        let mut at = Vec::with_capacity(32);
        path::put_key_bound(from, &mut at);
        let start = at.clone();
        let range_end = end_path(&range.end);
        let mut entries =
            inner.trie.subtrie(&ticket.number.to_be_bytes()).entries(Direction::Forward);
        entries.seek(&at);
        let mut copied_bytes = 0;
        let mut left = PASSED_AT_ONCE;
        while let Some((key, entry)) = entries.next_entry() {
            if left == 0 {
                // Everything up to the last entry passed is continuous; the next entry was not
                // examined.
                if !partitions.is_empty() {
                    end = ContinuousEnd::More;
                } else if let Some(fence) = path::token_bound(&at) {
                    (end, passed) = (ContinuousEnd::More, Some(fence));
                }
                break;
            }
            left -= 1;
            if !entry.is_of_partitions() {
                // The entry belongs to the rows of a partition; go on to the next partition.
                at.push(BEHIND);
                entries.seek(&at);
                continue;
            }
            // The continuity before the start of the range does not matter.
            if !entry.is_continuous() && key != start.as_slice() {
                break;
            }
            if key >= range_end.as_slice() {
                end = ContinuousEnd::Range;
                break;
            }
            if partitions.len() == ENTRIES_PER_STEP || copied_bytes > COPIED_BYTES {
                end = ContinuousEnd::More;
                break;
            }
            at.clear();
            at.extend_from_slice(key);
            copied_bytes += entry.row_bytes().len();
            if !entry.is_fence() {
                let only_row = match (entry.is_header(), entry.is_row()) {
                    (true, _) => None,
                    (false, false) => Some(None),
                    (false, true) => {
                        Some(Some(self.format().row_of(table, &[], entry.row_bytes())?))
                    }
                };
                let key = path::partition_key(key, entry.is_header()).map_err(CacheError::Key)?;
                partitions.push_back(KnownPartition { key, only_row });
            }
        }
        Ok(ContinuousRange { partitions, end, passed })
    }

    /// Returns the path of the entry at which a range begins, or directly behind which it begins,
    /// if there is one. Adds a fence if the range begins at a token. The path is without the
    /// table's number, and empty at the table's beginning.
    pub(super) fn reach(&self, number: u32, start: &KeyBound) -> Option<Vec<u8>> {
        let mut inner = self.cache.0.borrow_mut();
        let KeyBound::AfterKey(key) = start else { return inner.put_fence(number, start, false) };
        let mut path = Vec::with_capacity(32);
        self.put_partition(number, key.borrowed(), &mut path);
        let (found, _) = next_of_partitions(&inner.trie, &path)?;
        found.starts_with(&path[NUMBER_BYTES..]).then_some(found)
    }

    /// Returns the state of a partition in the cache.
    pub(super) fn continuity(&self, key: &DecoratedKey) -> Result<Continuity, CacheError> {
        let mut path = Vec::with_capacity(32);
        self.put_partition(self.ticket().number, key.borrowed(), &mut path);
        let inner = self.cache.0.borrow();
        let Some((found, entry)) = next_of_partitions(&inner.trie, &path) else {
            return Ok(Continuity::Unknown(None));
        };
        if found.starts_with(&path[NUMBER_BYTES..]) {
            return Ok(Continuity::Known);
        }
        if entry.is_continuous() {
            return Ok(Continuity::Absent);
        }
        if entry.is_fence() {
            return Ok(Continuity::Unknown(path::token_bound(&found)));
        }
        let key = path::partition_key(&found, entry.is_header()).map_err(CacheError::Key)?;
        Ok(Continuity::Unknown(Some(KeyBound::BeforeKey(key))))
    }
}

impl Inner {
    /// Returns whether a path without an entry lies in a continuous range of partitions. The files
    /// then have no partition at the path.
    pub(super) fn are_partitions_continuous(&self, path: &[u8]) -> bool {
        self.has_partition_ranges && are_continuous(&self.trie, path)
    }

    /// Marks the range of partitions before the first entry at or behind a path as not continuous.
    pub(super) fn forget_partitions_before(&self, path: &[u8]) {
        if self.has_partition_ranges
            && let Some((_, entry)) = next_of_partitions(&self.trie, path)
        {
            entry.set_partitions_continuous(false);
        }
    }

    /// Marks the range of partitions behind a removed entry as not continuous. `path` is the path
    /// of that entry. The rows of the removed partition may still be there. A seek behind all paths
    /// with this prefix skips them, however many there are. A fence needs no such seek, because it
    /// has no rows. The seek would also skip the partitions of the fence's token, because their
    /// paths begin with the fence's path.
    pub(super) fn forget_partitions_behind(&self, path: &[u8], is_fence: bool) {
        if is_fence {
            self.forget_partitions_before(path)
        } else {
            self.forget_partitions_before(&[path, &[BEHIND]].concat())
        }
    }

    /// Records that each partition of the files between two entries has an entry. Paths are without
    /// the table's number. `low` is empty for the beginning of the table.
    ///
    /// A call works on some entries only, because there may be many entries of keys that are in no
    /// file. It returns the entry that it reached, from which the caller continues. It returns
    /// `None` if all is done, or if the cache does not have one of the two entries any more.
    pub(super) fn learn_some_partitions(
        &mut self,
        number: u32,
        low: &[u8],
        high: &[u8],
    ) -> Option<Vec<u8>> {
        let number = number.to_be_bytes();
        let Self { trie, has_partition_ranges, .. } = self;
        let line = trie.subtrie(&number);
        let mut behind = low.to_vec();
        if !low.is_empty() {
            match line.get(low) {
                None => return None,
                Some(entry) if entry.is_fence() => {}
                Some(_) => behind.push(BEHIND),
            }
        }
        let mut entries = line.entries(Direction::Forward);
        entries.seek(&behind);
        let mut reached = None;
        for _ in 0..ENTRIES_PER_STEP {
            let (key, entry) = entries.next_entry()?;
            if key > high {
                return None;
            }
            if key != low && entry.is_of_partitions() {
                entry.set_partitions_continuous(true);
                *has_partition_ranges = true;
                reached = Some(key.to_vec());
            }
            if key == high {
                return None;
            }
        }
        reached
    }

    /// Adds a fence at a bound and returns its path, which is empty at the table's beginning.
    /// Returns `None` for bounds at keys, which have no fence, or if there is no room.
    pub(super) fn put_fence(
        &mut self,
        number: u32,
        bound: &KeyBound,
        is_end: bool,
    ) -> Option<Vec<u8>> {
        let fence = match bound {
            KeyBound::Unbounded if !is_end => return Some(Vec::new()),
            KeyBound::Unbounded | KeyBound::BeforeToken(_) | KeyBound::AfterToken(_) => {
                end_path(bound)
            }
            KeyBound::BeforeKey(_) | KeyBound::AfterKey(_) => return None,
        };
        let number = number.to_be_bytes();
        if self.get(&number, &fence).is_some() {
            return Some(fence);
        }
        self.make_room();
        self.add(&number, &fence, Entry::fence()).then_some(fence)
    }
}

/// Returns the first entry of the sequence of partitions at or behind a path. The path begins with
/// the table's number; the returned key does not contain the number.
fn next_of_partitions<'a>(
    trie: &'a InMemoryTrie<Entry>,
    from: &[u8],
) -> Option<(Vec<u8>, &'a Entry)> {
    let (number, from) = from.split_at_checked(NUMBER_BYTES)?;
    let mut entries = trie.subtrie(number).entries(Direction::Forward);
    entries.seek(from);
    loop {
        let (key, entry) = entries.next_entry()?;
        if entry.is_of_partitions() {
            return Some((key.to_vec(), entry));
        }
    }
}

/// See [`Inner::are_partitions_continuous`].
pub(super) fn are_continuous(trie: &InMemoryTrie<Entry>, path: &[u8]) -> bool {
    next_of_partitions(trie, path).is_some_and(|(_, entry)| entry.is_continuous())
}

/// Returns whether a range ends where it begins, or before.
pub(super) fn is_empty(range: &KeyRange) -> bool {
    let mut start = Vec::with_capacity(32);
    path::put_key_bound(&range.start, &mut start);
    start >= end_path(&range.end)
}

/// Returns the path of a bound as the end of a range.
fn end_path(bound: &KeyBound) -> Vec<u8> {
    let mut end = Vec::with_capacity(32);
    match bound {
        KeyBound::Unbounded => end.push(TOP),
        _ => path::put_key_bound(bound, &mut end),
    }
    end
}
