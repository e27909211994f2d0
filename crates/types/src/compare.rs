//! Compares values in the order of their type.
//!
//! The order is total on the valid values of a type. It is that of Cassandra's comparators, which
//! sort Cassandra's files. All NaNs are equal and greater than infinity, -0 is less than 0, and
//! inside tuples and collections null is less than an empty value. The ordered byte-comparable form
//! has the same order; Cassandra's form differs for NaN and nested empty values. Invalid values
//! compare by their bytes. Only decimals with an unscaled value of more than 16 bytes may allocate
//! memory.

use std::cmp::Ordering;

use crate::uuid_order::{timeuuid_rank, uuid_rank};
use crate::{CqlType, collection, decimal, varint};

impl CqlType {
    /// Compares two serialised values of this type, as in `ORDER BY` and in clusterings.
    /// Zero-length values come first.
    pub fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        match self {
            Self::Text | Self::Blob | Self::Ascii => left.cmp(right),
            Self::Int => by(left, right, i32::from_be_bytes),
            // A counter of 8 bytes is a count. A stored counter is a longer context, and is
            // compared as bytes.
            Self::Bigint | Self::Timestamp | Self::Counter => by(left, right, i64::from_be_bytes),
            Self::Smallint => by(left, right, i16::from_be_bytes),
            Self::Tinyint => by(left, right, i8::from_be_bytes),
            Self::Boolean => by(left, right, |[byte]: [u8; 1]| byte != 0),
            Self::Float => by(left, right, |bytes| float_rank(f32::from_be_bytes(bytes))),
            Self::Double => by(left, right, |bytes| double_rank(f64::from_be_bytes(bytes))),
            Self::Uuid => by(left, right, uuid_rank),
            Self::Timeuuid => by(left, right, timeuuid_rank),
            Self::Decimal => decimal::compare(left, right),
            Self::Custom(_) if self.is_lexical_uuid() => {
                by(left, right, |bytes: [u8; 16]| u128::from_be_bytes(bytes) ^ (1 << 127 | 1 << 63))
            }
            Self::Date
            | Self::Time
            | Self::Inet
            | Self::Duration
            | Self::Empty
            | Self::Custom(_) => left.cmp(right),
            _ if left.is_empty() || right.is_empty() => right.is_empty().cmp(&left.is_empty()),
            Self::Varint => varint::compare(left, right),
            Self::List { element, .. } | Self::Set { element, .. } => {
                compare_elements(element, left, right)
            }
            Self::Map { key, value, .. } => compare_entries(key, value, left, right),
            Self::Tuple(types) => compare_fields(types.iter(), left, right),
            Self::UserDefined { definition, .. } => {
                compare_fields(definition.field_types(), left, right)
            }
            Self::Vector { element, dimension } => {
                let parts = |value| collection::vector_elements(element, *dimension, value);
                sequence(
                    std::iter::repeat(&**element),
                    parts(left).map_while(Result::ok).map(Some),
                    parts(right).map_while(Result::ok).map(Some),
                )
            }
            Self::Composite(types) => compare_composites(types, left, right),
        }
    }
}

/// Compares values by `read` if both have the right length. Otherwise compares their bytes, which
/// puts an empty value first.
#[inline]
fn by<const N: usize, T: Ord>(left: &[u8], right: &[u8], read: impl Fn([u8; N]) -> T) -> Ordering {
    match (left.try_into(), right.try_into()) {
        (Ok(left), Ok(right)) => read(left).cmp(&read(right)),
        _ => left.cmp(right),
    }
}

/// Ranks numbers in the order of IEEE 754's totalOrder, with one rank behind all others for NaN.
fn float_rank(value: f32) -> i32 {
    let bits = value.to_bits() as i32;
    if value.is_nan() { i32::MAX } else { bits ^ ((bits >> 31) & i32::MAX) }
}

/// Ranks a `double` as [`float_rank`] ranks a `float`.
fn double_rank(value: f64) -> i64 {
    let bits = value.to_bits() as i64;
    if value.is_nan() { i64::MAX } else { bits ^ ((bits >> 63) & i64::MAX) }
}

fn compare_elements(element: &CqlType, left: &[u8], right: &[u8]) -> Ordering {
    match (collection::elements(left), collection::elements(right)) {
        (Ok(left), Ok(right)) => sequence(
            std::iter::repeat(element),
            left.map_while(Result::ok),
            right.map_while(Result::ok),
        ),
        _ => left.cmp(right),
    }
}

fn compare_entries(key: &CqlType, value: &CqlType, left: &[u8], right: &[u8]) -> Ordering {
    match (collection::entries(left), collection::entries(right)) {
        (Ok(left), Ok(right)) => {
            fn flat<'a>(
                entries: collection::Entries<'a>,
            ) -> impl Iterator<Item = Option<&'a [u8]>> {
                entries.map_while(Result::ok).flat_map(|(key, value)| [Some(key), Some(value)])
            }
            sequence([key, value].into_iter().cycle(), flat(left), flat(right))
        }
        _ => left.cmp(right),
    }
}

fn compare_fields<'t>(
    types: impl ExactSizeIterator<Item = &'t CqlType>,
    left: &[u8],
    right: &[u8],
) -> Ordering {
    // Trailing nulls and missing fields are equal.
    let present = |value| {
        let mut present = 0;
        for (index, field) in collection::fields(value).map_while(Result::ok).enumerate() {
            if field.is_some() {
                present = index + 1;
            }
        }
        collection::fields(value).map_while(Result::ok).take(present.min(types.len()))
    };
    let (left, right) = (present(left), present(right));
    sequence(types, left, right)
}

fn compare_composites(types: &[CqlType], left: &[u8], right: &[u8]) -> Ordering {
    let ((left_static, left), (right_static, right)) =
        (collection::composite_components(left), collection::composite_components(right));
    let mut right = right.map_while(Result::ok);
    let mut left = left.map_while(Result::ok);
    let by_static = right_static.cmp(&left_static);
    if by_static.is_ne() {
        return by_static;
    }
    for ty in types {
        let order = match (left.next(), right.next()) {
            (Some(left), Some(right)) => part(ty, Some(left.value), Some(right.value))
                .then_with(|| (left.end as i8).cmp(&(right.end as i8))),
            (left, right) => return left.is_some().cmp(&right.is_some()),
        };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

/// Compares element by element; a sequence comes before its continuations.
fn sequence<'t, 'v>(
    mut types: impl Iterator<Item = &'t CqlType>,
    mut left: impl Iterator<Item = Option<&'v [u8]>>,
    mut right: impl Iterator<Item = Option<&'v [u8]>>,
) -> Ordering {
    loop {
        let Some(ty) = types.next() else { return Ordering::Equal };
        let order = match (left.next(), right.next()) {
            (Some(left), Some(right)) => part(ty, left, right),
            (None, None) => return Ordering::Equal,
            (left, right) => return left.is_some().cmp(&right.is_some()),
        };
        if order.is_ne() {
            return order;
        }
    }
}

/// Compares two parts: null comes before an empty value, which comes before all others.
fn part(ty: &CqlType, left: Option<&[u8]>, right: Option<&[u8]>) -> Ordering {
    match (left, right) {
        (Some(left), Some(right)) => ty.compare(left, right),
        (left, right) => left.is_some().cmp(&right.is_some()),
    }
}
