//! Look-ahead: prefetches the memory that look-ups or writes of several rows will need, for all
//! rows side by side.
//!
//! A connection mostly has more than one request to answer at a time. A look-up among millions of
//! rows waits for memory ten or twenty times, each time for the address of the next step.
//! Look-ahead changes no answer: a row whose memory was prefetched is looked up as any other, only
//! faster.

use super::ShardStore;
use crate::table::Table;
use espalier_mutation::{DecoratedKeyRef, Token, murmur3, path, schema::TableMetadata};
use espalier_sstable::SSTable;
use espalier_trie::memory::LOOK_AHEAD_KEYS;
use std::{cell::RefMut, ops::Range, rc::Rc};

/// Minimum size of a table that is worth looking ahead in, in bytes. A smaller one is mostly in the
/// processor's cache. Builds with assertions always look ahead, so that tests do.
const WORTHWHILE_BYTES: u64 = if cfg!(debug_assertions) { 1 } else { 1 << 20 };

/// Maximum SSTables of a table that look-ahead inspects. With more, memory is not what a look-up
/// mostly waits for.
const MAX_SSTABLES: usize = 8;

/// Maximum bytes of a row's partition key and clustering together for which look-ahead prefetches.
/// Preparing the path of a longer key would take longer than the look-up gains.
const MAX_KEY: usize = 512;

// `is_known` in `for_reading` has one bit for each key.
const _: () = assert!(LOOK_AHEAD_KEYS <= u32::BITS as usize);

/// Room for the table's number in front of each path, as the row cache's keys have it.
const NUMBER: [u8; 4] = [0; 4];

/// Memory that is reused for each group of keys: at most about four times [`LOOK_AHEAD_KEYS`] ×
/// [`MAX_KEY`] bytes.
#[derive(Default)]
pub(crate) struct LookAheadBuffers {
    bytes: Vec<u8>,
    keys: Vec<Key>,
}

/// A row's key, as ranges of the buffer's bytes.
struct Key {
    token: Token,
    /// The serialized partition key.
    partition_key: Range<usize>,
    /// Start of [`NUMBER`], followed by the path of the partition and the path of the row.
    number_at: usize,
    partition_end: usize,
    row_end: usize,
}

/// A group of keys of one table to look ahead for.
pub struct LookAhead<'a> {
    store: &'a ShardStore,
    table: Rc<Table>,
    buffers: RefMut<'a, LookAheadBuffers>,
}

impl LookAhead<'_> {
    /// Returns whether looking ahead in a table is worthwhile.
    pub fn is_worthwhile(store: &ShardStore, table: &TableMetadata) -> bool {
        let tables = store.tables.by_id.borrow();
        let Some(stored) = tables.get(&table.id) else { return false };
        let view = stored.borrow_view();
        let memtables = view.memtables().filter(|memtable| memtable.looks_ahead());
        let memory: usize = memtables.map(|memtable| memtable.used_bytes()).sum();
        if memory as u64 >= WORTHWHILE_BYTES {
            return true;
        }
        // Many SSTables have many bytes, so a few are enough to decide.
        let files = view.sstables.iter().map(|sstable| sstable.reader().data_length());
        files.take(MAX_SSTABLES).sum::<u64>() >= WORTHWHILE_BYTES
    }

    /// Adds a row, unless another shard owns it or its key is too long. Returns false if there is
    /// no room for more rows. `clustering` has a value for each clustering column.
    pub fn add<V: AsRef<[u8]>>(
        &mut self,
        table: &TableMetadata,
        key: DecoratedKeyRef<'_>,
        clustering: &[Option<V>],
    ) -> bool {
        let length: usize = clustering.iter().flatten().map(|value| value.as_ref().len()).sum();
        if self.store.routing.owns(table, key.token) && key.key.len() + length <= MAX_KEY {
            let LookAheadBuffers { bytes, keys } = &mut *self.buffers;
            let start = bytes.len();
            bytes.extend_from_slice(key.key);
            let number_at = bytes.len();
            bytes.extend_from_slice(&NUMBER);
            path::put_partition(key, bytes);
            let partition_end = bytes.len();
            path::put_row(table.comparator(), clustering, bytes);
            keys.push(Key {
                token: key.token,
                partition_key: start..number_at,
                number_at,
                partition_end,
                row_end: bytes.len(),
            });
        }
        self.buffers.keys.len() < LOOK_AHEAD_KEYS
    }

    /// Prefetches the memory that reading the rows needs.
    pub fn for_reading(mut self) {
        let view = self.table.view();
        let LookAheadBuffers { bytes, keys } = &mut *self.buffers;
        for memtable in view.memtables().filter(|memtable| !memtable.is_empty()) {
            memtable.look_ahead(keys.iter().map(|key| key.row(bytes)));
        }
        if view.sstables.is_empty() {
            return;
        }
        let mut is_known = 0_u32;
        if let Some(cache) = self.table.enabled_row_cache() {
            let number = cache.number().to_be_bytes();
            for key in &*keys {
                bytes[key.number_at..][..number.len()].copy_from_slice(&number);
            }
            let rows = keys.iter().map(|key| key.numbered_row(bytes));
            cache.look_ahead(rows, |index| is_known |= 1 << index);
        }
        let unknown = keys.iter().enumerate().filter(|(index, _)| is_known & 1 << index == 0);
        let unknown = unknown.map(|(_, key)| key);
        match &*view.sstables {
            [only] => only.reader().look_ahead(unknown.map(|key| key.partition(bytes))),
            several if several.len() <= MAX_SSTABLES => several.iter().for_each(|sstable| {
                let having = unknown.clone().filter(|key| key.may_be_in(sstable, bytes));
                sstable.reader().look_ahead(having.map(|key| key.partition(bytes)));
            }),
            _ => {}
        }
    }

    /// Prefetches the memory that writing the rows needs.
    pub fn for_writing(self) {
        let LookAheadBuffers { bytes, keys } = &*self.buffers;
        self.table.view().memtable.look_ahead(keys.iter().map(|key| key.row(bytes)));
    }
}

impl Key {
    fn partition<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        &bytes[self.number_at + NUMBER.len()..self.partition_end]
    }

    fn row<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        &bytes[self.number_at + NUMBER.len()..self.row_end]
    }

    fn numbered_row<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        &bytes[self.number_at..self.row_end]
    }

    fn may_be_in(&self, sstable: &SSTable, bytes: &[u8]) -> bool {
        let key = &bytes[self.partition_key.clone()];
        sstable.spans(DecoratedKeyRef { token: self.token, key })
            && sstable.passes_filter(murmur3::hash(key))
    }
}

impl ShardStore {
    /// Starts to look ahead in a table; `None` if that is not worthwhile.
    pub fn look_ahead(&self, table: &TableMetadata) -> Option<LookAhead<'_>> {
        if !LookAhead::is_worthwhile(self, table) {
            return None;
        }
        let stored = self.tables.by_id.borrow().get(&table.id)?.clone();
        let mut buffers = self.buffers.look_ahead.try_borrow_mut().ok()?;
        buffers.bytes.clear();
        buffers.keys.clear();
        Some(LookAhead { store: self, table: stored, buffers })
    }
}
