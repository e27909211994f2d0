//! Generates types and their valid values for property tests.

use std::sync::Arc;

use espalier_types::duration::Duration;
use espalier_types::{CqlType, UserType, collection, decimal, timeuuid, varint};
use proptest::collection::vec;
use proptest::prelude::*;

pub type Value = Vec<u8>;

/// Generates a type without parameters, but neither `counter` nor `empty`.
pub fn scalar() -> impl Strategy<Value = CqlType> {
    prop::sample::select(vec![
        CqlType::Ascii,
        CqlType::Bigint,
        CqlType::Blob,
        CqlType::Boolean,
        CqlType::Date,
        CqlType::Decimal,
        CqlType::Double,
        CqlType::Duration,
        CqlType::Float,
        CqlType::Inet,
        CqlType::Int,
        CqlType::Smallint,
        CqlType::Text,
        CqlType::Time,
        CqlType::Timestamp,
        CqlType::Timeuuid,
        CqlType::Tinyint,
        CqlType::Uuid,
        CqlType::Varint,
        CqlType::Custom("org.apache.cassandra.db.marshal.DateType".into()),
        CqlType::Custom("org.apache.cassandra.db.marshal.LexicalUUIDType".into()),
    ])
}

/// Generates any frozen type, up to three levels deep.
pub fn frozen_type() -> impl Strategy<Value = CqlType> {
    scalar().prop_recursive(3, 12, 3, |inner| {
        let shared = inner.clone().prop_map(Arc::new);
        prop_oneof![
            shared.clone().prop_map(|element| CqlType::List { element, frozen: true }),
            shared.clone().prop_map(|element| CqlType::Set { element, frozen: true }),
            (shared.clone(), shared.clone()).prop_map(|(key, value)| CqlType::Map {
                key,
                value,
                frozen: true
            }),
            vec(inner.clone(), 1..4).prop_map(|types| CqlType::Tuple(types.into())),
            ("[a-zA-Z\" é_]{1,6}", vec(("[a-z\"A é]{1,4}", inner), 1..4)).prop_map(
                |(name, fields)| CqlType::UserDefined {
                    definition: Arc::new(UserType { keyspace: "ks".to_owned(), name, fields }),
                    frozen: true,
                }
            ),
            (shared, 1usize..4)
                .prop_map(|(element, dimension)| CqlType::Vector { element, dimension }),
        ]
    })
}

/// Generates a frozen type, or a multi-cell one with frozen parts.
pub fn any_type() -> impl Strategy<Value = CqlType> {
    (frozen_type(), any::<bool>()).prop_map(|(ty, thaw)| match ty {
        CqlType::List { element, .. } => CqlType::List { element, frozen: !thaw },
        CqlType::Set { element, .. } => CqlType::Set { element, frozen: !thaw },
        CqlType::Map { key, value, .. } => CqlType::Map { key, value, frozen: !thaw },
        CqlType::UserDefined { definition, .. } => {
            CqlType::UserDefined { definition, frozen: !thaw }
        }
        other => other,
    })
}

/// Generates bytes in which zeros, FE and FF are common.
fn bytes(max: usize) -> impl Strategy<Value = Value> {
    vec(prop_oneof![Just(0), Just(0xFE), Just(0xFF), any::<u8>()], 0..=max)
}

fn integer() -> impl Strategy<Value = i64> {
    (any::<i64>(), 0u32..64).prop_map(|(value, shift)| value >> shift)
}

fn big() -> impl Strategy<Value = varint::BigInt> {
    prop_oneof![
        integer().prop_map(varint::BigInt::from),
        bytes(20).prop_map(|bytes| varint::decode(&bytes)),
        (integer(), 0u32..40).prop_map(|(value, zeros)| {
            varint::BigInt::from(value % 1000) * varint::BigInt::from(10).pow(zeros)
        }),
    ]
}

/// Generates a valid value of a type. Empty values occur where the type allows them.
pub fn value_of(ty: &CqlType) -> BoxedStrategy<Value> {
    let some = some_value_of(ty);
    if ty.validate(&[]).is_ok() {
        prop_oneof![1 => Just(Value::new()), 9 => some].boxed()
    } else {
        some
    }
}

fn some_value_of(ty: &CqlType) -> BoxedStrategy<Value> {
    match ty {
        CqlType::Ascii => vec(0u8..128, 0..8).boxed(),
        CqlType::Text => prop_oneof![
            any::<String>().prop_map(String::into_bytes),
            "[\u{0}a\u{1}]{0,6}".prop_map(String::into_bytes)
        ]
        .boxed(),
        CqlType::Blob => bytes(8).boxed(),
        CqlType::Boolean => any::<bool>().prop_map(|value| vec![u8::from(value)]).boxed(),
        CqlType::Tinyint => any::<[u8; 1]>().prop_map(Vec::from).boxed(),
        CqlType::Smallint => any::<[u8; 2]>().prop_map(Vec::from).boxed(),
        CqlType::Int => integer().prop_map(|value| (value as i32).to_be_bytes().to_vec()).boxed(),
        CqlType::Float => {
            prop_oneof![any::<u32>(), Just(0), Just(1 << 31), Just(0xFFC0_0000), Just(0x7FC0_0000)]
                .prop_map(|bits: u32| bits.to_be_bytes().to_vec())
                .boxed()
        }
        CqlType::Double => {
            prop_oneof![any::<u64>(), Just(0xFFF8 << 48), Just(0x7FF8 << 48), Just(0x7FF0 << 48)]
                .prop_map(|bits: u64| bits.to_be_bytes().to_vec())
                .boxed()
        }
        CqlType::Date => any::<[u8; 4]>().prop_map(Vec::from).boxed(),
        CqlType::Bigint | CqlType::Timestamp => {
            integer().prop_map(|value| value.to_be_bytes().to_vec()).boxed()
        }
        CqlType::Time => {
            (0i64..86_400_000_000_000).prop_map(|value| value.to_be_bytes().to_vec()).boxed()
        }
        CqlType::Varint => big().prop_map(|value| varint::encode(&value)).boxed(),
        CqlType::Decimal => {
            (big(), prop_oneof![-40..40, any::<i32>(), Just(i32::MIN), Just(i32::MAX)])
                .prop_map(|(unscaled, scale)| decimal::encode(&unscaled, scale))
                .boxed()
        }
        CqlType::Inet => {
            prop_oneof![any::<[u8; 4]>().prop_map(Vec::from), any::<[u8; 16]>().prop_map(Vec::from)]
                .boxed()
        }
        CqlType::Uuid => any::<[u8; 16]>()
            .prop_map(|mut bytes| {
                bytes[6] = bytes[6] & 0x0F | [0x10, 0x10, 0x40, 0x70][usize::from(bytes[0] % 4)];
                bytes.to_vec()
            })
            .boxed(),
        CqlType::Timeuuid => (any::<u64>(), any::<u64>(), 0u32..64)
            .prop_map(|(ticks, node, shift)| timeuuid::from_ticks(ticks >> shift, node).to_vec())
            .boxed(),
        CqlType::Duration => (any::<bool>(), 0..i32::MAX, 0..i32::MAX, 0..i64::MAX, 0u32..63)
            .prop_map(|(negative, months, days, nanoseconds, shift)| {
                let sign = if negative { -1 } else { 1 };
                let small = shift.min(31);
                let duration = Duration {
                    months: sign * (months.unbounded_shr(small)),
                    days: sign * (days.unbounded_shr(small)),
                    nanoseconds: i64::from(sign) * (nanoseconds >> shift),
                };
                let mut out = Vec::new();
                duration.encode(&mut out);
                out
            })
            .boxed(),
        CqlType::List { element, .. } => {
            vec(value_of(element), 0..4).prop_map(|items| collection::list_of(items).into()).boxed()
        }
        CqlType::Set { element, .. } => {
            let element = element.clone();
            vec(value_of(&element), 0..4)
                .prop_map(move |items| collection::set_of(&element, items).into())
                .boxed()
        }
        CqlType::Map { key, value, .. } => {
            let key = key.clone();
            vec((value_of(&key), value_of(value)), 0..3)
                .prop_map(move |entries| collection::sorted_map_of(&key, entries).into())
                .boxed()
        }
        CqlType::Tuple(types) => fields(types.iter()),
        CqlType::UserDefined { definition, .. } => fields(definition.field_types()),
        CqlType::Vector { element, dimension } => {
            let element = element.clone();
            // An element of fixed length cannot be empty inside a vector.
            let item = match element.fixed_length() {
                Some(_) => some_value_of(&element),
                None => value_of(&element),
            };
            vec(item, *dimension)
                .prop_map(move |items| collection::vector_of(&element, items).into())
                .boxed()
        }
        CqlType::Custom(name) if name.ends_with("DateType") => {
            any::<[u8; 8]>().prop_map(Vec::from).boxed()
        }
        CqlType::Custom(_) => any::<[u8; 16]>().prop_map(Vec::from).boxed(),
        CqlType::Empty => Just(Vec::new()).boxed(),
        CqlType::Counter => any::<[u8; 8]>().prop_map(Vec::from).boxed(),
        CqlType::Composite(_) => unreachable!("composites are no part of generated types"),
    }
}

fn fields<'t>(types: impl Iterator<Item = &'t CqlType>) -> BoxedStrategy<Value> {
    let fields: Vec<_> = types.map(|ty| prop::option::weighted(0.8, value_of(ty))).collect();
    let count = fields.len();
    (fields, 1..=count)
        .prop_map(|(mut fields, present)| {
            fields.truncate(present);
            collection::tuple_of(fields).into()
        })
        .boxed()
}

/// Generates a type with some values of it.
pub fn values(
    types: impl Strategy<Value = CqlType>,
    count: usize,
) -> impl Strategy<Value = (CqlType, Vec<Value>)> {
    types.prop_flat_map(move |ty| {
        let values = vec(value_of(&ty), count);
        (Just(ty), values)
    })
}
