//! A table for a kind of memtable and a shape of keys, with its statements.

use std::sync::Arc;

use espalier_cql::Prepared;

use super::keys::Population;
use crate::{BenchError, node::InProcessNode};

/// The keyspace of the tables.
pub const KEYSPACE: &str = "bench_memtable";

/// A table with its prepared statements.
pub struct Table {
    /// The table's name.
    pub name: String,
    /// Inserts all columns of one entry.
    pub insert: Arc<Prepared>,
    /// Selects one row by its whole key.
    pub select: Arc<Prepared>,
    /// Selects all rows.
    pub scan: Arc<Prepared>,
    /// Selects a hundred rows from a row on; in tables without clustering, a hundred partitions
    /// behind a token.
    pub slice: Arc<Prepared>,
    /// Selects all rows of a partition from a row on; in tables without clustering, all partitions
    /// behind a token.
    pub page: Arc<Prepared>,
    /// Selects a hundred rows downwards from a row; only in tables with clustering.
    pub slice_down: Option<Arc<Prepared>>,
}

/// Rows of a slice.
pub const SLICE_ROWS: usize = 100;

/// Creates the keyspace. Its writes bypass the commit log, because memtables are measured, not the
/// disk.
pub async fn create_keyspace(node: &InProcessNode) -> Result<(), BenchError> {
    let text = format!(
        "CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', \
         'replication_factor': 1}} \
         AND durable_writes = false"
    );
    node.query(&text).await.map(drop)
}

impl Table {
    /// Creates the table.
    pub async fn create(
        node: &InProcessNode,
        name: &str,
        kind: &str,
        population: Population,
    ) -> Result<Self, BenchError> {
        let columns = population.key_columns();
        let definitions: String =
            columns.iter().map(|(name, of)| format!("{name} {of}, ")).collect();
        let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
        let (partition, clustering) = names.split_at(population.partition_columns());
        let partition = partition.join(", ");
        let rest: String = clustering.iter().map(|name| format!(", {name}")).collect();
        let table = format!("{KEYSPACE}.{name}");
        node.query(&format!(
            "CREATE TABLE {table} ({definitions}col blob, PRIMARY KEY (({partition}){rest})) \
             WITH memtable = '{kind}' AND compression = {{'enabled': false}}"
        ))
        .await?;
        let markers = vec!["?"; names.len()].join(", ");
        let insert =
            format!("INSERT INTO {table} ({}, col) VALUES ({markers}, ?)", names.join(", "));
        let select =
            names.iter().map(|name| format!("{name} = ?")).collect::<Vec<_>>().join(" AND ");
        let some = format!("SELECT * FROM {table} WHERE");
        let (page, slice_down) = match clustering {
            [row, ..] => (
                format!("{some} {partition} = ? AND {row} >= ?"),
                Some(format!(
                    "{some} {partition} = ? AND {row} <= ? ORDER BY {row} DESC LIMIT {SLICE_ROWS}"
                )),
            ),
            [] => (format!("{some} token({partition}) > ?"), None),
        };
        Ok(Self {
            name: name.to_owned(),
            insert: node.prepare(&insert)?,
            select: node.prepare(&format!("{some} {select}"))?,
            scan: node.prepare(&format!("SELECT * FROM {table}"))?,
            slice: node.prepare(&format!("{page} LIMIT {SLICE_ROWS}"))?,
            page: node.prepare(&page)?,
            slice_down: slice_down.map(|text| node.prepare(&text)).transpose()?,
        })
    }

    /// Drops the table with its data.
    pub async fn drop(self, node: &InProcessNode) -> Result<(), BenchError> {
        node.query(&format!("DROP TABLE {KEYSPACE}.{}", self.name)).await.map(drop)
    }
}
