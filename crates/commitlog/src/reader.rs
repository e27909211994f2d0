//! This module reads one segment of the commit log, record by record.
//!
//! Memory: a window of [`WINDOW_BYTES`], or one record if that is larger.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use espalier_mutation::LogPosition;
use espalier_runtime::file::{File, FileError, FileSystem};

use super::layout::{
    HEADER_BYTES, HeaderError, MARKER_BODY_BYTES, MARKER_BYTES, MARKER_MAGIC, RECORD_OVERHEAD,
    SegmentHeader, checksum_seed, decode_marker, record_checksum,
};

const WINDOW_BYTES: usize = 256 << 10;

const ZEROS: [u8; 4096] = [0; 4096];

/// Reads the records of a segment in order.
pub(crate) struct SegmentReader {
    file: File,
    path: PathBuf,
    id: u64,
    seed: u32,
    length: u64,
    /// Offset of the next record.
    offset: u64,
    window: Bytes,
    window_start: u64,
}

/// The result of reading at one offset of a segment.
pub(crate) enum Read {
    /// A record with a correct checksum.
    Record {
        /// Offset in bytes of the record.
        offset: u64,
        /// Its body.
        body: Bytes,
    },
    /// There is no record: the segment ends here, or it is damaged.
    Nothing {
        /// Offset in bytes where a record would begin.
        offset: u64,
        /// Describes the bytes at the offset.
        reason: &'static str,
    },
}

/// The result of opening a segment.
pub(crate) enum Opened {
    Segment(SegmentHeader, SegmentReader),
    /// The file has no needed records: it was being created or recycled when the node stopped.
    Unused,
    /// The header is damaged, but the file has records of this segment.
    Damaged,
    /// Another version of the format wrote the segment.
    Version(u32),
}

impl SegmentReader {
    /// Opens a segment file with the id `id` in its name.
    pub(crate) async fn open(
        file_system: &FileSystem,
        path: &Path,
        id: u64,
    ) -> Result<Opened, FileError> {
        let file = file_system.open_read(path).await?;
        let length = file.length().await?;
        let head = file.read_at(0, HEADER_BYTES).await?;
        let header = match SegmentHeader::decode(&head) {
            Ok(header) => header,
            Err(HeaderError::Version(version)) => return Ok(Opened::Version(version)),
            Err(HeaderError::Damaged) => {
                let mut reader = Self::new(file, path, id, length);
                return Ok(if reader.has_records().await? {
                    Opened::Damaged
                } else {
                    Opened::Unused
                });
            }
        };
        if header.id != id {
            return Ok(Opened::Unused);
        }
        Ok(Opened::Segment(header, Self::new(file, path, id, length)))
    }

    fn new(file: File, path: &Path, id: u64, length: u64) -> Self {
        SegmentReader {
            file,
            path: path.to_owned(),
            id,
            seed: checksum_seed(id),
            length,
            offset: HEADER_BYTES as u64,
            window: Bytes::new(),
            window_start: 0,
        }
    }

    /// Returns whether a segment with an unreadable header has records.
    ///
    /// Records fill a segment from its start. So a segment whose first [`WINDOW_BYTES`] are zeros
    /// waits for its first use, and this does not search the rest. In any other segment, the damage
    /// may cover the whole first sector, with the header and the first marker. Later markers then
    /// show that there are records.
    async fn has_records(&mut self) -> Result<bool, FileError> {
        if self.first_marker().await?.is_some() {
            return Ok(true);
        }
        let window = self.bytes_at(0, WINDOW_BYTES.min(self.length as usize)).await?;
        let is_blank = window.chunks(ZEROS.len()).all(|chunk| *chunk == ZEROS[..chunk.len()]);
        Ok(!is_blank && self.durable_offset_behind(HEADER_BYTES as u64).await? > 0)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the offset of the next record, in bytes.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Moves to the record at `offset`.
    pub(crate) fn skip_to(&mut self, offset: u64) {
        self.offset = offset;
    }

    /// Returns `count` bytes at `offset`, which must lie before the end of the file. Returns fewer
    /// bytes only if the file ends before.
    async fn bytes_at(&mut self, offset: u64, count: usize) -> Result<Bytes, FileError> {
        let window_end = self.window_start + self.window.len() as u64;
        if offset < self.window_start || offset + count as u64 > window_end {
            self.window = self.file.read_at(offset, count.max(WINDOW_BYTES)).await?.into_bytes();
            self.window_start = offset;
        }
        let from = (offset - self.window_start) as usize;
        let to = (from + count).min(self.window.len());
        Ok(self.window.slice(from.min(to)..to))
    }

    /// Reads the next record and moves behind it.
    pub(crate) async fn next(&mut self) -> Result<Read, FileError> {
        let offset = self.offset;
        let nothing = |reason| Ok(Read::Nothing { offset, reason });
        let left = self.length.saturating_sub(offset);
        if left < RECORD_OVERHEAD as u64 {
            return nothing("the end of the file");
        }
        let head = self.bytes_at(offset, RECORD_OVERHEAD).await?;
        let Some(&[a, b, c, d, e, f, g, h]) = head.first_chunk::<RECORD_OVERHEAD>() else {
            return nothing("the end of the file");
        };
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let crc = u32::from_le_bytes([e, f, g, h]);
        if length == 0 {
            return nothing("an empty record");
        }
        if (length + RECORD_OVERHEAD) as u64 > left {
            return nothing("a record that is longer than the rest of the segment");
        }
        let body = self.bytes_at(offset + RECORD_OVERHEAD as u64, length).await?;
        if body.len() != length || record_checksum(self.seed, &body) != crc {
            return nothing("a record with a wrong checksum");
        }
        self.offset += (RECORD_OVERHEAD + length) as u64;
        Ok(Read::Record { offset, body })
    }

    /// Returns the durable position in the segment's first marker, which is the end of the last
    /// segment with records before it.
    pub(crate) async fn first_marker(&mut self) -> Result<Option<LogPosition>, FileError> {
        let first = self.next().await?;
        self.offset = HEADER_BYTES as u64;
        Ok(match first {
            Read::Record { body, .. } => decode_marker(&body),
            Read::Nothing { .. } => None,
        })
    }

    /// Returns the greatest offset of this segment that a marker behind `from` reports as durable.
    /// Returns 0 if there is no such marker.
    pub(crate) async fn durable_offset_behind(&mut self, from: u64) -> Result<u32, FileError> {
        let mut durable = 0;
        let mut at = from;
        while at + (MARKER_BYTES as u64) <= self.length {
            let window = self.bytes_at(at, WINDOW_BYTES.min((self.length - at) as usize)).await?;
            for found in memchr::memmem::find_iter(&window, &MARKER_MAGIC) {
                // The magic follows the record's length and checksum and the body's kind.
                let Some(start) = found.checked_sub(RECORD_OVERHEAD + 1) else { continue };
                let Some(record) = window.get(start..start + MARKER_BYTES) else { continue };
                let (head, body) = record.split_at(RECORD_OVERHEAD);
                let crc = record_checksum(self.seed, body).to_le_bytes();
                if head[..4] != (MARKER_BODY_BYTES as u32).to_le_bytes() || head[4..] != crc {
                    continue;
                }
                if let Some(position) = decode_marker(body)
                    && position.segment == self.id
                {
                    durable = durable.max(position.offset);
                }
            }
            espalier_runtime::maybe_yield().await;
            if window.len() < MARKER_BYTES {
                break;
            }
            at += (window.len() - MARKER_BYTES + 1) as u64;
        }
        Ok(durable)
    }
}
