//! Values of clustering columns, in a row or in a bound. They form groups of up to 32, each after
//! a vint with two bits for each value: 1 empty, 2 null, 0 the value follows. Format:
//! docs/formats/data.md.

use bytes::Bytes;
use espalier_types::{CqlType, vint};
use smallvec::SmallVec;

use super::{
    input::{DataInput, Decoded, Malformed},
    value::{ValueForm, write_value},
};

/// The number of values in a group.
pub const GROUP: usize = 32;
/// The value is empty.
pub const EMPTY: u64 = 1;
/// The value is null.
pub const NULL: u64 = 2;

/// The ranges of the values in the bytes from which they were read; `None` is null.
pub type ValueSpans = SmallVec<[Option<(usize, usize)>; 4]>;

/// Reads `count` values of the first clustering columns.
///
/// # Errors
///
/// Fails if the bytes end inside the values or do not follow the format.
#[inline]
pub fn read_spans(
    input: &mut DataInput<'_>,
    forms: &[ValueForm],
    count: usize,
) -> Decoded<ValueSpans> {
    let forms =
        forms.get(..count).ok_or(Malformed::Wrong("more values than clustering columns"))?;
    let mut spans = ValueSpans::with_capacity(count);
    for group in forms.chunks(GROUP) {
        let header = input.vint()?;
        if group.len() < GROUP && header >> (2 * group.len()) != 0 {
            return Err(Malformed::Wrong(
                "a clustering header has bits for values that are not there",
            ));
        }
        for (index, form) in group.iter().enumerate() {
            spans.push(match header >> (2 * index) & 3 {
                0 => {
                    let length = match form {
                        ValueForm::Fixed(length) => *length,
                        ValueForm::Prefixed => input.value_length()?,
                    };
                    Some(input.span(length)?)
                }
                EMPTY => Some((input.offset(), input.offset())),
                NULL => None,
                _ => return Err(Malformed::Wrong("a clustering value is both empty and null")),
            });
        }
    }
    Ok(spans)
}

/// Returns the values as slices of `bytes`.
#[inline]
pub fn values_in<'a>(
    bytes: &'a [u8],
    spans: &'a [Option<(usize, usize)>],
) -> impl ExactSizeIterator<Item = Option<&'a [u8]>> + Clone {
    spans.iter().map(|span| span.map(|(start, end)| bytes.get(start..end).unwrap_or_default()))
}

/// Borrows owned values.
#[inline]
pub fn borrowed(values: &[Option<Bytes>]) -> impl ExactSizeIterator<Item = Option<&[u8]>> + Clone {
    values.iter().map(Option::as_deref)
}

/// Returns the values as owned slices that share the memory of `bytes`.
pub fn to_values(bytes: &Bytes, spans: &ValueSpans) -> Box<[Option<Bytes>]> {
    spans.iter().map(|span| span.map(|(start, end)| bytes.slice(start..end))).collect()
}

/// Appends values of the first clustering columns.
///
/// # Errors
///
/// Fails if a value does not have the length that its type gives all values.
#[inline]
pub fn write_values<'a>(
    types: &[(CqlType, bool)],
    values: impl ExactSizeIterator<Item = Option<&'a [u8]>> + Clone,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let groups = values.len().div_ceil(GROUP);
    for (index, types) in types.chunks(GROUP).take(groups).enumerate() {
        let values = values.clone().skip(index * GROUP).take(GROUP);
        let header = values.clone().enumerate().fold(0u64, |header, (index, value)| {
            let bits = match value {
                None => NULL,
                Some([]) => EMPTY,
                Some(_) => 0,
            };
            header | bits << (2 * index)
        });
        vint::write_unsigned(header, out);
        for ((column_type, _), value) in types.iter().zip(values) {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                write_value(ValueForm::of(column_type), value, out)?;
            }
        }
    }
    Ok(())
}
