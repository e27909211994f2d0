//! Writes the vectors of an SSTable beside it, as `component` writes the entries of other indexes.
//!
//! A flush builds no graph, because a graph takes more time than all the rest, and writes would
//! wait for the memory of the memtable. A compaction builds it.
//!
//! Memory of a compaction: [`SEGMENT_BYTES`] for each index. Vectors beyond that begin another
//! segment.

use espalier_memtable::Memtable;
use espalier_mutation::{IndexedColumn, schema::VectorIndexOptions};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{SSTableWriter, VectorIndexWriter, VectorLimits, VectorPoints};
use espalier_types::similarity::floats;

use super::component::ENTRIES_AT_ONCE;
use crate::StorageError;

/// The bytes of vectors, with their places and graph, that are collected at a time (arbitrary): a
/// quarter of a million vectors of 128 components.
const SEGMENT_BYTES: usize = 64 << 20;

/// The component of an index on vectors.
pub(super) struct VectorComponent {
    pub(super) name: String,
    pub(super) signature: String,
    pub(super) options: VectorIndexOptions,
    pub(super) limits: VectorLimits,
}

impl VectorComponent {
    fn points(&self) -> VectorPoints {
        VectorPoints::new(self.options.similarity, self.options.dimension, &self.limits)
    }

    async fn create(
        &self,
        file_system: &FileSystem,
        writer: &SSTableWriter,
    ) -> Result<VectorIndexWriter, StorageError> {
        let settings = (self.options.similarity, self.options.dimension);
        let (descriptor, is_durable) = (writer.descriptor(), writer.is_durable());
        let (name, signature, limits) = (&self.name, &self.signature, &self.limits);
        let index = VectorIndexWriter::create(
            file_system,
            descriptor,
            name,
            signature,
            settings,
            limits,
            is_durable,
        );
        Ok(index.await?)
    }

    /// Writes the vectors of a memtable.
    pub(super) async fn write_memtable(
        &self,
        file_system: &FileSystem,
        memtable: &Memtable,
        writer: &SSTableWriter,
        pace: &mut impl AsyncFnMut(),
    ) -> Result<VectorIndexWriter, StorageError> {
        let mut index = self.create(file_system, writer).await?;
        let (mut points, mut from) = (self.points(), 0);
        loop {
            let copied = memtable.with_indexes(|indexes| {
                let Some(vectors) = indexes.vectors_of(&self.name) else { return 0 };
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
            if copied == 0 || points.used_bytes() >= SEGMENT_BYTES {
                let full = std::mem::replace(&mut points, self.points());
                index.write_segment(full, false).await?;
            }
            if copied == 0 {
                return Ok(index);
            }
            pace().await;
        }
    }
}

/// Collects the vectors of one index.
pub(super) struct VectorBuilder {
    of: VectorComponent,
    pub(super) column: IndexedColumn,
    points: VectorPoints,
    vector: Vec<f32>,
    /// The component, once it has a segment.
    component: Option<VectorIndexWriter>,
}

impl VectorBuilder {
    pub(super) fn new(of: VectorComponent, column: IndexedColumn) -> Self {
        let points = of.points();
        Self { of, column, points, vector: Vec::new(), component: None }
    }

    /// Returns whether the vectors must be written before others are added.
    pub(super) fn is_full(&self) -> bool {
        self.points.used_bytes() >= SEGMENT_BYTES
    }

    /// Adds the vector of a row.
    pub(super) fn add(&mut self, place: &[u8], vector: &[u8]) {
        if self.of.options.is_indexable(vector) {
            self.vector.clear();
            self.vector.extend(floats(vector));
            self.points.push(place, &self.vector);
        }
    }

    /// Writes the collected vectors as a segment.
    pub(super) async fn write_segment(
        &mut self,
        file_system: &FileSystem,
        writer: &SSTableWriter,
    ) -> Result<(), StorageError> {
        let mut component = self.component(file_system, writer).await?;
        let points = std::mem::replace(&mut self.points, self.of.points());
        component.write_segment(points, true).await?;
        self.component = Some(component);
        Ok(())
    }

    /// Writes the rest.
    pub(super) async fn finish(
        mut self,
        file_system: &FileSystem,
        writer: &SSTableWriter,
    ) -> Result<VectorIndexWriter, StorageError> {
        self.write_segment(file_system, writer).await?;
        self.component(file_system, writer).await
    }

    async fn component(
        &mut self,
        file_system: &FileSystem,
        writer: &SSTableWriter,
    ) -> Result<VectorIndexWriter, StorageError> {
        match self.component.take() {
            Some(component) => Ok(component),
            None => self.of.create(file_system, writer).await,
        }
    }
}
