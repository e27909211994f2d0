//! Filter.db contains the be32 hash count, the be32 number of 64-bit words, and the words. Versions
//! differ in the byte order of a word. In memory, words have the order of Cassandra's newer
//! versions: bit i is bit i%8 of byte i/8.
//!
//! A filter of a hundred million keys takes 120 MB. So the writer and the reader handle a filter in
//! parts, and yield after each part.

use bytes::{BufMut, Bytes, BytesMut};
use espalier_runtime::{
    file::{FileSystem, PAGE_BYTES},
    maybe_yield,
};
use espalier_trie::page::Sink;

use super::BloomFilter;
use crate::{
    append_file::AppendFile,
    checksums::FileChecksums,
    components::{Component, Descriptor},
    error::{FileName, Result, SSTableError},
    input::Input,
    versions::{FilterWords, VersionFeatures},
};

/// Maximum hash count. No writer chooses more, so a greater count is corruption.
const MAX_HASH_COUNT: u32 = 64;

/// Bytes of a part. A copy of a part takes tens of microseconds, or milliseconds if the kernel must
/// first provide the memory. The number is a multiple of the page and of the word.
const PART_BYTES: usize = 256 << 10;

/// Maximum length of the file in bytes. The format holds at most 2^31 - 1 words.
const MAX_FILE_BYTES: u64 = 8 * (i32::MAX as u64) + 8;

/// Writes the content of Filter.db. The caller finishes the file.
pub(crate) async fn write_parts(
    filter: &BloomFilter,
    words: FilterWords,
    file: &mut AppendFile,
) -> Result<()> {
    file.append(&filter.hash_count().to_be_bytes());
    file.append(&((filter.bits().len() / 8) as u32).to_be_bytes());
    for part in filter.bits().chunks(PART_BYTES) {
        match words {
            FilterWords::LittleEndian => file.append(part),
            FilterWords::BigEndian => {
                let mut part = part.to_vec();
                reverse_words(&mut part);
                file.append(&part);
            }
        }
        file.flush_if_large().await?;
        maybe_yield().await;
    }
    Ok(())
}

/// Reads the Filter.db of an SSTable, and compares it with `checksums`, if there are any.
pub(crate) async fn read_parts(
    file_system: &FileSystem,
    descriptor: &Descriptor,
    features: &VersionFeatures,
    checksums: Option<&FileChecksums>,
) -> Result<BloomFilter> {
    let name = descriptor.name_in_errors(&Component::Filter);
    let file = file_system.open_read(descriptor.path(&Component::Filter)).await?;
    let length = file.length().await?;
    if length > MAX_FILE_BYTES {
        let reason = format!("{length} bytes exceed the maximum of {MAX_FILE_BYTES}");
        return Err(SSTableError::corrupt(&name, MAX_FILE_BYTES, reason));
    }
    if let Some(checksums) = checksums {
        checksums.check_length(&name, length)?;
    }
    let (mut head, mut bits) = (None, Vec::new());
    let mut at = 0;
    while at < length {
        let part = file.read_exact_at(at, (length - at).min(PART_BYTES as u64) as usize).await?;
        if let Some(checksums) = checksums {
            checksums.check_pages(&name, at / PAGE_BYTES as u64, &part)?;
        }
        at += part.len() as u64;
        let rest = match head {
            Some(_) => &part[..],
            None => {
                let mut input = Input::new(&name, &part, 0);
                head = Some(read_head(&mut input, length)?);
                // `read_head` has compared the number of words with this length. The kernel
                // provides the memory as the reader fills it.
                bits.reserve_exact((length - HEAD_BYTES) as usize);
                input.rest()
            }
        };
        bits.extend_from_slice(rest);
        maybe_yield().await;
    }
    let Some(hash_count) = head else { return BloomFilter::read(&name, &[], features) };
    if features.filter_words == FilterWords::BigEndian {
        for part in bits.chunks_mut(PART_BYTES) {
            reverse_words(part);
            maybe_yield().await;
        }
    }
    Ok(BloomFilter::from_parts(hash_count, bits))
}

/// Length of the head in bytes: hash count and number of words.
const HEAD_BYTES: u64 = 8;

/// Reads and checks the head of a file of `length` bytes, and returns the hash count.
fn read_head(input: &mut Input<'_>, length: u64) -> Result<u32> {
    let hash_count = input.u32("hash count")?;
    if !(1..=MAX_HASH_COUNT).contains(&hash_count) {
        return Err(input.corrupt(format!("a filter with {hash_count} hashes")));
    }
    let words = input.u32("number of words")?;
    let follow = length.saturating_sub(HEAD_BYTES);
    if words == 0 || u64::from(words) * 8 != follow {
        return Err(input.corrupt(format!("{words} words announced, {follow} bytes follow")));
    }
    Ok(hash_count)
}

impl BloomFilter {
    /// Returns the filter as the bytes of Filter.db.
    pub fn to_bytes(&self, words: FilterWords) -> Bytes {
        let mut bytes = BytesMut::with_capacity(HEAD_BYTES as usize + self.bits().len());
        bytes.put_u32(self.hash_count());
        bytes.put_u32((self.bits().len() / 8) as u32);
        bytes.put_slice(self.bits());
        if words == FilterWords::BigEndian {
            reverse_words(&mut bytes[HEAD_BYTES as usize..]);
        }
        bytes.freeze()
    }

    /// Reads the filter from the bytes of Filter.db.
    ///
    /// # Errors
    /// Returns [`SSTableError::Corrupt`] if the hash count is out of range, or if the number of
    /// words does not match the length.
    pub fn read(file: &FileName, bytes: &[u8], features: &VersionFeatures) -> Result<Self> {
        let mut input = Input::new(file, bytes, 0);
        let hash_count = read_head(&mut input, bytes.len() as u64)?;
        let mut bits = input.rest().to_vec();
        if features.filter_words == FilterWords::BigEndian {
            reverse_words(&mut bits);
        }
        Ok(BloomFilter::from_parts(hash_count, bits))
    }
}

/// Reverses the bytes of each word.
fn reverse_words(bytes: &mut [u8]) {
    let (words, _) = bytes.as_chunks_mut::<8>();
    words.iter_mut().for_each(|word| word.reverse());
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{error::SSTableError, filter::FilterSize, versions::VERSIONS};

    /// The filter of one key 00000001 (docs/formats/filter.md).
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
