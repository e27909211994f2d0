//! Writes JSON for the admin API in forms that serde_json does not offer.

use espalier_runtime::maybe_yield;
use serde::{Serialize, Serializer as _, ser::SerializeSeq as _};
use serde_json::Value;

/// An entry of a map. ScyllaDB's API writes a map as a list of such entries.
#[derive(Serialize)]
pub(super) struct Pair<K, V> {
    pub(super) key: K,
    pub(super) value: V,
}

/// Returns a number without a fraction if it is whole: `1`, not `1.0`.
pub(super) fn number(number: f64) -> Value {
    // Beyond this, not every whole number has an f64.
    const MAX_WHOLE: f64 = (1_u64 << 53) as f64;
    if number.fract() == 0.0 && number.abs() <= MAX_WHOLE {
        Value::from(number as i64)
    } else {
        Value::from(number)
    }
}

/// Writes a list that may be long; yields between its values.
///
/// # Errors
/// Fails if a value has no form in JSON.
pub(super) async fn long_list(
    values: impl Iterator<Item = impl Serialize>,
) -> serde_json::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::new(&mut bytes);
    let mut list = serializer.serialize_seq(None)?;
    for value in values {
        list.serialize_element(&value)?;
        maybe_yield().await;
    }
    list.end()?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use espalier_runtime::block_on;

    use super::*;

    #[test]
    fn a_long_list_is_serialised_like_any_list() {
        for count in 0..3 {
            let values: Vec<_> = (0..count).map(|key| Pair { key, value: "x" }).collect();
            let long = block_on(long_list(values.iter())).unwrap();
            assert_eq!(long, serde_json::to_vec(&values).unwrap());
        }
    }

    #[test]
    fn whole_numbers_have_no_fraction() {
        for (given, text) in [(0.0, "0"), (-1.0, "-1"), (64.0, "64"), (0.25, "0.25")] {
            assert_eq!(number(given).to_string(), text);
        }
        assert_eq!(number(f64::NAN), Value::Null);
    }
}
