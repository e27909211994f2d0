//! This module contains the compression algorithms. Format: docs/formats/compression.md.
//!
//! | class | stored bytes |
//! | --- | --- |
//! | LZ4Compressor | le32 uncompressed length, then one raw LZ4 block |
//! | SnappyCompressor | raw Snappy block |
//! | DeflateCompressor | zlib stream; nothing for an empty chunk |
//! | ZstdCompressor | frame with content checksum |
//! | NoopCompressor | copy |
//!
//! A chunk is decompressed into exactly the expected number of bytes. Nothing larger is allocated,
//! whatever length the chunk claims.

use std::{cell::RefCell, collections::BTreeMap};

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use zstd::zstd_safe::CParameter;

use super::lz4;
use crate::error::{FileName, Result, SSTableError};

/// An algorithm with its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compressor {
    /// LZ4.
    Lz4,
    /// Snappy.
    Snappy,
    /// zlib, at its default level.
    Deflate,
    /// Zstandard.
    Zstd {
        /// −131072 to 22.
        level: i32,
    },
    /// No compression.
    Noop,
}

const DEFAULT_ZSTD_LEVEL: i32 = 3;

/// Length in bytes of the head before an LZ4 block.
const LENGTH_BYTES: usize = 4;

thread_local! {
    // Creating a context takes longer than using it for one chunk.
    static ZSTD_DECOMPRESSOR: RefCell<Option<zstd::bulk::Decompressor<'static>>> =
        const { RefCell::new(None) };
    static ZSTD_COMPRESSOR: RefCell<Option<(i32, zstd::bulk::Compressor<'static>)>> =
        const { RefCell::new(None) };
}

impl Compressor {
    /// Returns the algorithm of a class, for reading.
    ///
    /// # Errors
    /// Returns [`SSTableError::Unsupported`] with the name of the class if it is unknown.
    pub fn of_class(file: &FileName, class: &str) -> Result<Self> {
        match class.rsplit('.').next().unwrap_or(class) {
            "LZ4Compressor" => Ok(Self::Lz4),
            "SnappyCompressor" => Ok(Self::Snappy),
            "DeflateCompressor" => Ok(Self::Deflate),
            "ZstdCompressor" => Ok(Self::Zstd { level: DEFAULT_ZSTD_LEVEL }),
            "NoopCompressor" => Ok(Self::Noop),
            other => Err(SSTableError::unsupported(file, format!("compressor '{other}' is"))),
        }
    }

    /// Returns the algorithm of a class with the options of a table, for writing.
    ///
    /// # Errors
    /// Returns [`SSTableError::Unsupported`] for an unknown class. Returns
    /// [`SSTableError::Rejected`] for an option that Cassandra's class does not have and for a
    /// compression level out of range, because Cassandra would reject the file.
    pub fn with_options(
        file: &FileName,
        class: &str,
        options: &BTreeMap<String, String>,
    ) -> Result<Self> {
        let mut compressor = Self::of_class(file, class)?;
        let class = compressor.class();
        for (name, value) in options {
            let wrong = || {
                let reason =
                    format!("compression option {name} = '{value}' is not valid for {class}");
                SSTableError::rejected(file, reason)
            };
            match (&mut compressor, name.as_str()) {
                (Self::Zstd { level }, "compression_level") => {
                    let levels = zstd::compression_level_range();
                    let parsed = value.parse().ok().filter(|level| levels.contains(level));
                    *level = parsed.ok_or_else(wrong)?;
                }
                // These options choose one of Cassandra's two LZ4 compressors and tune it. Espalier
                // has one LZ4 compressor, whose blocks both of Cassandra's can read.
                (Self::Lz4, "lz4_compressor_type" | "lz4_high_compressor_level") => {}
                _ => return Err(wrong()),
            }
        }
        Ok(compressor)
    }

    /// Returns the simple class name.
    pub fn class(self) -> &'static str {
        match self {
            Self::Lz4 => "LZ4Compressor",
            Self::Snappy => "SnappyCompressor",
            Self::Deflate => "DeflateCompressor",
            Self::Zstd { .. } => "ZstdCompressor",
            Self::Noop => "NoopCompressor",
        }
    }

    /// Returns the maximum compressed length of `plain` bytes.
    pub fn maximum_length(self, plain: usize) -> usize {
        match self {
            Self::Lz4 => lz4::maximum_length(plain).saturating_add(LENGTH_BYTES),
            Self::Snappy => snap::raw::max_compress_len(plain),
            // Incompressible bytes grow by 5 for each block of 16 KiB, and by a head and a tail.
            Self::Deflate => plain + plain / 1000 + 64,
            Self::Zstd { .. } => zstd::zstd_safe::compress_bound(plain),
            Self::Noop => plain,
        }
    }

    /// Compresses `plain` into `output`, and returns the number of bytes written. `output` must
    /// have at least [`Compressor::maximum_length`] bytes.
    ///
    /// # Errors
    /// Returns a text if the compressor fails or the output is too short.
    pub fn compress_into(self, plain: &[u8], output: &mut [u8]) -> Result<usize, String> {
        match self {
            Self::Lz4 => compress_lz4(plain, output),
            Self::Snappy => {
                snap::raw::Encoder::new().compress(plain, output).map_err(|error| error.to_string())
            }
            Self::Deflate => {
                let mut state = Compress::new(Compression::default(), true);
                let status = state
                    .compress(plain, output, FlushCompress::Finish)
                    .map_err(|error| error.to_string())?;
                match status {
                    Status::StreamEnd => Ok(state.total_out() as usize),
                    _ => Err("a compressed chunk exceeds the maximum length".into()),
                }
            }
            Self::Zstd { level } => {
                compress_zstd(level, plain, output).map_err(|error| error.to_string())
            }
            Self::Noop => match output.get_mut(..plain.len()) {
                Some(output) => {
                    output.copy_from_slice(plain);
                    Ok(plain.len())
                }
                None => Err("has no room".into()),
            },
        }
    }

    /// Decompresses a chunk without its checksum, and fills `plain`, which must have the chunk's
    /// length before compression.
    ///
    /// # Errors
    /// Returns a text that describes the difference if the chunk is malformed or has another
    /// length.
    pub fn decompress_into(self, stored: &[u8], plain: &mut [u8]) -> Result<(), String> {
        let length = plain.len();
        let written = match self {
            Self::Lz4 => {
                let (head, block) = stored.split_first_chunk().ok_or("has no length")?;
                check_announced(u32::from_le_bytes(*head) as usize, length)?;
                lz4::decompress(block, plain)?
            }
            Self::Snappy => {
                let announced = snap::raw::decompress_len(stored);
                check_announced(announced.map_err(|error| error.to_string())?, length)?;
                snap::raw::Decoder::new()
                    .decompress(stored, plain)
                    .map_err(|error| error.to_string())?
            }
            // Cassandra's class writes no stream for the empty chunk that ends a compaction's file.
            Self::Deflate if stored.is_empty() => 0,
            Self::Deflate => {
                let mut state = Decompress::new(true);
                let status = state
                    .decompress(stored, plain, FlushDecompress::Finish)
                    .map_err(|error| error.to_string())?;
                if status != Status::StreamEnd {
                    return Err(format!("does not end after {length} bytes"));
                }
                state.total_out() as usize
            }
            Self::Zstd { .. } => decompress_zstd(stored, plain)?,
            Self::Noop => {
                if stored.len() == length {
                    plain.copy_from_slice(stored);
                }
                stored.len()
            }
        };
        check_written(written, length)
    }
}

/// Checks the length before compression that a chunk announces.
pub(super) fn check_announced(announced: usize, expected: usize) -> Result<(), String> {
    if announced == expected {
        Ok(())
    } else {
        Err(format!("says that it has {announced} bytes, expected {expected}"))
    }
}

/// Checks the number of bytes to which a chunk was decompressed.
pub(super) fn check_written(written: usize, expected: usize) -> Result<(), String> {
    if written == expected {
        Ok(())
    } else {
        Err(format!("holds {written} bytes, expected {expected}"))
    }
}

fn compress_lz4(plain: &[u8], output: &mut [u8]) -> Result<usize, String> {
    let (head, block) = output.split_first_chunk_mut().ok_or("has no room")?;
    *head = (plain.len() as u32).to_le_bytes();
    let written = lz4::compress(plain, block)?;
    Ok(LENGTH_BYTES + written)
}

fn compress_zstd(level: i32, plain: &[u8], output: &mut [u8]) -> std::io::Result<usize> {
    ZSTD_COMPRESSOR.with_borrow_mut(|kept| {
        let (_, context) = match kept {
            Some(kept) if kept.0 == level => kept,
            _ => {
                let mut context = zstd::bulk::Compressor::new(level)?;
                context.set_parameter(CParameter::ChecksumFlag(true))?;
                kept.insert((level, context))
            }
        };
        context.compress_to_buffer(plain, output)
    })
}

fn decompress_zstd(stored: &[u8], plain: &mut [u8]) -> Result<usize, String> {
    ZSTD_DECOMPRESSOR.with_borrow_mut(|context| {
        let context = match context {
            Some(context) => context,
            None => {
                context.insert(zstd::bulk::Decompressor::new().map_err(|error| error.to_string())?)
            }
        };
        context.decompress_to_buffer(stored, plain).map_err(|error| error.to_string())
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    const ALL: [Compressor; 5] = [
        Compressor::Lz4,
        Compressor::Snappy,
        Compressor::Deflate,
        Compressor::Zstd { level: 3 },
        Compressor::Noop,
    ];

    fn compressed(compressor: Compressor, plain: &[u8]) -> Vec<u8> {
        let mut stored = vec![0xA5; compressor.maximum_length(plain.len())];
        let written = compressor.compress_into(plain, &mut stored).unwrap();
        stored.truncate(written);
        stored
    }

    fn decompressed(
        compressor: Compressor,
        stored: &[u8],
        length: usize,
    ) -> Result<Vec<u8>, String> {
        let mut plain = vec![0xA5; length];
        compressor.decompress_into(stored, &mut plain).map(|()| plain)
    }

    #[test]
    fn options_are_checked_and_classes_have_names() {
        let file = FileName::new(Path::new("da-1-bti-Data.db"));
        let options = |name: &str, value: &str| BTreeMap::from([(name.into(), value.into())]);
        for compressor in ALL {
            assert_eq!(Compressor::of_class(&file, compressor.class()).unwrap(), compressor);
        }
        let level = options("compression_level", "7");
        assert_eq!(
            Compressor::with_options(
                &file,
                "org.apache.cassandra.io.compress.ZstdCompressor",
                &level
            )
            .unwrap(),
            Compressor::Zstd { level: 7 }
        );
        assert!(
            Compressor::with_options(&file, "ZstdCompressor", &options("compression_level", "99"))
                .is_err()
        );
        assert!(
            Compressor::with_options(&file, "LZ4Compressor", &options("crc_check_chance", "1.0"))
                .is_err()
        );
        assert_eq!(
            Compressor::of_class(&file, "LzoCompressor").unwrap_err().to_string(),
            "da-1-bti-Data.db: compressor 'LzoCompressor' is not supported"
        );
    }

    #[test]
    fn random_bytes_fit_too() {
        let plain: Vec<u8> =
            (0..65_536u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for compressor in ALL {
            let stored = compressed(compressor, &plain);
            assert_eq!(decompressed(compressor, &stored, plain.len()).unwrap(), plain);
        }
    }

    proptest! {
        #[test]
        fn chunks_round_trip(seed in prop::collection::vec(any::<u8>(), 0..300), repeat in 1usize..40) {
            let plain = seed.repeat(repeat);
            for compressor in ALL {
                let stored = compressed(compressor, &plain);
                prop_assert_eq!(decompressed(compressor, &stored, plain.len()).unwrap(), plain.clone());
                prop_assert!(decompressed(compressor, &stored, plain.len() + 1).is_err());
                if let Some(less) = plain.len().checked_sub(1) {
                    prop_assert!(decompressed(compressor, &stored, less).is_err());
                }
            }
        }

        #[test]
        fn garbage_is_an_error_or_some_bytes(stored in prop::collection::vec(any::<u8>(), 0..200), length in 0usize..5000) {
            for compressor in ALL {
                // The call must return, whatever the bytes contain.
                let _ = decompressed(compressor, &stored, length);
            }
        }
    }
}
