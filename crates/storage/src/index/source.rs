//! A cursor over the entries of one index in one memtable or one SSTable.

use std::{collections::VecDeque, rc::Rc};

use espalier_memtable::Memtable;
use espalier_sstable::{EntryCursor, SSTable, SSTableError};

use crate::{StorageError, table::TableView};

/// Maximum number of entries in a portion. A source copies one portion at a time from a memtable.
/// Each portion costs one descent. The first portion has one entry, and each further portion twice
/// as many as the one before.
const MAX_ENTRIES_AT_ONCE: usize = 32;

/// A source of entries in ascending order.
pub(super) enum EntrySource {
    Memory(MemoryEntries),
    File(Box<FileEntries>),
    /// Sorted entries, and the number of them that the cursor has passed.
    #[cfg(test)]
    List(Vec<Vec<u8>>, usize),
}

/// The entries in a memtable that begin with given bytes.
pub(super) struct MemoryEntries {
    memtable: Rc<Memtable>,
    index: Rc<str>,
    /// The bytes with which each entry begins.
    start: Rc<[u8]>,
    ahead: VecDeque<Vec<u8>>,
    /// The maximum number of entries of the next portion.
    portion: usize,
    is_last: bool,
}

impl MemoryEntries {
    fn take_from(&mut self, from: &[u8]) {
        let (bounds, most) = ((from, &*self.start), self.portion);
        let found = self.memtable.index_entries(&self.index, bounds, most);
        (self.ahead, self.is_last) = (found.entries.into(), found.is_last);
        self.portion = (2 * most).min(MAX_ENTRIES_AT_ONCE);
    }
}

/// The entries in an SSTable's component.
pub(super) struct FileEntries {
    cursor: EntryCursor,
    is_there: bool,
    sstable: Rc<SSTable>,
    /// The error of a failed read of the component.
    failure: Option<StorageError>,
}

impl FileEntries {
    /// Stores the result of a move of the cursor.
    fn arrive(&mut self, moved: Result<bool, SSTableError>) -> Result<(), StorageError> {
        let moved = moved.map_err(StorageError::from);
        self.is_there = moved.inspect_err(|error| self.failure = Some(error.clone()))?;
        Ok(())
    }
}

/// Opens the entries of an index that begin with `start` in all memtables and SSTables; sources of
/// SSTables continue behind these entries. Returns `None` if a memtable or SSTable has no entries,
/// because it is older than the index or its entries are damaged.
pub(super) fn open(
    view: &TableView,
    (index, signature): (&str, &str),
    start: Rc<[u8]>,
    bypass_cache: bool,
) -> Option<Vec<EntrySource>> {
    let name: Rc<str> = index.into();
    let mut sources = Vec::new();
    for memtable in view.memtables().filter(|memtable| !memtable.is_empty()) {
        if memtable.with_indexes(|indexes| indexes.has(index, signature)) != Some(true) {
            return None;
        }
        sources.push(EntrySource::Memory(MemoryEntries {
            memtable: memtable.clone(),
            index: name.clone(),
            start: start.clone(),
            ahead: VecDeque::new(),
            portion: 1,
            is_last: false,
        }));
    }
    for sstable in view.sstables.iter() {
        let found = sstable.reader().secondary_index(index)?;
        if found.signature() != signature {
            return None;
        }
        let (cursor, sstable) = (found.cursor(bypass_cache)?, sstable.clone());
        let entries = FileEntries { cursor, is_there: false, sstable, failure: None };
        sources.push(EntrySource::File(Box::new(entries)));
    }
    Some(sources)
}

impl EntrySource {
    /// Creates a source of sorted entries.
    #[cfg(test)]
    pub(super) fn of_entries(entries: Vec<Vec<u8>>) -> Self {
        Self::List(entries, 0)
    }

    /// Moves to the least entry that is not below `from`.
    pub(super) async fn seek(&mut self, from: &[u8]) -> Result<(), StorageError> {
        match self {
            Self::Memory(memory) => {
                memory.portion = 1;
                memory.take_from(from);
                Ok(())
            }
            Self::File(file) => {
                let moved = file.cursor.seek(from).await;
                file.arrive(moved)
            }
            #[cfg(test)]
            Self::List(entries, passed) => {
                *passed = entries.partition_point(|entry| &**entry < from);
                Ok(())
            }
        }
    }

    /// Moves to the next entry.
    pub(super) async fn next(&mut self) -> Result<(), StorageError> {
        match self {
            Self::Memory(memory) => {
                let passed = memory.ahead.pop_front();
                if let (true, false, Some(mut from)) =
                    (memory.ahead.is_empty(), memory.is_last, passed)
                {
                    from.push(0);
                    memory.take_from(&from);
                }
                Ok(())
            }
            Self::File(file) => {
                let moved = file.cursor.next().await;
                file.arrive(moved)
            }
            #[cfg(test)]
            Self::List(_, passed) => {
                *passed += 1;
                Ok(())
            }
        }
    }

    /// Returns the present entry.
    pub(super) fn entry(&self) -> Option<&[u8]> {
        match self {
            Self::Memory(memory) => memory.ahead.front().map(Vec::as_slice),
            Self::File(file) => file.is_there.then(|| file.cursor.entry()),
            #[cfg(test)]
            Self::List(entries, passed) => entries.get(*passed).map(Vec::as_slice),
        }
    }

    /// Records that the source may have given a malformed entry.
    pub(super) fn suspect(&mut self, error: &StorageError) {
        if let Self::File(file) = self {
            file.failure.get_or_insert_with(|| error.clone());
        }
    }

    /// Leaves the component of an SSTable out of later reads if a read of it has failed. Returns
    /// whether a read has failed.
    pub(super) fn forget_damaged(&self, index: &str) -> bool {
        let Self::File(file) = self else { return false };
        let Some(error) = &file.failure else { return false };
        report_damaged(&file.sstable, index, error);
        true
    }
}

/// Leaves the entries of an index in an SSTable out of later reads.
pub(super) fn report_damaged(sstable: &SSTable, index: &str, error: &StorageError) {
    if sstable.reader().forget_secondary_index(index) {
        tracing::warn!(
            %error,
            index,
            sstable = %sstable.descriptor(),
            "secondary index: the entries of an SSTable are damaged, leaving them out; queries \
             read all rows until the background build has made them again"
        );
    }
}
