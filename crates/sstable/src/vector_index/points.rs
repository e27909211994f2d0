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
    pub(super) dimension: usize,
    max_exact: usize,
    /// The vectors as they are, until they are too many.
    exact: Option<ChunkedRows<f32>>,
    /// The codes of all vectors, from the first one on: to code many at once would hold the core.
    codes: Codes,
    pub(super) places: ChunkedBytes,
}

/// The vectors, as they are or as codes.
pub(super) enum Vectors<'p> {
    Exact(&'p ChunkedRows<f32>),
    Codes(&'p Codes),
}

impl VectorPoints {
    /// Makes an empty segment of vectors with `dimension` components.
    pub fn new(similarity: Similarity, dimension: usize, limits: &VectorLimits) -> Self {
        Self {
            dimension,
            max_exact: limits.max_exact,
            exact: Some(ChunkedRows::new(dimension)),
            codes: Codes::new(similarity, dimension),
            places: ChunkedBytes::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns about how many bytes of memory the segment takes, with the graph that may be built.
    pub fn used_bytes(&self) -> usize {
        let exact = self.exact.as_ref().map_or(0, ChunkedRows::used_bytes);
        let graph = self.len() * (MAX_LINKS + 2) * size_of::<u32>();
        exact + self.codes.used_bytes() + self.places.used_bytes() + graph
    }

    pub(super) fn vectors(&self) -> Vectors<'_> {
        match &self.exact {
            Some(exact) => Vectors::Exact(exact),
            None => Vectors::Codes(&self.codes),
        }
    }

    /// Adds a vector, which must have the dimension of the segment, and the place of its row.
    pub fn push(&mut self, place: &[u8], vector: &[f32]) {
        if let Some(exact) = &mut self.exact {
            exact.push(vector.iter().copied());
            if exact.len() > self.max_exact || exact.used_bytes() > MAX_EXACT_BYTES {
                self.exact = None;
            }
        }
        self.codes.push(vector);
        self.places.push(place);
    }
}
