//! Splits an input: choices first, then the bytes to parse. Missing bytes are zero, so that every
//! input is valid.
//!
//! In the docstrings of the targets, a word in capitals is a choice of one or more bytes, and
//! `PART: x` is a be16 length and as many bytes of x.

use espalier_sstable::versions::{VERSIONS, VersionFeatures};

/// The rest of an input.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// Takes a byte.
    pub fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    /// Takes a be16.
    pub fn short(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// Takes a be16 length and as many bytes, or fewer if the input ends.
    pub fn part(&mut self) -> &'a [u8] {
        let length = usize::from(self.short()).min(self.0.len());
        let (part, rest) = self.0.split_at(length);
        self.0 = rest;
        part
    }

    /// Takes a byte and returns the item that it chooses; `list` must not be empty.
    pub fn choose<'list, T>(&mut self, list: &'list [T]) -> &'list T {
        &list[usize::from(self.byte()) % list.len()]
    }

    /// Takes a byte and returns the version of SSTables that it chooses.
    pub fn version(&mut self) -> &'static VersionFeatures {
        self.choose(VERSIONS)
    }
}

/// Appends a part that [`Input::part`] takes, for seeds.
pub fn put_part(part: &[u8], out: &mut Vec<u8>) {
    let length = part.len().min(usize::from(u16::MAX));
    out.extend_from_slice(&(length as u16).to_be_bytes());
    out.extend_from_slice(&part[..length]);
}
