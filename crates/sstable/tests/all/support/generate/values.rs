//! Generates values of every type.

use std::sync::Arc;

use espalier_mutation::counter;
use espalier_types::{CqlType, vint};

use super::Generator;

impl Generator {
    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let length = self.random.below(most + 1);
        (0..length).map(|_| self.random.below(256) as u8).collect()
    }

    fn small_integer(&mut self, length: usize) -> Vec<u8> {
        let value = match self.random.below(6) {
            0 => i64::MIN,
            1 => i64::MAX,
            // Many rows need many different values.
            _ => self.random.below(40 + self.shape.rows * 100) as i64 - 20,
        };
        value.to_be_bytes()[8 - length..].to_vec()
    }

    pub fn value(&mut self, column_type: &CqlType) -> Vec<u8> {
        let may_be_empty = !column_type.is_counter() && column_type.validate(&[]).is_ok();
        if self.shape.is_odd && self.one_in(20) && may_be_empty {
            return Vec::new();
        }
        match column_type {
            CqlType::Ascii | CqlType::Text => {
                let words = ["", "a", "ab", "abc", "b", "zz", "longer text that has some length"];
                let word = words[self.random.below(words.len())];
                match self.shape.rows {
                    0..50 => word.into(),
                    many => format!("{word}{}", self.random.below(many * 10)).into_bytes(),
                }
            }
            CqlType::Blob => self.bytes(40),
            CqlType::Boolean => vec![self.random.below(2) as u8],
            CqlType::Tinyint => self.small_integer(1),
            CqlType::Smallint => self.small_integer(2),
            CqlType::Int | CqlType::Date => self.small_integer(4),
            CqlType::Float => 1.5f32.to_be_bytes().map(|b| b ^ self.random.below(2) as u8).to_vec(),
            CqlType::Double => (self.random.below(1000) as f64 / 8.0 - 40.0).to_be_bytes().to_vec(),
            CqlType::Bigint | CqlType::Timestamp => self.small_integer(8),
            CqlType::Time => (self.random.below(1 << 40) as u64).to_be_bytes().to_vec(),
            CqlType::Uuid | CqlType::Timeuuid => {
                let mut uuid = self.bytes(16);
                uuid.resize(16, 7);
                uuid[6] =
                    uuid[6] & 0x0F | if *column_type == CqlType::Timeuuid { 0x10 } else { 0x40 };
                uuid[8] = uuid[8] & 0x3F | 0x80;
                uuid
            }
            CqlType::Varint => vec![self.random.below(256) as u8],
            CqlType::Decimal => {
                let mut decimal = (self.random.below(4) as i32).to_be_bytes().to_vec();
                decimal.push(self.random.below(256) as u8);
                decimal
            }
            CqlType::Inet => {
                let mut address = self.bytes(16);
                address.resize(if self.one_in(2) { 4 } else { 16 }, 1);
                address
            }
            CqlType::Duration => {
                let mut duration = Vec::new();
                for _ in 0..3 {
                    vint::write_signed(self.random.below(1000) as i64, &mut duration);
                }
                duration
            }
            CqlType::List { element, .. } => self.sequence(&[element], false),
            CqlType::Set { element, .. } => self.sequence(&[element], true),
            CqlType::Map { key, value, .. } => self.sequence(&[key, value], true),
            CqlType::Tuple(types) => self.fields(types.iter()),
            CqlType::UserDefined { definition, .. } => {
                let types: Vec<_> = definition.field_types().cloned().collect();
                self.fields(types.iter())
            }
            CqlType::Vector { element, dimension } => {
                (0..*dimension).flat_map(|_| self.plain_value(element)).collect()
            }
            CqlType::Counter => self.counter(),
            _ => Vec::new(),
        }
    }

    /// Generates a value as if `is_odd` were false; an int, for example, is not empty.
    pub(super) fn plain_value(&mut self, column_type: &CqlType) -> Vec<u8> {
        let is_odd = std::mem::replace(&mut self.shape.is_odd, false);
        let value = self.value(column_type);
        self.shape.is_odd = is_odd;
        value
    }

    fn sequence(&mut self, types: &[&Arc<CqlType>], is_sorted: bool) -> Vec<u8> {
        let mut entries: Vec<Vec<Vec<u8>>> = (0..self.random.below(4))
            .map(|_| types.iter().map(|t| self.plain_value(t)).collect())
            .collect();
        if is_sorted {
            entries.sort_by(|a, b| types[0].compare(&a[0], &b[0]));
            entries.dedup_by(|a, b| types[0].compare(&a[0], &b[0]).is_eq());
        }
        let mut out = (entries.len() as u32).to_be_bytes().to_vec();
        for value in entries.iter().flatten() {
            out.extend((value.len() as u32).to_be_bytes());
            out.extend(value);
        }
        out
    }

    fn fields<'t>(&mut self, types: impl Iterator<Item = &'t CqlType>) -> Vec<u8> {
        let mut out = Vec::new();
        for field in types {
            if self.one_in(4) {
                out.extend((-1i32).to_be_bytes());
            } else {
                let value = self.plain_value(field);
                out.extend((value.len() as i32).to_be_bytes());
                out.extend(value);
            }
        }
        out
    }

    fn counter(&mut self) -> Vec<u8> {
        let shards: Vec<_> = (0..1 + self.random.below(3))
            .map(|index| counter::CounterShard {
                id: [index as u8 * 60 + 5; 16],
                clock: self.random.below(1000) as i64,
                count: self.random.below(1000) as i64 - 500,
            })
            .collect();
        counter::build(&shards).to_vec()
    }
}
