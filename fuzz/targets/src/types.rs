//! The targets of values: their types, text, byte-comparable encoding and variable-length integers.

use std::sync::Arc;

use espalier_types::{CqlType, UserType, byte_comparable, literal, vint};

use crate::input::Input;

/// Class names by a byte: every scalar, and some compound types.
pub const TYPES: &[&str] = &[
    "AsciiType",
    "LongType",
    "BytesType",
    "BooleanType",
    "SimpleDateType",
    "DecimalType",
    "DoubleType",
    "DurationType",
    "FloatType",
    "InetAddressType",
    "Int32Type",
    "ShortType",
    "UTF8Type",
    "TimeType",
    "TimestampType",
    "TimeUUIDType",
    "ByteType",
    "UUIDType",
    "IntegerType",
    "DateType",
    "LexicalUUIDType",
    "CounterColumnType",
    "EmptyType",
    "FrozenType(ListType(Int32Type))",
    "FrozenType(SetType(UTF8Type))",
    "FrozenType(MapType(UTF8Type,FrozenType(ListType(IntegerType))))",
    "TupleType(Int32Type,UTF8Type,FrozenType(SetType(UUIDType)))",
    "UserType(ks,61,62:Int32Type,63:UTF8Type,64:FrozenType(MapType(Int32Type,DecimalType)))",
    "VectorType(FloatType , 3)",
    "VectorType(UTF8Type , 2)",
    "VectorType(FrozenType(ListType(Int32Type)) , 2)",
    "CompositeType(Int32Type,UTF8Type)",
    "ListType(TimestampType)",
];

/// Returns the type that a byte chooses; the number after the last type announces the name of a
/// type.
fn any_type(input: &mut Input<'_>) -> Option<CqlType> {
    let number = usize::from(input.byte()) % (TYPES.len() + 1);
    match TYPES.get(number) {
        Some(name) => CqlType::parse_marshal(name).ok(),
        None => CqlType::parse_marshal(std::str::from_utf8(input.part()).ok()?).ok(),
    }
}

/// Returns up to three clustering columns; the first two bytes choose their number and directions.
pub fn clustering_types(input: &mut Input<'_>) -> Vec<(CqlType, bool)> {
    let (count, directions) = (input.byte() % 4, input.byte());
    (0..count)
        .filter_map(|index| {
            let name = TYPES[usize::from(input.byte()) % TYPES.len()];
            Some((CqlType::parse_marshal(name).ok()?, directions >> index & 1 == 1))
        })
        .collect()
}

/// Parses the names of types, as in Statistics.db and as in `system_schema`. A parsed type must
/// print as a name that parses to the same type.
pub fn type_name(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok((read, _)) = CqlType::parse_marshal_maybe_reversed(text) {
        let name = read.marshal_name();
        assert_eq!(CqlType::parse_marshal(&name).as_ref(), Ok(&read), "{name}");
        let _ = (read.cql_name(), read.freeze(), read.fixed_length());
    }
    let definition = Arc::new(UserType {
        keyspace: "ks".into(),
        name: "a".into(),
        fields: vec![("b".into(), CqlType::Int)],
    });
    let resolve = |name: &str| (name == "a").then(|| definition.clone());
    if let Ok(read) = CqlType::parse_cql(text, "ks", &resolve) {
        let name = read.cql_name();
        assert_eq!(CqlType::parse_cql(&name, "ks", &resolve).as_ref(), Ok(&read), "{name}");
    }
}

/// Parses a value. Input: `TYPE`, then a value as text, which is parsed as plain text and as JSON.
pub fn literal(data: &[u8]) {
    let mut input = Input(data);
    let Some(ty) = any_type(&mut input) else { return };
    let Ok(text) = std::str::from_utf8(input.0) else { return };
    for value in [literal::from_text(&ty, text).ok(), literal::from_json(&ty, text).ok().flatten()]
    {
        let Some(value) = value else { continue };
        assert_eq!(ty.validate(&value), Ok(()), "{text} as {ty:?}");
        let _ = (literal::to_text(&ty, &value), literal::to_cql_literal(&ty, &value));
        let json = literal::to_json(&ty, &value);
        assert!(literal::parse_json(&json).is_ok(), "{json}");
    }
    let _ = literal::parse_duration(text);
}

/// Validates, compares, prints and encodes two values. Input: `TYPE, PART: a value`, then another
/// value.
pub fn value(data: &[u8]) {
    let mut input = Input(data);
    let Some(ty) = any_type(&mut input) else { return };
    let (left, right) = (input.part(), input.0);
    for value in [left, right] {
        let is_valid = ty.validate(value).is_ok();
        let _ = (literal::to_text(&ty, value), literal::to_cql_literal(&ty, value));
        let json = literal::to_json(&ty, value);
        assert!(!is_valid || literal::parse_json(&json).is_ok(), "{json}");
        let mut encoded = Vec::new();
        byte_comparable::encode_component(&ty, false, Some(value), &mut encoded);
        byte_comparable::encode_component(&ty, true, Some(value), &mut encoded);
    }
    let ordering = ty.compare(left, right);
    assert_eq!(ordering, ty.compare(right, left).reverse(), "{ty:?}: {left:?} and {right:?}");
}

/// Decodes byte-comparable bytes. Input: `CLUSTERING TYPES`, then bytes that are decoded as a
/// clustering, as a decorated key, and as a value of each of the types.
pub fn byte_comparable(data: &[u8]) {
    let mut input = Input(data);
    let types = clustering_types(&mut input);
    if let Ok((values, terminator)) = byte_comparable::decode_clustering(&types, input.0) {
        let mut encoded = Vec::new();
        byte_comparable::encode_clustering(&types, &values, terminator, &mut encoded);
        let again = byte_comparable::decode_clustering(&types, &encoded);
        assert_eq!(again, Ok((values, terminator)), "{types:?}");
    }
    if let Ok((token, key)) = byte_comparable::decode_decorated_key(input.0) {
        let mut encoded = Vec::new();
        byte_comparable::encode_decorated_key(token, &key, &mut encoded);
        assert_eq!(encoded, input.0);
    }
    for (ty, _) in &types {
        let _ = byte_comparable::decode(ty, &mut &input.0[..]);
    }
}

/// Reads variable-length integers, one after another.
pub fn variable_length_integer(data: &[u8]) {
    let mut rest = data;
    while let Ok(value) = vint::read_unsigned(&mut rest) {
        let mut written = Vec::new();
        vint::write_unsigned(value, &mut written);
        assert_eq!(written.len(), vint::unsigned_length(value));
        assert_eq!(vint::read_unsigned(&mut &written[..]), Ok(value));
    }
    let mut rest = data;
    while let Ok(value) = vint::read_signed(&mut rest) {
        let mut written = Vec::new();
        vint::write_signed(value, &mut written);
        assert_eq!(vint::read_signed(&mut &written[..]), Ok(value));
    }
}
