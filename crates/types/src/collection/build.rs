//! Builds frozen values. The builders trust the caller: they validate no elements, and sort them
//! only if their documentation says so.
//!
//! A value of 2^31 bytes or more has no serialised form. Its lengths saturate, and validation
//! refuses the result.

use bytes::Bytes;

use crate::{CqlType, vint};

/// Appends one length-prefixed value; `None` is null.
pub fn write_value(value: Option<&[u8]>, out: &mut Vec<u8>) {
    let length = value.map_or(-1, |value| i32::try_from(value.len()).unwrap_or(i32::MAX));
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(value.unwrap_or_default());
}

/// Builds a list, set or map value by value. `finish` or `finish_map` fills in the count. For a
/// map, push key, value, key, ...
#[derive(Clone, Debug)]
pub struct Builder {
    bytes: Vec<u8>,
    pushed: usize,
}

impl Default for Builder {
    fn default() -> Self {
        Self { bytes: vec![0; 4], pushed: 0 }
    }
}

impl Builder {
    /// Appends an element of a list or set, or a key or value of a map; `None` is null.
    pub fn push(&mut self, value: Option<&[u8]>) {
        write_value(value, &mut self.bytes);
        self.pushed += 1;
    }

    /// Returns the list or set.
    pub fn finish(self) -> Bytes {
        let pushed = self.pushed;
        self.finish_with(pushed)
    }

    /// Returns the map. It has half as many entries as values were pushed.
    pub fn finish_map(self) -> Bytes {
        let pushed = self.pushed;
        self.finish_with(pushed / 2)
    }

    fn finish_with(mut self, count: usize) -> Bytes {
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        self.bytes[..4].copy_from_slice(&count.to_be_bytes());
        self.bytes.into()
    }
}

/// Makes a frozen list, or a frozen set if the elements are sorted and unique.
pub fn list_of<V: AsRef<[u8]>>(elements: impl IntoIterator<Item = V>) -> Bytes {
    let mut builder = Builder::default();
    elements.into_iter().for_each(|element| builder.push(Some(element.as_ref())));
    builder.finish()
}

/// Makes a frozen set with sorted elements; of equal elements the first stays.
pub fn set_of<V: AsRef<[u8]>>(element: &CqlType, mut elements: Vec<V>) -> Bytes {
    elements.sort_by(|left, right| element.compare(left.as_ref(), right.as_ref()));
    elements.dedup_by(|left, right| element.compare(left.as_ref(), right.as_ref()).is_eq());
    list_of(elements)
}

/// Makes a frozen map of entries that are sorted by key.
pub fn map_of<K: AsRef<[u8]>, V: AsRef<[u8]>>(entries: impl IntoIterator<Item = (K, V)>) -> Bytes {
    let mut builder = Builder::default();
    for (key, value) in entries {
        builder.push(Some(key.as_ref()));
        builder.push(Some(value.as_ref()));
    }
    builder.finish_map()
}

/// Makes a frozen map with entries sorted by key; of equal keys the first stays, with the last
/// value.
pub fn sorted_map_of<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    key: &CqlType,
    mut entries: Vec<(K, V)>,
) -> Bytes {
    entries.sort_by(|(left, _), (right, _)| key.compare(left.as_ref(), right.as_ref()));
    entries.dedup_by(|later, earlier| {
        let is_same = key.compare(later.0.as_ref(), earlier.0.as_ref()).is_eq();
        if is_same {
            std::mem::swap(&mut later.1, &mut earlier.1);
        }
        is_same
    });
    map_of(entries)
}

/// Makes a tuple or UDT; `None` is null.
pub fn tuple_of<V: AsRef<[u8]>>(fields: impl IntoIterator<Item = Option<V>>) -> Bytes {
    let mut out = Vec::new();
    for field in fields {
        write_value(field.as_ref().map(AsRef::as_ref), &mut out);
    }
    out.into()
}

/// Makes a vector with elements of the given type.
pub fn vector_of<V: AsRef<[u8]>>(
    element: &CqlType,
    elements: impl IntoIterator<Item = V>,
) -> Bytes {
    let mut out = Vec::new();
    for value in elements {
        let value = value.as_ref();
        if element.fixed_length().is_none() {
            vint::write_unsigned(value.len() as u64, &mut out);
        }
        out.extend_from_slice(value);
    }
    out.into()
}
