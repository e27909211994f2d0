//! Entries: a key of eight bytes that look random, and columns with values that begin with eight
//! bytes of their own.
//!
//! Key and values are functions of the number, so that rows that are read can be checked without a
//! copy.

use bytes::Bytes;
use espalier_cql::Value;

use crate::memtable::scatter;

/// Number and shape of the entries.
#[derive(Clone, Copy, Debug)]
pub struct Entries {
    pub count: u64,
    pub columns: usize,
    pub value_bytes: usize,
}

/// Returns the bytes that all values have behind their first eight.
fn filler(length: usize) -> impl Iterator<Item = u8> {
    (0..length).map(|at| (at as u8).wrapping_mul(37) ^ 0x8F)
}

fn word(number: u64, column: usize) -> [u8; 8] {
    let word = number.wrapping_mul(0xA24B_AED4_963E_E407).rotate_left(column as u32);
    word.wrapping_add(column as u64).to_be_bytes()
}

/// The row that a SELECT of the columns must return. Only the bytes that differ are rewritten for
/// each entry.
pub struct ExpectedRow {
    row: Vec<u8>,
    entries: Entries,
}

impl ExpectedRow {
    /// Creates a row without the bytes that differ; [`ExpectedRow::of`] fills them in.
    pub fn new(entries: Entries) -> Self {
        let length = (entries.value_bytes as u32).to_be_bytes();
        let row = (0..entries.columns)
            .flat_map(|_| length.into_iter().chain(filler(entries.value_bytes)))
            .collect();
        Self { row, entries }
    }

    /// Returns the row of an entry.
    #[inline]
    pub fn of(&mut self, number: u64) -> &[u8] {
        let stride = 4 + self.entries.value_bytes;
        for column in 0..self.entries.columns {
            let at = column * stride + 4;
            if let Some(place) = self.row.get_mut(at..at + 8) {
                place.copy_from_slice(&word(number, column));
            }
        }
        &self.row
    }
}

impl Entries {
    /// Returns the key of an entry; the entry does not exist if the number is not below the count.
    #[inline]
    pub fn key(number: u64) -> [u8; 8] {
        scatter(number).to_be_bytes()
    }

    /// Returns key and values, for INSERT.
    pub fn values(&self, number: u64) -> Vec<Value> {
        let mut bytes = Vec::with_capacity(8 + self.columns * self.value_bytes);
        bytes.extend_from_slice(&Self::key(number));
        for column in 0..self.columns {
            let start = bytes.len();
            bytes.extend(filler(self.value_bytes));
            bytes[start..start + 8].copy_from_slice(&word(number, column));
        }
        let bytes = Bytes::from(bytes);
        let value = |column| {
            let start = 8 + column * self.value_bytes;
            Value::Bytes(bytes.slice(start..start + self.value_bytes))
        };
        std::iter::once(Value::Bytes(bytes.slice(..8)))
            .chain((0..self.columns).map(value))
            .collect()
    }
}
