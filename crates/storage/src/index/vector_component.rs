//! Writes the vectors of a flushed memtable beside its SSTable.

use espalier_compaction::{VECTOR_SEGMENT_BYTES, VectorComponent};
use espalier_memtable::Memtable;
use espalier_runtime::{file::FileSystem, maybe_yield};
use espalier_sstable::{SSTableWriter, VectorIndexWriter};

use crate::StorageError;

/// Maximum number of floats that a step copies from a memtable's vectors or compares with them,
/// which takes some ten microseconds.
const COMPONENTS_AT_ONCE: usize = 8 << 10;
/// Maximum number of vectors of a step.
const MAX_AT_ONCE: usize = 64;

/// Returns the number of vectors of a memtable to copy or compare at a time.
pub(super) fn vectors_at_once(dimension: usize) -> usize {
    (COMPONENTS_AT_ONCE / dimension.max(1)).clamp(1, MAX_AT_ONCE)
}

/// Writes the vectors of a memtable.
pub(super) async fn write_vectors(
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
