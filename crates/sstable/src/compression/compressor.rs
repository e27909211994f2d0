//! The algorithms. Source: reference 4.3.

use crate::error::{FileName, Result, SSTableError};

/// An algorithm that this version can read and write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compressor {
    /// le32 uncompressed length, then one raw LZ4 block.
    Lz4,
    /// A copy.
    Noop,
}

impl Compressor {
    /// The algorithm of a class; the error names it.
    pub fn of_class(file: &FileName, class: &str) -> Result<Self> {
        match class.rsplit('.').next().unwrap_or(class) {
            "LZ4Compressor" => Ok(Self::Lz4),
            "NoopCompressor" => Ok(Self::Noop),
            other => Err(SSTableError::unsupported(file, format!("compressor '{other}' is"))),
        }
    }

    /// The simple class name.
    pub fn class(self) -> &'static str {
        match self {
            Self::Lz4 => "LZ4Compressor",
            Self::Noop => "NoopCompressor",
        }
    }

    /// Compresses `plain` into `output`, whose old content is replaced.
    pub(crate) fn compress(self, plain: &[u8], output: &mut Vec<u8>) -> Result<(), String> {
        output.clear();
        match self {
            Self::Lz4 => {
                output.extend_from_slice(&(plain.len() as u32).to_le_bytes());
                let most = lz4_flex::block::get_maximum_output_size(plain.len());
                output.resize(4 + most, 0);
                let written = lz4_flex::block::compress_into(plain, &mut output[4..])
                    .map_err(|error| error.to_string())?;
                output.truncate(4 + written);
            }
            Self::Noop => output.extend_from_slice(plain),
        }
        Ok(())
    }

    /// Decompresses a chunk that is known to hold `length` bytes.
    pub(crate) fn decompress(self, stored: &[u8], length: usize) -> Result<Vec<u8>, String> {
        match self {
            Self::Lz4 => {
                let (head, block) = stored.split_at_checked(4).ok_or("no room for a length")?;
                let said = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
                if said as usize != length {
                    return Err(format!("says {said} bytes, expected {length}"));
                }
                let mut plain = vec![0; length];
                let written = lz4_flex::block::decompress_into(block, &mut plain)
                    .map_err(|error| error.to_string())?;
                match written == length {
                    true => Ok(plain),
                    false => Err(format!("holds {written} bytes, expected {length}")),
                }
            }
            Self::Noop => match stored.len() == length {
                true => Ok(stored.to_vec()),
                false => Err(format!("holds {} bytes, expected {length}", stored.len())),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn chunks_round_trip(seed in prop::collection::vec(any::<u8>(), 0..300), repeat in 1usize..40) {
            let plain = seed.repeat(repeat);
            for compressor in [Compressor::Lz4, Compressor::Noop] {
                let mut stored = Vec::new();
                compressor.compress(&plain, &mut stored).unwrap();
                prop_assert_eq!(compressor.decompress(&stored, plain.len()).unwrap(), plain.clone());
                prop_assert!(compressor.decompress(&stored, plain.len() + 1).is_err());
            }
        }

        #[test]
        fn garbage_is_an_error_or_some_bytes(stored in prop::collection::vec(any::<u8>(), 0..200), length in 0usize..5000) {
            let _ = Compressor::Lz4.decompress(&stored, length);
        }
    }
}
