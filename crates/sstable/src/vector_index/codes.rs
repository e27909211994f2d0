//! Codes are vectors with eight bits for each component.
//!
//! A segment has a center, the mean of its first vectors. A code is the difference of a vector and
//! the center, divided by the code's scale and rounded. Without a center, an offset that all
//! vectors have in common would hide their differences. For cosine, all vectors are scaled to the
//! length 1 before.
//!
//! A search estimates similarities by codes, and states the error of its estimates
//! ([`CodedQuery::error`]). In the end, the reader of the rows compares the vectors themselves.
//!
//! Vectors with equal codes are one node. Otherwise many equal nodes would fill their links with
//! each other, and have no room for links to other nodes.
//!
//! The graph uses the distance of the codes, so that equal codes have the distance 0. For dot
//! products, each vector gets a further component that makes all lengths equal: then the vector
//! with the greatest product has the least distance.

use std::{collections::HashMap, hash::BuildHasher as _};

use espalier_trie::prefetch::prefetch_range;
use espalier_types::{Similarity, similarity::product};
use foldhash::fast::FixedState;

use super::{kernels::Kernels, rows::ChunkedRows};

/// The greatest component of a code.
const MAX_COMPONENT: f32 = 127.0;
/// The greatest absolute value of a component that a damaged code may have.
const MAX_STORED_COMPONENT: i32 = 128;
/// The likely maximum error of the product of a code and a vector of length 1, in steps of the code
/// (its scale). With up to 64 components, no error is greater. With more components this limit is
/// arbitrary: the rounding errors of the components are nearly independent, and then the error has
/// a standard deviation of 0.29 steps.
const MAX_ERROR_STEPS: f32 = 4.0;
/// Bytes of the three floats of a code.
const FACTS_BYTES: usize = 3 * size_of::<f32>();
/// Number of maps of nodes by the hash of their code. Each map is so small that its growth does not
/// stall the core.
const MAPS: usize = 64;
/// The memory of a node in its map, with free space.
const MAPPED_BYTES: usize = 24;

/// The different codes of the vectors of a segment.
#[derive(Debug)]
pub(super) struct Codes {
    similarity: Similarity,
    center: Vec<f32>,
    /// For each node, the floats of its [`Code`] (little-endian), then the components. A comparison
    /// needs both, and finds them in the same cache lines.
    rows: ChunkedRows<u8>,
    kernels: Kernels,
    /// The square of the greatest length of a code.
    max_square: f32,
    /// The vector that is being added, relative to the center, and its code.
    difference: Vec<f32>,
    code: Vec<u8>,
    nodes: Vec<HashMap<u64, u32, FixedState>>,
}

/// The code of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Code<'c> {
    pub(super) scale: f32,
    /// The square by which [`CodedQuery::similarity`] computes distances.
    pub(super) square: f32,
    /// The square of the code's length.
    code_square: f32,
    /// A signed byte for each component.
    pub(super) components: &'c [u8],
}

impl Codes {
    /// Makes an empty set of codes. The center has the dimension of the vectors.
    pub(super) fn new(similarity: Similarity, center: Vec<f32>) -> Self {
        let rows = ChunkedRows::new(FACTS_BYTES + center.len());
        Self {
            similarity,
            center,
            rows,
            kernels: Kernels::detect(),
            max_square: 0.0,
            difference: Vec::new(),
            code: Vec::new(),
            nodes: vec![HashMap::default(); MAPS],
        }
    }

    /// Returns the center.
    pub(super) fn center(&self) -> &[f32] {
        &self.center
    }

    /// Returns the number of nodes.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn used_bytes(&self) -> usize {
        self.rows.used_bytes() + self.len() * MAPPED_BYTES
    }

    /// Adds a vector. Returns its node, which is an earlier vector's node if the codes are equal.
    pub(super) fn push(&mut self, vector: &[f32]) -> u32 {
        let unit = unit(self.similarity, vector);
        let differences = vector.iter().zip(&self.center).map(|(x, center)| x * unit - center);
        self.difference.clear();
        self.difference.extend(differences);
        let largest = largest(&self.difference);
        let code = |x: &f32| if largest > 0.0 { x / largest * MAX_COMPONENT } else { 0.0 };
        self.code.clear();
        self.code.extend(self.difference.iter().map(|x| (code(x).round() as i8).cast_unsigned()));
        let scale = largest / MAX_COMPONENT;
        let code_square = scale * scale * self.kernels.product(&self.code, &self.code);
        // The square of a very long vector overflows, and a reader accepts only finite squares.
        let code_square = code_square.min(f32::MAX);
        // On average, the distance to the code is greater than that to the vector: its square is
        // the sum of the square of the distance to the vector and the square of the rounding error.
        let square = match self.similarity {
            Similarity::Euclidean => code_square - self.error_square(scale),
            _ => 0.0,
        };
        let node = self.len() as u32;
        let hash = FixedState::default().hash_one((scale.to_bits(), square.to_bits(), &self.code));
        let nodes = self.nodes.get_mut(hash as usize % MAPS);
        let first = nodes.map_or(node, |nodes| *nodes.entry(hash).or_insert(node));
        let is_equal = |known: Code<'_>| {
            (known.scale, known.square) == (scale, square) && known.components == self.code
        };
        // Another code may have the same hash. Then this code gets a node that the map lacks.
        if first < node && is_equal(self.code_of(first)) {
            return first;
        }
        let facts = [scale, square, code_square].map(f32::to_le_bytes);
        self.rows.push(facts.as_flattened().iter().chain(&self.code).copied());
        self.max_square = self.max_square.max(code_square);
        node
    }

    /// Returns the square of the rounding error of the vector that is being added.
    fn error_square(&self, scale: f32) -> f32 {
        let error = |(x, code): (&f32, &u8)| x - scale * f32::from(code.cast_signed());
        self.difference.iter().zip(&self.code).map(error).map(|error| error * error).sum()
    }

    /// Returns the code of a node; an empty code if there is no such node.
    #[inline]
    pub(super) fn code_of(&self, node: u32) -> Code<'_> {
        const NONE: (&[u8; FACTS_BYTES], &[u8]) = (&[0; FACTS_BYTES], &[]);
        let (facts, components) =
            self.rows.row(node as usize).split_first_chunk::<FACTS_BYTES>().unwrap_or(NONE);
        let (floats, _) = facts.as_chunks::<4>();
        let float = |at: usize| floats.get(at).map_or(0.0, |bytes| f32::from_le_bytes(*bytes));
        Code { scale: float(0), square: float(1), code_square: float(2), components }
    }

    /// Fetches the code of a node into the processor's cache, for a comparison that follows soon.
    #[inline]
    pub(super) fn prefetch(&self, node: u32) {
        let row = self.rows.row(node as usize);
        prefetch_range(row, 0, row.len());
    }

    /// Returns the square of the distance of a code to that of a node.
    #[inline]
    pub(super) fn distance(&self, from: Code<'_>, to: u32) -> f32 {
        let to = self.code_of(to);
        let product = self.kernels.product(from.components, to.components);
        let product = from.scale * to.scale * product;
        let distance = (from.code_square + to.code_square - 2.0 * product).max(0.0);
        if self.similarity != Similarity::DotProduct {
            return distance;
        }
        let rest = |square: f32| (self.max_square - square).max(0.0).sqrt();
        let rest = rest(from.code_square) - rest(to.code_square);
        distance + rest * rest
    }
}

/// Returns the factor by which a vector is scaled before it is compared.
pub(super) fn unit(similarity: Similarity, vector: &[f32]) -> f32 {
    let square = if similarity == Similarity::Cosine { product(vector, vector) } else { 0.0 };
    if square > 0.0 { 1.0 / square.sqrt() } else { 1.0 }
}

fn largest(vector: &[f32]) -> f32 {
    vector.iter().fold(0f32, |largest, x| largest.max(x.abs()))
}

/// A query in the form that a search compares with codes. Its components have as many bits as
/// possible without an overflow of the sum of products.
#[derive(Debug)]
pub(super) struct CodedQuery {
    similarity: Similarity,
    components: Vec<i16>,
    kernels: Kernels,
    scale: f32,
    /// The square of the query's length; for Euclidean, that of its distance to the center.
    square: f32,
    /// The product with the center; 0 for Euclidean.
    of_center: f32,
    /// The length of the center.
    center: f32,
}

impl CodedQuery {
    /// Encodes a query. `center` is the segment's center; an empty center means zero.
    pub(super) fn new(similarity: Similarity, vector: &[f32], center: &[f32]) -> Self {
        let max = i32::MAX
            / MAX_STORED_COMPONENT
            / i32::try_from(vector.len()).unwrap_or(i32::MAX).max(1);
        let max = max.clamp(1, i32::from(i16::MAX)) as f32;
        let unit = unit(similarity, vector);
        let mut vector: Vec<f32> = vector.iter().map(|x| x * unit).collect();
        let mut of_center = 0.0;
        if similarity == Similarity::Euclidean {
            vector.iter_mut().zip(center).for_each(|(x, center)| *x -= center);
        } else {
            of_center = product(&vector, center);
        }
        let (square, largest) = (product(&vector, &vector), largest(&vector));
        let code = |x: &f32| if largest > 0.0 { x / largest * max } else { 0.0 };
        let components = vector.iter().map(|x| code(x).round() as i16).collect();
        let (scale, center) = (largest / max, product(center, center).sqrt());
        let kernels = Kernels::detect();
        Self { similarity, components, kernels, scale, square, of_center, center }
    }

    /// Estimates the similarity to a vector by its code, which has a signed byte for each
    /// component.
    #[inline]
    pub(super) fn similarity(&self, scale: f32, square: f32, code: &[u8]) -> f32 {
        let product = self.kernels.query_product(&self.components, code);
        let product = self.scale * scale * product as f32;
        match self.similarity {
            Similarity::Cosine | Similarity::DotProduct => {
                Similarity::of_product(self.of_center + product)
            }
            Similarity::Euclidean => {
                Similarity::of_distance((self.square + square - 2.0 * product).max(0.0))
            }
        }
    }

    /// Returns the greatest likely error of a similarity that was estimated by a code with this
    /// scale: the rounding of the code, of the query, and of the sums.
    pub(super) fn error(&self, similarity: f32, scale: f32) -> f32 {
        let root = (self.components.len() as f32).sqrt();
        let steps = MAX_ERROR_STEPS.min(root / 2.0);
        let of_code = steps * scale;
        let of_sums = f32::EPSILON * root;
        let of_result = 2.0 * f32::EPSILON * similarity.abs();
        if self.similarity != Similarity::Euclidean {
            let code_length = MAX_COMPONENT * root * scale;
            let of_product = self.square.sqrt() * (of_code + of_sums * self.center);
            return (of_product + steps * self.scale * code_length) / 2.0 + of_result;
        }
        let square = 1.0 / similarity - 1.0;
        // The square has an error of twice the distance times the error of the code, and another
        // that does not depend on the distance.
        let fixed = 4.0 * of_sums * (self.square + square)
            + 2.0 * steps * self.scale * (self.square.sqrt() + square.sqrt());
        let middle = (square + of_code * of_code).sqrt();
        let nearer = ((middle - of_code).powi(2) - fixed).max(0.0);
        let farther = (middle + of_code).powi(2) + fixed;
        let above = Similarity::of_distance(nearer) - similarity;
        above.max(similarity - Similarity::of_distance(farther)) + of_result
    }
}
