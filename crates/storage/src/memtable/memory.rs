//! What the memory of a memtable is used for.

use super::{Memtable, content::Content};

/// What a memtable holds and takes. The bytes together are [`Memtable::memory_bytes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemtableMemory {
    /// How many partitions it holds.
    pub partitions: u64,
    /// How many rows it holds, without static rows.
    pub rows: u64,
    /// Of the ordered structure over the contents.
    pub structure_bytes: u64,
    /// Of rows, partitions and bounds of range deletions.
    pub content_bytes: u64,
    /// Taken, and not in use, or only by readers of what was overwritten, or by the bookkeeping of that.
    pub free_bytes: u64,
}

impl Memtable {
    /// What its memory is used for.
    pub fn memory(&self) -> MemtableMemory {
        let (store, statistics) = (self.store.borrow(), self.statistics.borrow());
        let slots = store.content_count() * size_of::<Content>();
        let used = store.used_bytes();
        let free = store.memory_bytes().saturating_sub(used);
        MemtableMemory {
            partitions: statistics.partitions,
            rows: statistics.rows,
            structure_bytes: used.saturating_sub(slots) as u64,
            content_bytes: (slots + self.heap_bytes.get()) as u64,
            free_bytes: free as u64,
        }
    }
}
