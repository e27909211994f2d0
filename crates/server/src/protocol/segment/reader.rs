//! The segment reader takes segments from the front of the receive buffer. A plain payload is a
//! slice of that buffer.

use bytes::{Buf, Bytes, BytesMut};

use super::super::checksum::crc32;
use super::super::compression::decompress_lz4;
use super::super::error::DecodeError;
use super::layout::{MAX_PAYLOAD, SegmentHeader, TRAILER_LENGTH, header_length};

/// The payload of a segment, checked and expanded.
#[derive(Debug)]
pub struct Segment {
    /// The payload.
    pub payload: Bytes,
    /// True if it consists of whole envelopes.
    pub self_contained: bool,
}

/// Reads one connection's segments.
#[derive(Debug)]
pub struct SegmentReader {
    compressing: bool,
    /// The header of a segment with an incomplete payload.
    pending: Option<SegmentHeader>,
}

impl SegmentReader {
    /// Starts at the first segment of a connection.
    pub fn new(compressing: bool) -> Self {
        Self { compressing, pending: None }
    }

    /// Returns the next segment, or `None` until more bytes arrive.
    ///
    /// # Errors
    ///
    /// Fails if the header or payload does not match its checksum, or if the payload cannot be
    /// decompressed. The position in the stream is then lost.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<Segment>, DecodeError> {
        let header = match self.pending {
            Some(header) => header,
            None => match SegmentHeader::read(self.compressing, buffer)? {
                None => return Ok(None),
                Some(header) => {
                    buffer.advance(header_length(self.compressing));
                    self.pending = Some(header);
                    header
                }
            },
        };
        if buffer.len() < header.payload_length + TRAILER_LENGTH {
            return Ok(None);
        }
        self.pending = None;
        let payload = buffer.split_to(header.payload_length).freeze();
        let found = buffer.get_u32_le();
        let computed = crc32(&payload);
        if found != computed {
            return Err(DecodeError::PayloadChecksum { found, computed });
        }
        let payload = match header.plain_length {
            0 => payload,
            length => decompress_lz4(&payload, length, MAX_PAYLOAD)?,
        };
        Ok(Some(Segment { payload, self_contained: header.self_contained }))
    }

    /// Returns the number of bytes that the buffer needs before [`Self::next`] can return a
    /// segment.
    pub fn bytes_wanted(&self) -> usize {
        match self.pending {
            Some(header) => header.payload_length + TRAILER_LENGTH,
            None => header_length(self.compressing),
        }
    }
}
