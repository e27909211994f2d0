//! A block of entries, prepared outside the measured time: bound values, and the rows that reads
//! must return.

use bytes::Bytes;
use espalier_cql::Value;

use super::keys::{Population, put_value};

/// Number of entries of a block. With short values, their bytes fit into the second-level cache.
pub const BLOCK: u64 = 512;

/// The entries that are written and read.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    /// The keys.
    pub population: Population,
    /// Number of entries.
    pub count: u64,
    /// Bytes of each value, at least eight.
    pub value_bytes: usize,
}

/// Some entries with their values and rows.
pub struct Block {
    values: Vec<Value>,
    rows: Bytes,
    ends: Vec<u32>,
    key_columns: usize,
}

impl Data {
    /// Prepares the entries with these numbers.
    pub fn block(&self, numbers: impl IntoIterator<Item = u64>, is_absent: bool) -> Block {
        let mut rows = Vec::new();
        let mut ends = Vec::new();
        let mut places = Vec::new();
        for number in numbers {
            self.put_row(number, is_absent, &mut rows, |place| places.push(place));
            ends.push(rows.len() as u32);
        }
        // The values are slices of the rows, as a connection's values are slices of the request.
        let rows = Bytes::from(rows);
        let values = places.into_iter().map(|place| Value::Bytes(rows.slice(place))).collect();
        Block { values, rows, ends, key_columns: self.population.key_columns().len() }
    }

    /// Appends an entry as `SELECT *` returns it: key columns, then the value, each behind its
    /// length as be32. `note` receives the place of each column.
    pub fn put_row(
        &self,
        number: u64,
        is_absent: bool,
        out: &mut Vec<u8>,
        mut note: impl FnMut(std::ops::Range<usize>),
    ) {
        self.population.key(number, self.count, is_absent, |column| {
            out.extend_from_slice(&(column.len() as u32).to_be_bytes());
            out.extend_from_slice(column);
            note(out.len() - column.len()..out.len());
        });
        out.extend_from_slice(&(self.value_bytes as u32).to_be_bytes());
        put_value(number, self.value_bytes, out);
        note(out.len() - self.value_bytes..out.len());
    }
}

impl Block {
    /// Returns the values for INSERT, entry by entry.
    pub fn writes(&self) -> impl ExactSizeIterator<Item = &[Value]> {
        self.values.chunks_exact(self.key_columns + 1)
    }

    /// Returns the values for SELECT, entry by entry, with the row of that key.
    pub fn reads(&self) -> impl Iterator<Item = (&[Value], &[u8])> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let rows =
            starts.zip(&self.ends).map(|(start, end)| &self.rows[start as usize..*end as usize]);
        self.writes().map(|values| &values[..self.key_columns]).zip(rows)
    }
}
