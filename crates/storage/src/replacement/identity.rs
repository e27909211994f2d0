//! The identity of a Cassandra node, from the SSTables of its table `system.local`.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use espalier_mutation::{
    ClusteringSlices, Direction, Row, Unfiltered, UnfilteredStream, reconcile::merge_rows_into,
};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{ColumnSelection, PageCache, SSTableReader};
use uuid::Uuid;

use super::files;
use crate::{
    StorageError,
    system::{Fields, SYSTEM_KEYSPACE, local_key, table, tokens_of, truncations_of},
};

/// Bytes of the cache for the pages of the few small files. Arbitrary.
const CACHE_BYTES: usize = 1 << 20;

/// The facts about a Cassandra node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub host_id: Uuid,
    /// The time of the node's last start, in seconds since 1970; 0 if unknown.
    pub generation: i32,
    /// The number of the node's tokens.
    pub tokens: usize,
    /// The times of the last truncations of tables, in µs since 1970, by the table's id.
    pub truncations: BTreeMap<Uuid, i64>,
    cluster_name: String,
    has_joined: bool,
}

impl Identity {
    /// Reads the identity. Returns `None` if `system.local` has no row, or the row has no host id.
    pub async fn read(
        file_system: &FileSystem,
        directories: &[PathBuf],
    ) -> Result<Option<Self>, StorageError> {
        let table = Arc::new(table(SYSTEM_KEYSPACE, "local"));
        let cache = PageCache::new(CACHE_BYTES);
        let (key, slices) = (local_key(), Arc::new(ClusteringSlices::all()));
        let mut merged: Option<Row> = None;
        for source in files::tables(file_system, directories).await? {
            if (source.keyspace.as_str(), source.name.as_str()) != (SYSTEM_KEYSPACE, "local") {
                continue;
            }
            for descriptor in source.sstables {
                let opened =
                    SSTableReader::open(file_system, descriptor, Some(Arc::clone(&table)), &cache);
                let reader = opened.await?;
                let all = ColumnSelection::All;
                let read = reader.read_partition(&key, slices.clone(), Direction::Forward, &all);
                let Some(mut partition) = read.await? else { continue };
                while let Some(unfiltered) = partition.next().await? {
                    let Unfiltered::Row(row) = unfiltered else { continue };
                    match &mut merged {
                        Some(merged) => merge_rows_into(&table, merged, row),
                        None => merged = Some(row),
                    }
                }
            }
        }
        let Some(row) = merged else { return Ok(None) };
        let fields = Fields::new(&table, &row);
        let Some(host_id) = fields.uuid("host_id") else { return Ok(None) };
        Ok(Some(Self {
            host_id,
            generation: fields.int("gossip_generation").unwrap_or(0),
            tokens: tokens_of(&row).len(),
            truncations: truncations_of(&row),
            cluster_name: fields.text("cluster_name").unwrap_or_default().to_owned(),
            has_joined: fields.text("bootstrapped") == Some("COMPLETED"),
        }))
    }

    /// Checks that the node is a member of this cluster.
    pub fn check(&self, cluster_name: &str) -> Result<(), StorageError> {
        let refused = |reason| Err(StorageError::NotReplaceable(reason));
        if self.cluster_name != cluster_name {
            return refused(format!(
                "Saved cluster name {} != configured name {cluster_name}",
                self.cluster_name
            ));
        }
        if !self.has_joined || self.tokens == 0 {
            return refused("the Cassandra node has not completed its bootstrap".to_owned());
        }
        Ok(())
    }
}
