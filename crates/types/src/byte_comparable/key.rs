//! Encodes decorated partition keys: the token, then the raw bytes of the key.
//!
//! This is the form of `Partitions.db` in `da` (Cassandra 5) and `mt` (ScyllaDB): `40`, the token
//! with its sign bit inverted, `40`, the escaped key, `38`. The column types of the key have no
//! influence.

use crate::DecodeError;
use crate::byte_comparable::{NEXT_COMPONENT, TERMINATOR, decode_escaped, encode_escaped};

/// Appends the byte-comparable form of a partition key with its token.
#[inline]
pub fn encode_decorated_key(token: i64, key: &[u8], out: &mut Vec<u8>) {
    out.reserve(key.len() + 12);
    out.push(NEXT_COMPONENT);
    out.extend_from_slice(&(token ^ i64::MIN).to_be_bytes());
    out.push(NEXT_COMPONENT);
    encode_escaped(key, out);
    out.push(TERMINATOR);
}

/// Decodes the token and the raw bytes of a partition key. `input` must hold nothing else.
///
/// # Errors
///
/// Returns an error if `input` is not the encoding of a partition key.
pub fn decode_decorated_key(input: &[u8]) -> Result<(i64, Vec<u8>), DecodeError> {
    let mut rest = input;
    expect(NEXT_COMPONENT, &mut rest)?;
    let (token, after) = rest.split_first_chunk().ok_or_else(truncated)?;
    rest = after;
    expect(NEXT_COMPONENT, &mut rest)?;
    let key = decode_escaped(&mut rest)?;
    expect(TERMINATOR, &mut rest)?;
    if !rest.is_empty() {
        return Err(DecodeError::Trailing { type_name: NAME.into(), got: rest.len() });
    }
    Ok((i64::from_be_bytes(*token) ^ i64::MIN, key))
}

const NAME: &str = "partition key";

fn truncated() -> DecodeError {
    DecodeError::Truncated { type_name: NAME.into() }
}

fn expect(wanted: u8, rest: &mut &[u8]) -> Result<(), DecodeError> {
    let (&got, after) = rest.split_first().ok_or_else(truncated)?;
    if got != wanted {
        return Err(DecodeError::Unexpected {
            type_name: NAME.into(),
            expected: if wanted == TERMINATOR { "38" } else { "40" },
            got,
            remaining: after.len(),
        });
    }
    *rest = after;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn round_trip_and_order(
            left in (any::<i64>(), prop::collection::vec(any::<u8>(), 0..6)),
            right in (any::<i64>(), prop::collection::vec(any::<u8>(), 0..6)),
        ) {
            let encoded = |(token, key): &(i64, Vec<u8>)| {
                let mut out = Vec::new();
                encode_decorated_key(*token, key, &mut out);
                out
            };
            prop_assert_eq!(encoded(&left).cmp(&encoded(&right)), left.cmp(&right));
            prop_assert_eq!(decode_decorated_key(&encoded(&left)), Ok(left));
        }

        #[test]
        fn random_bytes_are_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..30)) {
            let _ = decode_decorated_key(&bytes);
        }
    }
}
