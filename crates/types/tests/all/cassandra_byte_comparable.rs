//! Compares the byte-comparable form with vectors made by Apache Cassandra 5.0.9
//! (`interop/scripts/type_vectors`).

use crate::support::{hex, lines, unhex};
use espalier_types::byte_comparable::{
    EMPTY, EMPTY_REVERSED, GT_NEXT, LT_NEXT, NEXT_COMPONENT, TERMINATOR, decode_clustering,
    decode_component, decode_decorated_key, encode, encode_clustering, encode_component,
    encode_decorated_key, encode_ordered_clustering,
};
use espalier_types::{CqlType, collection};

#[test]
fn values_have_cassandras_encoding_and_order() {
    let mut section: Option<(CqlType, bool)> = None;
    let mut before: Option<(Vec<u8>, Vec<u8>)> = None;
    let mut is_exact_before = false;
    let mut checked = 0;
    for line in lines(include_str!("../../../../testdata/byte_comparable/values.txt")) {
        if let Some(name) = line.strip_prefix("type ") {
            section = Some(CqlType::parse_marshal_maybe_reversed(name).unwrap());
            before = None;
            continue;
        }
        let (ty, reversed) = section.as_ref().unwrap();
        let equal = line.starts_with('=');
        let (value, encoding) = line.trim_start_matches('=').split_once(' ').unwrap();
        let value = unhex(value);
        let context = format!("{} reversed {reversed}: {}", ty.cql_name(), hex(&value));
        ty.validate(&value).unwrap_or_else(|error| panic!("{context}: {error}"));

        let mut component = Vec::new();
        encode_component(ty, *reversed, Some(&value), &mut component);
        if encoding == "null" {
            assert_eq!(component, [if *reversed { EMPTY_REVERSED } else { EMPTY }], "{context}");
        } else {
            assert_eq!(hex(&component), format!("{NEXT_COMPONENT:02x}{encoding}"), "{context}");
        }
        if !reversed {
            let mut plain = Vec::new();
            encode(ty, &value, &mut plain);
            assert_eq!(hex(&plain), encoding.replace("null", ""), "{context}");
        }

        component.push(TERMINATOR);
        let mut rest = &component[..];
        let decoded = decode_component(ty, *reversed, &mut rest).unwrap().unwrap();
        assert_eq!(rest, [TERMINATOR], "{context}");
        // This form does not distinguish nested nulls from nested empty values, nor NaN from a
        // number.
        let is_exact = |value: &[u8]| {
            let mut ordered = Vec::new();
            let types = [(ty.clone(), *reversed)];
            encode_ordered_clustering(&types, &[Some(value)], TERMINATOR, &mut ordered);
            ordered == component
        };
        if is_exact(&value) {
            assert!(ty.compare(&decoded, &value).is_eq(), "{context}: {}", hex(&decoded));
        }

        if let Some((before, before_form)) = &before {
            let context = format!("{context} after {}", hex(before));
            let order = ty.compare(before, &value);
            let order = if *reversed { order.reverse() } else { order };
            assert!(order.is_le() && order.is_eq() == equal, "{context}");
            if is_exact(&value) && is_exact_before {
                assert_eq!(order, before_form.cmp(&component), "{context}");
            }
        }
        is_exact_before = is_exact(&value);
        before = Some((value, component));
        checked += 1;
    }
    assert!(checked > 900, "only {checked} vectors");
}

#[test]
fn clusterings_have_cassandras_encoding() {
    let mut checked = 0;
    for line in lines(include_str!("../../../../testdata/byte_comparable/clusterings.txt")) {
        let [kind, types, values, encoding] =
            line.split('|').collect::<Vec<_>>().try_into().unwrap();
        let types: Vec<_> =
            types.split(';').map(|ty| CqlType::parse_marshal_maybe_reversed(ty).unwrap()).collect();
        let values: Vec<Option<Vec<u8>>> = values
            .split(',')
            .filter(|value| !value.is_empty())
            .map(|value| (value != "null").then(|| unhex(value)))
            .collect();
        let terminator = match kind {
            "row" => TERMINATOR,
            "before" => LT_NEXT,
            _ => GT_NEXT,
        };
        let mut out = Vec::new();
        encode_clustering(&types, &values, terminator, &mut out);
        assert_eq!(hex(&out), encoding, "{line}");

        let (decoded, end) = decode_clustering(&types, &out).unwrap();
        assert_eq!(end, terminator, "{line}");
        assert_eq!(decoded.len(), values.len(), "{line}");
        for (((ty, _), value), decoded) in types.iter().zip(&values).zip(&decoded) {
            match (value, decoded) {
                (Some(value), Some(decoded)) => {
                    assert!(ty.compare(value, decoded).is_eq(), "{line}")
                }
                (None, None) => {}
                _ => panic!("null and value mixed up: {line}"),
            }
        }
        checked += 1;
    }
    assert!(checked > 500, "only {checked} vectors");
}

#[test]
fn keys_have_cassandras_encoding() {
    let mut checked = 0;
    for line in lines(include_str!("../../../../testdata/byte_comparable/keys.txt")) {
        let [token, key, encoding] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let (token, key): (i64, _) = (token.parse().unwrap(), unhex(key));
        let mut out = Vec::new();
        encode_decorated_key(token, &key, &mut out);
        assert_eq!(hex(&out), encoding, "{line}");
        assert_eq!(decode_decorated_key(&out), Ok((token, key)));
        checked += 1;
    }
    assert!(checked > 40, "only {checked} vectors");
}

/// Espalier follows Cassandra here. ScyllaDB encodes the empty integer differently from null
/// (docs/formats/byte-comparable.md).
#[test]
fn empty_and_null_inside_a_list_encode_alike() {
    let ty = CqlType::parse_marshal("FrozenType(ListType(Int32Type))").unwrap();
    let mut builder = collection::Builder::default();
    builder.push(None);
    let mut with_null = Vec::new();
    encode(&ty, &builder.finish(), &mut with_null);
    let mut with_empty = Vec::new();
    encode(&ty, &collection::list_of([b""]), &mut with_empty);
    assert_eq!(with_null, with_empty);
    assert_eq!(hex(&with_null), "3e38");
}
