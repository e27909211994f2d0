//! Adds the entries of large writes to the secondary indexes of memtables, in steps.
//!
//! A write applies its rows in one step, so that readers see all of them or none. Its entries may
//! come earlier: a reader skips an entry whose row lacks the value. So adding the entries of a
//! large collection, or of many rows, does not hold the core.
//!
//! A flush may replace a memtable between two steps. Then the write adds the entries again.

use std::rc::Rc;

use espalier_memtable::{IndexPosition, Memtable};
use espalier_mutation::{Mutation, PartitionUpdate};
use espalier_runtime::{maybe_yield, trace_event};
use smallvec::SmallVec;

use super::ShardStore;
use crate::{StorageError, table::Table};

/// Maximum number of cells with entries that a write adds together with its rows (arbitrary). An
/// entry takes up to a microsecond.
const MAX_CELLS_AT_ONCE: usize = 256;
/// Number of cells of a step, between two looks at the clock.
const CELLS_OF_STEP: usize = 64;
/// Maximum number of attempts to add the entries in steps before a flush replaces a memtable
/// (arbitrary). After these attempts, the write adds the entries in one step.
const MAX_ATTEMPTS: usize = 4;

/// The memtables that have the entries of a mutation already.
#[derive(Default)]
pub(super) struct IndexedWrite {
    /// The memtable of each large update.
    memtables: SmallVec<[Option<Rc<Memtable>>; 2]>,
    attempts: usize,
}

impl IndexedWrite {
    /// Returns whether a memtable has the entries of the mutation's update of this number.
    pub(super) fn has(&self, number: usize, memtable: &Rc<Memtable>) -> bool {
        let of_update = self.memtables.get(number).and_then(Option::as_ref);
        of_update.is_some_and(|indexed| Rc::ptr_eq(indexed, memtable))
    }

    /// Returns whether the write must not add the entries of an update in one step.
    pub(super) fn lacks(&self, number: usize, table: &Table, update: &PartitionUpdate) -> bool {
        if self.attempts >= MAX_ATTEMPTS {
            return false;
        }
        let view = table.borrow_view();
        let cells = view.memtable.with_indexes(|indexes| indexes.element_count(update));
        cells.is_some_and(|cells| cells > MAX_CELLS_AT_ONCE) && !self.has(number, &view.memtable)
    }

    /// Adds the entries of all large updates of a mutation.
    ///
    /// # Errors
    ///
    /// Fails if a table is unknown, or if an index of a memtable is full.
    pub(super) async fn add(
        &mut self,
        store: &ShardStore,
        mutation: &Mutation,
    ) -> Result<(), StorageError> {
        self.attempts += 1;
        self.memtables.resize(mutation.updates.len(), None);
        for (number, update) in mutation.updates.iter().enumerate() {
            let table = store.tables.get(update.table)?;
            if !self.lacks(number, &table, update) {
                continue;
            }
            let (metadata, memtable) = (table.metadata(), table.memtable());
            trace_event!("Adding entries of secondary indexes of {}", metadata.name);
            let mut position = IndexPosition::default();
            let mut is_last = false;
            while !is_last && !memtable.is_frozen() {
                let most = CELLS_OF_STEP;
                is_last = memtable.add_some_entries(&metadata, update, &mut position, most)?;
                maybe_yield().await;
            }
            if let (true, Some(indexed)) = (is_last, self.memtables.get_mut(number)) {
                *indexed = Some(memtable);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use espalier_mutation::{
        Cell, Clustering, ColumnData, ComplexColumn, DecoratedKey, DeletionTime, Row,
        schema::{IndexKind, IndexMetadata, TARGET_OPTION, TableBuilder, TableId, TableMetadata},
    };
    use espalier_runtime::{
        block_on, file::FileSystem, preempt::force_every_yield, spawn_local, yield_now,
    };
    use espalier_types::CqlType;
    use uuid::Uuid;

    use super::*;
    use crate::{
        Node,
        test_database::{create, open, table},
    };

    const ELEMENTS: i32 = 1500;

    fn bytes(number: i32) -> Bytes {
        Bytes::copy_from_slice(&number.to_be_bytes())
    }

    /// Opens a node with a table that has an index on a set, and returns a write of many elements.
    async fn opened() -> (Node, Arc<TableMetadata>, Mutation) {
        let node = open(FileSystem::simulated(1)).await;
        let set = CqlType::Set { element: CqlType::Int.into(), frozen: false };
        let builder = TableBuilder::new("ks", "t", TableId(Uuid::from_u128(1)));
        let mut metadata = builder.partition_key("k", CqlType::Int).regular("s", set).build();
        let options = [(TARGET_OPTION.into(), "values(s)".into())].into();
        let index = IndexMetadata::from_options("by_s", IndexKind::Composites, options);
        metadata.indexes.push(index.unwrap());
        let metadata = create(&node, metadata).await;
        let cell = |number| (bytes(number), Cell::live(1, Bytes::new()));
        let cells = (0..ELEMENTS).map(cell).collect();
        let set = ColumnData::Complex(ComplexColumn { deletion: DeletionTime::LIVE, cells });
        let mut row = Row::empty(Clustering::empty());
        row.columns.push((metadata.column("s").unwrap().id, set));
        let mut update = PartitionUpdate::new(metadata.id, DecoratedKey::new(bytes(1)));
        update.rows.push(row);
        (node, metadata, Mutation { updates: vec![update] })
    }

    fn has_entries(memtable: &Memtable) -> bool {
        memtable.with_indexes(|indexes| indexes.has_entries()).unwrap()
    }

    fn entries(memtable: &Memtable) -> usize {
        memtable.index_entries("by_s", (&[], &[]), usize::MAX).entries.len()
    }

    #[test]
    fn a_write_adds_many_entries_in_steps_also_if_the_memtable_is_replaced() {
        block_on(async {
            let (node, metadata, mutation) = opened().await;
            let (table, store) = (table(&node, &metadata), node.store().clone());
            assert!(store.try_apply(&mutation).is_none());
            force_every_yield(true);
            let (writer, update) = (store.clone(), mutation.clone());
            let write = spawn_local(async move { writer.apply(&update).await });
            let (mut turns, mut first) = (0, None);
            while table.memtable().is_empty() {
                turns += 1;
                if turns == 10 {
                    assert!(has_entries(&table.memtable()));
                    first = Some(table.switch_memtable());
                }
                yield_now().await;
            }
            force_every_yield(false);
            write.await.unwrap();
            assert!(turns > ELEMENTS as usize / CELLS_OF_STEP, "{turns} turns");
            let first = entries(&first.unwrap());
            assert!(first > 0 && first < ELEMENTS as usize, "{first} entries");
            assert_eq!(entries(&table.memtable()), ELEMENTS as usize);
        });
    }

    #[test]
    fn a_flush_drops_the_entries_of_a_write_that_failed() {
        block_on(async {
            let (node, metadata, mutation) = opened().await;
            let (table, store) = (table(&node, &metadata), node.store().clone());
            let before = store.memtables.budget.used_bytes();
            IndexedWrite::default().add(&store, &mutation).await.unwrap();
            let memtable = table.memtable();
            assert!(memtable.is_empty() && entries(&memtable) == ELEMENTS as usize);
            assert!(store.memtables.budget.used_bytes() > before);
            drop(memtable);
            node.flush("ks", None).await.unwrap();
            assert!(!has_entries(&table.memtable()) && table.view().sstables.is_empty());
            while store.memtables.budget.used_bytes() > before {
                yield_now().await;
            }
        });
    }
}
