//! Reads and writes the values of clustering columns, in a row or in a bound. The values form
//! groups of up to 32. A group begins with a vint that has two bits for each value: 1 empty, 2
//! null, 0 the value follows. Format: docs/formats/data.md.

use bytes::Bytes;
use espalier_types::{CqlType, vint};
use smallvec::SmallVec;

use super::{
    input::{DataInput, Decoded, Malformed, Span},
    value::{ValueForm, read_value, write_value},
};

/// The number of values in a group.
pub const GROUP: usize = 32;
/// The value is empty.
pub const EMPTY: u64 = 1;
/// The value is null.
pub const NULL: u64 = 2;

/// The range of each value in the bytes from which it was read; `None` is null.
pub type ValueSpans = SmallVec<[Option<Span>; 4]>;

/// Reads the values of a clustering or of a bound in place, one after another.
#[derive(Clone, Debug)]
pub struct ClusteringReader<'a> {
    forms: &'a [ValueForm],
    index: usize,
    /// The header of the current group: two bits for each value.
    header: u64,
}

impl<'a> ClusteringReader<'a> {
    /// Begins before the first value. There is a value for each of the forms.
    #[inline]
    pub fn new(forms: &'a [ValueForm]) -> Self {
        Self { forms, index: 0, header: 0 }
    }

    /// Returns the number of values that were not read yet.
    #[inline]
    pub fn left(&self) -> usize {
        self.forms.len() - self.index
    }

    /// Reads the next value, and returns its range; `None` is null. If `is_exact`, refuses vints
    /// that are longer than necessary, and an empty value whose header bits do not say so.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end inside the value or do not follow the format.
    #[inline(always)]
    pub fn read(&mut self, input: &mut DataInput<'_>, is_exact: bool) -> Decoded<Option<Span>> {
        let Some(&form) = self.forms.get(self.index) else { return Ok(None) };
        if self.index.is_multiple_of(GROUP) {
            self.header = input.number(is_exact)?;
            let left = self.left();
            if left < GROUP && self.header >> (2 * left) != 0 {
                let reason = "a clustering header has bits for values that are not there";
                return Err(Malformed::Wrong(reason));
            }
        }
        let bits = self.header >> (2 * (self.index % GROUP)) & 3;
        self.index += 1;
        match bits {
            0 => read_value(input, form, is_exact).map(Some),
            EMPTY => Ok(Some((input.offset(), input.offset()))),
            NULL => Ok(None),
            _ => Err(Malformed::Wrong("a clustering value is both empty and null")),
        }
    }
}

/// Reads the values of the first `count` clustering columns.
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
    let forms = forms.get(..count).ok_or(TOO_MANY_VALUES)?;
    let mut spans = ValueSpans::with_capacity(count);
    let mut values = ClusteringReader::new(forms);
    while values.left() > 0 {
        spans.push(values.read(input, false)?);
    }
    Ok(spans)
}

/// A position has more values than the table has clustering columns.
pub const TOO_MANY_VALUES: Malformed = Malformed::Wrong("more values than clustering columns");

/// Returns the values as slices of `bytes`.
#[inline]
pub fn values_in<'a>(
    bytes: &'a [u8],
    spans: &'a [Option<Span>],
) -> impl ExactSizeIterator<Item = Option<&'a [u8]>> + Clone {
    spans.iter().map(|span| span.map(|(start, end)| bytes.get(start..end).unwrap_or_default()))
}

/// Borrows owned values.
#[inline]
pub fn borrowed(values: &[Option<Bytes>]) -> impl ExactSizeIterator<Item = Option<&[u8]>> + Clone {
    values.iter().map(Option::as_deref)
}

/// Returns the values as owned slices that share the memory of `bytes`.
pub fn to_values(bytes: &Bytes, spans: &[Option<Span>]) -> Box<[Option<Bytes>]> {
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
