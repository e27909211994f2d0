//! The vectors and places of a segment that is being collected.

use espalier_types::Similarity;

use super::{
    codes::Codes,
    graph::MAX_LINKS,
    rows::{ChunkedBytes, ChunkedRows},
};

/// A segment has its vectors as they are up to this number of bytes (arbitrary).
const MAX_EXACT_BYTES: usize = 4 << 20;

/// The numbers of vectors from which a segment has another form. Tests have fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorLimits {
    /// A segment has its vectors as they are up to this number of them. A search compares them all
    /// in less than a millisecond.
    pub max_exact: usize,
    /// A segment has a graph from this number of vectors on, unless a flush writes it. With fewer, a
    /// search of all codes is as fast.
    pub min_graph: usize,
    /// A search follows a graph if the segment has this many vectors for each node whose links it
    /// would follow. Otherwise it compares all codes.
    pub graph_cost: usize,
}

impl Default for VectorLimits {
    fn default() -> Self {
        Self { max_exact: 4096, min_graph: 16 << 10, graph_cost: 60 }
    }
}

/// The vectors and places of a segment that is being collected.
pub struct VectorPoints {
    pub(super) similarity: Similarity,
    pub(super) dimension: usize,
    max_exact: usize,
    pub(super) vectors: Vectors,
    pub(super) places: ChunkedBytes,
}

/// The vectors, as they are or as codes.
pub(super) enum Vectors {
    Exact(ChunkedRows<f32>),
    Codes(Codes),
}

impl VectorPoints {
    /// Makes an empty segment of vectors with `dimension` components.
    pub fn new(similarity: Similarity, dimension: usize, limits: &VectorLimits) -> Self {
        Self {
            similarity,
            dimension,
            max_exact: limits.max_exact,
            vectors: Vectors::Exact(ChunkedRows::new(dimension)),
            places: ChunkedBytes::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns about how many bytes of memory the segment takes, with the graph that may be built.
    pub fn used_bytes(&self) -> usize {
        let vectors = match &self.vectors {
            Vectors::Exact(vectors) => vectors.used_bytes(),
            Vectors::Codes(codes) => codes.used_bytes(),
        };
        let graph = self.len() * (MAX_LINKS + 2) * size_of::<u32>();
        vectors + self.places.used_bytes() + graph
    }

    /// Adds a vector, which must have the dimension of the segment, and the place of its row.
    pub fn push(&mut self, place: &[u8], vector: &[f32]) {
        if let Vectors::Exact(vectors) = &self.vectors
            && (vectors.len() >= self.max_exact || vectors.used_bytes() >= MAX_EXACT_BYTES)
        {
            let mut codes = Codes::new(self.similarity, self.dimension);
            (0..vectors.len()).for_each(|index| codes.push(vectors.row(index)));
            self.vectors = Vectors::Codes(codes);
        }
        match &mut self.vectors {
            Vectors::Exact(vectors) => vectors.push(vector.iter().copied()),
            Vectors::Codes(codes) => codes.push(vector),
        }
        self.places.push(place);
    }
}
