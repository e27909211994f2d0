//! Vectors of eight bits a component: a code is the vector divided by its scale, rounded.
//!
//! For cosine, a code is that of the vector of length 1. The rounding moves a product by less than
//! a thousandth of the lengths, and the reader of the rows compares the vectors themselves in the
//! end.
//!
//! The graph needs a distance. For dot products, each vector has one component more, so that all
//! have the same length: then the greatest product is the least distance.

use espalier_types::{Similarity, similarity::product};

use super::rows::ChunkedRows;

/// The greatest component of a code.
const MAX_COMPONENT: f32 = 127.0;

/// The codes of the vectors of a segment.
#[derive(Debug)]
pub(super) struct Codes {
    similarity: Similarity,
    components: ChunkedRows<i8>,
    /// The scale and the square of the length of each vector.
    facts: ChunkedRows<f32>,
    /// The square of the greatest length.
    max_square: f32,
}

impl Codes {
    pub(super) fn new(similarity: Similarity, dimension: usize) -> Self {
        let (components, facts) = (ChunkedRows::new(dimension), ChunkedRows::new(2));
        Self { similarity, components, facts, max_square: 0.0 }
    }

    pub(super) fn len(&self) -> usize {
        self.facts.len()
    }

    pub(super) fn used_bytes(&self) -> usize {
        self.components.used_bytes() + self.facts.used_bytes()
    }

    /// Adds a vector.
    pub(super) fn push(&mut self, vector: &[f32]) {
        let mut square = product(vector, vector);
        let mut unit = 1.0;
        if self.similarity == Similarity::Cosine && square > 0.0 {
            unit = 1.0 / square.sqrt();
            square = 1.0;
        }
        let largest = vector.iter().fold(0f32, |largest, x| largest.max(x.abs()));
        let to_code = if largest > 0.0 { MAX_COMPONENT / largest } else { 0.0 };
        self.components.push(vector.iter().map(|x| (x * to_code).round() as i8));
        let scale = if largest > 0.0 { unit * largest / MAX_COMPONENT } else { 0.0 };
        self.facts.push([scale, square]);
        self.max_square = self.max_square.max(square);
    }

    /// Returns the scale, the square of the length, and the components of a vector.
    pub(super) fn get(&self, node: usize) -> (f32, f32, &[i8]) {
        let [scale, square] = self.facts.row(node).try_into().unwrap_or([0.0; 2]);
        (scale, square, self.components.row(node))
    }

    /// Returns the square of the distance of two vectors.
    #[inline]
    pub(super) fn distance(&self, left: u32, right: u32) -> f32 {
        let (left_scale, left_square, left) = self.get(left as usize);
        let (right_scale, right_square, right) = self.get(right as usize);
        let product = left_scale * right_scale * code_product(left, right) as f32;
        let distance = left_square + right_square - 2.0 * product;
        if self.similarity != Similarity::DotProduct {
            return distance;
        }
        let rest = |square: f32| (self.max_square - square).max(0.0).sqrt();
        let rest = rest(left_square) - rest(right_square);
        distance + rest * rest
    }
}

fn code_product(left: &[i8], right: &[i8]) -> i32 {
    left.iter().zip(right).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum()
}

/// A vector that is compared with codes. Its components have as many bits as the sum allows.
#[derive(Debug)]
pub(super) struct CodedQuery {
    similarity: Similarity,
    components: Vec<i16>,
    scale: f32,
    square: f32,
}

impl CodedQuery {
    pub(super) fn new(similarity: Similarity, vector: &[f32]) -> Self {
        let most = i32::MAX / (MAX_COMPONENT as i32) / i32::try_from(vector.len()).unwrap_or(1);
        let most = most.clamp(1, i32::from(i16::MAX)) as f32;
        let mut square = product(vector, vector);
        let mut unit = 1.0;
        if similarity == Similarity::Cosine && square > 0.0 {
            unit = 1.0 / square.sqrt();
            square = 1.0;
        }
        let largest = vector.iter().fold(0f32, |largest, x| largest.max(x.abs()));
        let to_code = if largest > 0.0 { most / largest } else { 0.0 };
        let components = vector.iter().map(|x| (x * to_code).round() as i16).collect();
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
