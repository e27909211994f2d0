//! The connection frames a response with much content in pieces, each just before it writes the
//! piece. The send buffer neither copies the rows nor frames them in one step, which would hold the
//! core for as long as the whole answer takes.
//!
//! The bytes are the same as those of [`SendBuffer::write`](super::SendBuffer::write).
//!
//! Before version 5, a compressed body is one block, which has no pieces before the whole body is
//! compressed. The caller compresses it on a helper thread: see [`LargeResponse::compressed`].
//!
//! Memory: the rows, and one piece at a time; during the compression of a body, its compressed form
//! too.

use bytes::Bytes;

use super::compression::Compression;
use super::header::{self, Flags};
use super::segment::{self, MAX_PAYLOAD};

/// Minimum content of a [`LargeResponse`], in bytes. Arbitrary: the send buffer copies, compresses
/// and frames a smaller response in about a millisecond (estimated).
pub const LARGE_CONTENT: usize = 256 * 1024;

/// Maximum length of a piece, in bytes: a segment whose payload does not get shorter by
/// compression. One piece is the work between two yields of the connection.
pub const MAX_PIECE: usize = MAX_PAYLOAD + 12;

/// The frames of a response.
#[derive(Clone, Copy, Debug)]
pub(super) enum LargeFraming {
    /// Versions 3 and 4.
    Envelope { compression: Option<Compression> },
    /// Version 5.
    Segments { compressing: bool },
}

/// A response whose content is not yet framed.
#[derive(Debug)]
pub struct LargeResponse {
    /// The header of the envelope, and the body without the content of the rows.
    head: Vec<u8>,
    /// The content of the rows, which ends the body.
    content: Vec<u8>,
    framing: LargeFraming,
}

impl LargeResponse {
    /// Creates a response. `head` is the envelope without the content of the rows.
    pub(super) fn new(head: Vec<u8>, content: Vec<u8>, framing: LargeFraming) -> Self {
        let mut response = Self { head, content, framing };
        response.set_length();
        response
    }

    /// Returns the approximate number of bytes to send: before compression, and without the headers
    /// and checksums of segments.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.head.len() + self.content.len()
    }

    /// Returns whether the caller must call [`Self::compressed`] before [`Self::into_pieces`].
    pub fn must_be_compressed(&self) -> bool {
        matches!(self.framing, LargeFraming::Envelope { compression: Some(_) })
    }

    /// Compresses the body of an envelope in one step: work for a helper thread.
    pub fn compressed(mut self) -> Self {
        if let LargeFraming::Envelope { compression: Some(compression) } = self.framing {
            self.content.splice(..0, self.head.drain(header::HEADER_LENGTH..));
            if compression.compress_tail(&mut self.content, 0, &mut Vec::new()) {
                self.head[1] |= Flags::COMPRESSED;
                self.content.shrink_to_fit();
            }
            self.framing = LargeFraming::Envelope { compression: None };
            self.set_length();
        }
        self
    }

    /// Returns the bytes to send in pieces of at most [`MAX_PIECE`] bytes.
    pub fn into_pieces(self) -> impl Iterator<Item = Bytes> {
        let (mut head, mut content) = (Bytes::from(self.head), Bytes::from(self.content));
        std::iter::from_fn(move || {
            let mut plain = take_front(&mut head, MAX_PAYLOAD);
            if plain.is_empty() {
                plain = take_front(&mut content, MAX_PAYLOAD);
            } else if plain.len() < MAX_PAYLOAD {
                let rest = take_front(&mut content, MAX_PAYLOAD - plain.len());
                plain = [plain, rest].concat().into();
            }
            if plain.is_empty() {
                return None;
            }
            let LargeFraming::Segments { compressing } = self.framing else { return Some(plain) };
            let mut segment = Vec::with_capacity(plain.len() + MAX_PIECE - MAX_PAYLOAD);
            segment::append(&mut segment, &plain, compressing, false);
            Some(segment.into())
        })
    }

    /// Writes the length of the body into the header.
    fn set_length(&mut self) {
        let length = self.len() - header::HEADER_LENGTH;
        header::set_body_length(&mut self.head, length);
    }
}

fn take_front(bytes: &mut Bytes, limit: usize) -> Bytes {
    bytes.split_to(bytes.len().min(limit))
}
