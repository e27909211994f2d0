//! The bytes of a simulated file.
//!
//! The zeros after the last written byte take no memory. A commit log allocates segments of 32 MiB
//! and writes a few KiB of each; a crash copies all files, and a test may crash thousands of times.

use std::ops::Range;

/// The content of a file: bytes that were written, and zeros after them.
#[derive(Clone, Default)]
pub(super) struct Content {
    /// At most `length` bytes; the rest of the file is zeros.
    written: Vec<u8>,
    length: usize,
}

impl Content {
    /// Returns the length of the file, in bytes.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Cuts the file, or extends it with zeros.
    pub(super) fn set_len(&mut self, length: usize) {
        self.written.truncate(length);
        self.length = length;
    }

    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if self.written.len() < end {
            self.written.resize(end, 0);
        }
        self.written[offset..end].copy_from_slice(bytes);
        self.length = self.length.max(end);
    }

    /// Returns a copy of the bytes of a range within the file.
    pub(super) fn read(&self, range: Range<usize>) -> Vec<u8> {
        let written = range.start.min(self.written.len())..range.end.min(self.written.len());
        let mut bytes = self.written[written].to_vec();
        bytes.resize(range.len(), 0);
        bytes
    }

    /// Flips a bit; does nothing after the end of the file.
    pub(super) fn flip_bit(&mut self, bit: usize) {
        if bit / 8 < self.length {
            let byte = self.read(bit / 8..bit / 8 + 1)[0];
            self.write(bit / 8, &[byte ^ 1 << (bit % 8)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Content;
    use crate::random::Generator;

    #[test]
    fn simulated_content_agrees_with_a_byte_vector() {
        let mut random = Generator::from_seed(7);
        let (mut content, mut model) = (Content::default(), Vec::new());
        for _ in 0..2000 {
            let offset = random.below(300) as usize;
            match random.below(4) {
                0 => {
                    content.set_len(offset);
                    model.resize(offset, 0);
                }
                1 => {
                    let bytes = vec![random.below(256) as u8; random.below(40) as usize];
                    content.write(offset, &bytes);
                    model.resize(model.len().max(offset + bytes.len()), 0);
                    model[offset..offset + bytes.len()].copy_from_slice(&bytes);
                }
                2 => {
                    content.flip_bit(offset);
                    if let Some(byte) = model.get_mut(offset / 8) {
                        *byte ^= 1 << (offset % 8);
                    }
                }
                _ => {
                    let end = offset.min(model.len());
                    let begin = random.below(end as u64 + 1) as usize;
                    assert_eq!(content.read(begin..end), model[begin..end]);
                }
            }
            assert_eq!(content.len(), model.len());
        }
        assert_eq!(content.read(0..model.len()), model);
    }
}
