//! The classes of scales of the codes that a search has compared.
//!
//! A search computes the errors of the similarities that it returns. A code that it leaves out may
//! have a greater scale, and then its similarity may be more wrong. So the search keeps the
//! greatest similarity of each class of scales, and states the error of all classes in the end.
//! Then it need not compute the error of each code.

use super::codes::CodedQuery;

/// The number of low bits of a scale that its class leaves out: a class has scales that differ by
/// an eighth at most.
const DROPPED_BITS: u32 = 20;
/// The number of classes of positive numbers.
const CLASSES: usize = 1 << (31 - DROPPED_BITS);

/// The greatest similarity of each class of scales.
pub(super) struct ScaleClasses {
    greatest: Vec<f32>,
}

impl ScaleClasses {
    pub(super) fn new() -> Self {
        Self { greatest: vec![f32::NEG_INFINITY; CLASSES] }
    }

    /// Adds a code. The scale is finite and not negative.
    #[inline]
    pub(super) fn add(&mut self, scale: f32, similarity: f32) {
        if let Some(greatest) = self.greatest.get_mut((scale.to_bits() >> DROPPED_BITS) as usize) {
            *greatest = greatest.max(similarity);
        }
    }

    /// Returns the amount by which the similarity of a code that was left out may exceed `bound`.
    /// The estimates of these codes do not exceed `bound`.
    pub(super) fn error(&self, query: &CodedQuery, bound: f32) -> f32 {
        let above = |(class, greatest): (u32, &f32)| {
            let (similarity, next) = (greatest.min(bound), (class + 1) << DROPPED_BITS);
            let largest_scale = f32::from_bits(next - 1);
            similarity + query.error(similarity, largest_scale) - bound
        };
        let classes = (0..).zip(&self.greatest).filter(|(_, greatest)| greatest.is_finite());
        classes.map(above).fold(0.0, f32::max)
    }
}

#[cfg(test)]
mod tests {
    use espalier_types::Similarity;

    use super::*;

    #[test]
    fn the_error_is_that_of_the_class_that_may_exceed_the_bound_most() {
        let query = CodedQuery::new(Similarity::DotProduct, &[1.0, 0.5, 0.25], &[]);
        let mut scales = ScaleClasses::new();
        assert_eq!(scales.error(&query, 0.9), 0.0);
        scales.add(0.01, 2.0);
        let of_fine = scales.error(&query, 0.9);
        let exact = query.error(0.9, 0.01);
        assert!(exact <= of_fine && of_fine <= 1.2 * exact, "{of_fine} of {exact}");
        // Far below the bound, a coarse code does no harm. Near the bound, it does.
        scales.add(1.0, -9.0);
        assert_eq!(scales.error(&query, 0.9), of_fine);
        scales.add(1.0, 0.8);
        assert!(scales.error(&query, 0.9) >= query.error(0.8, 1.0) - 0.1);
        scales.add(0.0, 0.5);
    }
}
