//! Adds the entries of large writes to the secondary indexes of memtables, in steps.
//!
//! A write applies its rows in one step, so that readers see all of them or none. Its entries may
//! come earlier: a reader passes an entry whose row lacks the value. So the entries of a large
//! collection, of the terms of a long text, or of many rows do not hold the core.
//!
//! A flush may replace a memtable between two steps. Then the write adds the entries again.
//!
//! One write at a time adds entries in steps (`Memtables::index_turn`), and begins only if the
//! memtables have room. So memory exceeds the limit by the entries of one write at most.

use std::rc::{Rc, Weak};

use espalier_memtable::{IndexPosition, Memtable, MemtableIndexes};
use espalier_mutation::{DecoratedKeyRef, Mutation, PartitionUpdate, RowContent};
use espalier_runtime::{maybe_yield, trace_event};
use smallvec::SmallVec;

use super::{
    ShardStore,
    index_room::{check_index_entries, may_lack_index_room},
};
use crate::{StorageError, table::Table};

/// Maximum number of elements of indexes whose entries a write adds together with its rows
/// (arbitrary). An entry takes up to a microsecond.
const MAX_ELEMENTS_AT_ONCE: usize = 256;
/// Number of elements of a step, between two looks at the clock.
pub(super) const ELEMENTS_OF_STEP: usize = 64;
/// Maximum number of attempts to add the entries in steps before a flush replaces the memtables
/// (arbitrary). After these, the write adds the entries in one step, together with its rows.
const MAX_ATTEMPTS: usize = 4;

/// The memtables that have the entries of a mutation already.
#[derive(Default)]
pub(super) struct IndexedWrite {
    /// The memtable of each large update. The references are weak, because a write that waits for
    /// memory must not keep the memory of a flushed memtable.
    memtables: SmallVec<[Weak<Memtable>; 2]>,
    attempts: usize,
    /// True if the entries are known not to take too much memory, or if the write must be applied
    /// nevertheless.
    has_room: bool,
}

/// Returns whether the entries of a row must be added in steps.
#[inline]
pub(super) fn has_many_entries<V: AsRef<[u8]>>(
    memtable: &Memtable,
    key: DecoratedKeyRef<'_>,
    clustering: &[Option<V>],
    row: &impl RowContent,
) -> bool {
    let count = |indexes: &MemtableIndexes| indexes.row_element_count(key, Some(clustering), row);
    memtable.with_indexes(count).is_some_and(|count| count > MAX_ELEMENTS_AT_ONCE)
}

impl IndexedWrite {
    /// Returns the state of a write that a replay applies. The replay has checked the size of its
    /// entries, and the write is not refused.
    pub(super) fn of_replay() -> Self {
        Self { has_room: true, ..Self::default() }
    }

    /// Returns whether a memtable has the entries of the mutation's update of this number.
    pub(super) fn has(&self, number: usize, memtable: &Rc<Memtable>) -> bool {
        let of_update = self.memtables.get(number);
        of_update.is_some_and(|indexed| indexed.as_ptr() == Rc::as_ptr(memtable))
    }

    /// Returns whether [`Self::add`] must precede the write of a mutation with these tables and
    /// updates.
    #[inline]
    pub(super) fn lacks_entries<'a>(
        &self,
        store: &ShardStore,
        updates: impl Iterator<Item = (&'a Table, &'a PartitionUpdate)> + Clone,
    ) -> bool {
        let mut numbered = updates.clone().enumerate();
        numbered.any(|(number, (table, update))| self.lacks(number, table, update))
            || !self.has_room && may_lack_index_room(store, updates)
    }

    /// Returns whether the write must still add the entries of an update in steps.
    fn lacks(&self, number: usize, table: &Table, update: &PartitionUpdate) -> bool {
        if self.attempts >= MAX_ATTEMPTS {
            return false;
        }
        let view = table.borrow_view();
        let count = view.memtable.with_indexes(|indexes| indexes.element_count(update));
        count.is_some_and(|count| count > MAX_ELEMENTS_AT_ONCE) && !self.has(number, &view.memtable)
    }

    /// Adds the entries of all large updates of a mutation.
    ///
    /// # Errors
    ///
    /// Fails if a table is unknown, if the entries take too much memory, or if an index of a
    /// memtable is full.
    pub(super) async fn add(
        &mut self,
        store: &ShardStore,
        mutation: &Mutation,
    ) -> Result<(), StorageError> {
        self.attempts += 1;
        if !self.has_room {
            check_index_entries(store, mutation).await?;
            self.has_room = true;
        }
        self.memtables.resize_with(mutation.updates.len(), Weak::new);
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
                let most = ELEMENTS_OF_STEP;
                is_last = memtable.add_some_entries(&metadata, update, &mut position, most)?;
                maybe_yield().await;
            }
            if let (true, Some(indexed)) = (is_last, self.memtables.get_mut(number)) {
                *indexed = Rc::downgrade(&memtable);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use bytes::Bytes;
    use espalier_mutation::{
        Cell, Clustering, ColumnData, ComplexColumn, DecoratedKey, DeletionTime, Row,
        schema::{IndexMetadata, TableMetadata},
    };
    use espalier_runtime::{
        block_on,
        file::FileSystem,
        preempt::force_every_yield,
        spawn_local,
        time::{Instant, timeout},
        yield_now,
    };
    use espalier_types::CqlType;

    use super::{super::replay::apply_replayed, *};
    use crate::{
        Node, StorageConfiguration,
        test_database::{
            create, entry_count, index_of, index_of_terms, open, open_with, table, table_builder,
            write_of,
        },
    };

    const ELEMENTS: i32 = 1500;

    fn bytes(number: i32) -> Bytes {
        Bytes::copy_from_slice(&number.to_be_bytes())
    }

    /// The value of a large write.
    #[derive(Clone, Copy)]
    enum Large {
        Set,
        Text,
    }

    impl Large {
        fn column_type(self) -> CqlType {
            match self {
                Self::Set => CqlType::Set { element: CqlType::Int.into(), frozen: false },
                Self::Text => CqlType::Text,
            }
        }

        fn index(self) -> IndexMetadata {
            match self {
                Self::Set => index_of("by_v", "values(v)"),
                Self::Text => index_of_terms(),
            }
        }

        fn value(self) -> ColumnData {
            match self {
                Self::Set => {
                    let cell = |number| (bytes(number), Cell::live(1, Bytes::new()));
                    let cells = (0..ELEMENTS).map(cell).collect();
                    ColumnData::Complex(ComplexColumn { deletion: DeletionTime::LIVE, cells })
                }
                Self::Text => {
                    let words = (0..ELEMENTS).map(|number| format!("word{number} "));
                    ColumnData::Simple(Cell::live(1, words.collect::<String>().into()))
                }
            }
        }
    }

    /// Opens a node with a table that has an index, and returns a write of many elements.
    async fn opened(large: Large) -> (Node, Arc<TableMetadata>, Mutation) {
        let node = open(FileSystem::simulated(1)).await;
        let builder = table_builder("t", 1).partition_key("k", CqlType::Int);
        let builder = builder.regular("v", large.column_type()).indexes(vec![large.index()]);
        let metadata = create(&node, builder.build()).await;
        let mutation = write_of(&metadata, bytes(1), large.value());
        (node, metadata, mutation)
    }

    fn has_entries(memtable: &Memtable) -> bool {
        memtable.with_indexes(|indexes| indexes.has_entries()).unwrap()
    }

    fn entries(memtable: &Memtable) -> usize {
        entry_count(memtable, "by_v")
    }

    #[test]
    fn a_write_adds_many_entries_in_steps_also_if_the_memtable_is_replaced() {
        block_on(async {
            let (node, metadata, mutation) = opened(Large::Set).await;
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
            assert!(turns > ELEMENTS as usize / ELEMENTS_OF_STEP, "{turns} turns");
            let first = entries(&first.unwrap());
            assert!(first > 0 && first < ELEMENTS as usize, "{first} entries");
            assert_eq!(entries(&table.memtable()), ELEMENTS as usize);
        });
    }

    #[test]
    fn writes_and_replays_add_the_terms_of_a_long_text_in_steps() {
        for is_replay in [false, true] {
            block_on(async {
                let (node, metadata, mutation) = opened(Large::Text).await;
                let (table, store) = (table(&node, &metadata), node.store().clone());
                assert!(store.try_apply(&mutation).is_none());
                force_every_yield(true);
                let writer = store.clone();
                let write = spawn_local(async move {
                    if is_replay {
                        apply_replayed(&writer, &mutation, None).await
                    } else {
                        writer.apply(&mutation).await
                    }
                });
                let (mut turns, mut most, mut before) = (0, 0, 0);
                while table.memtable().is_empty() {
                    turns += 1;
                    yield_now().await;
                    let now = entries(&table.memtable());
                    most = most.max(now - before);
                    before = now;
                }
                force_every_yield(false);
                write.await.unwrap();
                assert!((1..=ELEMENTS_OF_STEP).contains(&most), "{most} entries in a step");
                assert!(turns > ELEMENTS as usize / ELEMENTS_OF_STEP, "{turns} turns");
                assert_eq!(entries(&table.memtable()), ELEMENTS as usize);
            });
        }
    }

    #[test]
    fn a_large_write_ends_if_a_static_row_lacks_the_indexed_column() {
        block_on(async {
            let node = open(FileSystem::simulated(1)).await;
            let builder = table_builder("t", 1).partition_key("k", CqlType::Int);
            let builder = builder.clustering("c", CqlType::Int, false);
            let builder = builder.static_column("s", CqlType::Int);
            let builder = builder.regular("v", Large::Set.column_type());
            let indexes = vec![index_of("by_c", "c"), Large::Set.index()];
            let metadata = create(&node, builder.indexes(indexes).build()).await;
            let column = |name| metadata.column(name).unwrap().id;
            let mut update = PartitionUpdate::new(metadata.id, DecoratedKey::new(bytes(1)));
            let mut static_row = Row::empty(Clustering::empty());
            static_row.columns.push((column("s"), ColumnData::Simple(Cell::live(1, bytes(2)))));
            update.static_row = Some(static_row);
            let mut row = Row::empty(Clustering::new([bytes(3)]));
            row.columns.push((column("v"), Large::Set.value()));
            update.rows.push(row);
            let (store, mutation) = (node.store(), Mutation { updates: vec![update] });
            assert!(store.try_apply(&mutation).is_none());
            let write = timeout(Duration::from_secs(60), store.apply(&mutation));
            write.await.expect("the write ends").unwrap();
            let memtable = table(&node, &metadata).memtable();
            assert_eq!(entry_count(&memtable, "by_c"), 1);
            assert_eq!(entries(&memtable), ELEMENTS as usize);
        });
    }

    #[test]
    fn a_flush_drops_the_entries_of_a_write_that_failed() {
        block_on(async {
            let (node, metadata, mutation) = opened(Large::Set).await;
            let (table, store) = (table(&node, &metadata), node.store().clone());
            let before = store.memtables.budget.used_bytes();
            let mut indexed = IndexedWrite::default();
            indexed.add(&store, &mutation).await.unwrap();
            let memtable = table.memtable();
            assert!(indexed.has(0, &memtable));
            assert!(memtable.is_empty() && entries(&memtable) == ELEMENTS as usize);
            assert!(store.memtables.budget.used_bytes() > before);
            drop(memtable);
            node.flush("ks", None).await.unwrap();
            assert!(!has_entries(&table.memtable()) && table.view().sstables.is_empty());
            assert!(!indexed.has(0, &table.memtable()));
            // The write, which still has its state, does not keep the memory of the memtable.
            let deadline = Instant::now() + Duration::from_secs(60);
            while store.memtables.budget.used_bytes() > before {
                assert!(Instant::now() < deadline, "the memtable keeps its memory");
                yield_now().await;
            }
            drop(indexed);
        });
    }

    /// Each write is admitted while there is room for it alone.
    #[test]
    fn writes_of_many_entries_exceed_the_memory_by_one_of_them() {
        const WRITES: usize = 16;
        block_on(async {
            let mut configuration = StorageConfiguration::new("node");
            configuration.memtables.bytes = 8 << 20;
            configuration.timeouts.write = Duration::from_secs(60);
            let node = open_with(configuration, FileSystem::simulated(1)).await;
            let builder = table_builder("t", 1).partition_key("k", CqlType::Blob);
            let builder = builder.regular("v", Large::Set.column_type());
            let builder = builder.indexes(vec![Large::Set.index()]);
            let metadata = create(&node, builder.build()).await;
            let of_one = ELEMENTS as usize * 1100;
            force_every_yield(true);
            let mut writes = Vec::new();
            for number in 0..WRITES {
                let key = Bytes::from(vec![number as u8; 1000]);
                let mutation = write_of(&metadata, key, Large::Set.value());
                let store = node.store().clone();
                writes.push(spawn_local(async move { store.apply(&mutation).await }));
            }
            let budget = &node.store().memtables.budget;
            let (mut most, begin) = (0, Instant::now());
            while writes.iter().any(|write| !write.is_finished()) {
                assert!(begin.elapsed() < Duration::from_secs(60), "the writes do not end");
                most = most.max(budget.used_bytes());
                yield_now().await;
            }
            force_every_yield(false);
            for write in writes {
                write.await.unwrap();
            }
            assert!(most > budget.limit_bytes() / 2, "{most} bytes");
            assert!(most < budget.limit_bytes() + 2 * of_one, "{most} bytes");
        });
    }
}
