//! A contender: a node of one shard over one SSTable of one format, with its own memory.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use espalier_cql::{Prepared, PreparedCache};
use espalier_mutation::schema::TableMetadata;
use espalier_runtime::ShardContext;
use espalier_runtime::cpu::thread_time;
use espalier_runtime::file::FileSystem;
use espalier_runtime::time::Instant;
use espalier_sstable::versions::Version;
use espalier_storage::{SharedStorage, StorageConfiguration};

use super::figures::Cost;
use super::population::Population;
use crate::BenchError;
use crate::node::{Found, InProcessNode};
use crate::simple_query::entries::ExpectedRow;

/// Keyspace of the table. The table is named `t`.
const KEYSPACE: &str = "ks";

/// Limits of a node's memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// Bytes of pages and rows together.
    pub bytes: usize,
    /// The part of these bytes that rows may take.
    pub row_bytes: usize,
}

/// A format, and the way in which its files are made.
#[derive(Clone, Debug)]
pub struct Format {
    /// The name for the report.
    pub name: String,
    /// Version of the SSTables.
    pub version: String,
    /// Bytes of Summary.db for each byte of Data.db; if `None`, `min_index_interval` decides.
    pub summary_ratio: Option<f64>,
    /// Bytes of rows between entries of the row index; if `None`, the version's default.
    pub column_index_bytes: Option<u32>,
    /// Directory of the files of the format's node.
    pub directory: PathBuf,
}

impl Format {
    /// Returns the settings of the format's node.
    pub fn configuration(&self, memory: Memory) -> StorageConfiguration {
        let mut storage = StorageConfiguration::new(&self.directory);
        storage.caches.page_cache_bytes = memory.bytes;
        storage.caches.row_cache_bytes = memory.row_bytes;
        storage.sstables.format.clone_from(&self.version);
        storage.sstables.summary_ratio = self.summary_ratio;
        storage.sstables.column_index_bytes = self.column_index_bytes;
        storage.autocompaction = false;
        storage
    }

    /// Returns true if the format's index is a trie.
    pub fn has_trie(&self) -> bool {
        Version::named(&self.version).is_some_and(|features| features.has_trie_index())
    }

    async fn node(&self, memory: Memory) -> Result<InProcessNode, BenchError> {
        let context = ShardContext { index: 0, count: 1 };
        let configuration = Arc::new(self.configuration(memory));
        let statements = Arc::new(PreparedCache::default());
        InProcessNode::open_shard(context, configuration, SharedStorage::new(), statements).await
    }

    /// Creates the table on a new node and stops the node; returns the table and the directory for
    /// its SSTables.
    pub async fn create_table(
        &self,
        population: &Population,
        compression: &str,
    ) -> Result<(Arc<TableMetadata>, PathBuf), BenchError> {
        let node = self.node(Memory::default()).await?;
        let created = async {
            node.query(&format!(
                "CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', \
                 'replication_factor': 1}} \
                 AND durable_writes = false"
            ))
            .await?;
            let definition = population.definition();
            let options = format!("compression = {compression}");
            node.query(&format!("CREATE TABLE {KEYSPACE}.t ({definition}) WITH {options}")).await?;
            let table = node.database().store().schema().table(KEYSPACE, "t").cloned();
            table.ok_or_else(|| BenchError::Wrong("a table that was made is not there".into()))
        };
        let table = created.await;
        node.database().shutdown().await?;
        let table = table?;
        let data = self.configuration(Memory::default()).data_directory;
        let directory = data.join(&table.keyspace).join(table.directory_name());
        Ok((table, directory))
    }
}

/// A format with an open node.
pub struct Contender {
    pub format: Format,
    node: InProcessNode,
    population: Population,
    select: Arc<Prepared>,
}

impl Contender {
    /// Opens the node over existing files, within `memory`.
    pub async fn open(
        format: Format,
        population: Population,
        memory: Memory,
        bypass_cache: bool,
    ) -> Result<Rc<Self>, BenchError> {
        let node = format.node(memory).await?;
        let columns: Vec<_> = population.columns().collect();
        let columns = columns.join(", ");
        let rows = if population.has_clustering() { " AND c = ?" } else { "" };
        let bypass = if bypass_cache { " BYPASS CACHE" } else { "" };
        let select = format!("SELECT {columns} FROM {KEYSPACE}.t WHERE k = ?{rows}{bypass}");
        let select = node.prepare(&select)?;
        Ok(Rc::new(Self { format, node, population, select }))
    }

    /// Returns the population of the table.
    pub fn population(&self) -> &Population {
        &self.population
    }

    /// Reads a row and compares all of it.
    pub async fn read(&self, number: u64) -> Result<(), BenchError> {
        let key = self.population.full_key(number);
        let mut expected = ExpectedRow::new(self.population.entries);
        match self.node.read(&self.select, &key, expected.of(number)).await? {
            Found::Expected => Ok(()),
            found => {
                let name = &self.format.name;
                Err(BenchError::Wrong(format!("{name}: row {number} was read as {found:?}")))
            }
        }
    }

    /// Returns the resources that this thread and the node have used so far.
    pub fn cost(&self) -> Cost {
        let metrics = self.node.database().store().metrics();
        Cost {
            began: Instant::now(),
            clock: Duration::ZERO,
            core: thread_time(),
            index: metrics.page_cache.index,
            data: metrics.page_cache.data,
            row_hits: metrics.row_cache.row_hits,
        }
    }

    /// Stops the node and keeps its files.
    pub async fn close(contender: Rc<Self>) -> Result<(), BenchError> {
        contender.node.database().shutdown().await?;
        Ok(())
    }

    /// Removes the files of a format's node.
    pub async fn remove(format: &Format) -> Result<(), BenchError> {
        Ok(FileSystem::real().remove_dir_all(&format.directory).await?)
    }
}
