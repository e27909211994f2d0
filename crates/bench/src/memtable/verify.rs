//! Checks that the returned rows are the written ones, in order.

use std::cmp::Ordering;

use espalier_mutation::Token;

use super::block::Data;
use super::keys::{number_of_value, token};
use crate::BenchError;

/// Checks rows in the order in which they are returned. It finds wrong, repeated and misplaced
/// rows. It does not find missing rows; the caller counts the rows.
pub struct RowCheck<'a> {
    data: &'a Data,
    last: Option<(Token, i64)>,
    expected: Vec<u8>,
}

impl<'a> RowCheck<'a> {
    /// Creates a check that has seen no row yet.
    pub fn new(data: &'a Data) -> Self {
        Self { data, last: None, expected: Vec::new() }
    }

    /// Checks all rows of a page; passes the numbers of their entries to `seen`. Returns the number
    /// of rows.
    pub fn page(&mut self, content: &[u8], mut seen: impl FnMut(u64)) -> Result<u64, BenchError> {
        let mut rest = content;
        let mut count = 0;
        while !rest.is_empty() {
            seen(self.row(&mut rest)?);
            count += 1;
        }
        Ok(count)
    }

    /// Reads the next row from `rest`. The row must be an entry behind the last row in the table's
    /// order.
    fn row(&mut self, rest: &mut &[u8]) -> Result<u64, BenchError> {
        let start = *rest;
        let mut columns: [&[u8]; 4] = [&[]; 4];
        let key_columns = self.data.population.key_columns().len();
        for column in &mut columns[..=key_columns] {
            *column = take_column(rest)
                .ok_or_else(|| BenchError::Wrong("a row ends in the middle".into()))?;
        }
        let row = &start[..start.len() - rest.len()];
        let number = number_of_value(columns[key_columns])
            .filter(|number| *number < self.data.count)
            .ok_or_else(|| wrong("a value that was never written", row))?;
        self.expected.clear();
        self.data.put_row(number, false, &mut self.expected, |_| {});
        if self.expected != row {
            return Err(wrong(&format!("the value of entry {number} with other columns"), row));
        }
        let token = token(&columns[..self.data.population.partition_columns()]);
        let clustering = if self.data.population.has_rows() {
            columns[key_columns - 1].first_chunk().map_or(0, |row| i64::from_be_bytes(*row))
        } else {
            0
        };
        let place = (token, clustering);
        if self.last.is_some_and(|last| last.cmp(&place) != Ordering::Less) {
            return Err(wrong("out of order", row));
        }
        self.last = Some(place);
        Ok(number)
    }
}

fn take_column<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, behind) = rest.split_first_chunk()?;
    let (column, behind) = behind.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    *rest = behind;
    Some(column)
}

fn wrong(what: &str, row: &[u8]) -> BenchError {
    BenchError::Wrong(format!("a wrong row was read: {what}: {row:02x?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memtable::keys::{KeyShape, Population};

    fn data(shape: KeyShape) -> Data {
        Data { population: Population::Shape { shape, rows: 100 }, count: 100, value_bytes: 8 }
    }

    fn rows(data: &Data, numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
        let mut content = Vec::new();
        for number in numbers {
            data.put_row(number, false, &mut content, |_| {});
        }
        content
    }

    fn verdict(data: &Data, content: &[u8]) -> Result<u64, String> {
        RowCheck::new(data).page(content, |_| {}).map_err(|error| error.to_string())
    }

    #[test]
    fn right_rows_in_order_are_right() {
        let data = data(KeyShape::Wide);
        let mut seen = Vec::new();
        let content = rows(&data, 3..50);
        assert_eq!(RowCheck::new(&data).page(&content, |number| seen.push(number)).unwrap(), 47);
        assert_eq!(seen, (3..50).collect::<Vec<u64>>());
    }

    #[test]
    fn a_single_wrong_byte_is_found() {
        for shape in [KeyShape::Wide, KeyShape::Composite, KeyShape::Prefix] {
            let data = data(shape);
            let content = rows(&data, [7]);
            assert_eq!(verdict(&data, &content), Ok(1));
            for at in 0..content.len() {
                let mut content = content.clone();
                content[at] ^= 1;
                assert!(verdict(&data, &content).is_err(), "{shape:?} {at}");
            }
            assert!(verdict(&data, &content[..content.len() - 1]).unwrap_err().contains("ends"));
        }
    }

    #[test]
    fn rows_out_of_order_or_twice_are_found() {
        let data = data(KeyShape::Wide);
        for numbers in [[1, 0], [5, 5]] {
            assert!(verdict(&data, &rows(&data, numbers)).unwrap_err().contains("out of order"));
        }
    }
}
