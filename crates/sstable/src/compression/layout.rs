//! CompressionInfo.db contains a head, then the be64 offset in Data.db of each chunk.
//!
//! Only the head is held in memory: a class name, a few options, and the dictionary if the file is
//! one of ScyllaDB's with a dictionary. The offsets stay in the file and are read through the page
//! cache when a chunk is needed. Held in memory, 8 bytes for each 16 KiB of data would be half a
//! gigabyte for each terabyte.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};

use crate::{
    error::{FileName, Result},
    input::Input,
    versions::VersionFeatures,
};

/// Maximum chunk length in bytes. The format allows more, but no writer uses it. A chunk is held
/// whole in memory, and a few bytes of Zstandard can expand to the length of a chunk.
pub(crate) const MAX_CHUNK_LENGTH: u32 = 16 * 1024 * 1024;
/// Maximum length in bytes of a head without a dictionary.
pub(crate) const SHORT_HEAD_LENGTH: usize = 64 * 1024;
/// Maximum length in bytes of a head with a dictionary. Dictionaries have about 100 KiB.
pub(crate) const MAX_HEAD_LENGTH: usize = 4 * 1024 * 1024;
/// Prefix of the options that contain pieces of the dictionary. A number of eight digits follows
/// it. Format: docs/formats/compression.md.
const DICTIONARY_OPTION: &str = ".dictionary.";
/// Maximum length of a piece in bytes.
const DICTIONARY_PIECE_LENGTH: usize = u16::MAX as usize - 1;

/// The head of CompressionInfo.db.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressionInfo {
    /// Simple class name: `LZ4Compressor`, ...
    pub compressor: String,
    /// Options of the compressor.
    pub options: BTreeMap<String, String>,
    /// The dictionary of ScyllaDB's compressors with dictionaries; empty if there is none.
    pub dictionary: Bytes,
    /// Length of a chunk before compression in bytes, a power of two.
    pub chunk_length: u32,
    /// Length in bytes from which on a compressed chunk is stored uncompressed instead.
    pub max_compressed_length: u32,
    /// Length of Data.db before compression in bytes.
    pub data_length: u64,
    /// Number of chunks.
    pub chunk_count: u32,
}

impl CompressionInfo {
    /// Reads the head from the first bytes of the file. Returns it and the position of the offsets.
    ///
    /// # Errors
    /// Returns [`SSTableError::Corrupt`](crate::error::SSTableError::Corrupt) if the head is
    /// malformed, or if its numbers contradict each other.
    pub fn read(
        file: &FileName,
        bytes: &[u8],
        features: &VersionFeatures,
    ) -> Result<(CompressionInfo, u64)> {
        let mut input = Input::new(file, bytes, 0);
        let class = input.short_text("compressor class")?;
        let compressor = class.rsplit('.').next().unwrap_or(class).to_string();
        let count = input.u32("option count")?;
        let count = input.checked_count(u64::from(count), 4, "options")?;
        let (mut options, mut pieces) = (BTreeMap::new(), BTreeMap::new());
        for _ in 0..count {
            let name = input.short_text("option name")?;
            match name.strip_prefix(DICTIONARY_OPTION) {
                Some(number) => {
                    let number: usize = number
                        .parse()
                        .map_err(|_| input.corrupt(format!("option '{name}' has no number")))?;
                    pieces.insert(number, input.short_bytes("piece of a dictionary")?);
                }
                None => {
                    let value = input.short_text("option value")?.to_string();
                    options.insert(name.to_string(), value);
                }
            }
        }
        if let Some((missing, _)) = (0..).zip(pieces.keys()).find(|(index, found)| index != *found)
        {
            return Err(input.corrupt(format!("piece {missing} of the dictionary is missing")));
        }
        let dictionary = pieces.into_values().collect::<Vec<_>>().concat().into();
        let chunk_length = input.u32("chunk length")?;
        if !chunk_length.is_power_of_two() || chunk_length > MAX_CHUNK_LENGTH {
            return Err(input.corrupt(format!(
                "chunk length {chunk_length} is too large, or not a power of two"
            )));
        }
        let max_compressed_length = if features.raw_chunks {
            input.u32("maximum compressed length")?
        } else {
            i32::MAX as u32
        };
        let data_length = input.u64("data length")?;
        let chunk_count = input.u32("chunk count")?;
        let needed = data_length.div_ceil(u64::from(chunk_length));
        // Compactions of Cassandra add an empty chunk at the end (docs/formats/compression.md).
        let surplus = u64::from(chunk_count).checked_sub(needed);
        if surplus.is_none_or(|surplus| surplus > 1) {
            return Err(input.corrupt(format!(
                "{chunk_count} chunks of {chunk_length} bytes for {data_length} bytes of data"
            )));
        }
        let info = CompressionInfo {
            compressor,
            options,
            dictionary,
            chunk_length,
            max_compressed_length,
            data_length,
            chunk_count,
        };
        Ok((info, input.position()))
    }

    /// Appends the head. The caller appends the offsets.
    pub fn write(&self, features: &VersionFeatures, bytes: &mut BytesMut) {
        put_short_text(&self.compressor, bytes);
        let pieces = self.dictionary.chunks(DICTIONARY_PIECE_LENGTH);
        bytes.put_u32((self.options.len() + pieces.len()) as u32);
        for (number, piece) in pieces.enumerate() {
            put_short_text(&format!("{DICTIONARY_OPTION}{number:08}"), bytes);
            bytes.put_u16(piece.len() as u16);
            bytes.put_slice(piece);
        }
        for (name, value) in &self.options {
            put_short_text(name, bytes);
            put_short_text(value, bytes);
        }
        bytes.put_u32(self.chunk_length);
        if features.raw_chunks {
            bytes.put_u32(self.max_compressed_length);
        }
        bytes.put_u64(self.data_length);
        bytes.put_u32(self.chunk_count);
    }

    /// Returns the compressed length in bytes from which on chunks are stored raw, for a minimum
    /// compression ratio. A ratio of 0 means no limit.
    pub fn max_compressed_length_for(chunk_length: u32, min_compress_ratio: f64) -> u32 {
        if min_compress_ratio <= 0.0 {
            return i32::MAX as u32;
        }
        (f64::from(chunk_length) / min_compress_ratio).ceil().min(f64::from(i32::MAX)) as u32
    }
}

fn put_short_text(text: &str, bytes: &mut BytesMut) {
    let text = text.as_bytes();
    let length = text.len().min(usize::from(u16::MAX));
    bytes.put_u16(length as u16);
    bytes.put_slice(&text[..length]);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{error::SSTableError, versions::VERSIONS};

    fn info() -> CompressionInfo {
        CompressionInfo {
            compressor: "LZ4Compressor".into(),
            options: BTreeMap::from([("lz4_compressor_type".into(), "fast".into())]),
            dictionary: Bytes::new(),
            chunk_length: 4096,
            max_compressed_length: 3724,
            data_length: 10_000,
            chunk_count: 3,
        }
    }

    #[test]
    fn heads_round_trip() {
        let mut bytes = BytesMut::new();
        info().write(&VERSIONS[0], &mut bytes);
        let file = FileName::new(Path::new("CompressionInfo.db"));
        let (read, end) = CompressionInfo::read(&file, &bytes, &VERSIONS[0]).unwrap();
        assert_eq!((read, end), (info(), bytes.len() as u64));
    }

    #[test]
    fn dictionaries_are_put_together_from_their_pieces() {
        let file = FileName::new(Path::new("CompressionInfo.db"));
        let dictionary: Vec<u8> = (0..150_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
        let info = CompressionInfo { dictionary: dictionary.into(), ..info() };
        let mut bytes = BytesMut::new();
        info.write(&VERSIONS[0], &mut bytes);
        assert_eq!(CompressionInfo::read(&file, &bytes, &VERSIONS[0]).unwrap().0, info);
        let second = bytes.windows(20).position(|name| name == b".dictionary.00000001").unwrap();
        bytes[second + 19] = b'2';
        let error = CompressionInfo::read(&file, &bytes, &VERSIONS[0]).unwrap_err().to_string();
        assert!(error.ends_with("piece 1 of the dictionary is missing"), "{error}");
    }

    #[test]
    fn the_raw_limit_is_that_of_cassandra() {
        assert_eq!(CompressionInfo::max_compressed_length_for(4096, 1.1), 0x0E8C);
        assert_eq!(CompressionInfo::max_compressed_length_for(4096, 0.0), i32::MAX as u32);
    }

    #[test]
    fn every_cut_and_wrong_counts_are_corrupt() {
        let file = FileName::new(Path::new("CompressionInfo.db"));
        let mut bytes = BytesMut::new();
        info().write(&VERSIONS[0], &mut bytes);
        for length in 0..bytes.len() {
            assert!(CompressionInfo::read(&file, &bytes[..length], &VERSIONS[0]).is_err());
        }
        for wrong in [
            CompressionInfo { chunk_count: 2, ..info() },
            CompressionInfo { chunk_count: 5, ..info() },
            CompressionInfo { chunk_length: 4095, ..info() },
            CompressionInfo { chunk_length: 0, ..info() },
            CompressionInfo { data_length: u64::MAX, ..info() },
            CompressionInfo { data_length: u64::MAX, chunk_length: 1, chunk_count: 0, ..info() },
        ] {
            let mut bytes = BytesMut::new();
            wrong.write(&VERSIONS[0], &mut bytes);
            let result = CompressionInfo::read(&file, &bytes, &VERSIONS[0]);
            assert!(matches!(result, Err(SSTableError::Corrupt { .. })), "{wrong:?}");
        }
    }
}
