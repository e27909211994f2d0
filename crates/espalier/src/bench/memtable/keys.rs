//! The data: entries numbered from 0, each with a primary key of the shape that is measured and a value.
//!
//! Key and value are functions of the number, and the number can be had back from the value, so that whatever is read can be
//! checked without keeping a copy. Random keys are those of the peer's SimpleQuery, so that both have the same data.

use clap::ValueEnum;
use espalier_mutation::Token;

/// What primary keys are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KeyShape {
    /// A partition key of eight bytes that look random
    Random,
    /// A partition key that counts up; its token comes first in a memtable and does not
    Sequential,
    /// A partition key of text of which all but 16 characters are common to all
    Prefix,
    /// A partition key of three columns: text, int, bigint
    Composite,
    /// Rows of a few wide partitions, written in random order
    Wide,
}

impl KeyShape {
    /// As it stands in arguments and reports.
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

/// Which keys there are and in what order they are written.
#[derive(Clone, Copy, Debug)]
pub enum Population {
    /// Each key once.
    Shape {
        /// Of all keys.
        shape: KeyShape,
        /// Of each wide partition.
        rows: u64,
    },
    /// So many percent of the writes go to different rows of one partition, the rest to as many partitions.
    Dominated {
        /// 0 to 100.
        percent: u64,
    },
}

/// Text that keys with a long prefix begin with: 64 bytes.
const PREFIX: &str = "eu-west-1/customers/acme-corporation/devices/thermometers/serial";

/// `key` of SimpleQuery: a bijection.
pub fn scatter(number: u64) -> u64 {
    let mut hash = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0xD6E8_FEB8_6659_FD93);
    hash ^ (hash >> 29)
}

/// Odd, so that it has an inverse modulo 2^64.
const VALUE_FACTOR: u64 = 0xA24B_AED4_963E_E407;

/// The inverse by Newton's iteration: each step doubles the number of right bits, of which an odd number has three.
const VALUE_INVERSE: u64 = {
    let mut inverse = VALUE_FACTOR;
    let mut step = 0;
    while step < 5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(VALUE_FACTOR.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
};

/// The value of an entry, over and over up to `length` bytes, of which there are at least eight.
pub fn put_value(number: u64, length: usize, out: &mut Vec<u8>) {
    let word = number.wrapping_mul(VALUE_FACTOR).to_be_bytes();
    out.extend(word.iter().cycle().take(length));
}

/// The number of the entry that has a value.
pub fn number_of_value(value: &[u8]) -> Option<u64> {
    let word = value.first_chunk::<8>()?;
    Some(u64::from_be_bytes(*word).wrapping_mul(VALUE_INVERSE))
}

/// A bijection on the numbers below `count`, which looks random: steps that are bijections on the bits, again until it falls
/// below.
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
    /// Whether the table has a clustering column.
    pub fn has_rows(self) -> bool {
        matches!(
            self,
            Population::Dominated { .. } | Population::Shape { shape: KeyShape::Wide, .. }
        )
    }

    /// Columns of the partition key and clustering, with their types.
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

    /// How many of them are of the partition key.
    pub fn partition_columns(self) -> usize {
        self.key_columns().len() - usize::from(self.has_rows())
    }

    /// The entry that is written as the `index`th of `count`.
    pub fn number_at(self, index: u64, count: u64) -> u64 {
        match self {
            Population::Shape { shape: KeyShape::Wide, .. } => shuffled(index, count),
            _ => index,
        }
    }

    /// The number of an entry that is not among the first `count`, for a number below that; where there are rows, between
    /// those that are.
    fn absent(self, number: u64, count: u64) -> u64 {
        number + count
    }

    /// Hands each column of the primary key to `put`, in order. `count` is how many entries there are; an entry that `is_absent`
    /// has a key that none of them has.
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
                    // Even ones are there.
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

    /// Which partition an entry of wide partitions is in; others have their own each.
    pub fn partition_of(self, number: u64) -> u64 {
        match self {
            Population::Shape { shape: KeyShape::Wide, rows } => number / rows,
            _ => number,
        }
    }

    /// The token of an entry's partition.
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

    /// How many partitions `count` entries have.
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

/// The token of a partition key's columns.
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
