//! Reports the memory of a memtable by its use.

use super::{Memtable, content::Content};

/// The memory of a memtable by use. The bytes together are [`Memtable::memory_bytes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemtableMemory {
    /// The number of partitions.
    pub partitions: u64,
    /// The number of rows, without static rows.
    pub rows: u64,
    /// Bytes of the ordered structure over the contents, and of the entries of secondary indexes.
    pub structure_bytes: u64,
    /// Bytes of rows, partitions and bounds of range deletions.
    pub content_bytes: u64,
    /// Bytes that are allocated but free, or used only by readers of overwritten contents or by the
    /// bookkeeping for them.
    pub free_bytes: u64,
}

impl Memtable {
    /// Returns the memory by use.
    pub fn memory(&self) -> MemtableMemory {
        let (store, statistics) = (self.store.borrow(), self.statistics.borrow());
        let slots = store.content_count() * size_of::<Content>();
        let used = self.used_bytes() - self.heap_bytes.get();
        let free = self.memory_bytes().saturating_sub(self.used_bytes());
        MemtableMemory {
            partitions: statistics.partitions,
            rows: statistics.rows,
            structure_bytes: used.saturating_sub(slots) as u64,
            content_bytes: (slots + self.heap_bytes.get()) as u64,
            free_bytes: free as u64,
        }
    }
}
