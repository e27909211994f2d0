//! Statistics of each table, summed over shards.

use std::{collections::BTreeMap, rc::Rc};

use espalier_runtime::maybe_yield;
use espalier_sstable::{BytesOnDisk, SSTable, versions::Version};

use super::Node;
use crate::{
    compaction::pending_of,
    table::{Table, TableView},
};

/// Statistics of a table on all shards. The shards count at slightly different moments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableStatistics {
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
    /// Live SSTables. One that several shards share counts once.
    pub sstables: u64,
    /// Bytes of all files of the SSTables.
    pub sstable_bytes: u64,
    /// Bytes of all files of the largest SSTable.
    pub max_sstable_bytes: u64,
    /// SSTables of another version than the current one.
    pub old_sstables: u64,
    /// SSTables on each level, if the strategy has levels.
    pub sstables_by_level: Vec<u64>,
    /// Bytes of the compressed Data.db files, as stored.
    pub compressed_bytes: u64,
    /// Bytes of the compressed Data.db files before compression.
    pub uncompressed_bytes: u64,
    /// The filters of the SSTables.
    pub filters: FilterSizes,
    /// The sizes of the partitions in SSTables.
    pub partition_sizes: PartitionSizes,
    /// Partitions in the SSTables and memtables. A partition that is in several of them counts
    /// several times.
    pub partitions_estimate: u64,
    /// The memtables, including memtables in a flush.
    pub memtables: MemtableSizes,
    /// Running compactions.
    pub running_compactions: u64,
    /// Compactions that the strategy wants and that have not started.
    pub pending_compactions: u64,
}

/// The sizes of a table's Bloom filters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterSizes {
    /// Bytes on disk.
    pub bytes: u64,
    /// Bytes of memory. Each shard has its own filter of a shared SSTable.
    pub memory_bytes: u64,
}

/// The sizes of a table's partitions in SSTables, in bytes before compression, as the histograms of
/// the SSTables have them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionSizes {
    /// Lower end of the bucket of the smallest partition.
    pub min_bytes: u64,
    /// Mean of the sizes, each taken as the upper end of its bucket.
    pub mean_bytes: u64,
    /// Upper end of the bucket of the largest partition.
    pub max_bytes: u64,
}

/// The sizes of a table's memtables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemtableSizes {
    /// Bytes of memory.
    pub bytes: u64,
    /// Bytes of `bytes` that rows, partitions and range deletions take.
    pub content_bytes: u64,
    /// Partitions.
    pub partitions: u64,
    /// Rows, without static rows.
    pub rows: u64,
    /// Memtables that are being flushed or wait for their flush.
    pub pending_flushes: u64,
}

/// The statistics of a table on one shard.
struct Part {
    /// SSTables by name, because several shards may have parts of one SSTable.
    sstables: BTreeMap<String, Facts>,
    /// All statistics that can be added up.
    sums: TableStatistics,
}

/// The facts of one SSTable.
struct Facts {
    bytes: BytesOnDisk,
    is_old: bool,
    level: usize,
    /// Bytes of Data.db as stored and before compression, if it is compressed.
    compression: Option<(u64, u64)>,
    partitions: u64,
    partition_sizes: Sizes,
}

/// Partition sizes, from the histogram of Statistics.db.
struct Sizes {
    least: Option<u64>,
    largest: u64,
    sum: u128,
    count: u64,
}

impl Facts {
    async fn of(node: &Node, sstable: &SSTable, version: Version) -> Self {
        let (reader, sizes) = (sstable.reader(), sstable.partition_sizes());
        let compressed = || (reader.stored_data_length(), reader.data_length());
        Self {
            bytes: sstable.bytes_on_disk(node.store().file_system()).await,
            is_old: sstable.descriptor().version != version,
            level: sstable.level() as usize,
            compression: reader.compression().map(|_| compressed()),
            partitions: reader.partition_count(),
            partition_sizes: Sizes {
                least: sizes.lower_end(),
                largest: sizes.upper_end().unwrap_or(0),
                sum: sizes.sum(),
                count: sizes.total(),
            },
        }
    }
}

impl Node {
    /// Returns the statistics of all tables, ordered by keyspace and name.
    pub async fn table_statistics(&self) -> Vec<TableStatistics> {
        let parts = self.on_all_shards(|node| async move { parts_here(&node).await });
        let mut joined = BTreeMap::<(String, String), Part>::new();
        for part in parts.await.into_iter().flatten() {
            let name = (part.sums.keyspace.clone(), part.sums.table.clone());
            match joined.entry(name) {
                std::collections::btree_map::Entry::Vacant(entry) => {
                    entry.insert(part);
                }
                std::collections::btree_map::Entry::Occupied(mut entry) => {
                    entry.get_mut().add(part);
                }
            }
        }
        joined.into_values().map(Part::finish).collect()
    }
}

async fn part_of(node: &Node, table: &Rc<Table>) -> Part {
    let (metadata, view) = (table.metadata(), table.view());
    let mut sums = TableStatistics {
        keyspace: metadata.keyspace.clone(),
        table: metadata.name.clone(),
        running_compactions: table.compactions.running().len() as u64,
        pending_compactions: pending_of(node.store(), table) as u64,
        memtables: sizes_of(&view),
        sstables_by_level: vec![0; table.compaction_strategy().levels().unwrap_or(0)],
        ..TableStatistics::default()
    };
    let version = node.store().tables.features_of(table).version;
    let mut sstables = BTreeMap::new();
    for sstable in view.sstables.iter() {
        let filter = sstable.reader().bloom_filter();
        sums.filters.memory_bytes += filter.map_or(0, |filter| filter.memory_size() as u64);
        let facts = Facts::of(node, sstable, version).await;
        sstables.insert(sstable.descriptor().to_string(), facts);
    }
    Part { sstables, sums }
}

fn sizes_of(view: &TableView) -> MemtableSizes {
    let pending_flushes = view.flushing.len() as u64;
    let mut sizes = MemtableSizes { pending_flushes, ..MemtableSizes::default() };
    for memtable in view.memtables() {
        let memory = memtable.memory();
        sizes.bytes += memtable.memory_bytes() as u64;
        sizes.content_bytes += memory.content_bytes;
        sizes.partitions += memory.partitions;
        sizes.rows += memory.rows;
    }
    sizes
}

async fn parts_here(node: &Node) -> Vec<Part> {
    let mut parts = Vec::new();
    for table in node.store().tables.all() {
        parts.push(part_of(node, &table).await);
        maybe_yield().await;
    }
    parts
}

impl Part {
    fn add(&mut self, other: Part) {
        self.sstables.extend(other.sstables);
        let (sums, more) = (&mut self.sums, other.sums);
        sums.filters.memory_bytes += more.filters.memory_bytes;
        sums.memtables.bytes += more.memtables.bytes;
        sums.memtables.content_bytes += more.memtables.content_bytes;
        sums.memtables.partitions += more.memtables.partitions;
        sums.memtables.rows += more.memtables.rows;
        sums.memtables.pending_flushes += more.memtables.pending_flushes;
        sums.running_compactions += more.running_compactions;
        sums.pending_compactions += more.pending_compactions;
    }

    fn finish(self) -> TableStatistics {
        let Self { sstables, sums } = self;
        let mut all = TableStatistics { partitions_estimate: sums.memtables.partitions, ..sums };
        let (mut least, mut size_sum, mut size_count) = (None, 0u128, 0u64);
        for facts in sstables.into_values() {
            all.sstables += 1;
            all.sstable_bytes += facts.bytes.all;
            all.max_sstable_bytes = all.max_sstable_bytes.max(facts.bytes.all);
            all.filters.bytes += facts.bytes.filter;
            all.old_sstables += u64::from(facts.is_old);
            // Higher levels count as the last one, as for the strategy.
            if let Some(last) = all.sstables_by_level.len().checked_sub(1) {
                all.sstables_by_level[facts.level.min(last)] += 1;
            }
            if let Some((stored, plain)) = facts.compression {
                all.compressed_bytes += stored;
                all.uncompressed_bytes += plain;
            }
            all.partitions_estimate += facts.partitions;
            let sizes = facts.partition_sizes;
            all.partition_sizes.max_bytes = all.partition_sizes.max_bytes.max(sizes.largest);
            least = least.into_iter().chain(sizes.least).min();
            size_sum = size_sum.saturating_add(sizes.sum);
            size_count = size_count.saturating_add(sizes.count);
        }
        all.partition_sizes.min_bytes = least.unwrap_or(0);
        let mean = size_sum / u128::from(size_count.max(1));
        all.partition_sizes.mean_bytes = u64::try_from(mean).unwrap_or(u64::MAX);
        all
    }
}
