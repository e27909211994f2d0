//! Reads and writes the values of cells and of clusterings: bare if the type has a fixed length,
//! else after a vint length. Values in complex columns always have the length. A flag marks a value
//! of zero length, which has no bytes. Format: docs/formats/data.md.

use espalier_types::{CqlType, vint};

use super::input::{DataInput, Decoded, Malformed, Span};

/// The form of a value that is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueForm {
    /// A fixed number of bytes, without a length before them.
    Fixed(usize),
    /// A vint length, and then the bytes.
    Prefixed,
}

impl ValueForm {
    /// Returns the form for a column's type; cells of complex columns are always
    /// [`ValueForm::Prefixed`].
    #[inline]
    pub fn of(column_type: &CqlType) -> Self {
        match column_type.fixed_length() {
            Some(length) => Self::Fixed(length),
            None => Self::Prefixed,
        }
    }
}

/// Steps over a value that is not empty, and returns its range. If `is_exact`, refuses an empty
/// value and a length that is longer than a writer makes it.
///
/// # Errors
///
/// Fails if the bytes end before, or if the value is refused or too long.
#[inline(always)]
pub fn read_value(input: &mut DataInput<'_>, form: ValueForm, is_exact: bool) -> Decoded<Span> {
    let length = match form {
        ValueForm::Fixed(length) => length,
        ValueForm::Prefixed => input.value_length(is_exact)?,
    };
    if is_exact && length == 0 {
        return Err(Malformed::Wrong("an empty value without its flag"));
    }
    input.span(length)
}

/// Appends a value that is not empty.
///
/// # Errors
///
/// Fails if the value does not have the length that the type gives all its values.
#[inline]
pub fn write_value(form: ValueForm, value: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    match form {
        ValueForm::Fixed(length) if length != value.len() => {
            return Err(format!("a value of {} bytes where the type has {length}", value.len()));
        }
        ValueForm::Fixed(_) => {}
        ValueForm::Prefixed => vint::write_unsigned(value.len() as u64, out),
    }
    out.extend_from_slice(value);
    Ok(())
}
