//! How the chunks of one file are decompressed: by an algorithm alone, or with a dictionary that ScyllaDB trained and put into
//! CompressionInfo.db. Source: reference 4.3.
//!
//! Memory: the dictionary (some 100 KiB) for each open file, and a context of Zstandard for each thread.

use std::{cell::RefCell, fmt, rc::Rc};

use bytes::Bytes;
use zstd::zstd_safe::{DCtx, DDict, get_error_name};

use super::{CompressionInfo, Compressor};
use crate::error::{FileName, Result, SSTableError};

/// Decompresses chunks of a file. Clones share the dictionary.
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
    /// For the file whose CompressionInfo.db is `file`.
    pub(crate) fn new(file: &FileName, info: &CompressionInfo) -> Result<Self> {
        let dictionary = &info.dictionary;
        let missing = || SSTableError::corrupt(file, 0, "a dictionary is missing from the options");
        match info.compressor.as_str() {
            "LZ4WithDictsCompressor" if dictionary.is_empty() => Err(missing()),
            "LZ4WithDictsCompressor" => Ok(Self::Lz4 { dictionary: dictionary.clone() }),
            "ZstdWithDictsCompressor" if dictionary.is_empty() => Err(missing()),
            "ZstdWithDictsCompressor" => match DDict::try_create(dictionary) {
                Some(dictionary) => Ok(Self::Zstd { dictionary: Rc::new(dictionary) }),
                None => Err(SSTableError::corrupt(file, 0, "a dictionary that is none")),
            },
            class => Ok(Self::Alone(Compressor::of_class(file, class)?)),
        }
    }

    /// Decompresses a chunk that is known to hold `length` bytes.
    pub(crate) fn decompress(&self, stored: &[u8], length: usize) -> Result<Vec<u8>, String> {
        let (plain, written) = match self {
            Self::Alone(compressor) => return compressor.decompress(stored, length),
            Self::Lz4 { dictionary } => {
                let (head, block) = stored.split_first_chunk::<4>().ok_or("has no length")?;
                let said = u32::from_le_bytes(*head) as usize;
                if said != length {
                    return Err(format!("says that it has {said} bytes, expected {length}"));
                }
                let mut plain = vec![0; length];
                let written =
                    lz4_flex::block::decompress_into_with_dict(block, &mut plain, dictionary)
                        .map_err(|error| error.to_string())?;
                (plain, written)
            }
            Self::Zstd { dictionary } => {
                let mut plain = vec![0; length];
                let written = ZSTD_CONTEXT.with_borrow_mut(|context| {
                    context
                        .get_or_insert_with(DCtx::create)
                        .decompress_using_ddict(&mut plain[..], stored, dictionary)
                        .map_err(|code| get_error_name(code).to_owned())
                })?;
                (plain, written)
            }
        };
        match written == length {
            true => Ok(plain),
            false => Err(format!("holds {written} bytes, expected {length}")),
        }
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
