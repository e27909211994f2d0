//! Writes the vectors of an SSTable beside it, as `index_entries` writes the entries of other
//! indexes.
//!
//! A flush builds no graph, because a graph takes more time than all the rest, and writes would
//! wait for the memory of the memtable. A compaction builds it.
//!
//! Memory of a compaction: [`VECTOR_SEGMENT_BYTES`] for each index. Vectors beyond that begin
//! another segment.

use espalier_mutation::{IndexedColumn, schema::VectorIndexOptions};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{SSTableWriter, VectorIndexWriter, VectorLimits, VectorPoints};
use espalier_types::similarity::floats;

use crate::CompactionError;

/// The bytes of the vectors of one segment, with their places and graph (arbitrary): about 350,000
/// different vectors of 128 components.
pub const VECTOR_SEGMENT_BYTES: usize = 128 << 20;

/// The component of an index on vectors.
pub struct VectorComponent {
    /// The name of the index.
    pub name: String,
    /// Its signature.
    pub signature: String,
    /// Its properties.
    pub options: VectorIndexOptions,
    /// Limits of its graphs.
    pub limits: VectorLimits,
}

impl VectorComponent {
    /// Returns an empty set of vectors.
    pub fn points(&self) -> VectorPoints {
        VectorPoints::new(self.options.similarity, self.options.dimension, &self.limits)
    }

    /// Creates the component beside the SSTable of `writer`.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be created.
    pub async fn create(
        &self,
        file_system: &FileSystem,
        writer: &SSTableWriter,
    ) -> Result<VectorIndexWriter, CompactionError> {
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
        self.points.used_bytes() >= VECTOR_SEGMENT_BYTES
    }

    /// Adds the vector of a row if the index can contain that vector.
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
    ) -> Result<(), CompactionError> {
        let mut component = self.component(file_system, writer).await?;
        let points = std::mem::replace(&mut self.points, self.of.points());
        component.write_segment(points, true).await?;
        self.component = Some(component);
        Ok(())
    }

    /// Writes the remaining vectors as the last segment, and returns the component.
    pub(super) async fn finish(
        mut self,
        file_system: &FileSystem,
        writer: &SSTableWriter,
    ) -> Result<VectorIndexWriter, CompactionError> {
        self.write_segment(file_system, writer).await?;
        self.component(file_system, writer).await
    }

    async fn component(
        &mut self,
        file_system: &FileSystem,
        writer: &SSTableWriter,
    ) -> Result<VectorIndexWriter, CompactionError> {
        match self.component.take() {
            Some(component) => Ok(component),
            None => self.of.create(file_system, writer).await,
        }
    }
}
