//! Collects the vectors and places of a segment.

use espalier_runtime::maybe_yield;
use espalier_types::Similarity;

use super::{
    codes::Codes,
    graph::MAX_LINKS,
    rows::{ChunkedBytes, ChunkedRows},
};

/// Maximum bytes of vectors that a segment has as floats (arbitrary).
const MAX_EXACT_BYTES: usize = 4 << 20;

/// The numbers of vectors at which a segment gets another form. Tests use smaller numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorLimits {
    /// The maximum number of vectors that a segment has as floats. A search compares them all in
    /// less than a millisecond.
    pub max_exact: usize,
    /// The number of vectors from which a segment has a graph, unless a flush writes it. For fewer
    /// vectors, a search of all codes is as fast.
    pub min_graph: usize,
    /// The number of vectors that a segment must have for each node whose links a search would
    /// follow. With fewer vectors, the search compares all codes.
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
    /// The vectors as floats, until they are too many.
    exact: Option<ChunkedRows<f32>>,
    /// The codes of all vectors. The segment codes each vector when it is added, because coding
    /// many together would hold the core.
    codes: Codes,
    /// The node of each entry among the codes.
    nodes: ChunkedRows<u32>,
    pub(super) places: ChunkedBytes,
}

/// The entries of a segment in the order of their nodes.
pub(super) struct Groups {
    /// For each node, the number of its first entry in this order.
    pub(super) firsts: Vec<u32>,
    /// The entries, by the order in which they were added.
    pub(super) order: Vec<u32>,
}

/// The vectors, as floats or as codes.
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
            nodes: ChunkedRows::new(1),
            places: ChunkedBytes::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns an estimate of the segment's memory in bytes, including a graph that may follow.
    pub fn used_bytes(&self) -> usize {
        let exact = self.exact.as_ref().map_or(0, ChunkedRows::used_bytes);
        let graph = self.codes.len() * (MAX_LINKS + 4) * size_of::<u32>();
        let groups = 2 * self.nodes.used_bytes();
        exact + self.codes.used_bytes() + groups + self.places.used_bytes() + graph
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
        self.nodes.push([self.codes.push(vector)]);
        self.places.push(place);
    }

    /// Returns the entries in the order of their nodes; `None` if each has a node of its own.
    pub(super) async fn groups(&self) -> Option<Groups> {
        if self.exact.is_some() || self.codes.len() == self.len() {
            return None;
        }
        let node_of = |entry| self.nodes.row(entry).first().map_or(0, |node| *node as usize);
        let mut next = vec![0; self.codes.len()];
        for entry in 0..self.len() {
            if let Some(count) = next.get_mut(node_of(entry)) {
                *count += 1;
            }
            maybe_yield().await;
        }
        let mut first = 0;
        for node in &mut next {
            first += std::mem::replace(node, first);
            maybe_yield().await;
        }
        let firsts = next.clone();
        let mut order = vec![0; self.len()];
        for entry in 0..self.len() {
            if let Some(at) = next.get_mut(node_of(entry)) {
                if let Some(place) = order.get_mut(*at as usize) {
                    *place = entry as u32;
                }
                *at += 1;
            }
            maybe_yield().await;
        }
        Some(Groups { firsts, order })
    }
}
