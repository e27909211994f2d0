//! Randomness: a fast seedable generator, one per thread, and the identifiers made from it.
//!
//! The generator is not for secrets, because its state can be computed from its output. Secrets
//! come from [`fill_secret`]. The kernel seeds the generator unless a test does.

use crate::time;
use std::cell::{Cell, RefCell};
use uuid::{Builder, Uuid};

/// A seedable generator: xoshiro256++ by Blackman and Vigna, seeded through SplitMix64.
#[derive(Debug, Clone)]
pub struct Generator {
    state: [u64; 4],
}

impl Generator {
    /// Creates the generator of `seed`: the same seed gives the same numbers.
    pub fn from_seed(seed: u64) -> Self {
        let mut mixed = seed;
        let state = std::array::from_fn(|_| {
            mixed = mixed.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut word = mixed;
            word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            word ^ (word >> 31)
        });
        Generator { state }
    }

    /// Creates a generator seeded by the kernel.
    pub fn from_kernel() -> Self {
        let mut seed = [0; 8];
        match rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty()) {
            Ok(8) => Generator::from_seed(u64::from_ne_bytes(seed)),
            // On an old kernel or in a sandbox: the standard library's seed for its hash maps.
            _ => {
                use std::hash::{BuildHasher as _, RandomState};
                Generator::from_seed(RandomState::new().hash_one(std::process::id()))
            }
        }
    }

    /// Returns the next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let output = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        output
    }

    /// Returns a number from 0 to `bound - 1`; 0 if `bound` is 0. The rejection step is omitted,
    /// which biases the number by at most `bound`/2^64.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number from 0 (included) to 1 (excluded).
    pub fn fraction(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Fills `bytes` with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            part.copy_from_slice(&word[..part.len()]);
        }
    }
}

thread_local! {
    static GENERATOR: RefCell<Generator> = RefCell::new(Generator::from_kernel());
    static CLOCK_SEQUENCE_AND_NODE: Cell<Option<u64>> = const { Cell::new(None) };
    static LAST_TICKS: Cell<u64> = const { Cell::new(0) };
}

/// Seeds the calling thread's generator, for tests that must replay.
pub fn seed(seed: u64) {
    GENERATOR.set(Generator::from_seed(seed));
    CLOCK_SEQUENCE_AND_NODE.set(None);
}

/// Returns 64 random bits from the calling thread's generator.
pub fn next_u64() -> u64 {
    GENERATOR.with_borrow_mut(Generator::next_u64)
}

/// Returns a number from 0 to `bound - 1`, from the calling thread's generator.
pub fn below(bound: u64) -> u64 {
    GENERATOR.with_borrow_mut(|generator| generator.below(bound))
}

/// Fills `bytes` from the calling thread's generator.
pub fn fill(bytes: &mut [u8]) {
    GENERATOR.with_borrow_mut(|generator| generator.fill(bytes));
}

/// Fills `bytes` from the kernel's source of randomness for secrets, such as passwords.
///
/// # Errors
///
/// Fails if the kernel has no such source, which no supported kernel lacks.
pub fn fill_secret(bytes: &mut [u8]) -> std::io::Result<()> {
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        filled += rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(())
}

/// Creates a random (version 4) identifier.
pub fn uuid_v4() -> Uuid {
    let mut bytes = [0; 16];
    fill(&mut bytes);
    Builder::from_random_bytes(bytes).into_uuid()
}

/// Returns the lower half of this thread's time-based identifiers: variant, clock sequence and
/// node. They are random for each thread, with the multicast bit set, as the standard demands of a
/// node that is no network address.
pub fn clock_sequence_and_node() -> u64 {
    const VARIANT: u64 = 0b10 << 62;
    const CLOCK_SEQUENCE: u64 = 0x3FFF << 48;
    const NODE: u64 = (1 << 48) - 1;
    const MULTICAST: u64 = 1 << 40;
    CLOCK_SEQUENCE_AND_NODE.get().unwrap_or_else(|| {
        let made = VARIANT | (next_u64() & (CLOCK_SEQUENCE | NODE)) | MULTICAST;
        CLOCK_SEQUENCE_AND_NODE.set(Some(made));
        made
    })
}

/// 100-nanosecond intervals from the Gregorian reform (1582-10-15) to 1970.
const GREGORIAN_OFFSET: u64 = 0x01B2_1DD2_1381_4000;

/// Creates a time-based (version 1) identifier of the current time; each call on a thread returns a
/// later one than the call before.
pub fn timeuuid_now() -> Uuid {
    let micros = u64::try_from(time::now_micros()).unwrap_or(0);
    let ticks = micros.saturating_mul(10).saturating_add(GREGORIAN_OFFSET);
    let ticks = ticks.max(LAST_TICKS.get() + 1);
    LAST_TICKS.set(ticks);
    timeuuid_from(ticks, clock_sequence_and_node())
}

/// Creates a time-based (version 1) identifier from 100-nanosecond intervals since 1582-10-15 (the
/// low 60 bits) and the lower half, as returned by [`clock_sequence_and_node`].
pub fn timeuuid_from(ticks: u64, clock_sequence_and_node: u64) -> Uuid {
    const VERSION: u64 = 0x1000;
    let low = ticks & 0xFFFF_FFFF;
    let middle = (ticks >> 32) & 0xFFFF;
    let high = (ticks >> 48) & 0x0FFF;
    Uuid::from_u64_pair((low << 32) | (middle << 16) | VERSION | high, clock_sequence_and_node)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference implementation's first outputs for the state 1, 2, 3, 4.
    #[test]
    fn the_generator_is_xoshiro256_plus_plus() {
        let mut generator = Generator { state: [1, 2, 3, 4] };
        let first: Vec<u64> = (0..4).map(|_| generator.next_u64()).collect();
        assert_eq!(first, [41943041, 58720359, 3588806011781223, 3591011842654386]);
    }

    #[test]
    fn seeds_replay() {
        seed(7);
        let first = (next_u64(), uuid_v4(), clock_sequence_and_node());
        seed(7);
        assert_eq!(first, (next_u64(), uuid_v4(), clock_sequence_and_node()));
    }

    #[test]
    fn numbers_below_a_bound_reach_both_ends() {
        let mut generator = Generator::from_seed(1);
        let mut seen = [0; 5];
        for _ in 0..1000 {
            seen[generator.below(5) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| count > 150), "{seen:?}");
        assert_eq!(generator.below(1), 0);
    }

    #[test]
    fn identifiers_have_their_version_and_order() {
        assert_eq!(uuid_v4().get_version_num(), 4);
        let (first, second) = (timeuuid_now(), timeuuid_now());
        assert_eq!(first.get_version_num(), 1);
        let ticks = |id: Uuid| id.get_timestamp().unwrap().to_gregorian().0;
        assert!(ticks(first) < ticks(second));
        let (seconds, _) = first.get_timestamp().unwrap().to_unix();
        assert!((time::now_seconds() - seconds as i64).abs() < 5);
        assert_eq!(first.as_u64_pair().1, clock_sequence_and_node());
    }
}
