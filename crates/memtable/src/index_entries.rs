//! The index entries of a memtable: a trie, or a list of vectors, for each index of the table.
//!
//! A write adds entries and removes none, so that it need not read the row. The tries belong to the
//! shard alone and have no readers on other threads. Their memory counts as that of the memtable.

use std::ops::Range;

use espalier_mutation::{
    DecoratedKeyRef, IndexedColumn, IndexedRow, PartitionUpdate, RowContent,
    schema::{IndexMetadata, TableMetadata, VectorIndexOptions},
};
use espalier_trie::{
    cursor::{Cursor, Direction},
    memory::{InMemoryTrie, TrieFull},
};

use crate::{MemtableBudget, vectors::MemtableVectors};

/// Bytes of the entries that are copied at a time (arbitrary): long keys make fewer entries.
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

impl Trie {
    /// Adds the entries of some elements of a row. `scratch` is space for a form and an entry.
    #[inline]
    fn add<R: RowContent, V: AsRef<[u8]>>(
        &mut self,
        table: &TableMetadata,
        row: &IndexedRow<'_, R, V>,
        elements: Range<usize>,
        scratch: (&mut Vec<u8>, &mut Vec<u8>),
    ) -> Result<(), TrieFull> {
        let Self { column, entries, .. } = self;
        let mut outcome = Ok(());
        column.for_each_entry_of(table.comparator(), row, elements, scratch, |entry| {
            if outcome.is_ok() {
                outcome = entries.put(entry, ()).map(|_| ());
            }
        });
        outcome
    }
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
        for trie in tries {
            trie.add(table, &row, 0..usize::MAX, (form, entry))?;
        }
        add_vectors(vectors, table, &row, entry);
        Ok(())
    }

    /// Adds some entries of an update, from `position` on, and moves the position behind them.
    /// Reads about `most` cells. Returns whether no entries are left.
    pub(crate) fn add_some(
        &mut self,
        table: &TableMetadata,
        update: &PartitionUpdate,
        position: &mut IndexPosition,
        mut most: usize,
    ) -> Result<bool, TrieFull> {
        let Self { tries, vectors, form, entry, .. } = self;
        let key = update.key.borrowed();
        let static_rows = usize::from(update.static_row.is_some());
        while most > 0 {
            let (clustering, row) = match (&update.static_row, position.row) {
                (Some(row), 0) => (None, row),
                (_, row) => {
                    let Some(row) = update.rows.get(row - static_rows) else { return Ok(true) };
                    (Some(&*row.clustering.values), row)
                }
            };
            let row = IndexedRow { key, clustering, row };
            let Some(trie) = tries.get_mut(position.index) else {
                add_vectors(vectors, table, &row, entry);
                *position = IndexPosition { row: position.row + 1, index: 0, element: 0 };
                continue;
            };
            let (from, count) = (position.element, trie.column.element_count(row.row));
            let end = count.min(from.saturating_add(most));
            trie.add(table, &row, from..end, (form, entry))?;
            // A row without cells is work, too.
            most = most.saturating_sub((end - from).max(1));
            if end < count {
                position.element = end;
            } else {
                (position.index, position.element) = (position.index + 1, 0);
            }
        }
        Ok(false)
    }

    /// Returns the number of cells and rows of an update that have entries, for all indexes
    /// together.
    pub fn element_count(&self, update: &PartitionUpdate) -> usize {
        let rows = || update.static_row.iter().chain(&update.rows);
        let of_trie = |trie: &Trie| rows().map(|row| trie.column.element_count(row)).sum::<usize>();
        self.tries.iter().map(of_trie).sum()
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

    /// Returns the approximate number of bytes of an update's entries.
    pub fn entry_bytes(&self, table: &TableMetadata, update: &PartitionUpdate) -> usize {
        let (mut form, mut entry) = (Vec::new(), Vec::new());
        let (key, mut bytes) = (update.key.borrowed(), 0_usize);
        let static_row = update.static_row.iter().map(|row| (None, row));
        let rows = update.rows.iter().map(|row| (Some(&*row.clustering.values), row));
        for (clustering, row) in static_row.chain(rows) {
            let indexed = IndexedRow { key, clustering, row };
            for Trie { column, .. } in &self.tries {
                entry.clear();
                column.put_place(table.comparator(), key, clustering, &mut entry);
                column.for_each_value(&indexed, &mut form, |form| {
                    bytes = bytes.saturating_add(form.len() + entry.len());
                });
            }
            for MemtableVectors { column, .. } in &self.vectors {
                if let Some(vector) = column.vector(&indexed) {
                    entry.clear();
                    column.put_place(table.comparator(), key, clustering, &mut entry);
                    bytes = bytes.saturating_add(vector.len() + entry.len());
                }
            }
        }
        bytes
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

/// Adds the vectors of a row. `entry` is scratch space.
#[inline]
fn add_vectors<R: RowContent, V: AsRef<[u8]>>(
    vectors: &mut [MemtableVectors],
    table: &TableMetadata,
    row: &IndexedRow<'_, R, V>,
    entry: &mut Vec<u8>,
) {
    for vectors in vectors {
        if let Some(vector) = vectors.column.vector(row) {
            entry.clear();
            vectors.column.put_place(table.comparator(), row.key, row.clustering, entry);
            vectors.add(entry, vector);
        }
    }
}
