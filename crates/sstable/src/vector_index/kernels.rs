//! The inner loops of comparisons, with the vector instructions of the processor that runs them.
//!
//! The compiler uses only the instructions that every x86-64 processor has, because the binary may
//! run on any of them. [`Kernels`] finds out once whether the processor has AVX2. Otherwise, and on
//! other processors, a plain loop does the work. All kernels return the same sums.
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

    /// Returns the product of the components of a query and a code. The query's components are so
    /// small that the sum has no overflow, if there are at most 16 million.
    #[inline]
    pub(super) fn query_product(self, query: &[i16], code: &[u8]) -> i32 {
        #[cfg(target_arch = "x86_64")]
        if self.has_avx2 {
            // SAFETY: the processor has AVX2.
            return unsafe { avx2::query_product(query, code) };
        }
        plain_query_product(query, code)
    }
}

/// Cuts two slices to the length of the shorter one.
#[inline(always)]
fn cut_to_shorter<'s, L, R>(left: &'s [L], right: &'s [R]) -> (&'s [L], &'s [R]) {
    let length = left.len().min(right.len());
    (left.get(..length).unwrap_or_default(), right.get(..length).unwrap_or_default())
}

fn plain_product(left: &[u8], right: &[u8]) -> i32 {
    // A product fits 16 bits, and vector instructions multiply more of these at once than of 32.
    plain(left, right, |a, b| i32::from(i16::from(a.cast_signed()) * i16::from(b.cast_signed())))
}

fn plain_query_product(query: &[i16], code: &[u8]) -> i32 {
    plain(query, code, |a, b| i32::from(a) * i32::from(b.cast_signed()))
}

/// Adds products in steps for which the compiler can use vector instructions.
#[inline(always)]
fn plain<T: Copy>(left: &[T], right: &[u8], product: impl Fn(T, u8) -> i32) -> i32 {
    let (left, right) = cut_to_shorter(left, right);
    let (left_steps, left_rest) = left.as_chunks::<STEP>();
    let (right_steps, right_rest) = right.as_chunks::<STEP>();
    let mut sums = [0i32; STEP];
    for (left, right) in left_steps.iter().zip(right_steps) {
        for ((sum, a), b) in sums.iter_mut().zip(left).zip(right) {
            *sum = sum.wrapping_add(product(*a, *b));
        }
    }
    let rest = left_rest.iter().zip(right_rest).map(|(a, b)| product(*a, *b));
    sums.into_iter().chain(rest).fold(0, i32::wrapping_add)
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m128i, __m256i, _mm_add_epi32, _mm_and_si128, _mm_cvtsi128_si32, _mm_loadu_si128,
        _mm_shuffle_epi32, _mm256_add_epi32, _mm256_castsi256_si128, _mm256_cvtepi8_epi16,
        _mm256_extracti128_si256, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_setzero_si256,
    };

    use super::{STEP, cut_to_shorter, plain_product, plain_query_product};

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
        let (left, right) = cut_to_shorter(left, right);
        let (left_steps, rest) = left.as_chunks::<STEP>();
        let (right_steps, _) = right.as_chunks::<STEP>();
        let (Some(left_last), Some(right_last)) =
            (left.last_chunk::<STEP>(), right.last_chunk::<STEP>())
        else {
            return plain_product(left, right);
        };
        let mut sums = _mm256_setzero_si256();
        for (left, right) in left_steps.iter().zip(right_steps) {
            sums = add_products(sums, widened(left), load(right));
        }
        // The rest is shorter than a step. So the last step begins before it, and takes zeroes for
        // the components that are in the sums already.
        if let Some(kept) = KEPT.get(rest.len()..).unwrap_or_default().first_chunk::<STEP>() {
            let right_last = _mm_and_si128(load(right_last), load(kept));
            sums = add_products(sums, widened(left_last), right_last);
        }
        total(sums)
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn query_product(query: &[i16], code: &[u8]) -> i32 {
        let (query, code) = cut_to_shorter(query, code);
        let (query_steps, _) = query.as_chunks::<STEP>();
        let (code_steps, rest) = code.as_chunks::<STEP>();
        let (Some(query_last), Some(code_last)) =
            (query.last_chunk::<STEP>(), code.last_chunk::<STEP>())
        else {
            return plain_query_product(query, code);
        };
        let mut sums = _mm256_setzero_si256();
        for (query, code) in query_steps.iter().zip(code_steps) {
            sums = add_products(sums, load_wide(query), load(code));
        }
        // As in `product`.
        if let Some(kept) = KEPT.get(rest.len()..).unwrap_or_default().first_chunk::<STEP>() {
            let code_last = _mm_and_si128(load(code_last), load(kept));
            sums = add_products(sums, load_wide(query_last), code_last);
        }
        total(sums)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(bytes: &[u8; STEP]) -> __m128i {
        // SAFETY: the instruction reads 16 bytes, which need not be aligned.
        unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load_wide(numbers: &[i16; STEP]) -> __m256i {
        // SAFETY: the instruction reads 32 bytes, which need not be aligned.
        unsafe { _mm256_loadu_si256(numbers.as_ptr().cast()) }
    }

    /// Returns signed bytes as numbers of 16 bits.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn widened(bytes: &[u8; STEP]) -> __m256i {
        _mm256_cvtepi8_epi16(load(bytes))
    }

    /// Multiplies numbers of 16 bits by signed bytes, and adds the products of each two neighbours
    /// to a sum.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn add_products(sums: __m256i, left: __m256i, right: __m128i) -> __m256i {
        _mm256_add_epi32(sums, _mm256_madd_epi16(left, _mm256_cvtepi8_epi16(right)))
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
    fn all_kernels_return_the_product_of_a_query_and_a_code() {
        let (mut random, kernels) = (Generator::from_seed(3), Kernels::detect());
        for kind in 0..KINDS {
            let codes = components(kind, 316, &mut random);
            for length in 0..=300_usize {
                // The limit of `CodedQuery::new`.
                let max = i32::MAX / 128 / i32::try_from(length.max(1)).unwrap();
                let max = max.min(i32::from(i16::MAX));
                let code = &codes[length % 13..][..length];
                for sign in [-1, 0, 1] {
                    let component = |random: &mut Generator| match sign {
                        0 => i32::from(random.next_u64() as i16) % (max + 1),
                        _ => sign * max,
                    };
                    let query: Vec<i16> =
                        (0..length).map(|_| component(&mut random) as i16).collect();
                    let product = |(a, b): (&i16, &u8)| i64::from(*a) * i64::from(b.cast_signed());
                    let wanted: i64 = query.iter().zip(code).map(product).sum();
                    assert_eq!(i64::from(kernels.query_product(&query, code)), wanted);
                    assert_eq!(i64::from(plain_query_product(&query, code)), wanted);
                    // The shorter one decides.
                    let longer = &codes[length % 13..][..length + 3];
                    assert_eq!(i64::from(kernels.query_product(&query, longer)), wanted);
                }
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
