//! Splits messages into frames, and joins frames to messages. The frames are the segments of the
//! native protocol's version 5: a frame carries whole messages, or a part of one large message.
//!
//! Memory: the reader holds one frame, and the part of a large message that has arrived, up to the
//! limit of its length.

use bytes::{Bytes, BytesMut};
use espalier_server::protocol::segment::{self, SegmentReader};

use crate::{
    error::{DecodeError, Result},
    message::{Header, Verb},
};

/// Default of `internode_max_message_size` in bytes: 128 MiB.
pub const DEFAULT_MAX_MESSAGE_BYTES: usize = 128 << 20;

/// Reads the messages of one connection.
#[derive(Debug)]
pub struct MessageReader {
    frames: SegmentReader,
    max_message_bytes: usize,
    /// The messages of a self-contained frame that the caller has not taken yet.
    contained: Bytes,
    /// The frames of a large message that have arrived.
    large: BytesMut,
    /// The length of the large message, from its first frame.
    large_length: usize,
}

impl MessageReader {
    /// Creates a reader of the bytes after the handshake.
    pub fn new(compressing: bool, max_message_bytes: usize) -> Self {
        let frames = SegmentReader::new(compressing);
        let (contained, large) = (Bytes::new(), BytesMut::new());
        Self { frames, max_message_bytes, contained, large, large_length: 0 }
    }

    /// Returns the next whole message with its header, or `None` until more bytes arrive. Takes
    /// frames from the front of `buffer`.
    ///
    /// # Errors
    ///
    /// Fails if a frame does not match its checksum or cannot be decompressed, if a message is
    /// longer than the limit or than its frame, if the frames of a large message exceed its length,
    /// if another message interrupts a large one, or if the first frame of a message lacks a part
    /// of the header. The position in the stream is then lost, and the caller must close the
    /// connection.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<Bytes>> {
        loop {
            if !self.contained.is_empty() {
                let length = self.length_of(&self.contained)?;
                if length > self.contained.len() {
                    return Err(DecodeError::Malformed("a message is longer than its frame"));
                }
                return Ok(Some(self.contained.split_to(length)));
            }
            let Some(frame) = self.frames.next(buffer)? else { return Ok(None) };
            if frame.self_contained {
                if !self.large.is_empty() {
                    return Err(DecodeError::Malformed("a large message is interrupted"));
                }
                self.contained = frame.payload;
                continue;
            }
            if self.large.is_empty() {
                self.large_length = self.length_of(&frame.payload)?;
            }
            self.large.extend_from_slice(&frame.payload);
            if self.large.len() > self.large_length {
                return Err(DecodeError::Malformed("frames of a large message exceed it"));
            }
            if self.large.len() == self.large_length {
                return Ok(Some(std::mem::take(&mut self.large).freeze()));
            }
        }
    }

    /// Returns the number of bytes that the buffer needs before [`Self::next`] can continue.
    pub fn bytes_wanted(&self) -> usize {
        self.frames.bytes_wanted()
    }

    /// Returns the length of a message of which only some frames have arrived.
    pub fn unfinished(&self) -> Option<usize> {
        (!self.large.is_empty()).then_some(self.large_length)
    }

    /// Returns the verb of the message of which only some frames have arrived.
    ///
    /// # Errors
    ///
    /// Fails if there is no such message, or if its verb is invalid.
    pub fn unfinished_verb(&self) -> Result<Verb> {
        Header::verb_of(&self.large)
    }

    /// Returns the length of the message at the front of `frame`, which holds its whole header.
    fn length_of(&self, frame: &[u8]) -> Result<usize> {
        let limit = self.max_message_bytes;
        let length = Header::message_length(frame)?.ok_or(DecodeError::Ended)?;
        if length > limit as u64 {
            return Err(DecodeError::Oversized { length, limit });
        }
        Ok(length as usize)
    }
}

/// Appends one message as frames. `write` appends the message.
///
/// # Errors
///
/// Returns the error of `write`; nothing is appended then.
pub fn put_message<E>(
    compressing: bool,
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let before = out.len();
    let start = segment::open(out, compressing);
    if let Err(error) = write(out) {
        out.truncate(before);
        return Err(error);
    }
    segment::seal(out, start, compressing, scratch);
    Ok(())
}
