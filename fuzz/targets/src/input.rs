//! Takes an input apart: choices first, then what is parsed. What is missing is zero, so that every input is one.

use espalier_sstable::versions::{VERSIONS, VersionFeatures};

/// What is left of an input.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// A byte.
    pub fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    /// A be16.
    pub fn short(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// Bytes behind a be16 length, or as many as there are.
    pub fn part(&mut self) -> &'a [u8] {
        let length = usize::from(self.short()).min(self.0.len());
        let (part, rest) = self.0.split_at(length);
        self.0 = rest;
        part
    }

    /// One of a list that is not empty.
    pub fn choose<'list, T>(&mut self, list: &'list [T]) -> &'list T {
        &list[usize::from(self.byte()) % list.len()]
    }

    /// A version of SSTables.
    pub fn version(&mut self) -> &'static VersionFeatures {
        self.choose(VERSIONS)
    }
}

/// An input of parts that [`Input::part`] takes apart: for seeds.
pub fn put_part(part: &[u8], out: &mut Vec<u8>) {
    let length = part.len().min(usize::from(u16::MAX));
    out.extend_from_slice(&(length as u16).to_be_bytes());
    out.extend_from_slice(&part[..length]);
}
