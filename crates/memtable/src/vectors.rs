//! The vectors of one index in a memtable, in the order in which they were written.
//!
//! A write adds a vector and removes none, as in the tries of other indexes. A search compares its
//! query with all of them.

use espalier_mutation::{IndexedColumn, schema::VectorIndexOptions};
use espalier_sstable::{ChunkedBytes, ChunkedRows};
use espalier_types::similarity::floats;

/// The vectors of one index.
pub struct MemtableVectors {
    pub(super) name: String,
    pub(super) column: IndexedColumn,
    pub(super) options: VectorIndexOptions,
    vectors: ChunkedRows<f32>,
    places: ChunkedBytes,
}

impl MemtableVectors {
    pub(super) fn new(name: &str, column: IndexedColumn, options: VectorIndexOptions) -> Self {
        let (vectors, places) = (ChunkedRows::new(options.dimension), ChunkedBytes::default());
        Self { name: name.into(), column, options, vectors, places }
    }

    /// Adds a vector and the place of its row. Leaves out a vector that cannot be indexed, such as
    /// the zero vector with cosine similarity.
    pub(super) fn add(&mut self, place: &[u8], vector: &[u8]) {
        if self.options.is_indexable(vector) {
            self.vectors.push(floats(vector));
            self.places.push(place);
        }
    }

    /// Returns up to `most` vectors from number `from` on.
    pub fn vectors(&self, from: usize, most: usize) -> impl Iterator<Item = &[f32]> {
        let end = from.saturating_add(most).min(self.vectors.len());
        (from..end).map(|number| self.vectors.row(number))
    }

    /// Returns the place of a vector.
    pub fn place(&self, number: usize) -> Option<&[u8]> {
        self.places.get(number)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.vectors.allocated_bytes() + self.places.allocated_bytes()
    }

    pub(super) fn used_bytes(&self) -> usize {
        self.vectors.used_bytes() + self.places.used_bytes()
    }
}
