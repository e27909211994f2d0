//! Writes the vectors of a flushed memtable beside its SSTable.

use espalier_compaction::{VECTOR_SEGMENT_BYTES, VectorComponent};
use espalier_memtable::Memtable;
use espalier_runtime::file::FileSystem;
use espalier_sstable::{SSTableWriter, VectorIndexWriter};

use super::component::ENTRIES_AT_ONCE;
use crate::StorageError;

/// Writes the vectors of a memtable.
pub(super) async fn write_vectors(
    component: &VectorComponent,
    file_system: &FileSystem,
    memtable: &Memtable,
    writer: &SSTableWriter,
    pace: &mut impl AsyncFnMut(),
) -> Result<VectorIndexWriter, StorageError> {
    let mut index = component.create(file_system, writer).await?;
    let (mut points, mut from) = (component.points(), 0);
    loop {
        let copied = memtable.with_indexes(|indexes| {
            let Some(vectors) = indexes.vectors_of(&component.name) else { return 0 };
            let mut copied = 0;
            for vector in vectors.vectors(from, ENTRIES_AT_ONCE) {
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
        pace().await;
    }
}
