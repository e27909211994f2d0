//! Writes the entries and the vectors of a flushed memtable beside its SSTable. A compaction writes
//! those of its rows itself (`espalier_compaction`).

use espalier_compaction::{VECTOR_SEGMENT_BYTES, VectorComponent};
use espalier_memtable::Memtable;
use espalier_runtime::{file::FileSystem, maybe_yield};
use espalier_sstable::{SSTableWriter, SecondaryIndexWriter, VectorIndexWriter, VectorLimits};

use crate::StorageError;

/// Number of entries to copy from a memtable at a time, which takes some microseconds.
const ENTRIES_AT_ONCE: usize = 64;
/// Maximum number of floats that a step copies from a memtable's vectors or compares with them,
/// which takes some ten microseconds.
const FLOATS_AT_ONCE: usize = 8 << 10;
/// Maximum number of vectors of a step.
const VECTORS_AT_ONCE: usize = 64;

/// Writes the entries and the vectors of a frozen memtable.
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

/// Returns the number of vectors of a memtable to copy or compare at a time.
pub(super) fn vectors_at_once(dimension: usize) -> usize {
    (FLOATS_AT_ONCE / dimension.max(1)).clamp(1, VECTORS_AT_ONCE)
}

/// Writes the vectors of a memtable.
async fn write_vectors(
    component: &VectorComponent,
    file_system: &FileSystem,
    memtable: &Memtable,
    writer: &SSTableWriter,
) -> Result<VectorIndexWriter, StorageError> {
    let mut index = component.create(file_system, writer).await?;
    let (mut points, mut from) = (component.points(), 0);
    let at_once = vectors_at_once(component.options.dimension);
    loop {
        let copied = memtable.with_indexes(|indexes| {
            let Some(vectors) = indexes.vectors_of(&component.name) else { return 0 };
            let mut copied = 0;
            for vector in vectors.vectors(from, at_once) {
                if let Some(place) = vectors.place(from + copied) {
                    points.push(place, vector);
                }
                copied += 1;
            }
            copied
        });
        let copied = copied.unwrap_or(0);
        from += copied;
        if copied == 0 || points.used_bytes() >= VECTOR_SEGMENT_BYTES {
            let full = std::mem::replace(&mut points, component.points());
            index.write_segment(full, false).await?;
        }
        if copied == 0 {
            return Ok(index);
        }
        maybe_yield().await;
    }
}
