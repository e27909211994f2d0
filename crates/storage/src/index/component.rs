//! Writes the entries of a flushed memtable beside its SSTable. A compaction writes the entries of
//! its rows itself (`espalier_compaction`).

use espalier_compaction::VectorComponent;
use espalier_memtable::Memtable;
use espalier_runtime::{file::FileSystem, maybe_yield};
use espalier_sstable::{SSTableWriter, SecondaryIndexWriter, VectorLimits};

use super::vector_component::write_vectors;
use crate::StorageError;

/// Number of entries to copy from a memtable at a time, which takes some microseconds.
const ENTRIES_AT_ONCE: usize = 64;

/// Writes the entries of a frozen memtable.
pub(crate) async fn write_memtable(
    file_system: &FileSystem,
    memtable: &Memtable,
    writer: &mut SSTableWriter,
    limits: &VectorLimits,
) -> Result<(), StorageError> {
    let names = memtable.with_indexes(|indexes| indexes.names()).unwrap_or_default();
    for (name, signature) in names {
        let options = memtable.with_indexes(|indexes| indexes.vector_options(&name));
        if let Some(options) = options.flatten() {
            let component = VectorComponent { name, signature, options, limits: *limits };
            let index = write_vectors(&component, file_system, memtable, writer).await?;
            writer.add_vector_index(index).await?;
            continue;
        }
        let (descriptor, is_durable) = (writer.descriptor(), writer.is_durable());
        let index =
            SecondaryIndexWriter::create(file_system, descriptor, &name, &signature, is_durable);
        let mut index = index.await?;
        let mut from = Vec::new();
        loop {
            let portion = memtable.index_entries(&name, (&from, &[]), ENTRIES_AT_ONCE);
            portion.entries.iter().try_for_each(|entry| index.add(entry))?;
            index.make_room().await?;
            match portion.entries.into_iter().next_back() {
                Some(last) if !portion.is_last => from = last,
                _ => break,
            }
            from.push(0);
            maybe_yield().await;
        }
        writer.add_secondary_index(index).await?;
    }
    Ok(())
}
