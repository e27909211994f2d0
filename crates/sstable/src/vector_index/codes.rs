//! Vectors of eight bits a component: a code is the vector divided by its scale, rounded.
//!
//! For cosine, the scale gives the code the length 1. The rounding changes a product by less than a
//! thousandth of the product of the lengths. In the end, the reader of the rows compares the
//! vectors themselves.
//!
//! Vectors with equal codes are one node. Otherwise many equal nodes would fill their links with
//! each other, and have no room for links to other nodes.
//!
//! The graph uses the distance of the codes, so that equal codes have the distance 0. For dot
//! products, each vector gets a further component that makes all lengths equal: then the vector
//! with the greatest product has the least distance.

use std::{collections::HashMap, hash::BuildHasher as _};

use espalier_types::{Similarity, similarity::product};
use foldhash::fast::FixedState;

use super::rows::ChunkedRows;

/// The greatest component of a code.
const MAX_COMPONENT: f32 = 127.0;
/// The greatest component that a damaged code may have.
const MAX_STORED_COMPONENT: i32 = 128;
/// Maximum number of components whose products a sum of 32 bits takes.
const SUMMED_AT_ONCE: usize = 1 << 16;
/// Number of maps of nodes by the hash of their code. Each map is so small that its growth does not
/// hold the core.
const MAPS: usize = 64;
/// The memory of a node in its map, with free space.
const MAPPED_BYTES: usize = 24;

/// The different codes of the vectors of a segment.
#[derive(Debug)]
pub(super) struct Codes {
    similarity: Similarity,
    components: ChunkedRows<i8>,
    /// For each node, the scale and the squares of two lengths: the vector's and the code's.
    facts: ChunkedRows<f32>,
    /// The square of the greatest length of a code.
    max_square: f32,
    /// The code of the vector that is being added.
    code: Vec<i8>,
    nodes: Vec<HashMap<u64, u32, FixedState>>,
}

impl Codes {
    pub(super) fn new(similarity: Similarity, dimension: usize) -> Self {
        let (components, facts) = (ChunkedRows::new(dimension), ChunkedRows::new(3));
        let nodes = vec![HashMap::default(); MAPS];
        Self { similarity, components, facts, max_square: 0.0, code: Vec::new(), nodes }
    }

    /// Returns the number of nodes.
    pub(super) fn len(&self) -> usize {
        self.facts.len()
    }

    pub(super) fn used_bytes(&self) -> usize {
        self.components.used_bytes() + self.facts.used_bytes() + self.len() * MAPPED_BYTES
    }

    /// Adds a vector. Returns its node, which is that of an earlier vector with an equal code.
    pub(super) fn push(&mut self, vector: &[f32]) -> u32 {
        let largest = largest(vector);
        let code = |x: &f32| if largest > 0.0 { x / largest * MAX_COMPONENT } else { 0.0 };
        self.code.clear();
        self.code.extend(vector.iter().map(|x| code(x).round() as i8));
        let code_square = code_product(&self.code, &self.code);
        let (scale, square) = match self.similarity {
            Similarity::Cosine if code_square > 0.0 => (1.0 / code_square.sqrt(), 1.0),
            _ => (largest / MAX_COMPONENT, product(vector, vector)),
        };
        let node = self.len() as u32;
        let hash = FixedState::default().hash_one((scale.to_bits(), square.to_bits(), &self.code));
        let nodes = self.nodes.get_mut(hash as usize % MAPS);
        let first = nodes.map_or(node, |nodes| *nodes.entry(hash).or_insert(node));
        // Another code may have the same hash. Then this code gets a node that the map lacks.
        if first < node && self.get(first as usize) == (scale, square, self.code.as_slice()) {
            return first;
        }
        let code_square = scale * scale * code_square;
        self.components.push(self.code.iter().copied());
        self.facts.push([scale, square, code_square]);
        self.max_square = self.max_square.max(code_square);
        node
    }

    /// Returns the scale, the square of the length, and the components of a vector.
    pub(super) fn get(&self, node: usize) -> (f32, f32, &[i8]) {
        let [scale, square, _] = self.facts(node);
        (scale, square, self.components.row(node))
    }

    #[inline]
    fn facts(&self, node: usize) -> [f32; 3] {
        self.facts.row(node).try_into().unwrap_or([0.0; 3])
    }

    /// Returns the square of the distance of two codes.
    #[inline]
    pub(super) fn distance(&self, left: u32, right: u32) -> f32 {
        let (left, right) = (left as usize, right as usize);
        let [left_scale, _, left_square] = self.facts(left);
        let [right_scale, _, right_square] = self.facts(right);
        let product = code_product(self.components.row(left), self.components.row(right));
        let product = left_scale * right_scale * product;
        let distance = (left_square + right_square - 2.0 * product).max(0.0);
        if self.similarity != Similarity::DotProduct {
            return distance;
        }
        let rest = |square: f32| (self.max_square - square).max(0.0).sqrt();
        let rest = rest(left_square) - rest(right_square);
        distance + rest * rest
    }
}

fn largest(vector: &[f32]) -> f32 {
    vector.iter().fold(0f32, |largest, x| largest.max(x.abs()))
}

#[inline]
fn code_product(left: &[i8], right: &[i8]) -> f32 {
    let sum = |(left, right): (&[i8], &[i8])| -> i32 {
        left.iter().zip(right).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum()
    };
    let parts = left.chunks(SUMMED_AT_ONCE).zip(right.chunks(SUMMED_AT_ONCE));
    parts.map(|part| i64::from(sum(part))).sum::<i64>() as f32
}

/// A query as a search compares it with codes. Its components have as many bits as the sum allows.
#[derive(Debug)]
pub(super) struct CodedQuery {
    similarity: Similarity,
    components: Vec<i16>,
    scale: f32,
    square: f32,
}

impl CodedQuery {
    pub(super) fn new(similarity: Similarity, vector: &[f32]) -> Self {
        let most = i32::MAX
            / MAX_STORED_COMPONENT
            / i32::try_from(vector.len()).unwrap_or(i32::MAX).max(1);
        let most = most.clamp(1, i32::from(i16::MAX)) as f32;
        let mut square = product(vector, vector);
        let mut unit = 1.0;
        if similarity == Similarity::Cosine && square > 0.0 {
            unit = 1.0 / square.sqrt();
            square = 1.0;
        }
        let largest = largest(vector);
        let code = |x: &f32| if largest > 0.0 { x / largest * most } else { 0.0 };
        let components = vector.iter().map(|x| code(x).round() as i16).collect();
        let scale = if largest > 0.0 { unit * largest / most } else { 0.0 };
        Self { similarity, components, scale, square }
    }

    /// Returns the similarity to a vector by its code.
    #[inline]
    pub(super) fn similarity(
        &self,
        scale: f32,
        square: f32,
        code: impl Iterator<Item = i8>,
    ) -> f32 {
        let product: i32 =
            self.components.iter().zip(code).map(|(a, b)| i32::from(*a) * i32::from(b)).sum();
        let product = self.scale * scale * product as f32;
        match self.similarity {
            Similarity::Cosine | Similarity::DotProduct => Similarity::of_product(product),
            Similarity::Euclidean => {
                Similarity::of_distance((self.square + square - 2.0 * product).max(0.0))
            }
        }
    }
}
