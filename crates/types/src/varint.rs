//! Reads, writes and compares `varint`: two's complement, big-endian, of any length.
//!
//! The canonical form is the shortest one, with at least one byte. Other nodes and old files may
//! hold longer forms, so every reader here accepts leading sign bytes. Memory is bounded by the
//! length of the value.

use std::cmp::Ordering;

pub use num_bigint::BigInt;

/// Returns the integer of a serialised `varint`; no bytes mean 0.
pub fn decode(bytes: &[u8]) -> BigInt {
    BigInt::from_signed_bytes_be(bytes)
}

/// Returns the shortest serialised form, which has at least one byte.
pub fn encode(value: &BigInt) -> Vec<u8> {
    value.to_signed_bytes_be()
}

/// Returns the serialised `varint` as an `i64`, if it fits.
pub fn to_i64(bytes: &[u8]) -> Option<i64> {
    let (negative, magnitude) = split_sign(bytes);
    let sign_byte = if negative { 0xFF } else { 0 };
    if magnitude.len() > 8 || magnitude.len() == 8 && (magnitude[0] ^ sign_byte) & 0x80 != 0 {
        return None;
    }
    let mut wide = [sign_byte; 8];
    wide[8 - magnitude.len()..].copy_from_slice(magnitude);
    Some(i64::from_be_bytes(wide))
}

/// Returns the shortest serialised form of an `i64`.
pub fn from_i64(value: i64) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    shortest(&bytes).to_vec()
}

/// Compares two serialised integers with any number of leading sign bytes. Does not allocate.
pub fn compare(left: &[u8], right: &[u8]) -> Ordering {
    let ((left_negative, left), (right_negative, right)) = (split_sign(left), split_sign(right));
    match (left_negative, right_negative) {
        (false, true) => Ordering::Greater,
        (true, false) => Ordering::Less,
        (false, false) => left.len().cmp(&right.len()).then_with(|| left.cmp(right)),
        (true, true) => right.len().cmp(&left.len()).then_with(|| left.cmp(right)),
    }
}

/// Returns whether the integer is negative, and its bytes without leading bytes that repeat the
/// sign (none for 0 and -1).
#[inline]
pub(crate) fn split_sign(bytes: &[u8]) -> (bool, &[u8]) {
    let negative = bytes.first().is_some_and(|&first| first & 0x80 != 0);
    let sign_byte = if negative { 0xFF } else { 0 };
    let skip = bytes.iter().take_while(|&&byte| byte == sign_byte).count();
    (negative, &bytes[skip..])
}

/// Returns `bytes` without the leading sign bytes that two's complement does not need.
pub(crate) fn shortest(bytes: &[u8]) -> &[u8] {
    let mut bytes = bytes;
    while let [first, second, ..] = bytes {
        let redundant = *first == 0 && second & 0x80 == 0 || *first == 0xFF && second & 0x80 != 0;
        if !redundant {
            break;
        }
        bytes = &bytes[1..];
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn order_is_that_of_the_integers(left in prop::collection::vec(any::<u8>(), 1..20), right in prop::collection::vec(any::<u8>(), 1..20)) {
            prop_assert_eq!(compare(&left, &right), decode(&left).cmp(&decode(&right)));
        }

        #[test]
        fn shortest_is_canonical(bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(0xFF), any::<u8>()], 1..12)) {
            prop_assert_eq!(shortest(&bytes), encode(&decode(&bytes)));
        }

        #[test]
        fn i64_round_trip(value: i64, shift in 0u32..64) {
            let value = value >> shift;
            prop_assert_eq!(from_i64(value), encode(&BigInt::from(value)));
            prop_assert_eq!(to_i64(&from_i64(value)), Some(value));
        }

        #[test]
        fn i64_range(bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(0xFF), any::<u8>()], 1..12)) {
            prop_assert_eq!(to_i64(&bytes), i64::try_from(decode(&bytes)).ok());
        }
    }
}
