//! A chunk decoder decompresses the chunks of one file, without a dictionary or with one that
//! ScyllaDB trained and put into CompressionInfo.db. Format: docs/formats/compression.md.
//!
//! Memory: the dictionary (about 100 KiB) for each open file, and a Zstandard context for each
//! thread.

use std::{cell::RefCell, fmt, rc::Rc};

use bytes::Bytes;
use zstd::zstd_safe::{DCtx, DDict, get_error_name};

use super::{
    CompressionInfo, Compressor,
    compressor::{check_announced, check_written},
    lz4,
};
use crate::error::{FileName, Result, SSTableError};

/// A decoder of the chunks of a file. Clones share the dictionary.
#[derive(Clone)]
pub(crate) enum ChunkDecoder {
    Alone(Compressor),
    Lz4 { dictionary: Bytes },
    Zstd { dictionary: Rc<DDict<'static>> },
}

thread_local! {
    static ZSTD_CONTEXT: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

impl ChunkDecoder {
    /// Creates the decoder for a file. `file` is its CompressionInfo.db, for errors.
    pub(crate) fn new(file: &FileName, info: &CompressionInfo) -> Result<Self> {
        let dictionary = &info.dictionary;
        let missing = || SSTableError::corrupt(file, 0, "a dictionary is missing from the options");
        match info.compressor.as_str() {
            "LZ4WithDictsCompressor" if dictionary.is_empty() => Err(missing()),
            "LZ4WithDictsCompressor" => Ok(Self::Lz4 { dictionary: dictionary.clone() }),
            "ZstdWithDictsCompressor" if dictionary.is_empty() => Err(missing()),
            "ZstdWithDictsCompressor" => match DDict::try_create(dictionary) {
                Some(dictionary) => Ok(Self::Zstd { dictionary: Rc::new(dictionary) }),
                None => Err(SSTableError::corrupt(file, 0, "the dictionary is not valid")),
            },
            class => Ok(Self::Alone(Compressor::of_class(file, class)?)),
        }
    }

    /// Decompresses a chunk into `plain`, which must have the chunk's length before compression.
    pub(crate) fn decompress_into(&self, stored: &[u8], plain: &mut [u8]) -> Result<(), String> {
        let expected = plain.len();
        let written = match self {
            Self::Alone(compressor) => return compressor.decompress_into(stored, plain),
            Self::Lz4 { dictionary } => {
                let (head, block) = stored.split_first_chunk::<4>().ok_or("has no length")?;
                check_announced(u32::from_le_bytes(*head) as usize, expected)?;
                lz4::decompress_with_dictionary(block, plain, dictionary)?
            }
            Self::Zstd { dictionary } => ZSTD_CONTEXT.with_borrow_mut(|context| {
                context
                    .get_or_insert_with(DCtx::create)
                    .decompress_using_ddict(plain, stored, dictionary)
                    .map_err(|code| get_error_name(code).to_owned())
            })?,
        };
        check_written(written, expected)
    }
}

impl fmt::Debug for ChunkDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Alone(compressor) => compressor.class(),
            Self::Lz4 { .. } => "LZ4WithDictsCompressor",
            Self::Zstd { .. } => "ZstdWithDictsCompressor",
        })
    }
}
