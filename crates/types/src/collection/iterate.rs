//! Iterates over the parts of a value and borrows them.

use crate::collection::STATIC_COMPOSITE;
use crate::{CqlType, ValueError, vint};

/// Returns an iterator over the elements of a frozen list or set; null is `None`. A zero-length
/// value has no elements.
///
/// # Errors
///
/// Returns an error if the value has no valid count.
pub fn elements(value: &[u8]) -> Result<Elements<'_>, ValueError> {
    let (remaining, rest) = read_count(value, 1)?;
    Ok(Elements { remaining, rest })
}

/// Returns an iterator over the entries of a frozen map. A null key or value is an error. A
/// zero-length value has no entries.
///
/// # Errors
///
/// Returns an error if the value has no valid count.
pub fn entries(value: &[u8]) -> Result<Entries<'_>, ValueError> {
    let (remaining, rest) = read_count(value, 2)?;
    Ok(Entries { values: Elements { remaining: remaining * 2, rest } })
}

/// Returns an iterator over the fields of a tuple or UDT; null is `None`. The iterator ends where
/// the bytes end. Further fields of the type are null.
pub fn fields(value: &[u8]) -> Fields<'_> {
    Fields { rest: value }
}

/// Returns an iterator over the elements of a vector.
pub fn vector_elements<'a>(
    element: &CqlType,
    dimension: usize,
    value: &'a [u8],
) -> VectorElements<'a> {
    VectorElements { fixed: element.fixed_length(), remaining: dimension, rest: value }
}

/// Returns whether a composite is the prefix of a static row, and an iterator over its components.
pub fn composite_components(value: &[u8]) -> (bool, CompositeComponents<'_>) {
    match value.strip_prefix(&STATIC_COMPOSITE.to_be_bytes()) {
        Some(rest) => (true, CompositeComponents { rest }),
        None => (false, CompositeComponents { rest: value }),
    }
}

/// The iterator of [`elements`].
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    remaining: usize,
    rest: &'a [u8],
}

impl<'a> Elements<'a> {
    /// Returns the number of elements that are still to come, if the bytes are sound.
    pub fn len(&self) -> usize {
        self.remaining
    }

    /// Returns whether no element is still to come.
    pub fn is_empty(&self) -> bool {
        self.remaining == 0
    }

    /// Returns the bytes that were not read. There should be none after the last element.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Option<&'a [u8]>, ValueError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.remaining = self.remaining.checked_sub(1)?;
        let value = read_value(&mut self.rest, "collection");
        if value.is_err() {
            self.remaining = 0;
        }
        Some(value)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.remaining))
    }
}

/// The iterator of [`entries`].
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    values: Elements<'a>,
}

impl<'a> Entries<'a> {
    /// Returns the number of entries that are still to come, if the bytes are sound.
    pub fn len(&self) -> usize {
        self.values.remaining / 2
    }

    /// Returns whether no entry is still to come.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the bytes that were not read. There should be none after the last entry.
    pub fn rest(&self) -> &'a [u8] {
        self.values.rest
    }

    fn part(&mut self) -> Option<Result<&'a [u8], ValueError>> {
        let part = self.values.next()?;
        let part = part
            .and_then(|part| part.ok_or_else(|| ValueError::Null { type_name: "map".to_owned() }));
        if part.is_err() {
            self.values.remaining = 0;
        }
        Some(part)
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<(&'a [u8], &'a [u8]), ValueError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let key = match self.part()? {
            Ok(key) => key,
            Err(error) => return Some(Err(error)),
        };
        Some(self.part()?.map(|value| (key, value)))
    }
}

/// The iterator of [`fields`].
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Returns the bytes that were not read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Option<&'a [u8]>, ValueError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let value = read_value(&mut self.rest, "tuple");
        if value.is_err() {
            self.rest = &[];
        }
        Some(value)
    }
}

/// The iterator of [`vector_elements`].
#[derive(Clone, Debug)]
pub struct VectorElements<'a> {
    fixed: Option<usize>,
    remaining: usize,
    rest: &'a [u8],
}

impl<'a> VectorElements<'a> {
    /// Returns the bytes that were not read. There should be none after the last element.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for VectorElements<'a> {
    type Item = Result<&'a [u8], ValueError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.remaining = self.remaining.checked_sub(1)?;
        let length = match self.fixed {
            Some(length) => Ok(length),
            None => vint::read_unsigned(&mut self.rest)
                .map(|length| usize::try_from(length).unwrap_or(usize::MAX))
                .map_err(|error| truncated("vector", error.needed, error.available)),
        };
        let value = length.and_then(|length| take(&mut self.rest, length, "vector"));
        if value.is_err() {
            self.remaining = 0;
        }
        Some(value)
    }
}

/// The iterator of [`composite_components`].
#[derive(Clone, Debug)]
pub struct CompositeComponents<'a> {
    rest: &'a [u8],
}

/// One component of a composite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompositeComponent<'a> {
    /// The serialised value.
    pub value: &'a [u8],
    /// The end-of-component byte: 0 in complete keys; 1 and -1 made bounds in old range queries.
    pub end: u8,
}

impl<'a> Iterator for CompositeComponents<'a> {
    type Item = Result<CompositeComponent<'a>, ValueError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let component = self.component();
        if component.is_err() {
            self.rest = &[];
        }
        Some(component)
    }
}

impl<'a> CompositeComponents<'a> {
    /// Returns the bytes that were not read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn component(&mut self) -> Result<CompositeComponent<'a>, ValueError> {
        const NAME: &str = "composite";
        let length = take(&mut self.rest, 2, NAME)?.iter().fold(0, |n, &b| n << 8 | usize::from(b));
        let value = take(&mut self.rest, length, NAME)?;
        let end = take(&mut self.rest, 1, NAME)?.iter().fold(0, |_, &byte| byte);
        Ok(CompositeComponent { value, end })
    }
}

/// Reads a count of groups of `parts` values of at least 4 bytes each, and refuses a count that the
/// bytes cannot hold.
fn read_count(value: &[u8], parts: usize) -> Result<(usize, &[u8]), ValueError> {
    if value.is_empty() {
        return Ok((0, value));
    }
    let mut rest = value;
    let count = read_length(&mut rest, "collection")?;
    let count = usize::try_from(count).map_err(|_| ValueError::Invalid {
        type_name: "collection".to_owned(),
        expected: "a count of 0 or more",
        got: count.to_string(),
    })?;
    let needed = count.saturating_mul(4 * parts);
    if needed > rest.len() {
        return Err(truncated("collection", needed, rest.len()));
    }
    Ok((count, rest))
}

#[inline]
fn read_value<'a>(rest: &mut &'a [u8], what: &'static str) -> Result<Option<&'a [u8]>, ValueError> {
    match usize::try_from(read_length(rest, what)?) {
        Ok(length) => take(rest, length, what).map(Some),
        Err(_) => Ok(None),
    }
}

#[inline]
fn read_length(rest: &mut &[u8], what: &'static str) -> Result<i32, ValueError> {
    let (length, after) = rest.split_first_chunk().ok_or_else(|| truncated(what, 4, rest.len()))?;
    *rest = after;
    Ok(i32::from_be_bytes(*length))
}

#[inline]
fn take<'a>(
    rest: &mut &'a [u8],
    length: usize,
    what: &'static str,
) -> Result<&'a [u8], ValueError> {
    let (value, after) =
        rest.split_at_checked(length).ok_or_else(|| truncated(what, length, rest.len()))?;
    *rest = after;
    Ok(value)
}

#[cold]
fn truncated(what: &'static str, expected: usize, got: usize) -> ValueError {
    ValueError::Truncated { type_name: what.to_owned(), expected, got }
}
