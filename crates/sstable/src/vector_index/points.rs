//! Collects the vectors and places of a segment.

use espalier_runtime::maybe_yield;
use espalier_types::Similarity;

use super::{
    codes::{Codes, unit},
    graph::MAX_LINKS,
    rows::{ChunkedBytes, ChunkedRows},
};

/// Maximum bytes of vectors that a segment has as floats, unless they are short (arbitrary).
const MAX_EXACT_BYTES: usize = 4 << 20;

/// Number of earlier vectors that get their codes when another one is added. With 2, all vectors
/// have codes when the segment has twice as many vectors as at the first code.
const CODED_AT_ONCE: usize = 2;

/// The numbers of vectors at which a segment gets another form. Tests use smaller numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorLimits {
    /// The maximum number of vectors that a segment has as floats. A search compares them all in
    /// less than a millisecond.
    pub max_exact: usize,
    /// The maximum number of components of vectors that segments always have as floats. Codes would
    /// save little of the space, and hide the differences of near points, such as coordinates.
    pub max_short: usize,
    /// The number of nodes (different codes) from which a segment has a graph, unless a flush
    /// writes the segment. For fewer nodes, a search of all codes is as fast.
    pub min_graph: usize,
    /// The number of nodes that a segment must have for each node whose links a search would
    /// follow. With fewer nodes, the search compares all codes. Following the links of one node
    /// takes as long as comparing some 110 (vectors of words) to 150 codes (random ones) in order.
    pub graph_cost: usize,
}

impl Default for VectorLimits {
    fn default() -> Self {
        Self { max_exact: 4096, max_short: 4, min_graph: 16 << 10, graph_cost: 120 }
    }
}

/// The vectors and places of a segment that is being collected.
///
/// The first vectors are kept as floats. Once they are too many, their mean is the center of the
/// codes. Then each call that adds a vector codes some of them, because coding all at once would
/// stall the core.
pub struct VectorPoints {
    similarity: Similarity,
    pub(super) dimension: usize,
    max_exact: usize,
    max_exact_bytes: usize,
    /// The vectors as floats. Empty once all have codes.
    floats: ChunkedRows<f32>,
    /// The number of vectors in `floats` that have codes, too.
    coded: usize,
    /// The sum of `floats`, until there are codes. For cosine, the vectors are scaled to length 1
    /// before they are added. Empty until the first vector is added.
    sum: Vec<f64>,
    codes: Option<Codes>,
    /// For each entry with a code, its node.
    nodes: ChunkedRows<u32>,
    pub(super) places: ChunkedBytes,
}

/// The entries of a segment in the order of their nodes.
pub(super) struct Groups {
    /// For each node, the number of its first entry in this order.
    pub(super) firsts: Vec<u32>,
    /// The entries in this order, as numbers that count in the order in which they were added.
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
        let is_short = dimension <= limits.max_short;
        Self {
            similarity,
            dimension,
            max_exact: if is_short { usize::MAX } else { limits.max_exact },
            max_exact_bytes: if is_short { usize::MAX } else { MAX_EXACT_BYTES },
            floats: ChunkedRows::new(dimension),
            coded: 0,
            sum: Vec::new(),
            codes: None,
            nodes: ChunkedRows::new(1),
            places: ChunkedBytes::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns an estimate of the segment's memory in bytes, including a graph that may follow.
    pub fn used_bytes(&self) -> usize {
        let codes = self.codes.as_ref().map_or(0, |codes| {
            let nodes = codes.len() + self.floats.len() - self.coded;
            codes.used_bytes() + nodes * (MAX_LINKS + 4) * size_of::<u32>()
        });
        let groups = 2 * self.nodes.used_bytes();
        self.floats.used_bytes() + codes + groups + self.places.used_bytes()
    }

    /// Returns the vectors, once [`Self::settle`] has coded them.
    pub(super) fn vectors(&self) -> Vectors<'_> {
        match &self.codes {
            Some(codes) => Vectors::Codes(codes),
            None => Vectors::Exact(&self.floats),
        }
    }

    /// Adds a vector, which must have the dimension of the segment, and the place of its row.
    pub fn push(&mut self, place: &[u8], vector: &[f32]) {
        self.places.push(place);
        self.code(CODED_AT_ONCE);
        match &mut self.codes {
            Some(codes) if self.floats.is_empty() => self.nodes.push([codes.push(vector)]),
            Some(_) => self.floats.push(vector.iter().copied()),
            None => self.push_exact(vector),
        }
    }

    /// Adds a vector before there are codes.
    fn push_exact(&mut self, vector: &[f32]) {
        self.floats.push(vector.iter().copied());
        let unit = unit(self.similarity, vector);
        self.sum.resize(self.dimension, 0.0);
        self.sum.iter_mut().zip(vector).for_each(|(sum, x)| *sum += f64::from(x * unit));
        let count = self.floats.len();
        if count > self.max_exact || self.floats.used_bytes() > self.max_exact_bytes {
            let center = self.sum.iter().map(|sum| (sum / count as f64) as f32).collect();
            self.codes = Some(Codes::new(self.similarity, center));
        }
    }

    /// Codes up to `max` vectors, if the segment has codes. Returns whether some vectors have no
    /// code yet.
    fn code(&mut self, max: usize) -> bool {
        let Some(codes) = &mut self.codes else { return false };
        let end = self.floats.len().min(self.coded + max);
        for index in self.coded..end {
            self.nodes.push([codes.push(self.floats.row(index))]);
        }
        self.coded = end;
        if end < self.floats.len() {
            return true;
        }
        if end > 0 {
            (self.floats, self.coded) = (ChunkedRows::new(self.dimension), 0);
        }
        false
    }

    /// Codes the vectors that lack a code, if the segment has codes.
    pub(super) async fn settle(&mut self) {
        while self.code(1) {
            maybe_yield().await;
        }
    }

    /// Returns the entries in the order of their nodes; `None` if each has a node of its own.
    pub(super) async fn groups(&self) -> Option<Groups> {
        let codes = self.codes.as_ref().filter(|codes| codes.len() < self.len())?;
        let node_of = |entry| self.nodes.row(entry).first().map_or(0, |node| *node as usize);
        let mut next = vec![0; codes.len()];
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_without_vectors_takes_no_memory_for_their_components() {
        let points = VectorPoints::new(Similarity::Cosine, 1 << 24, &VectorLimits::default());
        assert_eq!(points.sum.capacity(), 0);
    }

    #[test]
    fn a_vector_codes_few_earlier_ones() {
        let limits = VectorLimits { max_exact: 100, max_short: 0, ..VectorLimits::default() };
        let mut points = VectorPoints::new(Similarity::Euclidean, 2, &limits);
        let mut coded = 0;
        for index in 0..250_u32 {
            points.push(b"place", &[index as f32, (index % 7) as f32]);
            let now = points.nodes.len();
            assert!(now <= coded + CODED_AT_ONCE + 1, "{now}");
            let left = points.floats.len() - points.coded;
            assert_eq!(now + left, index as usize + 1);
            coded = now;
        }
        // All vectors have codes. The codes are relative to the mean of the first 101 vectors.
        assert!(points.floats.is_empty());
        let center = points.codes.map(|codes| codes.center().to_vec());
        assert_eq!(center, Some(vec![50.0, 297.0 / 101.0]));
    }
}
