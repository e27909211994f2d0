//! Opens a stored chunk: compares its checksum and decompresses it.

use bytes::Bytes;
use espalier_runtime::file::{PageBuffer, PageBufferMut};

use super::file::{DataFile, Extent, Layout};
use crate::{
    compression::chunk_decoder::ChunkDecoder,
    error::{Result, SSTableError},
    page_cache::CachedPage,
};

/// A stored chunk whose checksum is right or which has none, and the length of its content.
enum Checked<'a> {
    /// The content is stored uncompressed.
    Plain(usize),
    Compressed(&'a ChunkDecoder, usize),
}

impl DataFile {
    /// Checks a stored chunk and decompresses it, for the cache.
    pub(super) fn open_chunk(
        &self,
        index: u64,
        extent: Extent,
        stored: PageBuffer,
    ) -> Result<CachedPage> {
        let memory = stored.memory_bytes();
        match self.check_chunk(index, &extent, &stored)? {
            Checked::Plain(length) => {
                Ok(CachedPage { bytes: stored.slice(..length).into_bytes(), charge: memory })
            }
            Checked::Compressed(decoder, length) => {
                let mut plain = vec![0; self.plain_length(index)];
                let opened = decoder.decompress_into(&stored[..length], &mut plain);
                opened.map_err(|reason| self.wrong_chunk(index, reason))?;
                Ok(CachedPage { charge: plain.capacity(), bytes: Bytes::from(plain) })
            }
        }
    }

    /// Checks a stored chunk and decompresses it after the bytes `first`, for a reader that does
    /// not keep the chunk. Memory of earlier chunks is reused without zeroing it again.
    pub(super) fn open_chunk_behind(
        &self,
        first: &[u8],
        index: u64,
        extent: Extent,
        stored: PageBuffer,
    ) -> Result<Bytes> {
        let checked = self.check_chunk(index, &extent, &stored)?;
        if let (Checked::Plain(length), true) = (&checked, first.is_empty()) {
            return Ok(stored.slice(..*length).into_bytes());
        }
        let mut plain = PageBufferMut::of_anything(first.len() + self.plain_length(index));
        let (before, chunk) = plain.split_at_mut(first.len());
        before.copy_from_slice(first);
        match checked {
            Checked::Plain(length) => chunk.copy_from_slice(&stored[..length]),
            Checked::Compressed(decoder, length) => {
                let opened = decoder.decompress_into(&stored[..length], chunk);
                opened.map_err(|reason| self.wrong_chunk(index, reason))?;
            }
        }
        Ok(plain.freeze().into_bytes())
    }

    fn wrong_chunk(&self, index: u64, reason: String) -> SSTableError {
        self.corrupt(index * self.chunk_length(), format!("chunk {index} {reason}"))
    }

    /// Compares a stored chunk with its checksum.
    fn check_chunk(&self, index: u64, extent: &Extent, stored: &[u8]) -> Result<Checked<'_>> {
        let plain_length = self.plain_length(index);
        let wrong = |reason: String| self.wrong_chunk(index, reason);
        let check = |body: &[u8], expected: u32| match crc32fast::hash(body) {
            actual if actual == expected => Ok(()),
            actual => Err(wrong(format!(
                "at {} has the checksum {actual:08x}, expected {expected:08x}{}",
                extent.offset,
                self.end_if_last(extent)
            ))),
        };
        let (info, decoder) = match &self.layout {
            Layout::Unchecked => return Ok(Checked::Plain(stored.len())),
            Layout::Plain { .. } => {
                check(stored, extent.checksum.unwrap_or_default())?;
                return Ok(Checked::Plain(stored.len()));
            }
            Layout::Compressed { info, decoder, .. } => (info, decoder),
        };
        let (body, checksum) =
            stored.split_last_chunk::<4>().ok_or_else(|| wrong("has no checksum".into()))?;
        check(body, u32::from_be_bytes(*checksum))?;
        if (body.len() as u64) < u64::from(info.max_compressed_length) {
            return Ok(Checked::Compressed(decoder, body.len()));
        }
        // The chunk is stored raw; a short last chunk is padded up to the limit.
        if body.len() < plain_length {
            Err(wrong(format!("holds {} bytes, expected {plain_length}", body.len())))
        } else {
            Ok(Checked::Plain(plain_length))
        }
    }

    /// Returns a remark if the chunk is the last one. No component stores the length of the last
    /// chunk, so a file without its last bytes looks like a file with wrong bytes.
    fn end_if_last(&self, extent: &Extent) -> String {
        let length = self.file.length();
        if extent.offset.saturating_add(extent.length as u64) >= length {
            format!(
                "; it is the last one: the file may have lost its end, and now has {length} bytes"
            )
        } else {
            String::new()
        }
    }
}
