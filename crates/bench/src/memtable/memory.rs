//! Memory of a memtable: structure and content, checked against the growth of the process.

use espalier_storage::MemtableMemory;

/// Memory of a memtable, and its contents.
#[derive(Clone, Debug)]
pub struct MemoryFigure {
    /// Name of the data.
    pub keys: String,
    /// Kind of memtable, or name of the peer.
    pub kind: String,
    /// The memtable's counts and bytes. If a peer does not separate structure from content, all
    /// bytes count as structure.
    pub memory: MemtableMemory,
    /// True if structure and content are separate figures.
    pub is_split: bool,
    /// Growth of the process, as a check; 0 for a peer.
    pub resident_bytes: u64,
}

impl MemoryFigure {
    /// Returns bytes of structure and content for each row.
    pub fn per_row(&self) -> f64 {
        let bytes = self.memory.structure_bytes + self.memory.content_bytes;
        bytes as f64 / self.memory.rows.max(1) as f64
    }

    /// Returns bytes of structure and content for each partition.
    pub fn per_partition(&self) -> f64 {
        let bytes = self.memory.structure_bytes + self.memory.content_bytes;
        bytes as f64 / self.memory.partitions.max(1) as f64
    }
}
