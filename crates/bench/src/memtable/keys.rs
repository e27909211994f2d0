//! The data: entries numbered from 0, each with a value and a primary key of the measured shape.
//!
//! Key and value are functions of the number, and the number can be computed from the value, so
//! that every row that is read can be checked without a copy. Random keys are those of
//! SimpleQuery.java, so that Cassandra is measured with the same keys.

use clap::ValueEnum;
use espalier_mutation::Token;

/// A shape of primary keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KeyShape {
    /// A partition key of eight bytes that look random
    Random,
    /// A partition key that counts up; a memtable orders it by its random token
    Sequential,
    /// A partition key of text that is the same in all keys but for 16 characters
    Prefix,
    /// A partition key of three columns: text, int, bigint
    Composite,
    /// Rows of one or more wide partitions, written in random order
    Wide,
}

impl KeyShape {
    /// Returns the name in arguments and reports.
    pub fn name(self) -> &'static str {
        match self {
            KeyShape::Random => "random",
            KeyShape::Sequential => "sequential",
            KeyShape::Prefix => "prefix",
            KeyShape::Composite => "composite",
            KeyShape::Wide => "wide",
        }
    }
}

/// The keys, and the order in which they are written.
#[derive(Clone, Copy, Debug)]
pub enum Population {
    /// Each key is written once.
    Shape {
        /// Shape of all keys.
        shape: KeyShape,
        /// Rows of each wide partition.
        rows: u64,
    },
    /// `percent` of the writes go to different rows of one partition; each other write goes to a
    /// partition of its own.
    Dominated {
        /// Percentage from 0 to 100.
        percent: u64,
    },
}

/// Common prefix of keys with a long prefix: 64 bytes.
const PREFIX: &str = "eu-west-1/customers/acme-corporation/devices/thermometers/serial";

/// Maps a number to a key as SimpleQuery's `key` does. The map is a bijection.
pub fn scatter(number: u64) -> u64 {
    let mut hash = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0xD6E8_FEB8_6659_FD93);
    hash ^ (hash >> 29)
}

/// An odd factor has an inverse modulo 2^64.
const VALUE_FACTOR: u64 = 0xA24B_AED4_963E_E407;

/// The inverse of [`VALUE_FACTOR`] by Newton's iteration. An odd number is its own inverse in the
/// lowest three bits; each step doubles the number of correct bits.
const VALUE_INVERSE: u64 = {
    let mut inverse = VALUE_FACTOR;
    let mut step = 0;
    while step < 5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(VALUE_FACTOR.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
};

/// Appends the value of an entry: eight bytes, repeated up to `length` bytes, which is at least
/// eight.
pub fn put_value(number: u64, length: usize, out: &mut Vec<u8>) {
    let word = number.wrapping_mul(VALUE_FACTOR).to_be_bytes();
    out.extend(word.iter().cycle().take(length));
}

/// Returns the number of the entry that has this value.
pub fn number_of_value(value: &[u8]) -> Option<u64> {
    let word = value.first_chunk::<8>()?;
    Some(u64::from_be_bytes(*word).wrapping_mul(VALUE_INVERSE))
}

/// Maps `number` to another number below `count`: a bijection that looks random. It permutes
/// the numbers below a power of two, and repeats this until the result is below `count`.
pub fn shuffled(number: u64, count: u64) -> u64 {
    let bits = (64 - count.saturating_sub(1).leading_zeros()).max(2);
    let mask = u64::MAX >> (64 - bits);
    let mut at = number;
    loop {
        at = at.wrapping_mul(0x9E37_79B9_7F4A_7C15) & mask;
        at ^= at >> (bits / 2);
        at = at.wrapping_mul(0xD6E8_FEB8_6659_FD93) & mask;
        at ^= at >> (bits / 2);
        at = at.wrapping_add(0x5851_F42D_4C95_7F2D) & mask;
        if at < count {
            return at;
        }
    }
}

impl Population {
    /// Returns true if the table has a clustering column.
    pub fn has_rows(self) -> bool {
        matches!(
            self,
            Population::Dominated { .. } | Population::Shape { shape: KeyShape::Wide, .. }
        )
    }

    /// Returns the columns of partition key and clustering, with their types.
    pub fn key_columns(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Population::Shape { shape, .. } => match shape {
                KeyShape::Random | KeyShape::Sequential => &[("key", "blob")],
                KeyShape::Prefix => &[("key", "text")],
                KeyShape::Composite => &[("tenant", "text"), ("day", "int"), ("id", "bigint")],
                KeyShape::Wide => &[("key", "blob"), ("row", "bigint")],
            },
            Population::Dominated { .. } => &[("key", "blob"), ("row", "bigint")],
        }
    }

    /// Returns the number of key columns that belong to the partition key.
    pub fn partition_columns(self) -> usize {
        self.key_columns().len() - usize::from(self.has_rows())
    }

    /// Returns the entry that is written at position `index` of `count`.
    pub fn number_at(self, index: u64, count: u64) -> u64 {
        match self {
            Population::Shape { shape: KeyShape::Wide, .. } => shuffled(index, count),
            _ => index,
        }
    }

    /// Returns the number of an entry that is not among the first `count`, for a number below
    /// `count`.
    fn absent(self, number: u64, count: u64) -> u64 {
        number + count
    }

    /// Passes each column of the primary key to `put`, in order. The table has `count` entries; if
    /// `is_absent`, the key is one that none of them has.
    pub fn key(self, number: u64, count: u64, is_absent: bool, mut put: impl FnMut(&[u8])) {
        let other = if is_absent { self.absent(number, count) } else { number };
        match self {
            Population::Shape { shape, rows } => match shape {
                KeyShape::Random => put(&scatter(other).to_be_bytes()),
                KeyShape::Sequential => put(&other.to_be_bytes()),
                KeyShape::Prefix => put(format!("{PREFIX}{:016x}", scatter(other)).as_bytes()),
                KeyShape::Composite => {
                    let mixed = scatter(other);
                    put(format!("tenant-{:03}", mixed % 1000).as_bytes());
                    put(&((mixed >> 32) as i32 % 365).to_be_bytes());
                    put(&other.to_be_bytes());
                }
                KeyShape::Wide => {
                    put(&scatter(number / rows).to_be_bytes());
                    // Even rows are present; absent rows lie between them.
                    put(&(number % rows * 2 + u64::from(is_absent)).to_be_bytes());
                }
            },
            Population::Dominated { percent } => {
                let is_dominating = number % 100 < percent;
                let partition = if is_dominating { 0 } else { scatter(other + 1) };
                put(&partition.to_be_bytes());
                put(&(scatter(other) as i64).to_be_bytes());
            }
        }
    }

    /// Returns the partition of an entry of wide partitions, and `number` for other shapes.
    pub fn partition_of(self, number: u64) -> u64 {
        match self {
            Population::Shape { shape: KeyShape::Wide, rows } => number / rows,
            _ => number,
        }
    }

    /// Returns the token of an entry's partition.
    pub fn token(self, number: u64, count: u64) -> Token {
        let mut columns: [Vec<u8>; 3] = Default::default();
        let mut at = 0;
        self.key(number, count, false, |column| {
            columns[at] = column.to_vec();
            at += 1;
        });
        let columns = columns.each_ref().map(Vec::as_slice);
        token(&columns[..self.partition_columns()])
    }

    /// Returns the number of partitions of `count` entries.
    pub fn partitions(self, count: u64) -> u64 {
        match self {
            Population::Shape { shape: KeyShape::Wide, rows } => count.div_ceil(rows),
            Population::Shape { .. } => count,
            Population::Dominated { percent } => {
                let dominating = count / 100 * percent + (count % 100).min(percent);
                count - dominating + u64::from(dominating > 0)
            }
        }
    }
}

/// Returns the token of a partition key's columns.
pub fn token(columns: &[&[u8]]) -> Token {
    if let [column] = columns {
        return Token::of(column);
    }
    let mut key = Vec::new();
    for column in columns {
        key.extend_from_slice(&(column.len() as u16).to_be_bytes());
        key.extend_from_slice(column);
        key.push(0);
    }
    Token::of(&key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn key(population: Population, number: u64, count: u64, is_absent: bool) -> Vec<Vec<u8>> {
        let mut columns = Vec::new();
        population.key(number, count, is_absent, |column| columns.push(column.to_vec()));
        columns
    }

    #[test]
    fn keys_differ_and_absent_ones_are_absent() {
        let shapes = KeyShape::value_variants().iter();
        let shapes = shapes.map(|&shape| Population::Shape { shape, rows: 300 });
        let dominated = [0, 10, 50].map(|percent| Population::Dominated { percent });
        for population in shapes.chain(dominated) {
            let count = 1000;
            let present: HashSet<_> =
                (0..count).map(|n| key(population, n, count, false)).collect();
            assert_eq!(present.len() as u64, count, "{population:?}");
            assert!((0..count).all(|n| !present.contains(&key(population, n, count, true))));
            let partitions: HashSet<_> =
                present.iter().map(|key| key[..population.partition_columns()].to_vec()).collect();
            assert_eq!(partitions.len() as u64, population.partitions(count), "{population:?}");
            assert!(present.iter().all(|key| key.len() == population.key_columns().len()));
        }
    }

    #[test]
    fn shuffled_numbers_are_all_there_in_another_order() {
        for count in [1, 2, 3, 1000, 4096, 4097] {
            let all: Vec<u64> = (0..count).map(|number| shuffled(number, count)).collect();
            let different: HashSet<u64> = all.iter().copied().collect();
            assert_eq!(
                (different.len() as u64, different.iter().max()),
                (count, Some(&(count - 1)))
            );
            let ascents = all.windows(2).filter(|pair| pair[0] < pair[1]).count() as u64;
            assert!(count < 1000 || (count / 3..count * 2 / 3).contains(&ascents), "{ascents}");
        }
    }

    #[test]
    fn numbers_come_back_from_values() {
        for number in [0, 1, 99, u64::MAX] {
            let mut value = Vec::new();
            put_value(number, 20, &mut value);
            assert_eq!((value.len(), number_of_value(&value)), (20, Some(number)));
            assert_eq!(value[..4], value[16..]);
        }
        assert_eq!(number_of_value(b"short"), None);
    }
}
