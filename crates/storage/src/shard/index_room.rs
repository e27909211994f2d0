//! Refuses writes whose entries of secondary indexes would take too much memory.
//!
//! Each entry repeats the primary key, so that a mutation of many small elements or rows under a
//! long key has entries of many times its own size.

use std::rc::Rc;

use espalier_memtable::{IndexCounts, IndexEntryCount, Memtable};
use espalier_mutation::{
    ColumnRef, MAX_FORM_BYTES, Mutation, PartitionUpdate, Row, RowContent, schema::TableMetadata,
};
use espalier_runtime::maybe_yield;
use smallvec::SmallVec;

use super::{ShardStore, index_steps::ELEMENTS_OF_STEP};
use crate::{StorageError, table::Table};

/// Maximum size of a mutation's index entries, in segments of the commit log (arbitrary). A segment
/// is twice as large as the largest mutation.
const SEGMENTS: usize = 2;

/// Returns the maximum number of bytes of a mutation's entries: [`SEGMENTS`] segments of the commit
/// log, or half of the memory for memtables if that is less.
fn max_bytes(store: &ShardStore) -> usize {
    let of_log = store.configuration.commit_log.segment_bytes as usize * SEGMENTS;
    of_log.min(store.memtables.budget.limit_bytes() / 2)
}

/// Returns whether the entries of a mutation's updates, each with its table, may take more than the
/// maximum. For nearly all writes, an upper limit that needs no look at the values is below the
/// maximum.
#[inline]
pub(super) fn may_lack_index_room<'a>(
    store: &ShardStore,
    updates: impl Iterator<Item = (&'a Table, &'a PartitionUpdate)>,
) -> bool {
    let bounds = updates.map(|(table, update)| {
        let view = table.borrow_view();
        let IndexCounts { all, has_terms } =
            view.memtable.with_indexes(|indexes| indexes.counts()).unwrap_or_default();
        if all == 0 { 0 } else { all.saturating_mul(entries_at_most(update, has_terms)) }
    });
    let bound = bounds.fold(0, usize::saturating_add);
    bound > 0 && bound > max_bytes(store)
}

/// Checks in steps that the entries of a mutation take no more than the maximum.
///
/// # Errors
///
/// Fails if a table is unknown, or if the entries take more.
pub(crate) async fn check_index_entries(
    store: &ShardStore,
    mutation: &Mutation,
) -> Result<(), StorageError> {
    let tables = mutation.updates.iter().map(|update| store.tables.get(update.table));
    let tables: SmallVec<[Rc<Table>; 2]> = tables.collect::<Result<_, _>>()?;
    let updates = tables.iter().map(|table| &**table).zip(&mutation.updates);
    if !may_lack_index_room(store, updates.clone()) {
        return Ok(());
    }
    let mut room = IndexRoom { used_bytes: 0, max_bytes: max_bytes(store) };
    for (table, update) in updates {
        let (metadata, memtable) = (table.metadata(), table.memtable());
        let mut count = IndexEntryCount::default();
        while !room.take((&metadata, &memtable), update, &mut count, ELEMENTS_OF_STEP)? {
            maybe_yield().await;
        }
    }
    Ok(())
}

/// The bytes that are left for the entries of a mutation.
struct IndexRoom {
    used_bytes: usize,
    max_bytes: usize,
}

impl IndexRoom {
    /// Takes the bytes of some entries of an update, as [`Memtable::some_entry_bytes`] counts them.
    /// Returns whether there are no others. All steps of an update need the same memtable, because
    /// another one may have other indexes.
    ///
    /// # Errors
    ///
    /// Fails if all entries so far take more than the maximum.
    fn take(
        &mut self,
        (metadata, memtable): (&TableMetadata, &Memtable),
        update: &PartitionUpdate,
        count: &mut IndexEntryCount,
        most: usize,
    ) -> Result<bool, StorageError> {
        let (bytes, is_last) = memtable.some_entry_bytes(metadata, update, count, most);
        self.used_bytes = self.used_bytes.saturating_add(bytes);
        let Self { used_bytes, max_bytes } = self;
        if used_bytes > max_bytes {
            return Err(StorageError::Unstorable(format!(
                "the entries of this write in the secondary indexes of {}.{} take {used_bytes} \
                 bytes or more, and the maximum is {max_bytes} bytes; write fewer rows, elements \
                 or terms at a time",
                metadata.keyspace, metadata.name
            )));
        }
        Ok(is_last)
    }
}

/// Returns an upper limit of the bytes of an update's entries in one index. An index that has terms
/// lists the terms of a text, and perhaps their suffixes.
fn entries_at_most(update: &PartitionUpdate, has_terms: bool) -> usize {
    /// Escapes double a key at most.
    const ESCAPED: usize = 2;
    /// A change of case makes at most three letters of one, each of which begins a suffix. Besides,
    /// each term has at least one letter.
    const ENTRIES_PER_BYTE: usize = 4;
    let rows = update.static_row.iter().chain(&update.rows);
    let of_row = |row: &Row| {
        let clustering: usize =
            row.clustering.values.iter().flatten().map(|value| value.len() + 2).sum();
        let place = ESCAPED * (update.key.key.len() + clustering) + 16;
        let of_text = |length: usize| if has_terms { 1 + ENTRIES_PER_BYTE * length } else { 1 };
        let entries = row.columns().map(|(_, column)| match column {
            ColumnRef::Simple(cell) => of_text(cell.value.len()),
            ColumnRef::Complex(column) => column.cells.len(),
        });
        let of_clustering = row.clustering.values.iter().flatten();
        let of_clustering = of_clustering.map(|value| of_text(value.len())).max().unwrap_or(1);
        let entries = entries.max().unwrap_or(0).max(of_clustering);
        entries.saturating_mul(place + ESCAPED * MAX_FORM_BYTES)
    };
    rows.map(of_row).fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use bytes::Bytes;
    use espalier_mutation::{Cell, ColumnData};
    use espalier_runtime::{
        block_on,
        file::FileSystem,
        preempt::force_every_yield,
        spawn_local,
        time::{Instant, sleep},
        yield_now,
    };
    use espalier_types::CqlType;

    use super::{super::replay::apply_replayed, *};
    use crate::{
        Node, StorageConfiguration,
        test_database::{
            create, entry_count, index_of, index_of_terms, open_with, table, table_builder,
            write_of,
        },
    };

    const WORDS: usize = 3000;
    const KEY_BYTES: usize = 1000;

    /// Opens a node whose writes may have 2 MiB of entries.
    async fn opened() -> (Node, Arc<TableMetadata>) {
        let mut configuration = StorageConfiguration::new("node");
        configuration.commit_log.segment_bytes = 1 << 20;
        let node = open_with(configuration, FileSystem::simulated(1)).await;
        let builder = table_builder("t", 1).partition_key("k", CqlType::Blob);
        let builder = builder.regular("v", CqlType::Text);
        let metadata = create(&node, builder.indexes(vec![index_of_terms()]).build()).await;
        (node, metadata)
    }

    /// Returns a write of a text of [`WORDS`] words, of which this number differ.
    fn write(metadata: &TableMetadata, different: usize) -> Mutation {
        let words = (0..WORDS).map(|number| format!("word{} ", number % different));
        let text = ColumnData::Simple(Cell::live(1, words.collect::<String>().into()));
        write_of(metadata, Bytes::from(vec![1; KEY_BYTES]), text)
    }

    #[test]
    fn a_repeated_word_counts_once_in_steps_of_any_size() {
        block_on(async {
            let (node, metadata) = opened().await;
            let (table, store, different) = (table(&node, &metadata), node.store(), 40);
            let mutation = write(&metadata, different);
            let count = |most| {
                let (memtable, mut state) = (table.memtable(), IndexEntryCount::default());
                let mut room = IndexRoom { used_bytes: 0, max_bytes: usize::MAX };
                let source = (&*metadata, &*memtable);
                while !room.take(source, &mutation.updates[0], &mut state, most).unwrap() {}
                room.used_bytes
            };
            let bytes = count(usize::MAX);
            assert!((different * KEY_BYTES..different * KEY_BYTES * 2).contains(&bytes), "{bytes}");
            assert_eq!([count(1), count(64), count(1000)], [bytes; 3]);
            let updates = [(&*table, &mutation.updates[0])];
            assert!(may_lack_index_room(store, updates.into_iter()));
            store.check_write(&mutation, 0).await.unwrap();
            store.apply(&mutation).await.unwrap();
            assert_eq!(entry_count(&table.memtable(), "by_v"), different);
        });
    }

    #[test]
    fn a_write_succeeds_if_an_index_is_dropped_during_its_check() {
        block_on(async {
            let (node, metadata) = opened().await;
            let (table, store) = (table(&node, &metadata), node.store().clone());
            // The index that remains has one element in the row.
            let other = index_of("of_k", "k");
            let alter = |indexes| {
                let changed = metadata.rebuild().indexes(indexes).build();
                let mapping = (**table.borrow_mapping()).clone();
                table.alter(Arc::new(changed), mapping).unwrap();
            };
            alter(vec![index_of_terms(), other.clone()]);
            let mutation = write(&metadata, 40);
            force_every_yield(true);
            let write = spawn_local(async move { store.apply(&mutation).await });
            for _ in 0..10 {
                yield_now().await;
            }
            assert!(table.memtable().is_empty());
            alter(vec![other]);
            force_every_yield(false);
            write.await.unwrap();
            assert_eq!(entry_count(&table.memtable(), "of_k"), 1);
        });
    }

    #[test]
    fn the_check_before_a_write_and_the_write_refuse_many_words() {
        block_on(async {
            let (node, metadata) = opened().await;
            let mutation = write(&metadata, WORDS);
            let outcomes =
                [node.store().check_write(&mutation, 0).await, node.store().apply(&mutation).await];
            let is_refused = |outcome| matches!(outcome, Err(StorageError::Unstorable(_)));
            assert!(outcomes.into_iter().all(is_refused));
        });
    }

    /// The write may be older than the index, which then could not refuse it.
    #[test]
    fn a_replay_leaves_many_entries_to_the_build_of_the_index() {
        block_on(async {
            let (node, metadata) = opened().await;
            let (table, store) = (table(&node, &metadata), node.store());
            apply_replayed(store, &write(&metadata, WORDS), None).await.unwrap();
            let has_entries =
                |memtable: &Memtable| memtable.with_indexes(|indexes| indexes.has_entries());
            assert!(table.memtable().is_empty());
            assert_eq!(has_entries(&table.memtable()), Some(false));
            let frozen: Vec<_> = table.view().flushing.to_vec();
            assert_eq!(frozen.len(), 1);
            assert!(!frozen[0].is_empty() && has_entries(&frozen[0]).is_none());
            drop(frozen);
            store.wakers.indexes.notify_one();
            let deadline = Instant::now() + Duration::from_secs(60);
            while !node.has_built_indexes(&metadata).await {
                assert!(Instant::now() < deadline, "the index is not built");
                sleep(Duration::from_millis(1)).await;
            }
            assert!(table.view().flushing.is_empty());
            assert_eq!(table.view().sstables.len(), 1);
        });
    }

    /// A logged batch makes the same check.
    #[test]
    fn the_check_before_a_write_counts_entries_in_steps() {
        block_on(async {
            let (node, metadata) = opened().await;
            let (store, mutation) = (node.store().clone(), write(&metadata, 40));
            force_every_yield(true);
            let check = spawn_local(async move { store.check_write(&mutation, 0).await });
            let mut turns = 0;
            while !check.is_finished() {
                turns += 1;
                yield_now().await;
            }
            force_every_yield(false);
            check.await.unwrap();
            assert!(turns > WORDS / ELEMENTS_OF_STEP, "{turns} turns");
        });
    }
}
