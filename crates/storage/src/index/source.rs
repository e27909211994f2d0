//! A cursor over the entries of one index in one memtable, or in one segment of an SSTable.

use std::{collections::VecDeque, rc::Rc};

use espalier_sstable::EntryCursor;

use crate::{StorageError, memtable::Memtable, table::TableView};

/// Entries that are copied from a memtable at a time. Each portion costs one descent.
const ENTRIES_AT_ONCE: usize = 32;

/// A source of entries in ascending order.
pub(super) enum EntrySource {
    Memory { memtable: Rc<Memtable>, index: Rc<str>, ahead: VecDeque<Vec<u8>>, is_last: bool },
    File { cursor: Box<EntryCursor>, is_there: bool },
}

/// Opens the entries of an index in all memtables and SSTables. Returns `None` if one of them has
/// none, because it was written before the index was created.
pub(super) fn open(
    view: &TableView,
    index: &str,
    signature: &str,
    bypass_cache: bool,
) -> Option<Vec<EntrySource>> {
    let name: Rc<str> = index.into();
    let mut sources = Vec::new();
    for memtable in view.memtables().filter(|memtable| !memtable.is_empty()) {
        if !memtable.has_index(index, signature) {
            return None;
        }
        let (memtable, index, ahead) = (memtable.clone(), name.clone(), VecDeque::new());
        sources.push(EntrySource::Memory { memtable, index, ahead, is_last: false });
    }
    for sstable in view.sstables.iter() {
        let found = sstable.reader().secondary_index(index)?;
        if found.signature() != signature {
            return None;
        }
        let file = |cursor| EntrySource::File { cursor: Box::new(cursor), is_there: false };
        sources.extend(found.cursors(bypass_cache).into_iter().map(file));
    }
    Some(sources)
}

impl EntrySource {
    /// Moves to the least entry that is not below `from`.
    pub(super) async fn seek(&mut self, from: &[u8]) -> Result<(), StorageError> {
        match self {
            Self::Memory { memtable, index, ahead, is_last } => {
                *ahead = memtable.index_entries(index, from, ENTRIES_AT_ONCE).into();
                *is_last = ahead.len() < ENTRIES_AT_ONCE;
            }
            Self::File { cursor, is_there } => *is_there = cursor.seek(from).await?,
        }
        Ok(())
    }

    /// Moves to the next entry.
    pub(super) async fn next(&mut self) -> Result<(), StorageError> {
        match self {
            Self::Memory { memtable, index, ahead, is_last } => {
                let passed = ahead.pop_front();
                if let (true, false, Some(mut from)) = (ahead.is_empty(), *is_last, passed) {
                    from.push(0);
                    *ahead = memtable.index_entries(index, &from, ENTRIES_AT_ONCE).into();
                    *is_last = ahead.len() < ENTRIES_AT_ONCE;
                }
            }
            Self::File { cursor, is_there } => *is_there = cursor.next().await?,
        }
        Ok(())
    }

    /// Returns the present entry.
    pub(super) fn entry(&self) -> Option<&[u8]> {
        match self {
            Self::Memory { ahead, .. } => ahead.front().map(Vec::as_slice),
            Self::File { cursor, is_there } => is_there.then(|| cursor.entry()),
        }
    }
}
