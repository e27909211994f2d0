//! The decoder takes envelopes from the receive buffer, incrementally: the caller appends the bytes
//! that have arrived and takes the whole envelopes.
//!
//! Until STARTUP is answered a connection carries bare envelopes. Then version 5 switches to
//! segments ([`Decoder::start`]).
//!
//! Invariants: an uncompressed body that arrived in one piece is a slice of the receive buffer.
//! After a failure that is not fatal the next call continues with the next envelope; after a fatal
//! one the decoder decodes nothing any more.
//!
//! Memory: the decoder gathers at most one envelope of `max_frame_size` bytes (a version 5 envelope
//! that is spread over segments). If an envelope claims more, the decoder skips its bytes. It
//! refuses the envelope once the last byte has arrived: a driver that is still sending when the
//! answer comes considers the connection busy.

use bytes::{Buf, Bytes, BytesMut};

use super::compression::Compression;
use super::error::{DecodeError, DecodeFailure};
use super::header::{Flags, HEADER_LENGTH, Header, RawHeader};
use super::opcode::Opcode;
use super::segment::SegmentReader;
use super::version::ProtocolVersion;

/// Length of the header of versions 1 and 2, the shortest header. To answer a request of any
/// version the decoder needs no more bytes.
const OLDEST_HEADER_LENGTH: usize = 8;

/// Largest body before STARTUP is answered, in bytes. Arbitrary: STARTUP and OPTIONS need less than
/// 1 KiB.
const MAX_BODY_BEFORE_STARTUP: usize = 64 * 1024;

/// Growth of an envelope that is spread over segments, in bytes, after which [`Decoder::next`]
/// pauses, so that the caller can count the bytes. Arbitrary: one segment has up to 128 KiB.
const GROWTH_BEFORE_PAUSE: usize = 64 * 1024;

/// A request as it arrived, with its body decompressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The header.
    pub header: Header,
    /// The body. It begins with the custom payload if the header has that flag.
    pub body: Bytes,
}

#[derive(Debug)]
enum Framing {
    Envelopes {
        compression: Option<Compression>,
    },
    Segments {
        reader: SegmentReader,
        /// Envelopes of a self-contained segment that have not been taken yet.
        payload: Bytes,
        /// The part that has arrived of an envelope that is spread over several segments.
        partial: BytesMut,
    },
}

/// Decodes the bytes that one connection receives.
#[derive(Debug)]
pub struct Decoder {
    max_frame_size: usize,
    /// The version that STARTUP settled.
    version: Option<ProtocolVersion>,
    framing: Framing,
    /// Bytes of a refused envelope that have not arrived yet.
    skip: usize,
    /// The reason for the refusal, which is returned once these bytes have arrived.
    refused: Option<DecodeFailure>,
    /// True if the last [`Self::next`] returned `None` for a pause.
    paused: bool,
    broken: bool,
}

impl Decoder {
    /// Creates a decoder for a new connection that accepts bodies of up to `max_frame_size` bytes.
    pub fn new(max_frame_size: usize) -> Self {
        Self {
            max_frame_size,
            version: None,
            framing: Framing::Envelopes { compression: None },
            skip: 0,
            refused: None,
            paused: false,
            broken: false,
        }
    }

    /// Changes the limit of bodies, in bytes.
    pub fn set_max_frame_size(&mut self, max_frame_size: usize) {
        self.max_frame_size = max_frame_size;
    }

    /// Switches to the version and compression of the accepted STARTUP. Version 5 has only LZ4; the
    /// caller has refused any other compression.
    pub fn start(&mut self, version: ProtocolVersion, compression: Option<Compression>) {
        self.version = Some(version);
        self.framing = match version {
            ProtocolVersion::V3 | ProtocolVersion::V4 => Framing::Envelopes { compression },
            ProtocolVersion::V5 => Framing::Segments {
                reader: SegmentReader::new(compression == Some(Compression::Lz4)),
                payload: Bytes::new(),
                partial: BytesMut::new(),
            },
        };
    }

    /// Returns the next request of `buffer` and consumes its bytes; `None` until more bytes arrive,
    /// or for a pause (see [`Self::is_paused`]).
    ///
    /// # Errors
    ///
    /// Fails if the next envelope is malformed, too large, or of a wrong version. The failure says
    /// whether the caller must close the connection.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<Envelope>, DecodeFailure> {
        self.paused = false;
        if self.broken {
            return Ok(None);
        }
        let result = match self.framing {
            Framing::Envelopes { compression } => self.next_envelope(buffer, compression),
            Framing::Segments { .. } => self.next_of_segments(buffer),
        };
        self.broken = matches!(&result, Err(failure) if failure.fatal);
        result
    }

    /// Returns whether [`Self::next`] returned `None` only so that the caller can count the bytes
    /// of an unfinished envelope. The caller must then call [`Self::next`] again, without more
    /// bytes. Compressed segments in one small read may otherwise become many megabytes that
    /// nothing has counted.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Returns the number of bytes that `buffer` needs before [`Self::next`] can make progress. It
    /// is a hint for the size of the next read, and never more than the frame limit and its
    /// framing.
    pub fn bytes_wanted(&self, buffer: &[u8]) -> usize {
        match &self.framing {
            Framing::Segments { reader, .. } => reader.bytes_wanted(),
            Framing::Envelopes { .. } => match RawHeader::parse(buffer) {
                Some(raw) if raw.body_length as usize <= self.max_frame_size => {
                    raw.envelope_length()
                }
                _ => HEADER_LENGTH,
            },
        }
    }

    /// Returns the bytes in memory of an envelope that has arrived in part, after [`Self::next`]
    /// returned `None` for `buffer`. A refused envelope has none: `buffer` then holds less than a
    /// segment of it, which the decoder is about to skip.
    pub fn unfinished_bytes(&self, buffer: &[u8]) -> usize {
        match &self.framing {
            _ if self.skip > 0 => 0,
            Framing::Envelopes { .. } => buffer.len(),
            Framing::Segments { partial, .. } => partial.len() + buffer.len(),
        }
    }

    /// Refuses the envelope that has arrived in part: frees its bytes, skips the rest as it
    /// arrives, and then fails with `error`. Returns false if the header has not arrived: then
    /// there is no request to refuse yet, and less than a segment in memory.
    pub fn refuse_unfinished(&mut self, buffer: &mut BytesMut, error: DecodeError) -> bool {
        let held = match &mut self.framing {
            Framing::Envelopes { .. } => buffer,
            Framing::Segments { partial, .. } => partial,
        };
        let Some(raw) = RawHeader::parse(held) else { return false };
        self.skip = raw.envelope_length().saturating_sub(held.len());
        self.refused = Some(DecodeFailure { stream: raw.stream, error, fatal: false });
        *held = BytesMut::new();
        true
    }

    fn next_envelope(
        &mut self,
        buffer: &mut BytesMut,
        compression: Option<Compression>,
    ) -> Result<Option<Envelope>, DecodeFailure> {
        let skipped = self.skip.min(buffer.len());
        buffer.advance(skipped);
        self.skip -= skipped;
        if self.skip > 0 {
            return Ok(None);
        }
        if let Some(failure) = self.refused.take() {
            return Err(failure);
        }
        refuse_other_versions(buffer)?;
        let Some(raw) = RawHeader::parse(buffer) else { return Ok(None) };
        let header = match self.judge(&raw) {
            Ok(header) => header,
            Err(failure) if failure.fatal => return Err(failure),
            Err(failure) => {
                buffer.advance(HEADER_LENGTH);
                self.skip = raw.body_length as usize;
                self.refused = Some(failure);
                // Skips the bytes that have arrived, which may be all of the envelope.
                return self.next_envelope(buffer, compression);
            }
        };
        if buffer.len() < raw.envelope_length() {
            return Ok(None);
        }
        buffer.advance(HEADER_LENGTH);
        let body = buffer.split_to(raw.body_length as usize).freeze();
        if !header.flags.has(Flags::COMPRESSED) {
            return Ok(Some(Envelope { header, body }));
        }
        let recoverable = |error| DecodeFailure { stream: raw.stream, error, fatal: false };
        let compression =
            compression.ok_or_else(|| recoverable(DecodeError::UnexpectedCompression))?;
        let body = compression.decompress(&body, self.max_frame_size).map_err(recoverable)?;
        Ok(Some(Envelope { header, body }))
    }

    fn next_of_segments(
        &mut self,
        buffer: &mut BytesMut,
    ) -> Result<Option<Envelope>, DecodeFailure> {
        loop {
            if let Some(envelope) = self.next_of_payload()? {
                return Ok(Some(envelope));
            }
            let Framing::Segments { reader, payload, partial } = &mut self.framing else {
                return Ok(None);
            };
            let Some(segment) = reader.next(buffer).map_err(|error| fatal(0, error))? else {
                return Ok(None);
            };
            if !segment.self_contained {
                let before = partial.len();
                if let Some(envelope) = self.gather(segment.payload)? {
                    return Ok(Some(envelope));
                }
                if self.gathered() / GROWTH_BEFORE_PAUSE > before / GROWTH_BEFORE_PAUSE {
                    self.paused = true;
                    return Ok(None);
                }
            } else if self.skip > 0 || !partial.is_empty() {
                return Err(misaligned("a large envelope is interrupted by another segment"));
            } else {
                *payload = segment.payload;
            }
        }
    }

    /// Returns the bytes that have been gathered of an envelope that is spread over segments.
    fn gathered(&self) -> usize {
        match &self.framing {
            Framing::Envelopes { .. } => 0,
            Framing::Segments { partial, .. } => partial.len(),
        }
    }

    /// Returns the next envelope of the current self-contained segment.
    fn next_of_payload(&mut self) -> Result<Option<Envelope>, DecodeFailure> {
        let Framing::Segments { payload, .. } = &mut self.framing else { return Ok(None) };
        if payload.is_empty() {
            return Ok(None);
        }
        let raw = RawHeader::parse(payload)
            .ok_or_else(|| misaligned("a segment ends inside the header of an envelope"))?;
        if payload.len() < raw.envelope_length() {
            return Err(misaligned("a self-contained segment ends inside an envelope"));
        }
        let body = payload.split_to(raw.envelope_length()).slice(HEADER_LENGTH..);
        let header = self.judge(&raw)?;
        Ok(Some(Envelope { header, body }))
    }

    /// Adds a piece of a large envelope and returns the envelope once it is whole.
    fn gather(&mut self, piece: Bytes) -> Result<Option<Envelope>, DecodeFailure> {
        const TOO_LONG: &str = "more bytes than the large envelope has";
        if self.skip > 0 {
            self.skip = self.skip.checked_sub(piece.len()).ok_or_else(|| misaligned(TOO_LONG))?;
            return match self.skip {
                0 => self.refused.take().map_or(Ok(None), Err),
                _ => Ok(None),
            };
        }
        let Framing::Segments { partial, .. } = &mut self.framing else { return Ok(None) };
        partial.extend_from_slice(&piece);
        let Some(raw) = RawHeader::parse(partial) else { return Ok(None) };
        let missing =
            raw.envelope_length().checked_sub(partial.len()).ok_or_else(|| misaligned(TOO_LONG))?;
        // `partial.split()` would leave a handle in `partial` that keeps the envelope's memory.
        let whole = if missing == 0 { std::mem::take(partial).freeze() } else { Bytes::new() };
        match self.judge(&raw) {
            Ok(_) if missing > 0 => Ok(None),
            Ok(header) => Ok(Some(Envelope { header, body: whole.slice(HEADER_LENGTH..) })),
            Err(failure) => {
                if let Framing::Segments { partial, .. } = &mut self.framing {
                    *partial = BytesMut::new();
                }
                if failure.fatal || missing == 0 {
                    return Err(failure);
                }
                self.skip = missing;
                self.refused = Some(failure);
                Ok(None)
            }
        }
    }

    /// Checks a header.
    fn judge(&self, raw: &RawHeader) -> Result<Header, DecodeFailure> {
        let version = ProtocolVersion::from_byte(raw.version_byte).map_err(|requested| {
            fatal(raw.stream, DecodeError::UnsupportedVersion { requested })
        })?;
        if raw.version_byte & 0x80 != 0 {
            return Err(fatal(raw.stream, DecodeError::WrongDirection));
        }
        if let Some(settled) = self.version.filter(|&settled| settled != version) {
            let (got, expected) = (version.number(), settled.number());
            return Err(fatal(raw.stream, DecodeError::VersionChanged { got, expected }));
        }
        // A client never sends this many bytes, so a connection that waited for them would wait for
        // ever.
        let length = raw.body_length.cast_signed();
        if length < 0 {
            let field = "the body";
            return Err(fatal(raw.stream, DecodeError::NegativeLength { field, length }));
        }
        let recoverable = |error| Err(DecodeFailure { stream: raw.stream, error, fatal: false });
        let length = raw.body_length as usize;
        if self.version.is_none() && length > MAX_BODY_BEFORE_STARTUP {
            let limit = MAX_BODY_BEFORE_STARTUP;
            return Err(fatal(raw.stream, DecodeError::TooLargeBeforeStartup { length, limit }));
        }
        if length > self.max_frame_size {
            return recoverable(DecodeError::TooLarge { length, limit: self.max_frame_size });
        }
        let Some(opcode) = Opcode::from_byte(raw.opcode) else {
            return recoverable(DecodeError::UnknownOpcode { byte: raw.opcode });
        };
        Ok(Header { version, flags: raw.flags, stream: raw.stream, opcode })
    }
}

/// Refuses unsupported versions. Versions 1 and 2 have a shorter header, so this check precedes the
/// parsing of the header.
fn refuse_other_versions(buffer: &[u8]) -> Result<(), DecodeFailure> {
    let Some(&[version, _, s0, s1, ..]) = buffer.first_chunk::<OLDEST_HEADER_LENGTH>() else {
        return Ok(());
    };
    match ProtocolVersion::from_byte(version) {
        Ok(_) => Ok(()),
        Err(requested) => {
            let stream = match requested {
                1 | 2 => i16::from(s0 as i8),
                _ => i16::from_be_bytes([s0, s1]),
            };
            Err(fatal(stream, DecodeError::UnsupportedVersion { requested }))
        }
    }
}

fn fatal(stream: i16, error: DecodeError) -> DecodeFailure {
    DecodeFailure { stream, error, fatal: true }
}

fn misaligned(reason: &'static str) -> DecodeFailure {
    fatal(0, DecodeError::Segmentation(reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decoder_keeps_no_memory_of_an_envelope_that_was_spread_over_segments() {
        const BODY: usize = 1 << 20;
        let mut decoder = Decoder::new(BODY);
        decoder.start(ProtocolVersion::V5, None);
        let mut envelope = vec![5, 0, 0, 1, Opcode::Options as u8];
        envelope.extend_from_slice(&(BODY as u32).to_be_bytes());
        envelope.resize(HEADER_LENGTH + BODY, 0);
        let whole = decoder.gather(envelope.into()).unwrap().unwrap();
        assert_eq!(whole.body.len(), BODY);
        drop(whole);
        let Framing::Segments { partial, .. } = &mut decoder.framing else { panic!() };
        assert!(!partial.try_reclaim(BODY), "the decoder keeps the memory of the envelope");
    }
}
