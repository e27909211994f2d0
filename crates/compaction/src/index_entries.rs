//! Collects the entries of secondary indexes for the rows that a compaction writes, and writes the
//! entries beside the output.
//!
//! A trie sorts the entries of an index. Once the tries are large, the largest becomes a sorted run
//! in a file, and the component is merged from all runs in the end. The entries of a large
//! collection are added in steps ([`IndexBuilders::add_large`]), and may be in several runs.
//!
//! Memory of an output: [`RUN_BYTES`] (32 MiB) for entries. After a run, the tries keep up to
//! [`MAX_ALLOCATED_RUNS`] times as many bytes. Until the next run they grow by up to [`RUN_BYTES`]
//! again, because a trie cannot use the free memory of another. The chunk pool holds at most
//! [`RUN_BYTES`] of the chunks of freed tries. So an output takes at most 128 MiB, and up to a
//! chunk (8 MiB) more for each index. `vector_entries` states the memory of its vectors.

use std::{ops::Range, sync::Arc};

use espalier_mutation::{
    DecoratedKey, IndexedColumn, IndexedRow, PartitionHeader, Row,
    schema::{IndexMetadata, TableMetadata},
};
use espalier_runtime::{file::FileSystem, maybe_yield, spawn_blocking};
use espalier_sstable::{IndexRuns, SSTableWriter, SecondaryIndexWriter, VectorLimits};
use espalier_trie::{
    cursor::Direction,
    memory::{ChunkPool, InMemoryTrie},
};

use crate::{
    CompactionError,
    vector_entries::{VectorBuilder, VectorComponent},
};

/// Once all tries together have this number of bytes, the largest becomes a run. Arbitrary: the
/// entries of one index for a tenth of a GiB of Data.db take about as many.
const RUN_BYTES: usize = 32 << 20;

/// The tries keep their memory after a run if they have at most this number of [`RUN_BYTES`]
/// together (arbitrary).
const MAX_ALLOCATED_RUNS: usize = 2;

/// Number of elements of a row up to which their entries are added in one step (arbitrary). An
/// entry takes up to a microsecond.
const ELEMENTS_AT_ONCE: usize = 128;

/// Collects the entries of one index.
struct IndexBuilder {
    name: String,
    signature: String,
    column: IndexedColumn,
    entries: InMemoryTrie<()>,
    chunk_pool: Arc<ChunkPool>,
    /// The entries of earlier tries, if a trie of this index has become a run.
    runs: Option<IndexRuns>,
}

/// Collects the entries of the rows of an SSTable that is being written.
pub(crate) struct IndexBuilders {
    builders: Vec<IndexBuilder>,
    vectors: Vec<VectorBuilder>,
    /// The chunks that tries leave to the next ones. Without a pool, the first touch of a huge page
    /// of a new chunk would hold the core for milliseconds.
    chunk_pool: Arc<ChunkPool>,
    key: Option<DecoratedKey>,
    form: Vec<u8>,
    entry: Vec<u8>,
    /// [`RUN_BYTES`], or less in tests.
    run_bytes: usize,
}

impl IndexBuilders {
    /// Creates builders for all indexes of a table.
    pub(crate) fn new(table: &TableMetadata, limits: &VectorLimits) -> Self {
        let (builders, vectors) = (Vec::new(), Vec::new());
        let (form, entry, run_bytes) = (Vec::new(), Vec::new(), RUN_BYTES);
        let chunk_pool = Arc::new(ChunkPool::new(RUN_BYTES));
        let mut this = Self { builders, vectors, chunk_pool, key: None, form, entry, run_bytes };
        table.indexes.iter().for_each(|index| this.add_index(table, index, limits));
        this
    }

    fn add_index(&mut self, table: &TableMetadata, index: &IndexMetadata, limits: &VectorLimits) {
        let Some(column) = IndexedColumn::new(table, index) else { return };
        let (name, signature) = (index.name.clone(), index.signature(table));
        if let Some(options) = index.vector_options(table) {
            let of = VectorComponent { name, signature, options, limits: *limits };
            self.vectors.push(VectorBuilder::new(of, column));
        } else {
            let chunk_pool = self.chunk_pool.clone();
            let entries = InMemoryTrie::with_chunk_pool(chunk_pool.clone());
            let builder = IndexBuilder { name, signature, column, entries, chunk_pool, runs: None };
            self.builders.push(builder);
        }
    }

    /// Returns whether the table has no index.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.builders.is_empty() && self.vectors.is_empty()
    }

    /// Begins a partition.
    pub(crate) fn start_partition(&mut self, header: &PartitionHeader) {
        if !self.is_empty() {
            self.key = Some(header.key.clone());
        }
    }

    /// Adds the entries of a row, or of the static row, unless the row is large.
    #[inline]
    pub(crate) fn add(
        &mut self,
        table: &TableMetadata,
        row: &Row,
        is_static: bool,
    ) -> Result<(), CompactionError> {
        if self.is_empty() || self.is_large(row, is_static) {
            return Ok(());
        }
        for number in 0..self.builders.len() {
            self.add_elements(table, (row, is_static), (number, 0..usize::MAX))?;
        }
        self.add_vectors(table, row, is_static);
        Ok(())
    }

    /// Returns whether a row has so many elements in an index that [`Self::add_large`] must add its
    /// entries.
    #[inline]
    pub(crate) fn is_large(&self, row: &Row, is_static: bool) -> bool {
        let Some(key) = &self.key else { return false };
        let indexed = IndexedRow::of(key.borrowed(), row, is_static);
        let count = |builder: &IndexBuilder| builder.column.element_count(&indexed);
        self.builders.iter().any(|builder| count(builder) > ELEMENTS_AT_ONCE)
    }

    /// Adds the entries of a large row in steps, and makes room between them.
    pub(crate) async fn add_large(
        &mut self,
        table: &TableMetadata,
        row: &Row,
        is_static: bool,
        (file_system, writer): (&FileSystem, &SSTableWriter),
    ) -> Result<(), CompactionError> {
        for number in 0..self.builders.len() {
            let Some((key, builder)) = self.key.as_ref().zip(self.builders.get(number)) else {
                continue;
            };
            let count =
                builder.column.element_count(&IndexedRow::of(key.borrowed(), row, is_static));
            let mut next = 0;
            while next < count {
                let elements = next..count.min(next + ELEMENTS_AT_ONCE);
                next = self.add_elements(table, (row, is_static), (number, elements))?;
                if self.wants_room() {
                    self.make_room(file_system, writer).await?;
                }
                maybe_yield().await;
            }
        }
        self.add_vectors(table, row, is_static);
        Ok(())
    }

    /// Adds the entries of some elements of a row to one index. Returns the next element.
    fn add_elements(
        &mut self,
        table: &TableMetadata,
        (row, is_static): (&Row, bool),
        (number, elements): (usize, Range<usize>),
    ) -> Result<usize, CompactionError> {
        let Self { builders, key, form, entry, .. } = self;
        let Some((key, builder)) = key.as_ref().zip(builders.get_mut(number)) else {
            return Ok(elements.end);
        };
        let IndexBuilder { column, entries, .. } = builder;
        let (comparator, row) =
            (table.comparator(), IndexedRow::of(key.borrowed(), row, is_static));
        let mut outcome = Ok(false);
        let next = column.for_each_entry_of(comparator, &row, elements, (form, entry), |entry| {
            if outcome.is_ok() {
                outcome = entries.put(entry, ());
            }
        });
        // A trie is far from full at the size of a run.
        outcome.map(|_| next).map_err(|error| CompactionError::Corrupt {
            what: "the entries of a secondary index".into(),
            reason: error.to_string(),
        })
    }

    fn add_vectors(&mut self, table: &TableMetadata, row: &Row, is_static: bool) {
        let Self { vectors, key, entry, .. } = self;
        let Some(key) = key else { return };
        let indexed = IndexedRow::of(key.borrowed(), row, is_static);
        for builder in vectors {
            if let Some(vector) = builder.column.vector_entry(table.comparator(), &indexed, entry) {
                builder.add(entry, vector);
            }
        }
    }

    /// Returns whether [`Self::make_room`] would write.
    #[inline]
    pub(crate) fn wants_room(&self) -> bool {
        self.has_run() || self.vectors.iter().any(VectorBuilder::is_full)
    }

    /// Returns whether the tries are large enough for a run.
    #[inline]
    fn has_run(&self) -> bool {
        let used = |builder: &IndexBuilder| builder.entries.used_bytes();
        self.builders.iter().map(used).sum::<usize>() >= self.run_bytes
    }

    /// Writes the largest trie as a run once the tries are large, and the vectors of each full
    /// builder.
    pub(crate) async fn make_room(
        &mut self,
        file_system: &FileSystem,
        writer: &SSTableWriter,
    ) -> Result<(), CompactionError> {
        let used = |builder: &IndexBuilder| builder.entries.used_bytes();
        let allocated = self.builders.iter().map(|builder| builder.entries.allocated_bytes());
        let keeps_memory = allocated.sum::<usize>() <= MAX_ALLOCATED_RUNS * self.run_bytes;
        if self.has_run()
            && let Some(largest) = self.builders.iter_mut().max_by_key(|builder| used(builder))
        {
            largest.write_run(file_system, writer).await?;
            largest.clear(keeps_memory).await;
        }
        for builder in &mut self.vectors {
            if builder.is_full() {
                builder.write_segment(file_system, writer).await?;
            }
        }
        Ok(())
    }

    /// Writes the rest, and adds the components to the SSTable.
    pub(crate) async fn finish(
        self,
        file_system: &FileSystem,
        writer: &mut SSTableWriter,
    ) -> Result<(), CompactionError> {
        for builder in self.builders {
            let component = builder.finish(file_system, writer).await?;
            writer.add_secondary_index(component).await?;
        }
        for builder in self.vectors {
            let component = builder.finish(file_system, writer).await?;
            writer.add_vector_index(component).await?;
        }
        free(self.chunk_pool).await;
        Ok(())
    }
}

impl IndexBuilder {
    /// Writes the collected entries as a sorted run.
    async fn write_run(
        &mut self,
        file_system: &FileSystem,
        writer: &SSTableWriter,
    ) -> Result<(), CompactionError> {
        let runs = match self.runs.take() {
            Some(runs) => runs,
            None => IndexRuns::create(file_system, writer.descriptor(), &self.name).await?,
        };
        let runs = self.runs.insert(runs);
        let mut walk = self.entries.entries(Direction::Forward);
        while let Some((entry, _)) = walk.next_entry() {
            runs.add(entry)?;
            runs.make_room().await?;
            maybe_yield().await;
        }
        runs.end_run();
        Ok(())
    }

    /// Removes the entries. They keep their memory for the next ones if `keeps_memory` is set: new
    /// memory costs page faults, and the return of old memory may hold the core.
    async fn clear(&mut self, keeps_memory: bool) {
        if !(keeps_memory && self.entries.clear()) {
            let next = InMemoryTrie::with_chunk_pool(self.chunk_pool.clone());
            free(std::mem::replace(&mut self.entries, next)).await;
        }
    }

    /// Writes the component.
    async fn finish(
        mut self,
        file_system: &FileSystem,
        writer: &SSTableWriter,
    ) -> Result<SecondaryIndexWriter, CompactionError> {
        if self.runs.is_some() {
            self.write_run(file_system, writer).await?;
        }
        let (descriptor, is_durable) = (writer.descriptor(), writer.is_durable());
        let (name, signature) = (&self.name, &self.signature);
        let component =
            SecondaryIndexWriter::create(file_system, descriptor, name, signature, is_durable);
        let mut component = component.await?;
        if let Some(runs) = self.runs {
            free(self.entries).await;
            runs.merge_into(&mut component).await?;
            return Ok(component);
        }
        let mut walk = self.entries.entries(Direction::Forward);
        while let Some((entry, _)) = walk.next_entry() {
            component.add(entry)?;
            component.make_room().await?;
            maybe_yield().await;
        }
        free(self.entries).await;
        Ok(component)
    }
}

/// Drops the memory of tries on a helper thread: unmapping a chunk may take a millisecond.
async fn free<T: Send + 'static>(memory: T) {
    spawn_blocking(move || drop(memory)).await;
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::PathBuf};

    use bytes::Bytes;
    use espalier_mutation::{
        Cell, Clustering, ColumnData, ComplexColumn, DeletionTime, Unfiltered, path,
        put_entry_value, put_form,
        schema::{IndexKind, TARGET_OPTION, TableBuilder, TableId},
    };
    use espalier_runtime::block_on;
    use espalier_sstable::{
        Descriptor, PageCache, SSTable, SSTableId, WriterOptions, versions::Version,
    };
    use espalier_types::CqlType;
    use uuid::Uuid;

    use super::*;

    const ROWS: i32 = 4000;

    fn table() -> Arc<TableMetadata> {
        let builder = TableBuilder::new("ks", "t", TableId(Uuid::from_u128(1)));
        let builder = builder.partition_key("k", CqlType::Int).regular("v", CqlType::Int);
        let list = CqlType::List { element: CqlType::Int.into(), frozen: false };
        let mut table = builder.regular("w", CqlType::Int).regular("l", list).build();
        for column in ["v", "w", "l"] {
            let target = if column == "l" { "values(l)" } else { column };
            let options = [(TARGET_OPTION.into(), target.into())].into();
            let index = IndexMetadata::from_options(column, IndexKind::Composites, options);
            table.indexes.push(index.unwrap());
        }
        Arc::new(table)
    }

    fn bytes(number: i32) -> Bytes {
        Bytes::copy_from_slice(&number.to_be_bytes())
    }

    /// Returns the value of a row in a column: one of seven in `v`, a different one for each row in
    /// `w`.
    fn value(column: &str, row: i32) -> Bytes {
        bytes(if column == "v" { row % 7 } else { row.wrapping_mul(0x1234_5677) })
    }

    /// Returns a row of the table, and adds the entries that it has in each index.
    fn row(
        table: &TableMetadata,
        key: &DecoratedKey,
        number: i32,
        expected: &mut [BTreeSet<Vec<u8>>; 3],
    ) -> Row {
        let mut row = Row::empty(Clustering::empty());
        let entry = |value: &Bytes| {
            let (mut form, mut entry) = (Vec::new(), Vec::new());
            put_form(&[(&CqlType::Int, value)], &mut form);
            put_entry_value(&form, &mut entry);
            path::put_partition(key.borrowed(), &mut entry);
            path::put_row::<&[u8]>(table.comparator(), &[], &mut entry);
            entry
        };
        for (column, expected) in ["v", "w"].into_iter().zip(&mut *expected) {
            let (value, id) = (value(column, number), table.column(column).unwrap().id);
            row.columns.push((id, ColumnData::Simple(Cell::live(1, value.clone()))));
            expected.insert(entry(&value));
        }
        if number % 1000 == 7 {
            // Each value comes twice, most of them in two runs.
            let value = |cell: i32| bytes(cell % (ROWS / 2));
            let cells = (0..ROWS).map(|cell| (bytes(cell), Cell::live(1, value(cell))));
            let (deletion, cells) = (DeletionTime::LIVE, cells.collect());
            let list = ColumnData::Complex(ComplexColumn { deletion, cells });
            row.columns.push((table.column("l").unwrap().id, list));
            expected[2].extend((0..ROWS).map(|cell| entry(&value(cell))));
        }
        row
    }

    #[test]
    fn runs_become_one_component() {
        block_on(async {
            let file_system = FileSystem::simulated(1);
            file_system.create_dir_all("ks/t").await.unwrap();
            let (table, version) = (table(), Version::named("da").unwrap());
            let id = SSTableId::Generation(1.try_into().unwrap());
            let descriptor = Descriptor::new(PathBuf::from("ks/t"), version, id);
            let options = WriterOptions::for_table(descriptor, table.clone()).unwrap();
            let mut writer = SSTableWriter::create(&file_system, options).await.unwrap();
            let mut indexes = IndexBuilders::new(&table, &VectorLimits::default());
            indexes.run_bytes = 64 << 10;
            let mut expected = [BTreeSet::new(), BTreeSet::new(), BTreeSet::new()];
            let mut large_rows = 0;
            let mut keys: Vec<_> =
                (0..ROWS).map(|row| (DecoratedKey::new(bytes(row)), row)).collect();
            keys.sort();
            for (key, number) in keys {
                let row = row(&table, &key, number, &mut expected);
                let deletion = DeletionTime::LIVE;
                let header = PartitionHeader { key, deletion, static_row: None };
                indexes.start_partition(&header);
                writer.start_partition(header).unwrap();
                indexes.add(&table, &row, false).unwrap();
                if indexes.is_large(&row, false) {
                    large_rows += 1;
                    let files = (&file_system, &writer);
                    indexes.add_large(&table, &row, false, files).await.unwrap();
                }
                writer.add(Unfiltered::Row(row)).await.unwrap();
                writer.end_partition().await.unwrap();
                indexes.make_room(&file_system, &writer).await.unwrap();
            }
            assert!(indexes.builders.iter().all(|builder| builder.runs.is_some()));
            assert_eq!(large_rows, 4);
            indexes.finish(&file_system, &mut writer).await.unwrap();
            let written = writer.finish().await.unwrap().unwrap();
            let files = file_system.read_dir("ks/t").await.unwrap();
            assert!(files.iter().all(|file| !file.name.ends_with(".runs")));
            let cache = PageCache::new(1 << 20);
            let opened = SSTable::open(&file_system, &table, written.descriptor, &cache);
            let sstable = opened.await.unwrap();
            for (column, expected) in ["v", "w", "l"].into_iter().zip(&expected) {
                let index = sstable.reader().secondary_index(column).unwrap();
                let (mut cursor, mut expected) = (index.cursor(false).unwrap(), expected.iter());
                let mut is_there = cursor.seek(&[]).await.unwrap();
                while is_there {
                    assert_eq!(Some(cursor.entry()), expected.next().map(Vec::as_slice));
                    is_there = cursor.next().await.unwrap();
                }
                assert_eq!(expected.next(), None);
            }
        });
    }
}
