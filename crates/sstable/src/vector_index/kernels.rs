//! The inner loops of comparisons, with the vector instructions of the processor that runs them.
//!
//! The binary may run on any x86-64 processor, so the compiler uses none of their newer
//! instructions by itself. [`Kernels`] finds out once whether the processor has AVX2. Otherwise,
//! and on other processors, a plain loop does the work, in a form for which the compiler can use
//! the instructions that all processors have. All kernels return the same sums.
//!
//! The components of a code are signed bytes. They are passed as they are stored, as `u8`.

#![allow(unsafe_code)]

/// Number of components that one step of a kernel takes.
const STEP: usize = 16;
/// Maximum number of components whose products a sum of 32 bits takes.
const SUMMED_AT_ONCE: usize = 1 << 16;

/// The fastest kernels for this processor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernels {
    /// Set only if the processor has AVX2.
    #[cfg(target_arch = "x86_64")]
    has_avx2: bool,
}

impl Kernels {
    pub(super) fn detect() -> Self {
        Self {
            #[cfg(target_arch = "x86_64")]
            has_avx2: std::arch::is_x86_feature_detected!("avx2"),
        }
    }

    /// Returns the product of two codes. If one is longer, its other components count as zero.
    #[inline]
    pub(super) fn product(self, left: &[u8], right: &[u8]) -> f32 {
        if left.len() <= SUMMED_AT_ONCE {
            return self.sum(left, right) as f32;
        }
        let parts = left.chunks(SUMMED_AT_ONCE).zip(right.chunks(SUMMED_AT_ONCE));
        parts.map(|(left, right)| i64::from(self.sum(left, right))).sum::<i64>() as f32
    }

    /// Returns the product of two codes, one of which has at most [`SUMMED_AT_ONCE`] components.
    #[inline]
    fn sum(self, left: &[u8], right: &[u8]) -> i32 {
        #[cfg(target_arch = "x86_64")]
        if self.has_avx2 {
            // SAFETY: the processor has AVX2.
            return unsafe { avx2::product(left, right) };
        }
        plain_product(left, right)
    }
}

fn plain_product(left: &[u8], right: &[u8]) -> i32 {
    // A product fits 16 bits, and vector instructions multiply more of these at once than of 32.
    let product =
        |a: &u8, b: &u8| i32::from(i16::from(a.cast_signed()) * i16::from(b.cast_signed()));
    let length = left.len().min(right.len());
    let (left_steps, left_rest) = left.get(..length).unwrap_or_default().as_chunks::<STEP>();
    let (right_steps, right_rest) = right.get(..length).unwrap_or_default().as_chunks::<STEP>();
    let mut sums = [0i32; STEP];
    for (left, right) in left_steps.iter().zip(right_steps) {
        for ((sum, a), b) in sums.iter_mut().zip(left).zip(right) {
            *sum += product(a, b);
        }
    }
    let rest: i32 = left_rest.iter().zip(right_rest).map(|(a, b)| product(a, b)).sum();
    sums.iter().sum::<i32>() + rest
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m128i, __m256i, _mm_add_epi32, _mm_and_si128, _mm_cvtsi128_si32, _mm_loadu_si128,
        _mm_shuffle_epi32, _mm256_add_epi32, _mm256_castsi256_si128, _mm256_cvtepi8_epi16,
        _mm256_extracti128_si256, _mm256_madd_epi16, _mm256_setzero_si256,
    };

    use super::{STEP, plain_product};

    /// A slice of [`STEP`] bytes, from byte n on, keeps the last n bytes of a step.
    static KEPT: [u8; 2 * STEP] = {
        let mut kept = [0; 2 * STEP];
        let mut at = STEP;
        while at < 2 * STEP {
            kept[at] = 0xFF;
            at += 1;
        }
        kept
    };
    /// Orders of four numbers of 32 bits: one exchanges the halves, the other exchanges neighbours.
    const HALVES: i32 = 0x4E;
    const NEIGHBOURS: i32 = 0xB1;

    #[target_feature(enable = "avx2")]
    pub(super) fn product(left: &[u8], right: &[u8]) -> i32 {
        let length = left.len().min(right.len());
        let left = left.get(..length).unwrap_or_default();
        let right = right.get(..length).unwrap_or_default();
        let (left_steps, rest) = left.as_chunks::<STEP>();
        let (right_steps, _) = right.as_chunks::<STEP>();
        let (Some(left_last), Some(right_last)) =
            (left.last_chunk::<STEP>(), right.last_chunk::<STEP>())
        else {
            return plain_product(left, right);
        };
        let mut sums = _mm256_setzero_si256();
        for (left, right) in left_steps.iter().zip(right_steps) {
            sums = add_products(sums, load(left), load(right));
        }
        // The rest is shorter than a step. So the last step begins before it, and takes zeroes for
        // the components that are in the sums already.
        if let Some(kept) = KEPT.get(rest.len()..).unwrap_or_default().first_chunk::<STEP>() {
            let left_last = _mm_and_si128(load(left_last), load(kept));
            sums = add_products(sums, left_last, load(right_last));
        }
        total(sums)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(bytes: &[u8; STEP]) -> __m128i {
        // SAFETY: the instruction reads 16 bytes, which need not be aligned.
        unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
    }

    /// Multiplies signed bytes, and adds the products of each two neighbours to a sum.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn add_products(sums: __m256i, left: __m128i, right: __m128i) -> __m256i {
        let products = _mm256_madd_epi16(_mm256_cvtepi8_epi16(left), _mm256_cvtepi8_epi16(right));
        _mm256_add_epi32(sums, products)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn total(sums: __m256i) -> i32 {
        let halves = (_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
        let sums = _mm_add_epi32(halves.0, halves.1);
        let sums = _mm_add_epi32(sums, _mm_shuffle_epi32::<HALVES>(sums));
        let sums = _mm_add_epi32(sums, _mm_shuffle_epi32::<NEIGHBOURS>(sums));
        _mm_cvtsi128_si32(sums)
    }
}

#[cfg(test)]
mod tests {
    use espalier_runtime::random::Generator;

    use super::*;

    /// The number of kinds of components.
    const KINDS: usize = 6;

    /// Returns components of one kind: the extremes, both in turns, or random ones.
    fn components(kind: usize, count: usize, random: &mut Generator) -> Vec<u8> {
        let component = |index: usize, random: &mut Generator| match kind {
            0 => i8::MIN,
            1 => -127,
            2 => 127,
            3 => [127, -128][index % 2],
            4 => [-127, 1, 0, 127][index % 4],
            _ => random.next_u64() as i8,
        };
        (0..count).map(|index| component(index, random).cast_unsigned()).collect()
    }

    /// Returns a product by the loop that the kernels replace.
    fn looped(left: &[u8], right: &[u8]) -> i64 {
        let product = |(a, b): (&u8, &u8)| i64::from(a.cast_signed()) * i64::from(b.cast_signed());
        left.iter().zip(right).map(product).sum()
    }

    #[test]
    fn all_kernels_return_the_product_of_two_codes() {
        let (mut random, kernels) = (Generator::from_seed(1), Kernels::detect());
        for kind in 0..KINDS * KINDS {
            // The codes begin at any offset, and bytes follow that must not count.
            let lefts = components(kind / KINDS, 316, &mut random);
            let rights = components(kind % KINDS, 316, &mut random);
            for length in 0..=300 {
                let (left, right) = (&lefts[length % 16..], &rights[length % 13..]);
                let (left, right) = (&left[..length], &right[..length]);
                let wanted = looped(left, right);
                assert_eq!(i64::from(kernels.sum(left, right)), wanted, "{kind} {length}");
                assert_eq!(i64::from(plain_product(left, right)), wanted, "{kind} {length}");
                assert_eq!(kernels.product(left, right), wanted as f32, "{kind} {length}");
            }
        }
    }

    #[test]
    fn components_without_a_counterpart_count_as_zero() {
        let (mut random, kernels) = (Generator::from_seed(2), Kernels::detect());
        let (long, short) = (components(5, 90, &mut random), components(5, 90, &mut random));
        for length in [0, 1, 15, 16, 17, 40, 80] {
            let short = &short[..length];
            let wanted = looped(&long, short);
            for (left, right) in [(&long[..], short), (short, &long[..])] {
                assert_eq!(i64::from(kernels.sum(left, right)), wanted, "{length}");
                assert_eq!(i64::from(plain_product(left, right)), wanted, "{length}");
            }
        }
    }

    #[test]
    fn a_product_may_exceed_a_sum_of_32_bits() {
        let code = vec![i8::MIN.cast_unsigned(); 3 * SUMMED_AT_ONCE + 5];
        let wanted = looped(&code, &code);
        assert!(wanted > i64::from(i32::MAX));
        assert_eq!(Kernels::detect().product(&code, &code), wanted as f32);
    }
}
