//! The framing of a client, built from the encoders and decoders of the reference implementation.
#![allow(dead_code)]

use bytes::BytesMut;
use cassandra_protocol::compression::Compression as OracleCompression;
use cassandra_protocol::frame::frame_decoder::{
    FrameDecoder, LegacyFrameDecoder, Lz4FrameDecoder, UncompressedFrameDecoder,
};
use cassandra_protocol::frame::frame_encoder::{
    FrameEncoder, Lz4FrameEncoder, UncompressedFrameEncoder,
};
use cassandra_protocol::frame::{Direction, Envelope as OracleEnvelope, Flags, Opcode, Version};
use espalier_server::protocol::{
    Compression, DEFAULT_MAX_FRAME_SIZE, DecodeFailure, Decoder, Envelope, ProtocolVersion,
    SendBuffer,
};

/// A version and a compression that the version supports.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    pub version: ProtocolVersion,
    pub compression: Option<Compression>,
}

pub const MODES: [Mode; 5] = [
    Mode { version: ProtocolVersion::V4, compression: None },
    Mode { version: ProtocolVersion::V4, compression: Some(Compression::Lz4) },
    Mode { version: ProtocolVersion::V4, compression: Some(Compression::Snappy) },
    Mode { version: ProtocolVersion::V5, compression: None },
    Mode { version: ProtocolVersion::V5, compression: Some(Compression::Lz4) },
];

/// Version 3; `version_3.rs` tests its differences from version 4.
#[allow(dead_code)]
pub const V3: Mode = Mode { version: ProtocolVersion::V3, compression: None };

impl Mode {
    pub fn oracle_version(self) -> Version {
        match self.version {
            ProtocolVersion::V3 => Version::V3,
            ProtocolVersion::V4 => Version::V4,
            ProtocolVersion::V5 => Version::V5,
        }
    }

    pub fn oracle_compression(self) -> OracleCompression {
        match self.compression {
            None => OracleCompression::None,
            Some(Compression::Lz4) => OracleCompression::Lz4,
            Some(Compression::Snappy) => OracleCompression::Snappy,
        }
    }

    /// Creates our decoder, in its state after STARTUP.
    pub fn decoder(self) -> Decoder {
        let mut decoder = Decoder::new(DEFAULT_MAX_FRAME_SIZE);
        decoder.start(self.version, self.compression);
        decoder
    }

    /// Creates our send buffer, in its state after STARTUP.
    pub fn send_buffer(self) -> SendBuffer {
        let mut buffer = SendBuffer::default();
        buffer.start(self.version, self.compression);
        buffer
    }

    /// Creates a request of the reference implementation.
    pub fn request(self, stream: i16, opcode: Opcode, body: Vec<u8>) -> OracleEnvelope {
        let (version, flags) = (self.oracle_version(), Flags::empty());
        let direction = Direction::Request;
        OracleEnvelope::new(version, direction, flags, opcode, stream, body, None, vec![])
    }

    /// Returns the bytes that a client sends for `requests`. In version 5, requests that need more
    /// than one segment come last.
    pub fn client_bytes(self, requests: &[OracleEnvelope]) -> Vec<u8> {
        let envelopes: Vec<Vec<u8>> = requests
            .iter()
            .map(|request| request.encode_with(self.oracle_compression()).unwrap())
            .collect();
        match (self.version, self.compression) {
            (ProtocolVersion::V3 | ProtocolVersion::V4, _) => envelopes.concat(),
            (_, None) => segments(UncompressedFrameEncoder::default(), envelopes),
            (_, Some(_)) => segments(Lz4FrameEncoder::default(), envelopes),
        }
    }

    /// Returns the envelopes that a client decodes from `bytes`, received in pieces of `chunk`
    /// bytes.
    pub fn client_understands(self, bytes: &[u8], chunk: usize) -> Vec<OracleEnvelope> {
        let mut decoder: Box<dyn FrameDecoder> = match (self.version, self.compression) {
            (ProtocolVersion::V3 | ProtocolVersion::V4, _) => {
                Box::new(LegacyFrameDecoder::default())
            }
            (_, None) => Box::new(UncompressedFrameDecoder::default()),
            (_, Some(_)) => Box::new(Lz4FrameDecoder::default()),
        };
        let mut envelopes = Vec::new();
        for piece in bytes.chunks(chunk) {
            let mut piece = piece.to_vec();
            envelopes.extend(decoder.consume(&mut piece, self.oracle_compression()).unwrap());
        }
        envelopes
    }
}

fn segments(mut encoder: impl FrameEncoder, envelopes: Vec<Vec<u8>>) -> Vec<u8> {
    let mut wire = Vec::new();
    let mut flush = |encoder: &mut dyn FrameEncoder| {
        if encoder.has_envelopes() {
            wire.extend_from_slice(encoder.finalize_self_contained());
            encoder.reset();
        }
    };
    let mut large = Vec::new();
    for envelope in envelopes {
        if !encoder.can_fit(envelope.len()) {
            flush(&mut encoder);
        }
        if encoder.can_fit(envelope.len()) {
            encoder.add_envelope(envelope);
        } else {
            large.push(envelope);
        }
    }
    flush(&mut encoder);
    for envelope in large {
        let mut rest = envelope.as_slice();
        while !rest.is_empty() {
            let (taken, frame) = encoder.finalize_non_self_contained(rest);
            wire.extend_from_slice(frame);
            rest = &rest[taken..];
            encoder.reset();
        }
    }
    wire
}

/// Returns the envelopes and failures that `decoder` decodes from `bytes`, which arrive in pieces
/// of `chunk` bytes.
pub fn decode_all(
    decoder: &mut Decoder,
    bytes: &[u8],
    chunk: usize,
) -> Vec<Result<Envelope, DecodeFailure>> {
    let mut buffer = BytesMut::new();
    let mut decoded = Vec::new();
    for piece in bytes.chunks(chunk.max(1)) {
        buffer.extend_from_slice(piece);
        loop {
            match decoder.next(&mut buffer) {
                Ok(Some(envelope)) => decoded.push(Ok(envelope)),
                Ok(None) if decoder.is_paused() => {}
                Ok(None) => break,
                Err(failure) => decoded.push(Err(failure)),
            }
        }
    }
    decoded
}
