//! Statistics of each table, summed over shards.

use std::{collections::BTreeMap, rc::Rc};

use espalier_runtime::maybe_yield;
use espalier_sstable::{BytesOnDisk, SSTable, versions::Version};

use super::Node;
use crate::{compaction::pending_of, table::Table};

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
    /// Bytes of the filters on disk.
    pub filter_bytes: u64,
    /// Bytes of memory of the filters. Each shard has its own filter of a shared SSTable.
    pub filter_memory_bytes: u64,
    /// Lower end of the histogram bucket of the smallest partition in an SSTable, in bytes before
    /// compression.
    pub min_partition_bytes: u64,
    /// Mean of the partition sizes, each taken as the upper end of its bucket.
    pub mean_partition_bytes: u64,
    /// Upper end of the histogram bucket of the largest partition in an SSTable, in bytes before
    /// compression.
    pub max_partition_bytes: u64,
    /// Partitions in the SSTables and memtables. A partition that is in several of them counts
    /// several times.
    pub partitions_estimate: u64,
    /// Bytes of memory of the memtables, including memtables in a flush.
    pub memtable_bytes: u64,
    /// Bytes of `memtable_bytes` that rows, partitions and range deletions take.
    pub memtable_content_bytes: u64,
    /// Memtables that are being flushed or wait for their flush.
    pub pending_flushes: u64,
    /// Partitions in the memtables.
    pub memtable_partitions: u64,
    /// Rows in the memtables, without static rows.
    pub memtable_rows: u64,
    /// Running compactions.
    pub running_compactions: u64,
    /// Compactions that the strategy wants and that have not started.
    pub pending_compactions: u64,
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
        pending_flushes: view.flushing.len() as u64,
        sstables_by_level: vec![0; table.compaction_strategy().levels().unwrap_or(0)],
        ..TableStatistics::default()
    };
    for memtable in view.memtables() {
        let memory = memtable.memory();
        sums.memtable_bytes += memtable.memory_bytes() as u64;
        sums.memtable_content_bytes += memory.content_bytes;
        sums.memtable_partitions += memory.partitions;
        sums.memtable_rows += memory.rows;
    }
    let version = node.store().tables.features_of(table).version;
    let mut sstables = BTreeMap::new();
    for sstable in view.sstables.iter() {
        let filter = sstable.reader().bloom_filter();
        sums.filter_memory_bytes += filter.map_or(0, |filter| filter.memory_size() as u64);
        let facts = Facts::of(node, sstable, version).await;
        sstables.insert(sstable.descriptor().to_string(), facts);
    }
    Part { sstables, sums }
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
        sums.filter_memory_bytes += more.filter_memory_bytes;
        sums.memtable_bytes += more.memtable_bytes;
        sums.memtable_content_bytes += more.memtable_content_bytes;
        sums.pending_flushes += more.pending_flushes;
        sums.memtable_partitions += more.memtable_partitions;
        sums.memtable_rows += more.memtable_rows;
        sums.running_compactions += more.running_compactions;
        sums.pending_compactions += more.pending_compactions;
    }

    fn finish(self) -> TableStatistics {
        let Self { sstables, sums } = self;
        let mut all = TableStatistics { partitions_estimate: sums.memtable_partitions, ..sums };
        let (mut least, mut size_sum, mut size_count) = (None, 0u128, 0u64);
        for facts in sstables.into_values() {
            all.sstables += 1;
            all.sstable_bytes += facts.bytes.all;
            all.max_sstable_bytes = all.max_sstable_bytes.max(facts.bytes.all);
            all.filter_bytes += facts.bytes.filter;
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
            all.max_partition_bytes = all.max_partition_bytes.max(sizes.largest);
            least = least.into_iter().chain(sizes.least).min();
            size_sum = size_sum.saturating_add(sizes.sum);
            size_count = size_count.saturating_add(sizes.count);
        }
        all.min_partition_bytes = least.unwrap_or(0);
        let mean = size_sum / u128::from(size_count.max(1));
        all.mean_partition_bytes = u64::try_from(mean).unwrap_or(u64::MAX);
        all
    }
}
