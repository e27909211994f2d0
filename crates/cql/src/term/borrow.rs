//! Borrowing of values of terms, from the plan or from the bound values.

use super::{Term, evaluate::check_value};
use crate::{
    metadata::ColumnSpec,
    options::{Value, Values},
};

/// The borrowed form of [`super::Bound`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BorrowedBound<'v> {
    /// A value.
    Value(&'v [u8]),
    /// Null.
    Null,
    /// Not set.
    Unset,
}

impl Term {
    /// Returns whether [`Self::borrow`] returns the value, if enough values are bound.
    pub fn is_borrowable(&self) -> bool {
        matches!(self, Self::Constant(_) | Self::Bind(_))
    }

    /// Returns the result of [`Self::evaluate`] without a copy, or `None` if the term must be
    /// evaluated.
    #[inline]
    pub fn borrow<'v>(&'v self, values: &'v [Value]) -> Option<BorrowedBound<'v>> {
        match self {
            Self::Bind(index) => Some(match values.get(usize::from(*index))? {
                Value::Bytes(value) => BorrowedBound::Value(value),
                Value::Null => BorrowedBound::Null,
                Value::Unset => BorrowedBound::Unset,
            }),
            Self::Constant(Some(value)) => Some(BorrowedBound::Value(value)),
            Self::Constant(None) => Some(BorrowedBound::Null),
            _ => None,
        }
    }
}

/// Binds values as [`super::bind_values`] does, without a copy. Returns `None` if binding would
/// copy or change a value, or would fail.
#[inline]
pub fn borrow_values<'v>(markers: &[ColumnSpec], values: Values<'v>) -> Option<&'v [Value]> {
    let Values::Positional(values) = values else { return None };
    if values.len() != markers.len() {
        return None;
    }
    for (index, value) in values.iter().enumerate() {
        let marker = markers.get(index)?;
        check_value(marker, value).ok()?;
        if let Value::Bytes(bytes) = value
            && !marker.column_type.is_canonical(bytes)
        {
            return None;
        }
    }
    Some(values)
}
