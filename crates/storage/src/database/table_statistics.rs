//! What is counted of each table, summed over shards.

use std::{collections::BTreeMap, rc::Rc};

use espalier_runtime::maybe_yield;

use super::Database;
use crate::table::Table;

/// What is counted of a table on all shards, at the moment when each was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableStatistics {
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
    /// Live SSTables. One that several shards have a part of is one.
    pub sstables: u64,
    /// Bytes of all their files.
    pub sstable_bytes: u64,
    /// Bytes of all files of the largest of them.
    pub max_sstable_bytes: u64,
    /// Upper end of the range in which the size of the largest partition in an SSTable lies, in bytes before compression.
    pub max_partition_bytes: u64,
    /// Partitions in the SSTables and in the memtables: one that is in several of these counts several times.
    pub partitions_estimate: u64,
    /// Memory of the memtables, those that are being flushed included.
    pub memtable_bytes: u64,
    /// Partitions in the memtables.
    pub memtable_partitions: u64,
    /// Rows in the memtables, without static rows.
    pub memtable_rows: u64,
    /// Compactions that run.
    pub running_compactions: u64,
    /// Compactions that the strategy wants and that have not begun.
    pub pending_compactions: u64,
}

/// What one shard has of a table.
struct Part {
    /// SSTables by their names: several shards may have parts of the same one.
    sstables: BTreeMap<String, Size>,
    /// Everything that can be added up.
    sums: TableStatistics,
}

/// One SSTable.
struct Size {
    bytes: u64,
    partitions: u64,
    largest_partition_bytes: u64,
}

impl Database {
    /// What is counted of all tables, by keyspace and name.
    pub async fn table_statistics(&self) -> Vec<TableStatistics> {
        let parts = self.on_all_shards(|database| async move { database.parts_here().await });
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

    async fn parts_here(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        for table in self.tables_here() {
            parts.push(self.part_of(&table).await);
            maybe_yield().await;
        }
        parts
    }

    async fn part_of(&self, table: &Rc<Table>) -> Part {
        let (metadata, view) = (table.metadata(), table.view());
        let mut sums = TableStatistics {
            keyspace: metadata.keyspace.clone(),
            table: metadata.name.clone(),
            running_compactions: table.compactions.running().len() as u64,
            pending_compactions: self.pending_compactions_of(table) as u64,
            ..TableStatistics::default()
        };
        for memtable in view.memtables() {
            let memory = memtable.memory();
            sums.memtable_bytes += memtable.memory_bytes() as u64;
            sums.memtable_partitions += memory.partitions;
            sums.memtable_rows += memory.rows;
        }
        let mut sstables = BTreeMap::new();
        for sstable in view.sstables.iter() {
            let size = Size {
                bytes: sstable.bytes_on_disk(self.file_system()).await,
                partitions: sstable.reader().partition_count(),
                largest_partition_bytes: sstable.largest_partition_bytes(),
            };
            sstables.insert(sstable.descriptor().to_string(), size);
        }
        Part { sstables, sums }
    }
}

impl Part {
    fn add(&mut self, other: Part) {
        self.sstables.extend(other.sstables);
        let (sums, more) = (&mut self.sums, other.sums);
        sums.memtable_bytes += more.memtable_bytes;
        sums.memtable_partitions += more.memtable_partitions;
        sums.memtable_rows += more.memtable_rows;
        sums.running_compactions += more.running_compactions;
        sums.pending_compactions += more.pending_compactions;
    }

    fn finish(self) -> TableStatistics {
        let sizes = self.sstables.values();
        TableStatistics {
            sstables: self.sstables.len() as u64,
            sstable_bytes: sizes.clone().map(|size| size.bytes).sum(),
            max_sstable_bytes: sizes.clone().map(|size| size.bytes).max().unwrap_or(0),
            max_partition_bytes: {
                let largest = sizes.clone().map(|size| size.largest_partition_bytes);
                largest.max().unwrap_or(0)
            },
            partitions_estimate: {
                let flushed: u64 = sizes.map(|size| size.partitions).sum();
                flushed + self.sums.memtable_partitions
            },
            ..self.sums
        }
    }
}
