//! The similarity of two vectors of floats, as CQL's functions and vector indexes measure it.
//!
//! | function | similarity |
//! | --- | --- |
//! | cosine | (1 + cos) / 2 |
//! | Euclidean | 1 / (1 + distance²) |
//! | dot product | (1 + product) / 2 |
//!
//! [`Similarity::of`] sums in [`LANES`] accumulators, so that the compiler may use vector
//! instructions, and vectors of fewer components from front to back. [`Similarity::of_in_order`]
//! sums all vectors from front to back.

use crate::literal::print_float;

/// The greatest absolute value of a component in an index, as in Cassandra.
const MAX_COMPONENT: f32 = 1e17;

/// Number of partial sums of a product or distance.
const LANES: usize = 8;

/// A measure of similarity. A greater result means a greater similarity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Similarity {
    Cosine,
    DotProduct,
    Euclidean,
}

/// The similarity to one vector, the query. Has the square of the query's length, so that each
/// comparison by cosine need not compute it again.
#[derive(Clone, Copy, Debug)]
pub struct QuerySimilarity<'q> {
    measure: Similarity,
    query: &'q [f32],
    /// The square of the query's length; 0 unless the measure is cosine.
    square: f32,
}

impl QuerySimilarity<'_> {
    /// Returns the similarity of the query and a vector of equal dimension, as [`Similarity::of`].
    #[inline]
    pub fn of(&self, vector: &[f32]) -> Option<f32> {
        self.measure.by_sums((self.query, self.square), vector, product, square_distance)
    }
}

impl Similarity {
    /// All measures, in the order in which Cassandra's error text lists them.
    pub const ALL: [Self; 3] = [Self::Euclidean, Self::DotProduct, Self::Cosine];

    /// Returns the name in the options of an index.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cosine => "COSINE",
            Self::DotProduct => "DOT_PRODUCT",
            Self::Euclidean => "EUCLIDEAN",
        }
    }

    /// Returns the measure with that name, in upper or lower case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|measure| measure.name().eq_ignore_ascii_case(name))
    }

    /// Returns the similarity of two vectors of equal dimension; `None` for cosine if the square of
    /// a vector's length is 0.
    #[inline]
    pub fn of(self, left: &[f32], right: &[f32]) -> Option<f32> {
        self.with_query(left).of(right)
    }

    /// Returns the similarity to `query`, to compare it with many vectors.
    #[inline]
    pub fn with_query(self, query: &[f32]) -> QuerySimilarity<'_> {
        QuerySimilarity { measure: self, query, square: self.needed_square(query, product) }
    }

    /// Returns the similarity as [`Self::of`] does, but sums from front to back, so that the last
    /// bit is that of Cassandra's functions.
    pub fn of_in_order(self, left: &[f32], right: &[f32]) -> Option<f32> {
        let pairs = |left: &[f32], right: &[f32], term: fn(f32, f32) -> f32| {
            left.iter().zip(right).map(|(a, b)| term(*a, *b)).sum()
        };
        let product = |left: &[f32], right: &[f32]| pairs(left, right, |a, b| a * b);
        let distance = |left: &[f32], right: &[f32]| pairs(left, right, |a, b| (a - b) * (a - b));
        let left_square = self.needed_square(left, product);
        self.by_sums((left, left_square), right, product, distance)
    }

    /// Returns the square of a vector's length for cosine, and 0 for the others, which do not use
    /// it.
    fn needed_square(self, vector: &[f32], product: impl Fn(&[f32], &[f32]) -> f32) -> f32 {
        if self == Self::Cosine { product(vector, vector) } else { 0.0 }
    }

    #[inline]
    fn by_sums(
        self,
        (left, left_square): (&[f32], f32),
        right: &[f32],
        product: impl Fn(&[f32], &[f32]) -> f32,
        square_distance: impl Fn(&[f32], &[f32]) -> f32,
    ) -> Option<f32> {
        match self {
            Self::Cosine => {
                let right_square = product(right, right);
                if left_square == 0.0 || right_square == 0.0 {
                    return None;
                }
                let length = (f64::from(left_square) * f64::from(right_square)).sqrt();
                Some(Self::of_product((f64::from(product(left, right)) / length) as f32))
            }
            Self::DotProduct => Some(Self::of_product(product(left, right))),
            Self::Euclidean => Some(Self::of_distance(square_distance(left, right))),
        }
    }

    /// Checks that a vector can be in an index. The texts are Cassandra's.
    ///
    /// # Errors
    /// Fails if a component is not finite or too large. For cosine, also fails if all components
    /// are zero, or so near zero that the square of the length is below the normal floats.
    pub fn check(self, vector: impl Iterator<Item = f32>) -> Result<(), String> {
        let mut square = 0f32;
        for (index, x) in vector.enumerate() {
            if !x.is_finite() || x.abs() > MAX_COMPONENT {
                let kind = if x.is_finite() { "Out-of-bounds" } else { "non-finite" };
                return Err(format!("{kind} value at vector[{index}]={}", print_float(x)));
            }
            square += x * x;
        }
        if square < f32::MIN_POSITIVE && self == Self::Cosine {
            return Err("Zero vectors cannot be indexed or queried with cosine similarity".into());
        }
        Ok(())
    }

    /// Returns the similarity of two vectors with this inner product. For cosine, pass the product
    /// of the vectors scaled to length 1.
    pub fn of_product(product: f32) -> f32 {
        (1.0 + product) / 2.0
    }

    /// Returns the Euclidean similarity of two vectors with this square of their distance.
    pub fn of_distance(square: f32) -> f32 {
        1.0 / (1.0 + square)
    }
}

/// Returns the components of a serialised vector of floats.
pub fn floats(vector: &[u8]) -> impl ExactSizeIterator<Item = f32> + '_ {
    let (floats, _) = vector.as_chunks::<4>();
    floats.iter().map(|bytes| f32::from_be_bytes(*bytes))
}

/// Returns the inner product of two vectors of equal dimension.
pub fn product(left: &[f32], right: &[f32]) -> f32 {
    sum(left, right, |a, b| a * b)
}

/// Returns the square of the distance of two vectors of equal dimension.
pub fn square_distance(left: &[f32], right: &[f32]) -> f32 {
    sum(left, right, |a, b| (a - b) * (a - b))
}

#[inline]
fn sum(left: &[f32], right: &[f32], term: impl Fn(f32, f32) -> f32) -> f32 {
    let (left, left_rest) = left.as_chunks::<LANES>();
    let (right, right_rest) = right.as_chunks::<LANES>();
    let mut lanes = [0f32; LANES];
    for (left, right) in left.iter().zip(right) {
        for ((lane, a), b) in lanes.iter_mut().zip(left).zip(right) {
            *lane += term(*a, *b);
        }
    }
    let rest = left_rest.iter().zip(right_rest).fold(0f32, |sum, (a, b)| sum + term(*a, *b));
    lanes.iter().fold(rest, |sum, lane| sum + lane)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similarities_are_those_of_cassandra() {
        let (left, right) = ([1.0, 2.0, 3.0], [2.0, 3.0, 4.0]);
        assert_eq!(Similarity::Cosine.of(&left, &right), Some(0.996_291_64));
        assert_eq!(Similarity::Euclidean.of(&left, &right), Some(0.25));
        assert_eq!(Similarity::DotProduct.of(&left, &right), Some(10.5));
        assert_eq!(Similarity::Cosine.of(&[0.0, 0.0], &[1.0, 1.0]), None);
    }

    #[test]
    fn a_query_has_the_same_similarity_to_each_vector_as_alone() {
        let query = [1.0, -2.0, 3.0];
        for measure in Similarity::ALL {
            let similarity = measure.with_query(&query);
            for vector in [[2.0, 3.0, 4.0], [0.0; 3], [1.0, -2.0, 3.0], [-0.1, 7.0, 0.3]] {
                // Both sum such short vectors from front to back.
                assert_eq!(similarity.of(&vector), measure.of_in_order(&query, &vector));
            }
            let of_zero = measure.with_query(&[0.0; 3]).of(&query);
            assert_eq!(of_zero.is_none(), measure == Similarity::Cosine);
        }
    }

    #[test]
    fn long_vectors_have_all_their_components() {
        let left: Vec<f32> = (0..37).map(|i| i as f32).collect();
        let right: Vec<f32> = (0..37).map(|i| (i % 5) as f32).collect();
        let expected: f32 = (0..37).map(|i| (i * (i % 5)) as f32).sum();
        assert_eq!(product(&left, &right), expected);
        let expected: f32 = (0..37).map(|i| ((i - i % 5) * (i - i % 5)) as f32).sum();
        assert_eq!(square_distance(&left, &right), expected);
    }

    #[test]
    fn vectors_without_a_direction_are_refused_by_cosine_alone() {
        for tiny in [0.0, f32::MIN_POSITIVE, 1e-30, 1e-40] {
            for measure in Similarity::ALL {
                let checked = measure.check([tiny, -tiny].into_iter());
                assert_eq!(checked.is_err(), measure == Similarity::Cosine, "{tiny}");
            }
        }
        // Each vector that is accepted has a similarity.
        for small in [1e-18, 1e-10] {
            let vector = [small, -small];
            assert!(Similarity::Cosine.check(vector.into_iter()).is_ok());
            assert_eq!(Similarity::Cosine.of(&vector, &[1.0, -1.0]), Some(1.0));
        }
    }

    #[test]
    fn names_are_found_in_any_case() {
        assert_eq!(Similarity::from_name("dot_Product"), Some(Similarity::DotProduct));
        assert_eq!(Similarity::from_name("l2"), None);
        let floats: Vec<f32> = floats(&[0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0, 1]).collect();
        assert_eq!(floats, [1.0, -2.0]);
    }
}
