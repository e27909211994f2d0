//! What a memtable takes: structure and content, and whether the process has grown by as much.

use espalier_storage::memtable::MemtableMemory;

/// What a memtable takes, and what it holds.
#[derive(Clone, Debug)]
pub struct MemoryFigure {
    /// The data.
    pub keys: String,
    /// The kind of memtable, or of whom it is.
    pub kind: String,
    /// What it holds and takes. Where a peer does not tell structure from content, all is structure.
    pub memory: MemtableMemory,
    /// Whether structure and content are told apart.
    pub is_split: bool,
    /// What the process has grown by, as a check.
    pub resident_bytes: u64,
}

impl MemoryFigure {
    /// Bytes of structure and content for each row.
    pub fn per_row(&self) -> f64 {
        let bytes = self.memory.structure_bytes + self.memory.content_bytes;
        bytes as f64 / self.memory.rows.max(1) as f64
    }

    /// Bytes of structure and content for each partition.
    pub fn per_partition(&self) -> f64 {
        let bytes = self.memory.structure_bytes + self.memory.content_bytes;
        bytes as f64 / self.memory.partitions.max(1) as f64
    }
}
