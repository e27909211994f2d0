//! Takes envelopes from the receive buffer, incrementally: feed whatever arrived, take what is whole.
//!
//! Until STARTUP is answered a connection carries bare envelopes. Then version 5 switches to segments ([`Decoder::start`]).
//!
//! Invariants: a body that is not compressed and arrived in one piece is a slice of the receive buffer. After a failure
//! that is not fatal the next call continues with the next envelope; after a fatal one nothing is decoded any more.
//! Memory: at most one envelope of `max_frame_size` is gathered here (a version 5 envelope spread over segments); one that
//! claims more is skipped as it arrives, and refused once it is behind: drivers take a connection that they are still sending on for
//! busy when the answer is there.

use bytes::{Buf, Bytes, BytesMut};

use super::compression::Compression;
use super::error::{DecodeError, DecodeFailure};
use super::header::{Flags, HEADER_LENGTH, Header, RawHeader};
use super::opcode::Opcode;
use super::segment::SegmentReader;
use super::version::ProtocolVersion;

/// Bytes of the header of versions 1 and 2: enough of any version to answer it.
const OLDEST_HEADER_LENGTH: usize = 8;

/// A request as it arrived; its body is plain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The header.
    pub header: Header,
    /// The body, still with its custom payload if the header says that there is one.
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
        /// The envelope that is spread over several segments, as far as it has arrived.
        partial: BytesMut,
    },
}

/// Decodes what one connection receives.
#[derive(Debug)]
pub struct Decoder {
    max_frame_size: usize,
    /// The version that STARTUP settled.
    version: Option<ProtocolVersion>,
    framing: Framing,
    /// Bytes still to come of an envelope that is refused.
    skip: usize,
    /// Why it is, to be told once they have come.
    refused: Option<DecodeFailure>,
    broken: bool,
}

impl Decoder {
    /// A decoder for a new connection that accepts bodies of up to `max_frame_size` bytes.
    pub fn new(max_frame_size: usize) -> Self {
        Self {
            max_frame_size,
            version: None,
            framing: Framing::Envelopes { compression: None },
            skip: 0,
            refused: None,
            broken: false,
        }
    }

    /// STARTUP was accepted: what follows has this version and compression. Version 5 knows LZ4 only; the caller has
    /// refused anything else.
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

    /// The next request of `buffer`, whose bytes are consumed; `None` until more bytes arrive.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<Envelope>, DecodeFailure> {
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

    /// How many bytes must be in `buffer` before [`Self::next`] can make progress: a hint for the size of the next read,
    /// never more than the frame limit and its framing.
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
                // What of it is there already goes, and perhaps that is all.
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
                if let Some(envelope) = self.gather(segment.payload)? {
                    return Ok(Some(envelope));
                }
            } else if self.skip > 0 || !partial.is_empty() {
                return Err(misaligned("a large envelope is interrupted by another segment"));
            } else {
                *payload = segment.payload;
            }
        }
    }

    /// The next envelope of the self-contained segment at hand.
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

    /// Adds a piece of a large envelope; gives the envelope once it is whole.
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
        let whole = if missing == 0 { partial.split().freeze() } else { Bytes::new() };
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

    /// Accepts a header or says what is wrong with it.
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
        // So much never comes: whoever waited for it would wait for good.
        let length = raw.body_length.cast_signed();
        if length < 0 {
            let field = "the body";
            return Err(fatal(raw.stream, DecodeError::NegativeLength { field, length }));
        }
        let recoverable = |error| Err(DecodeFailure { stream: raw.stream, error, fatal: false });
        let length = raw.body_length as usize;
        if length > self.max_frame_size {
            return recoverable(DecodeError::TooLarge { length, limit: self.max_frame_size });
        }
        let Some(opcode) = Opcode::from_byte(raw.opcode) else {
            return recoverable(DecodeError::UnknownOpcode { byte: raw.opcode });
        };
        Ok(Header { version, flags: raw.flags, stream: raw.stream, opcode })
    }
}

/// Versions 1 and 2 have a shorter header, so that this is decided before the header is read.
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
