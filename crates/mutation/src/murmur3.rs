//! Computes Murmur3 x64 128 with seed 0 as Cassandra does.
//!
//! The bytes of the tail (the last `len % 16`) are sign-extended, because Java's bytes are signed.
//! Off-the-shelf implementations compute other tokens for keys with bytes of 80 (hex) and above.
//! Source: docs/formats/README.md.

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

fn mix(mut k: u64) -> u64 {
    k ^= k >> 33;
    k = k.wrapping_mul(0xff51_afd7_ed55_8ccd);
    k ^= k >> 33;
    k = k.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ (k >> 33)
}

/// Returns the exclusive or of up to eight bytes, each sign-extended to 64 bits and shifted to its
/// place.
#[inline]
fn sign_extended(bytes: &[u8]) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let mut padded = [0; 8];
    match bytes.try_into() {
        Ok(eight) => padded = eight,
        Err(_) => padded.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from),
    }
    let word = u64::from_le_bytes(padded);
    // A negative byte flips all bytes above it, so a byte ends up flipped if an odd number of
    // negative bytes lies below it. The product sums, in each byte, the negative bytes below it.
    let negative_below = ((word >> 7) & ONES).wrapping_mul(ONES << 8);
    word ^ (negative_below & ONES).wrapping_mul(0xff)
}

/// Returns the two 64-bit halves (h1, h2) of the hash of `bytes`.
///
/// h1 gives the token, the low byte of h2 is the hash byte of the trie index, and both feed the
/// Bloom filter.
pub fn hash(bytes: &[u8]) -> (u64, u64) {
    let (mut h1, mut h2) = (0u64, 0u64);
    let mut blocks = bytes.chunks_exact(16);
    for block in &mut blocks {
        let (low, high) = block.split_at(8);
        let k1 = u64::from_le_bytes(low.try_into().unwrap_or_default());
        let k2 = u64::from_le_bytes(high.try_into().unwrap_or_default());
        h1 ^= k1.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
        h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= k2.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
        h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let tail = blocks.remainder();
    let (k1, k2) = match tail.split_at_checked(8) {
        Some((low, [])) => (sign_extended(low), 0),
        Some((low, high)) => (sign_extended(low), sign_extended(high)),
        None => (sign_extended(tail), 0),
    };
    if tail.len() > 8 {
        h2 ^= k2.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
    }
    if !tail.is_empty() {
        h1 ^= k1.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
    }
    h1 ^= bytes.len() as u64;
    h2 ^= bytes.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = mix(h1);
    h2 = mix(h2);
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    (h1, h2)
}

#[cfg(test)]
mod tests {
    use super::{hash, sign_extended};

    #[test]
    fn bytes_are_sign_extended_one_by_one() {
        let mut state = 1u64;
        for round in 0..20_000usize {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let bytes = &(state ^ state >> 29).to_le_bytes()[..round % 9];
            let one_by_one = bytes.iter().enumerate().fold(0u64, |word, (index, &byte)| {
                word ^ ((byte as i8 as i64 as u64) << (8 * index))
            });
            assert_eq!(sign_extended(bytes), one_by_one, "{bytes:x?}");
        }
    }

    /// Tests the key 00000001, the worked example of the format description: hash byte E6.
    #[test]
    fn hash_byte_of_the_worked_example() {
        assert_eq!(hash(&[0, 0, 0, 1]).1 as u8, 0xe6);
    }

    /// Tests the result of `SELECT token(1)` on a stock node.
    #[test]
    fn token_of_int_one() {
        assert_eq!(hash(&[0, 0, 0, 1]).0 as i64, -4069959284402364209);
    }
}
