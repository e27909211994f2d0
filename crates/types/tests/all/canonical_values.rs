//! Compares canonical forms with the bytes that `Term.bind` of a marker returns in Apache Cassandra
//! 5.0.9.

use crate::support::{hex, unhex};
use espalier_types::{CqlType, Unsorted};

/// The marshal type, the bound value, and its form in Cassandra.
const BOUND: &[(&str, &str, &str)] = &[
    // {3, 1}, {1, 1}, {3, 1, 3}, {1, empty}, {empty, empty}
    (
        SET_INT,
        "00000002 00000004 00000003 00000004 00000001",
        "00000002 00000004 00000001 00000004 00000003",
    ),
    (SET_INT, "00000002 00000004 00000001 00000004 00000001", "00000001 00000004 00000001"),
    (
        SET_INT,
        "00000003 00000004 00000003 00000004 00000001 00000004 00000003",
        "00000002 00000004 00000001 00000004 00000003",
    ),
    (SET_INT, "00000002 00000004 00000001 00000000", "00000002 00000000 00000004 00000001"),
    (SET_INT, "00000002 00000000 00000000", "00000001 00000000"),
    // The first of equal elements stays: 1 and 1.0.
    (
        "SetType(DecimalType)",
        "00000002 00000005 0000000001 00000006 00000001000a",
        "00000001 00000005 0000000001",
    ),
    (
        "SetType(DecimalType)",
        "00000002 00000005 000000010a 00000005 0000000001",
        "00000001 00000005 000000010a",
    ),
    // Elements have their shortest form.
    ("SetType(IntegerType)", "00000002 00000002 0001 00000001 01", "00000001 00000001 01"),
    ("ListType(IntegerType)", "00000001 00000002 0001", "00000001 00000001 01"),
    ("ListType(BooleanType)", "00000001 00000001 02", "00000001 00000001 01"),
    ("SetType(BooleanType)", "00000002 00000001 02 00000001 01", "00000001 00000001 01"),
    (
        "SetType(InetAddressType)",
        "00000002 00000004 7f000001 00000010 00000000000000000000ffff7f000001",
        "00000001 00000004 7f000001",
    ),
    // All NaNs are equal; zeros of different sign are not.
    (
        "SetType(FloatType)",
        "00000002 00000004 ffc00000 00000004 7fc00000",
        "00000001 00000004 ffc00000",
    ),
    (
        "SetType(FloatType)",
        "00000002 00000004 00000000 00000004 80000000",
        "00000002 00000004 80000000 00000004 00000000",
    ),
    // The first of equal keys stays, with the last value.
    (
        "MapType(Int32Type,Int32Type)",
        "00000002 00000004 00000003 00000004 00000001 00000004 00000001 00000004 000000aa",
        "00000002 00000004 00000001 00000004 000000aa 00000004 00000003 00000004 00000001",
    ),
    (
        "MapType(Int32Type,Int32Type)",
        "00000002 00000004 00000001 00000004 000000bb 00000004 00000001 00000004 000000aa",
        "00000001 00000004 00000001 00000004 000000aa",
    ),
    (
        "MapType(DecimalType,Int32Type)",
        "00000002 00000005 000000010a 00000004 00000001 00000005 0000000001 00000004 00000002",
        "00000001 00000005 000000010a 00000004 00000002",
    ),
    // Nested sets and maps.
    (
        "ListType(FrozenType(SetType(Int32Type)))",
        "00000001 00000014 00000002 00000004 00000003 00000004 00000001",
        "00000001 00000014 00000002 00000004 00000001 00000004 00000003",
    ),
    (
        "SetType(FrozenType(SetType(Int32Type)))",
        "00000002 00000014 00000002 00000004 00000003 00000004 00000001 00000014 00000002 00000004 00000001 00000004 00000003",
        "00000001 00000014 00000002 00000004 00000001 00000004 00000003",
    ),
    (
        "MapType(Int32Type,FrozenType(SetType(Int32Type)))",
        "00000001 00000004 00000001 00000014 00000002 00000004 00000003 00000004 00000001",
        "00000001 00000004 00000001 00000014 00000002 00000004 00000001 00000004 00000003",
    ),
    (
        "SetType(TupleType(Int32Type,Int32Type))",
        "00000002 00000008 00000004 00000001 0000000c 00000004 00000001 ffffffff",
        "00000001 00000008 00000004 00000001",
    ),
    (
        "SetType(TupleType(Int32Type,Int32Type))",
        "00000002 00000008 00000000 00000000 00000008 ffffffff ffffffff",
        "00000002 00000008 ffffffff ffffffff 00000008 00000000 00000000",
    ),
    // Scalars elsewhere keep their bytes.
    ("IntegerType", "0001", "0001"),
    ("BooleanType", "02", "02"),
    ("TupleType(IntegerType)", "00000002 0001", "00000002 0001"),
    ("VectorType(IntegerType , 1)", "020001", "020001"),
];

const SET_INT: &str = "FrozenType(SetType(Int32Type))";

fn plain(text: &str) -> Vec<u8> {
    unhex(&text.replace(' ', ""))
}

#[test]
fn bound_values_are_canonicalised_as_in_cassandra() {
    for (marshal, bound, stored) in BOUND {
        let ty = CqlType::parse_marshal(marshal).unwrap();
        let (bound, stored) = (plain(bound), plain(stored));
        ty.validate(&bound).unwrap();
        let canonical = ty.canonical(&bound);
        assert_eq!(canonical.is_none(), bound == stored, "{marshal} {}", hex(&bound));
        assert_eq!(hex(&canonical.unwrap_or(bound)), hex(&stored), "{marshal}");
        assert!(ty.is_canonical(&stored), "{marshal} {}", hex(&stored));
        assert_eq!(ty.find_unsorted(&stored), None, "{marshal}");
    }
}

/// Espalier sorts these sets. Cassandra keeps the bytes that the client sent, and so may have two
/// rows for one value.
#[test]
fn sets_inside_tuples_user_types_and_vectors_are_sorted() {
    let unsorted = "00000002 00000004 00000003 00000004 00000001";
    let sorted = "00000002 00000004 00000001 00000004 00000003";
    for (marshal, prefix) in [
        ("TupleType(FrozenType(SetType(Int32Type)))", "00000014"),
        ("UserType(ks,74,61:FrozenType(SetType(Int32Type)))", "00000014"),
        ("FrozenType(UserType(ks,74,61:FrozenType(SetType(Int32Type))))", "00000014"),
        ("VectorType(FrozenType(SetType(Int32Type)) , 1)", "14"),
        ("ListType(TupleType(FrozenType(SetType(Int32Type))))", "00000001 00000018 00000014"),
    ] {
        let ty = CqlType::parse_marshal(marshal).unwrap();
        let bound = plain(&format!("{prefix}{unsorted}"));
        let stored = plain(&format!("{prefix}{sorted}"));
        assert_eq!(ty.find_unsorted(&bound), Some(Unsorted::InsideTuple), "{marshal}");
        assert_eq!(ty.canonical(&bound), Some(stored.clone()), "{marshal}");
        assert_eq!(ty.canonical(&stored), None, "{marshal}");
    }
    let ty = CqlType::parse_marshal(SET_INT).unwrap();
    assert_eq!(ty.find_unsorted(&plain(unsorted)), Some(Unsorted::Anywhere));
}

#[test]
fn types_with_one_form_are_not_looked_at() {
    for marshal in ["Int32Type", "IntegerType", "ListType(Int32Type)", "TupleType(DecimalType)"] {
        assert!(!CqlType::parse_marshal(marshal).unwrap().has_canonical_form(), "{marshal}");
    }
}
