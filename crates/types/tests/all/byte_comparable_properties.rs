//! Tests that encoding, decoding and comparing agree for every type, including nested ones.

use std::cmp::Ordering;

use crate::support::arbitrary::{frozen_type, scalar, value_of, values};
use espalier_types::CqlType;
use espalier_types::byte_comparable::{
    GT_NEXT, LT_NEXT, TERMINATOR, append_clustering, decode, decode_clustering, decode_component,
    encode_component, encode_ordered_clustering,
};
use espalier_types::collection::write_value;
use num_bigint::BigInt;
use proptest::collection::vec;
use proptest::prelude::*;

fn component(ty: &CqlType, reversed: bool, value: Option<&[u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    encode_component(ty, reversed, value, &mut out);
    out
}

/// Encodes as [`component`] does, in the ordered form.
fn ordered(ty: &CqlType, reversed: bool, value: Option<&[u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    encode_ordered_clustering(&[(ty.clone(), reversed)], &[value], TERMINATOR, &mut out);
    out.pop();
    out
}

fn any_kind() -> impl Strategy<Value = CqlType> {
    prop_oneof![scalar(), frozen_type()]
}

/// Returns true if decoding gives the encoded bytes back. Other values have several forms.
fn has_one_form(ty: &CqlType, value: &[u8]) -> bool {
    let is_nan = match ty {
        CqlType::Float => value.try_into().is_ok_and(|bytes| f32::from_be_bytes(bytes).is_nan()),
        CqlType::Double => value.try_into().is_ok_and(|bytes| f64::from_be_bytes(bytes).is_nan()),
        _ => false,
    };
    let nested = ty.is_collection()
        || matches!(ty, CqlType::Tuple(_) | CqlType::UserDefined { .. } | CqlType::Vector { .. });
    !nested && !is_nan && *ty != CqlType::Decimal
}

proptest! {
    #![proptest_config(espalier_testing::properties(2000))]

    #[test]
    fn decoding_returns_the_value((ty, values) in values(any_kind(), 1), reversed: bool) {
        let value = &values[0];
        ty.validate(value).unwrap();
        let mut form = ordered(&ty, reversed, Some(value));
        form.push(TERMINATOR);
        let mut rest = &form[..];
        let decoded = decode_component(&ty, reversed, &mut rest).unwrap().unwrap();
        prop_assert_eq!(rest, [TERMINATOR]);
        ty.validate(&decoded).unwrap();
        prop_assert_eq!(ty.compare(value, &decoded), Ordering::Equal);
        if has_one_form(&ty, value) {
            prop_assert_eq!(value, &decoded);
        }
        // Cassandra's form too decodes to a valid value, if not to this one.
        let mut theirs = component(&ty, reversed, Some(value));
        theirs.push(TERMINATOR);
        ty.validate(&decode_component(&ty, reversed, &mut &theirs[..]).unwrap().unwrap()).unwrap();
        // The canonical form is a fixed point.
        form.pop();
        prop_assert_eq!(ordered(&ty, reversed, Some(&decoded)), form);
    }

    #[test]
    fn the_order_of_encodings_is_the_order_of_values((ty, values) in values(any_kind(), 2)) {
        let [left, right] = [&values[0], &values[1]];
        let order = ty.compare(left, right);
        // The order of inverted text depends on the byte behind it, so the compared encodings
        // include a terminator.
        let row = |reversed, value| [ordered(&ty, reversed, Some(value)), vec![TERMINATOR]].concat();
        prop_assert_eq!(ordered(&ty, false, Some(left)).cmp(&ordered(&ty, false, Some(right))), order);
        prop_assert_eq!(row(false, left).cmp(&row(false, right)), order);
        prop_assert_eq!(row(true, left).cmp(&row(true, right)), order.reverse());
        prop_assert!(ordered(&ty, false, None) < ordered(&ty, false, Some(left)));
        prop_assert!(ordered(&ty, true, None) < ordered(&ty, true, Some(left)));
    }

    #[test]
    fn encodings_in_a_sequence_are_prefix_free((ty, values) in values(any_kind(), 2), reversed: bool) {
        let [left, right] = [&values[0], &values[1]];
        prop_assume!(ty.compare(left, right).is_ne());
        let types = [(ty, reversed)];
        for end in [TERMINATOR, LT_NEXT, GT_NEXT] {
            for other in [TERMINATOR, LT_NEXT, GT_NEXT] {
                let (mut a, mut b) = (Vec::new(), Vec::new());
                encode_ordered_clustering(&types, &[Some(left)], end, &mut a);
                encode_ordered_clustering(&types, &[Some(right)], other, &mut b);
                prop_assert!(!a.starts_with(&b) && !b.starts_with(&a));
                // Bytes behind a value never change the order of different values.
                let order = types[0].0.compare(left, right);
                prop_assert_eq!(a.cmp(&b), if reversed { order.reverse() } else { order });
            }
        }
    }

    #[test]
    fn compare_is_a_total_order((ty, values) in values(any_kind(), 3)) {
        let [a, b, c] = [&values[0], &values[1], &values[2]];
        prop_assert_eq!(ty.compare(a, a), Ordering::Equal);
        prop_assert_eq!(ty.compare(a, b), ty.compare(b, a).reverse());
        let mut sorted = [a, b, c];
        sorted.sort_by(|left, right| ty.compare(left, right));
        prop_assert!(ty.compare(sorted[0], sorted[2]).is_le());
        if ty.compare(sorted[0], sorted[2]).is_eq() {
            prop_assert!(ty.compare(sorted[0], sorted[1]).is_eq());
        }
    }

    #[test]
    fn clusterings_round_trip_and_sort(
        (types, left, right) in vec((scalar(), any::<bool>()), 1..4).prop_flat_map(|types| {
            let values: Vec<_> =
                types.iter().map(|(ty, _)| prop::option::weighted(0.9, value_of(ty))).collect();
            (Just(types), values.clone(), values)
        }),
    ) {
        let encoded = |values: &[Option<Vec<u8>>], terminator| {
            let mut out = Vec::new();
            encode_ordered_clustering(&types, values, terminator, &mut out);
            out
        };
        let order = types.iter().zip(left.iter().zip(&right)).map(|((ty, reversed), pair)| match pair {
            (Some(left), Some(right)) if *reversed => ty.compare(right, left),
            (Some(left), Some(right)) => ty.compare(left, right),
            (left, right) => left.is_some().cmp(&right.is_some()),
        }).find(|order| order.is_ne()).unwrap_or(Ordering::Equal);
        prop_assert_eq!(encoded(&left, TERMINATOR).cmp(&encoded(&right, TERMINATOR)), order);

        let (decoded, terminator) = decode_clustering(&types, &encoded(&left, TERMINATOR)).unwrap();
        prop_assert_eq!(terminator, TERMINATOR);
        let (mut appended, mut expected) = (vec![7], vec![7]);
        append_clustering(&types, &encoded(&left, TERMINATOR), &mut appended).unwrap();
        decoded.iter().for_each(|value| write_value(value.as_deref(), &mut expected));
        prop_assert_eq!(appended, expected);
        prop_assert_eq!(encoded(&left, GT_NEXT), {
            let values: Vec<_> = decoded.iter().map(|value| value.as_ref().map(|v| v.to_vec())).collect();
            encoded(&values, GT_NEXT)
        });

        // A bound over a prefix encloses everything with that prefix.
        for length in 0..=left.len() {
            let before = encoded(&left[..length], LT_NEXT);
            let after = encoded(&left[..length], GT_NEXT);
            prop_assert!(before < encoded(&left, TERMINATOR));
            prop_assert!(encoded(&left, TERMINATOR) < after);
        }
    }

    #[test]
    fn decoding_random_bytes_is_no_panic(
        ty in any_kind(),
        reversed: bool,
        bytes in vec(prop_oneof![Just(0x40), Just(0x38), Just(0x3E), Just(0), Just(0xFF), Just(0x7F), any::<u8>()], 0..40),
    ) {
        if let Ok(value) = decode(&ty, &mut &bytes[..]) {
            // No accepted value is much longer than the bytes.
            prop_assert!(value.len() <= 64 * (bytes.len() + 64));
        }
        let _ = decode_component(&ty, reversed, &mut &bytes[..]);
        let types = [(ty, reversed), (CqlType::Int, false)];
        let mut appended = Vec::new();
        let is_whole = append_clustering(&types, &bytes, &mut appended).is_ok();
        prop_assert_eq!(is_whole, decode_clustering(&types, &bytes).is_ok());
    }

    #[test]
    fn damaged_encodings_are_no_panic((ty, values) in values(any_kind(), 1), at: prop::sample::Index, byte: u8) {
        let mut form = component(&ty, false, Some(&values[0]));
        let index = at.index(form.len());
        form[index] = byte;
        if let Ok(Some(value)) = decode_component(&ty, false, &mut &form[..]) {
            let _ = component(&ty, false, Some(&value));
        }
        form.truncate(index);
        let _ = decode_component(&ty, false, &mut &form[..]);
    }

    #[test]
    fn values_that_are_none_are_no_panic(ty in any_kind(), left in vec(any::<u8>(), 0..40), right in vec(any::<u8>(), 0..40)) {
        let _ = ty.validate(&left);
        prop_assert_eq!(ty.compare(&left, &right), ty.compare(&right, &left).reverse());
        component(&ty, false, Some(&left));
    }
}

/// A forged exponent must not expand into memory.
#[test]
fn huge_decimal_exponents_are_refused() {
    // These exponents, in 5 to 8 bytes, are beyond the range of a 32-bit scale.
    for header in [0xC5, 0xC6, 0xC7, 0xC8, 0x3B, 0x38] {
        let mut form = vec![header];
        form.extend([0x7F; 8]);
        form.extend([0x81, 0x00]);
        assert!(decode(&CqlType::Decimal, &mut &form[..]).is_err(), "{header:x}");
    }
}

/// The least scale with trailing zeros needs digits that the encoding does not have.
#[test]
fn trailing_zeros_at_the_least_scale_come_back() {
    for zeros in [1, 1024, 1025, 20_000] {
        for sign in [1, -1] {
            let unscaled: BigInt = BigInt::from(10).pow(zeros) * 7 * sign;
            let mut value = i32::MIN.to_be_bytes().to_vec();
            value.extend(unscaled.to_signed_bytes_be());
            let form = component(&CqlType::Decimal, false, Some(&value));
            let decoded = decode_component(&CqlType::Decimal, false, &mut &form[..]).unwrap();
            assert_eq!(decoded.as_deref(), Some(&*value), "{zeros} zeros");
        }
    }
}

#[test]
fn huge_vectors_are_refused_by_their_bytes() {
    let ty = CqlType::parse_marshal("VectorType(UTF8Type , 2147483647)").unwrap();
    assert!(decode(&ty, &mut &[0x40, 0x00, 0x40][..]).is_err());
    assert!(ty.validate(&[0, 0, 0]).is_err());
}
