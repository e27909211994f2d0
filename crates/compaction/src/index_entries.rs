//! Writes the entries of secondary indexes beside an output: those of the rows that the compaction
//! writes.
//!
//! Memory: [`SEGMENT_BYTES`] for each index. Entries beyond that begin another segment of the
//! component.

use espalier_mutation::{
    DecoratedKey, IndexedColumn, IndexedRow, PartitionHeader, Row, Unfiltered, put_entry_value,
    schema::{IndexMetadata, TableMetadata},
};
use espalier_runtime::{file::FileSystem, maybe_yield};
use espalier_sstable::{SSTableWriter, SecondaryIndexWriter, VectorLimits};
use espalier_trie::{cursor::Direction, memory::InMemoryTrie};

use crate::{
    CompactionError,
    vector_entries::{VectorBuilder, VectorComponent},
};

/// The bytes of entries that are sorted at a time. Arbitrary: a tenth of a GiB of Data.db has about
/// as many.
const SEGMENT_BYTES: usize = 32 << 20;

async fn create(
    file_system: &FileSystem,
    writer: &SSTableWriter,
    name: &str,
    signature: &str,
) -> Result<SecondaryIndexWriter, CompactionError> {
    let (descriptor, is_durable) = (writer.descriptor(), writer.is_durable());
    let index = SecondaryIndexWriter::create(file_system, descriptor, name, signature, is_durable);
    Ok(index.await?)
}

/// Collects the entries of one index.
struct IndexBuilder {
    name: String,
    signature: String,
    column: IndexedColumn,
    entries: InMemoryTrie<()>,
    /// The component, once it has a segment.
    component: Option<SecondaryIndexWriter>,
}

/// Collects the entries of the rows of an SSTable that is being written.
pub(crate) struct IndexBuilders {
    builders: Vec<IndexBuilder>,
    vectors: Vec<VectorBuilder>,
    key: Option<DecoratedKey>,
    form: Vec<u8>,
    entry: Vec<u8>,
}

impl IndexBuilders {
    /// Creates builders for all indexes of a table.
    pub(crate) fn new(table: &TableMetadata, limits: &VectorLimits) -> Self {
        let (builders, vectors) = (Vec::new(), Vec::new());
        let mut this = Self { builders, vectors, key: None, form: Vec::new(), entry: Vec::new() };
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
            let entries = InMemoryTrie::new();
            self.builders.push(IndexBuilder { name, signature, column, entries, component: None });
        }
    }

    /// Returns whether the table has no index.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.builders.is_empty() && self.vectors.is_empty()
    }

    /// Begins a partition, whose static row has entries too.
    pub(crate) fn start_partition(
        &mut self,
        table: &TableMetadata,
        header: &PartitionHeader,
    ) -> Result<(), CompactionError> {
        if self.is_empty() {
            return Ok(());
        }
        self.key = Some(header.key.clone());
        match &header.static_row {
            Some(row) => self.add_row(table, row, true),
            None => Ok(()),
        }
    }

    /// Adds the entries of a row.
    pub(crate) fn add(
        &mut self,
        table: &TableMetadata,
        fragment: &Unfiltered,
    ) -> Result<(), CompactionError> {
        match fragment {
            Unfiltered::Row(row) if !self.is_empty() => self.add_row(table, row, false),
            _ => Ok(()),
        }
    }

    fn add_row(
        &mut self,
        table: &TableMetadata,
        row: &Row,
        is_static: bool,
    ) -> Result<(), CompactionError> {
        let Self { builders, vectors, key, form, entry } = self;
        let Some(key) = key else { return Ok(()) };
        let clustering = (!is_static).then_some(&*row.clustering.values);
        let indexed = IndexedRow { key: key.borrowed(), clustering, row };
        for IndexBuilder { column, entries, .. } in builders {
            let mut outcome = Ok(false);
            column.for_each_value(&indexed, form, |form| {
                entry.clear();
                put_entry_value(form, entry);
                column.put_place(table.comparator(), key.borrowed(), clustering, entry);
                if outcome.is_ok() {
                    outcome = entries.put(entry, ());
                }
            });
            // A trie is far from full at the size of a segment.
            outcome.map_err(|error| CompactionError::Corrupt {
                what: "the entries of a secondary index".into(),
                reason: error.to_string(),
            })?;
        }
        for builder in vectors {
            if let Some(vector) = builder.column.vector(&indexed) {
                entry.clear();
                builder.column.put_place(table.comparator(), key.borrowed(), clustering, entry);
                builder.add(entry, vector);
            }
        }
        Ok(())
    }

    /// Writes the collected entries of an index once they are many.
    pub(crate) async fn make_room(
        &mut self,
        file_system: &FileSystem,
        writer: &SSTableWriter,
    ) -> Result<(), CompactionError> {
        for builder in &mut self.builders {
            if builder.entries.used_bytes() >= SEGMENT_BYTES {
                builder.write_segment(file_system, writer).await?;
            }
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
        for mut builder in self.builders {
            builder.write_segment(file_system, writer).await?;
            if let Some(component) = builder.component {
                writer.add_secondary_index(component).await?;
            }
        }
        for builder in self.vectors {
            let component = builder.finish(file_system, writer).await?;
            writer.add_vector_index(component).await?;
        }
        Ok(())
    }
}

impl IndexBuilder {
    async fn write_segment(
        &mut self,
        file_system: &FileSystem,
        writer: &SSTableWriter,
    ) -> Result<(), CompactionError> {
        let component = match self.component.take() {
            Some(component) => component,
            None => create(file_system, writer, &self.name, &self.signature).await?,
        };
        let component = self.component.insert(component);
        let entries = std::mem::take(&mut self.entries);
        let mut walk = entries.entries(Direction::Forward);
        while let Some((entry, _)) = walk.next_entry() {
            component.add(entry)?;
            component.make_room().await?;
            maybe_yield().await;
        }
        component.end_segment()?;
        Ok(())
    }
}
