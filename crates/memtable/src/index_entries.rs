//! The index entries of a memtable: a trie, or a list of vectors, for each index of the table.
//!
//! A write adds entries and removes none, so that it need not read the row. The tries belong to the
//! shard alone and have no readers on other threads. Their memory counts as that of the memtable.

use std::{hash::BuildHasher, ops::Range};

use espalier_mutation::{
    DecoratedKeyRef, IndexedColumn, IndexedRow, PartitionUpdate, RowContent,
    schema::{IndexMetadata, TableMetadata, VectorIndexOptions},
};
use espalier_trie::{
    cursor::{Cursor, Direction},
    memory::{InMemoryTrie, TrieFull},
};
use foldhash::fast::RandomState;
use hashbrown::HashSet;

use crate::{MemtableBudget, vectors::MemtableVectors};

/// Bytes of entries at which a portion ends (arbitrary), so that it has fewer entries if they are
/// long.
const MAX_PORTION_BYTES: usize = 64 << 10;

/// A position within the entries of an update.
#[derive(Clone, Copy, Debug, Default)]
pub struct IndexPosition {
    /// The row; the static row, if there is one, comes first.
    row: usize,
    /// The index.
    index: usize,
    /// The element of the collection.
    element: usize,
}

/// The state of a count of an update's entries.
///
/// A word may come many times in a text, and in several parts of the text. The index lists it once
/// for the row, so the count takes it once, too, whatever the size of the parts.
#[derive(Default)]
pub struct IndexEntryCount {
    position: IndexPosition,
    /// The row and the index to which `hashes` belong.
    of: (usize, usize),
    /// The hashes of the entries counted so far, if the index splits texts.
    hashes: HashSet<u64, RandomState>,
}

impl IndexEntryCount {
    /// Returns the bytes that an entry adds.
    fn add(&mut self, place: &Place, found: &Found<'_>) -> usize {
        if let (true, Found::Entry(_, entry)) = (place.splits_texts, found) {
            if self.of != (place.row, place.index) {
                self.of = (place.row, place.index);
                self.hashes.clear();
            }
            let hash = self.hashes.hasher().hash_one(entry);
            if !self.hashes.insert(hash) {
                return 0;
            }
        }
        found.bytes()
    }
}

/// The row and the index of an entry.
struct Place {
    row: usize,
    index: usize,
    /// True if the index may have the entry several times in a row.
    splits_texts: bool,
}

/// Some entries of an index, in order.
pub struct IndexPortion {
    /// The entries.
    pub entries: Vec<Vec<u8>>,
    /// True if no other entries follow.
    pub is_last: bool,
}

/// The number of a memtable's indexes, and whether one of them lists terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexCounts {
    /// The number of indexes.
    pub all: usize,
    /// True if an index lists the terms of texts, so that a value has many entries.
    pub has_terms: bool,
}

/// The entries of one index.
struct Trie {
    name: String,
    column: IndexedColumn,
    entries: InMemoryTrie<()>,
}

/// The entries of all indexes of a memtable.
pub struct MemtableIndexes {
    /// The names and signatures of the indexes, in the order of the table.
    names: Vec<(String, String)>,
    tries: Vec<Trie>,
    /// The indexes on vectors.
    vectors: Vec<MemtableVectors>,
    form: Vec<u8>,
    entry: Vec<u8>,
}

impl MemtableIndexes {
    /// Creates empty tries; `None` for a table without indexes.
    pub(crate) fn new(table: &TableMetadata, budget: &MemtableBudget) -> Option<Self> {
        let mut this = Self {
            names: Vec::new(),
            tries: Vec::new(),
            vectors: Vec::new(),
            form: Vec::new(),
            entry: Vec::new(),
        };
        table.indexes.iter().for_each(|index| this.add_index(table, index, budget));
        (!this.names.is_empty()).then_some(this)
    }

    fn add_index(&mut self, table: &TableMetadata, index: &IndexMetadata, budget: &MemtableBudget) {
        let Some(column) = IndexedColumn::new(table, index) else { return };
        self.names.push((index.name.clone(), index.signature(table)));
        if let Some(options) = index.vector_options(table) {
            self.vectors.push(MemtableVectors::new(&index.name, column, options));
        } else {
            let entries = InMemoryTrie::with_chunk_pool(budget.chunk_pool().clone());
            self.tries.push(Trie { name: index.name.clone(), column, entries });
        }
    }

    /// Adds the entries of an update.
    pub(crate) fn add_update(
        &mut self,
        table: &TableMetadata,
        update: &PartitionUpdate,
    ) -> Result<(), TrieFull> {
        let key = update.key.borrowed();
        if let Some(row) = &update.static_row {
            self.add_row(table, key, None::<&[Option<&[u8]>]>, row)?;
        }
        update
            .rows
            .iter()
            .try_for_each(|row| self.add_row(table, key, Some(&*row.clustering.values), row))
    }

    /// Adds the entries of a row, or of the static row if there is no clustering.
    pub(crate) fn add_row<R: RowContent, V: AsRef<[u8]>>(
        &mut self,
        table: &TableMetadata,
        key: DecoratedKeyRef<'_>,
        clustering: Option<&[Option<V>]>,
        row: &R,
    ) -> Result<(), TrieFull> {
        let Self { tries, vectors, form, entry, .. } = self;
        let row = IndexedRow { key, clustering, row };
        let mut outcome = Ok(());
        let mut visit = |found: Found<'_>| {
            if outcome.is_ok() {
                outcome = found.add();
            }
        };
        for trie in tries {
            trie.visit(table, &row, 0..usize::MAX, (form, entry), &mut visit);
        }
        visit_vectors(vectors, table, &row, entry, &mut visit);
        outcome
    }

    /// Adds some entries of an update, from `position` on, and moves the position behind them.
    /// Takes about `most` elements. Returns whether they were the last ones.
    pub(crate) fn add_some(
        &mut self,
        table: &TableMetadata,
        update: &PartitionUpdate,
        position: &mut IndexPosition,
        most: usize,
    ) -> Result<bool, TrieFull> {
        let mut outcome = Ok(());
        let is_last = self.visit_some(table, update, position, most, |_, found| {
            if outcome.is_ok() {
                outcome = found.add();
            }
        });
        outcome.map(|()| is_last)
    }

    /// Counts the bytes of some entries of an update as [`Self::add_some`] adds them, each entry
    /// once for a row.
    pub(crate) fn count_some(
        &mut self,
        table: &TableMetadata,
        update: &PartitionUpdate,
        count: &mut IndexEntryCount,
        most: usize,
    ) -> (usize, bool) {
        let (mut bytes, mut position) = (0_usize, count.position);
        let is_last = self.visit_some(table, update, &mut position, most, |place, found| {
            bytes = bytes.saturating_add(count.add(place, &found));
        });
        count.position = position;
        (bytes, is_last)
    }

    fn visit_some(
        &mut self,
        table: &TableMetadata,
        update: &PartitionUpdate,
        position: &mut IndexPosition,
        mut most: usize,
        mut visit: impl FnMut(&Place, Found<'_>),
    ) -> bool {
        let Self { tries, vectors, form, entry, .. } = self;
        let key = update.key.borrowed();
        let static_rows = usize::from(update.static_row.is_some());
        while most > 0 {
            let (clustering, row) = match (&update.static_row, position.row) {
                (Some(row), 0) => (None, row),
                (_, row) => {
                    let Some(row) = update.rows.get(row - static_rows) else { return true };
                    (Some(&*row.clustering.values), row)
                }
            };
            let row = IndexedRow { key, clustering, row };
            let IndexPosition { row: number, index, .. } = *position;
            let mut place = Place { row: number, index, splits_texts: false };
            let Some(trie) = tries.get_mut(index) else {
                visit_vectors(vectors, table, &row, entry, &mut |found| visit(&place, found));
                *position = IndexPosition { row: position.row + 1, index: 0, element: 0 };
                continue;
            };
            let (from, count) = (position.element, trie.column.element_count(&row));
            let end = count.min(from.saturating_add(most));
            place.splits_texts = trie.column.splits_texts();
            let mut visit = |found: Found<'_>| visit(&place, found);
            let next = trie.visit(table, &row, from..end, (form, entry), &mut visit);
            // A row without elements is work, too.
            most = most.saturating_sub(next.saturating_sub(from).max(1));
            if next < count {
                position.element = next;
            } else {
                (position.index, position.element) = (position.index + 1, 0);
            }
        }
        false
    }

    /// Returns the number of elements of an update, for all indexes together.
    pub fn element_count(&self, update: &PartitionUpdate) -> usize {
        let key = update.key.borrowed();
        let of_row = |clustering, row| self.row_element_count(key, clustering, row);
        let rows = update.rows.iter().map(|row| of_row(Some(&*row.clustering.values), row));
        rows.chain(update.static_row.iter().map(|row| of_row(None, row))).sum()
    }

    /// Returns the number of elements of a row, for all indexes together.
    pub fn row_element_count<R: RowContent, V: AsRef<[u8]>>(
        &self,
        key: DecoratedKeyRef<'_>,
        clustering: Option<&[Option<V>]>,
        row: &R,
    ) -> usize {
        let row = IndexedRow { key, clustering, row };
        self.tries.iter().map(|trie| trie.column.element_count(&row)).sum()
    }

    /// Returns whether there are entries, apart from vectors.
    pub fn has_entries(&self) -> bool {
        self.tries.iter().any(|trie| !trie.entries.is_empty())
    }

    /// Returns the number of indexes, and whether one of them lists terms.
    pub fn counts(&self) -> IndexCounts {
        let has_terms = self.tries.iter().any(|trie| trie.column.has_terms());
        IndexCounts { all: self.names.len(), has_terms }
    }

    /// Returns the bytes of memory of all tries and vectors.
    pub(crate) fn memory_bytes(&self) -> usize {
        let bytes = |trie: &Trie| trie.entries.allocated_bytes() + trie.entries.record_bytes();
        let vectors: usize = self.vectors.iter().map(MemtableVectors::memory_bytes).sum();
        self.tries.iter().map(bytes).sum::<usize>() + vectors
    }

    /// Returns the bytes of memory in use, without free blocks.
    pub(crate) fn used_bytes(&self) -> usize {
        let vectors: usize = self.vectors.iter().map(MemtableVectors::used_bytes).sum();
        self.tries.iter().map(|trie| trie.entries.used_bytes()).sum::<usize>() + vectors
    }

    /// Returns the bytes of the largest trie.
    pub(crate) fn fullest_bytes(&self) -> usize {
        self.tries.iter().map(|trie| trie.entries.used_bytes()).max().unwrap_or(0)
    }

    /// Returns names and signatures of the indexes.
    pub fn names(&self) -> Vec<(String, String)> {
        self.names.clone()
    }

    /// Returns whether the memtable has the entries of the index with this name and signature.
    pub fn has(&self, name: &str, signature: &str) -> bool {
        self.names.iter().any(|(own, of)| own == name && of == signature)
    }

    /// Returns the properties of an index if it is on vectors.
    pub fn vector_options(&self, name: &str) -> Option<VectorIndexOptions> {
        self.vectors_of(name).map(|vectors| vectors.options)
    }

    /// Returns the vectors of an index, if it is on vectors.
    pub fn vectors_of(&self, name: &str) -> Option<&MemtableVectors> {
        self.vectors.iter().find(|vectors| vectors.name == name)
    }

    /// Collects at most `most` entries that begin with `start`, from the first one that is not
    /// below `from`.
    pub(crate) fn entries_from(
        &self,
        name: &str,
        (from, start): (&[u8], &[u8]),
        most: usize,
    ) -> IndexPortion {
        let (mut entries, mut bytes) = (Vec::new(), 0);
        let Some(trie) = self.tries.iter().find(|trie| trie.name == name) else {
            return IndexPortion { entries, is_last: true };
        };
        let mut walk = trie.entries.cursor(Direction::Forward).into_entries();
        walk.seek(from);
        while let Some((entry, _)) = walk.next_entry()
            && entry.starts_with(start)
        {
            if entries.len() == most || bytes >= MAX_PORTION_BYTES {
                return IndexPortion { entries, is_last: false };
            }
            bytes += entry.len();
            entries.push(entry.to_vec());
        }
        IndexPortion { entries, is_last: true }
    }
}

/// An entry of an update, and the place where it belongs.
enum Found<'f> {
    Entry(&'f mut InMemoryTrie<()>, &'f [u8]),
    /// The place of a row, and its vector.
    Vector(&'f mut MemtableVectors, &'f [u8], &'f [u8]),
}

impl Found<'_> {
    #[inline]
    fn add(self) -> Result<(), TrieFull> {
        match self {
            Self::Entry(entries, entry) => entries.put(entry, ()).map(|_| ()),
            Self::Vector(vectors, place, vector) => {
                vectors.add(place, vector);
                Ok(())
            }
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Entry(_, entry) => entry.len(),
            Self::Vector(_, place, vector) => place.len() + vector.len(),
        }
    }
}

impl Trie {
    /// Visits the entries of some elements of a row, and returns the next element. `scratch` is
    /// space for a form and an entry.
    #[inline]
    fn visit<R: RowContent, V: AsRef<[u8]>>(
        &mut self,
        table: &TableMetadata,
        row: &IndexedRow<'_, R, V>,
        elements: Range<usize>,
        scratch: (&mut Vec<u8>, &mut Vec<u8>),
        visit: &mut impl FnMut(Found<'_>),
    ) -> usize {
        let Self { column, entries, .. } = self;
        column.for_each_entry_of(table.comparator(), row, elements, scratch, |entry| {
            visit(Found::Entry(entries, entry));
        })
    }
}

/// Visits the vectors of a row. `entry` is scratch space.
#[inline]
fn visit_vectors<R: RowContent, V: AsRef<[u8]>>(
    vectors: &mut [MemtableVectors],
    table: &TableMetadata,
    row: &IndexedRow<'_, R, V>,
    entry: &mut Vec<u8>,
    visit: &mut impl FnMut(Found<'_>),
) {
    for vectors in vectors {
        if let Some(vector) = vectors.column.vector_entry(table.comparator(), row, entry) {
            visit(Found::Vector(vectors, entry, vector));
        }
    }
}
