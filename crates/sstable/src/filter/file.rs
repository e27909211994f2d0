//! Filter.db: be32 hash count, be32 number of 64-bit words, the words. Versions differ in the order of a word's bytes;
//! in memory they are as in the newer ones: bit i is bit i%8 of byte i/8.

use bytes::{BufMut, Bytes, BytesMut};

use super::BloomFilter;
use crate::{
    error::{FileName, Result},
    input::Input,
    versions::{FilterWords, VersionFeatures},
};

/// More hashes than any writer chooses; a count beyond it is corruption.
const MAXIMUM_HASH_COUNT: u32 = 64;

pub(super) fn write(filter: &BloomFilter, words: FilterWords) -> Bytes {
    let mut bytes = BytesMut::with_capacity(8 + filter.bits().len());
    bytes.put_u32(filter.hash_count());
    bytes.put_u32((filter.bits().len() / 8) as u32);
    match words {
        FilterWords::LittleEndian => bytes.put_slice(filter.bits()),
        FilterWords::BigEndian => {
            let start = bytes.len();
            bytes.put_slice(filter.bits());
            reverse_words(&mut bytes[start..]);
        }
    }
    bytes.freeze()
}

impl BloomFilter {
    /// The filter in the bytes of Filter.db. Its size must be the file's.
    pub fn read(file: &FileName, bytes: &[u8], features: &VersionFeatures) -> Result<Self> {
        let mut input = Input::new(file, bytes, 0);
        let hash_count = input.u32("hash count")?;
        if !(1..=MAXIMUM_HASH_COUNT).contains(&hash_count) {
            return Err(input.corrupt(format!("a filter with {hash_count} hashes")));
        }
        let words = input.u32("number of words")?;
        if words == 0 || u64::from(words) * 8 != input.remaining() as u64 {
            return Err(input
                .corrupt(format!("{words} words announced, {} bytes follow", input.remaining())));
        }
        let bits = match features.filter_words {
            FilterWords::LittleEndian => input.rest().to_vec(),
            FilterWords::BigEndian => {
                let mut bits = input.rest().to_vec();
                reverse_words(&mut bits);
                bits
            }
        };
        Ok(BloomFilter::from_parts(hash_count, bits))
    }
}

/// Turns the bytes of each word round.
fn reverse_words(bytes: &mut [u8]) {
    let (words, _) = bytes.as_chunks_mut::<8>();
    words.iter_mut().for_each(|word| word.reverse());
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{error::SSTableError, filter::FilterSize, versions::VERSIONS};

    /// Reference 23: the filter of one key 00000001.
    #[test]
    fn the_worked_example() {
        let mut filter = BloomFilter::new(FilterSize::for_keys(0, 0.01).unwrap());
        filter.add(&[0, 0, 0, 1]);
        assert_eq!(
            filter.to_bytes(FilterWords::LittleEndian),
            &[0, 0, 0, 5, 0, 0, 0, 1, 0x10, 0, 0, 0x40, 0x40, 0x20, 0x20, 0][..]
        );
    }

    #[test]
    fn round_trip_without_false_negatives() {
        let mut filter = BloomFilter::new(FilterSize::for_keys(1000, 0.01).unwrap());
        (0..1000u32).for_each(|key| filter.add(&key.to_be_bytes()));
        let file = FileName::new(Path::new("Filter.db"));
        let read =
            BloomFilter::read(&file, &filter.to_bytes(FilterWords::LittleEndian), &VERSIONS[0])
                .unwrap();
        assert_eq!(read, filter);
        assert!((0..1000u32).all(|key| read.may_contain(&key.to_be_bytes())));
        let wrong = (1000..11_000u32).filter(|key| read.may_contain(&key.to_be_bytes())).count();
        assert!(wrong < 300, "{wrong} false positives of 10000");
    }

    #[test]
    fn sizes_that_do_not_fit_the_file_are_corrupt() {
        let file = FileName::new(Path::new("Filter.db"));
        for bytes in [
            &[][..],
            &[0, 0, 0, 5],
            &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0, 0, 0, 5, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0, 0, 0, 5, 0, 0, 0, 0],
        ] {
            let result = BloomFilter::read(&file, bytes, &VERSIONS[0]);
            assert!(matches!(result, Err(SSTableError::Corrupt { .. })), "{bytes:?}");
        }
    }
}
