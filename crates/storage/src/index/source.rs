//! A cursor over the entries of one index in one memtable or one SSTable, and the SSTables of a
//! search, whose damaged components later reads leave out.

use std::{collections::VecDeque, rc::Rc};

use espalier_memtable::Memtable;
use espalier_runtime::maybe_yield;
use espalier_sstable::{EntryCursor, SSTable, VectorIndex};

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
    file: IndexFile,
    cursor: EntryCursor,
    is_there: bool,
}

/// An SSTable whose component of an index is searched.
pub(super) struct IndexFile {
    sstable: Rc<SSTable>,
    /// The error of a failed read or check of the component.
    failure: Option<StorageError>,
}

impl IndexFile {
    pub(super) fn new(sstable: Rc<SSTable>) -> Self {
        Self { sstable, failure: None }
    }

    /// Returns the vectors of the component. If another read has found damage in it since the
    /// search began, records that.
    pub(super) fn vectors(
        &mut self,
        index: &str,
        bypass_cache: bool,
    ) -> Result<VectorIndex<'_>, StorageError> {
        let component = self.sstable.reader().secondary_index(index);
        let vectors = component.and_then(|component| component.vectors(bypass_cache));
        vectors.ok_or_else(|| {
            let error = StorageError::Corrupt {
                what: "a component of a secondary index".into(),
                reason: "another read has found damage in it".into(),
            };
            self.failure = Some(error.clone());
            error
        })
    }

    /// Records the error of a failed read of the component, or of a failed check of one of its
    /// entries.
    pub(super) fn record<T, E>(&mut self, outcome: Result<T, E>) -> Result<T, StorageError>
    where
        StorageError: From<E>,
    {
        let outcome = outcome.map_err(StorageError::from);
        outcome.inspect_err(|error| self.failure = Some(error.clone()))
    }

    /// Leaves the component out of later reads if a failure was recorded. Returns whether one was.
    pub(super) fn forget_damaged(&self, index: &str) -> bool {
        let Some(error) = &self.failure else { return false };
        if self.sstable.reader().forget_secondary_index(index) {
            tracing::warn!(
                %error,
                index,
                sstable = %self.sstable.descriptor(),
                "secondary index: the entries of an SSTable are damaged, leaving them out; queries \
                 read all rows until the background build has made them again"
            );
        }
        true
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
        let found = sstable.reader().secondary_index(index);
        let found = found.filter(|found| found.signature() == signature)?;
        let (file, cursor) = (IndexFile::new(sstable.clone()), found.cursor(bypass_cache)?);
        let entries = FileEntries { file, cursor, is_there: false };
        sources.push(EntrySource::File(Box::new(entries)));
    }
    Some(sources)
}

impl EntrySource {
    /// Moves to the least entry that is not below `from`.
    pub(super) async fn seek(&mut self, from: &[u8]) -> Result<(), StorageError> {
        match self {
            Self::Memory(memory) => {
                memory.portion = 1;
                memory.take_from(from);
                Ok(())
            }
            Self::File(entries) => {
                let moved = entries.cursor.seek(from).await;
                entries.is_there = entries.file.record(moved)?;
                Ok(())
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
            Self::File(entries) => {
                let moved = entries.cursor.next().await;
                entries.is_there = entries.file.record(moved)?;
                Ok(())
            }
            #[cfg(test)]
            Self::List(_, passed) => {
                *passed += 1;
                Ok(())
            }
        }
    }

    /// Reads the entries of an SSTable from `lower` to `upper`, without `upper`. Records the error
    /// if `check` refuses one of them.
    pub(super) async fn find_malformed(
        &mut self,
        (lower, upper): (&[u8], Option<&[u8]>),
        check: &impl Fn(&[u8]) -> Result<(), StorageError>,
    ) {
        let Self::File(entries) = self else { return };
        let FileEntries { file, cursor, .. } = &mut **entries;
        let mut moved = cursor.seek(lower).await;
        while let Ok(true) = file.record(moved) {
            let found = cursor.entry();
            let is_behind = upper.is_some_and(|upper| found >= upper);
            if is_behind || file.record(check(found)).is_err() {
                return;
            }
            moved = cursor.next().await;
            maybe_yield().await;
        }
    }

    /// Returns the present entry.
    pub(super) fn entry(&self) -> Option<&[u8]> {
        match self {
            Self::Memory(memory) => memory.ahead.front().map(Vec::as_slice),
            Self::File(entries) => entries.is_there.then(|| entries.cursor.entry()),
            #[cfg(test)]
            Self::List(entries, passed) => entries.get(*passed).map(Vec::as_slice),
        }
    }

    /// Returns the SSTable, if the source is one.
    pub(super) fn file(&mut self) -> Option<&mut IndexFile> {
        let Self::File(entries) = self else { return None };
        Some(&mut entries.file)
    }
}
