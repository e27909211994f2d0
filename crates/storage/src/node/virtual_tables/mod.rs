//! Reads of virtual tables. A read makes the rows when it runs and puts them into a memtable of its
//! own; from there on it is a read like any other.

mod clients;
mod compactions;
mod estimates;
mod schema;
mod settings;
mod snapshots;
mod statistics;

pub use clients::{ClientEncryption, ClientSession, ConnectedClient};

use std::{rc::Rc, sync::Arc};

use bytes::Bytes;
use espalier_memtable::{Memtable, MemtableBudget, MemtableKind};
use espalier_mutation::{
    Clustering, DecoratedKey, KeyRange, PartitionUpdate, build_composite, pack_row,
    schema::TableMetadata,
};
use espalier_runtime::{ShardContext, maybe_yield, time, trace, trace_event};

use super::Node;
use crate::{
    ReadCommand, ReadResult, ReadTarget, StorageError,
    read::{TableAccess, read_on_shard, trace_result},
    shard::add,
    system::{RowWriter, SYSTEM_KEYSPACE, VIEWS_KEYSPACE},
    table::TableView,
};

/// Reads a virtual table.
pub(super) async fn read_virtual(
    node: &Node,
    command: &ReadCommand,
) -> Result<ReadResult, StorageError> {
    if trace::is_on() {
        trace_event!("Making the rows of virtual table {}", command.table.name);
    }
    add(&node.store().counters.reads.all, 1);
    let mut rows = VirtualRows::for_read(command);
    rows.make_rows(node).await?;
    let view = Rc::new(TableView::new(rows.into_memtable().await?));
    let access = TableAccess { view: &view, cache: None, empty: None };
    let result = read_on_shard(access, command, &KeyRange::full()).await?;
    if trace::is_on() {
        trace_result(&result);
    }
    Ok(result)
}

/// The rows of a virtual table, as far as a read asks for them.
struct VirtualRows<'a> {
    table: &'a Arc<TableMetadata>,
    /// The only partition to return, if the read asks for one.
    only: Option<&'a DecoratedKey>,
    timestamp_us: i64,
    updates: Vec<PartitionUpdate>,
}

impl<'a> VirtualRows<'a> {
    fn for_read(command: &'a ReadCommand) -> Self {
        let only = match &command.target {
            ReadTarget::Partition(key) => Some(key),
            ReadTarget::Range(_) => None,
        };
        let (table, timestamp_us) = (&command.table, time::now_micros());
        Self { table, only, timestamp_us, updates: Vec::new() }
    }

    /// Adds the rows that the table has at the moment.
    async fn make_rows(&mut self, node: &Node) -> Result<(), StorageError> {
        let table = self.table;
        match (table.keyspace.as_str(), table.name.as_str()) {
            (VIEWS_KEYSPACE, "clients") => self.put_clients(node).await,
            (VIEWS_KEYSPACE, "settings") => self.put_settings(node),
            (VIEWS_KEYSPACE, "snapshots") => self.put_snapshots(node).await?,
            (VIEWS_KEYSPACE, "sstable_tasks") => self.put_compactions(node).await,
            (VIEWS_KEYSPACE, name) => self.put_statistics(node, name).await,
            (SYSTEM_KEYSPACE, name) => self.put_estimates(node, name).await,
            (_, name) => self.put_virtual_schema(node, name),
        }
        Ok(())
    }

    /// Adds a row that `fill` fills; `key` and `clustering` have a value for each column.
    fn put(
        &mut self,
        key: &[impl AsRef<[u8]>],
        clustering: impl IntoIterator<Item = Bytes>,
        fill: impl FnOnce(RowWriter<'a>) -> RowWriter<'a>,
    ) {
        let key = DecoratedKey::new(match key {
            [only] => Bytes::copy_from_slice(only.as_ref()),
            several => build_composite(several),
        });
        if self.only.is_some_and(|only| *only != key) {
            return;
        }
        let row = RowWriter::at(self.table, Clustering::new(clustering), self.timestamp_us);
        self.updates.push(fill(row).update(key));
    }

    async fn into_memtable(self) -> Result<Rc<Memtable>, StorageError> {
        // Flushes cannot make room in this memtable, and it must not cause flushes, so it has a
        // budget of its own.
        let (core, budget) = (ShardContext { index: 0, count: 1 }, MemtableBudget::new(0, 0));
        let memtable = Memtable::new(self.table, MemtableKind::default(), core, budget);
        let mut packed = Vec::new();
        for update in &self.updates {
            packed.clear();
            // Each update has one row.
            update.rows.iter().for_each(|row| pack_row(row, &mut packed));
            memtable.apply(self.table, update, |_| packed.as_slice())?;
            maybe_yield().await;
        }
        Ok(Rc::new(memtable))
    }
}

/// Encodes a text as a value of a clustering column.
fn text(value: &str) -> Bytes {
    Bytes::copy_from_slice(value.as_bytes())
}

/// Converts a count to an int; a larger one becomes the maximum.
fn int(count: impl TryInto<i32>) -> i32 {
    count.try_into().unwrap_or(i32::MAX)
}
