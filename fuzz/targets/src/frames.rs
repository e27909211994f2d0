//! The target of the native protocol, from the client's side.

use bytes::BytesMut;
use espalier_server::protocol::{
    Compression, DEFAULT_MAX_FRAME_SIZE, Decoder, ProtocolVersion, Request, SendBuffer,
};

use crate::input::Input;

const MODES: &[(ProtocolVersion, Option<Compression>)] = &[
    (ProtocolVersion::V4, None),
    (ProtocolVersion::V4, Some(Compression::Lz4)),
    (ProtocolVersion::V4, Some(Compression::Snappy)),
    (ProtocolVersion::V5, None),
    (ProtocolVersion::V5, Some(Compression::Lz4)),
];

/// Decodes requests. Input: `MODE, STEP`, then the received bytes, which arrive in pieces of STEP
/// bytes. In version 5 the checksums of the segments are repaired if the mode's number is below
/// 0x80.
pub fn frames(data: &[u8]) {
    let mut input = Input(data);
    let mode = input.byte();
    let step = usize::from(input.byte()).max(1);
    let mut decoder = Decoder::new(DEFAULT_MAX_FRAME_SIZE);
    let mut answers = SendBuffer::default();
    let mut wire = input.0.to_vec();
    // The number after the last mode is a connection before STARTUP.
    if let Some(&(version, compression)) = MODES.get(usize::from(mode) % (MODES.len() + 1)) {
        decoder.start(version, compression);
        answers.start(version, compression);
        if version == ProtocolVersion::V5 && mode < 0x80 {
            seal_segments(&mut wire, compression.is_some());
        }
    }
    let mut buffer = BytesMut::new();
    for piece in wire.chunks(step) {
        let _ = decoder.bytes_wanted(&buffer);
        buffer.extend_from_slice(piece);
        loop {
            match decoder.next(&mut buffer) {
                Ok(Some(envelope)) => {
                    if let Ok(request) = Request::decode(&envelope) {
                        look_at(&request);
                    }
                }
                Ok(None) => break,
                Err(failure) => {
                    answers.write_failure(&failure);
                    let _ = answers.take();
                }
            }
        }
    }
}

fn look_at(request: &Request<'_>) {
    match request {
        Request::Startup(startup) => {
            let _ = startup.get("COMPRESSION");
        }
        Request::Query(query) => query.parameters.values.iter().for_each(drop),
        Request::Execute(execute) => {
            let values = &execute.parameters.values;
            (0..values.len()).for_each(|index| drop(values.shared(index)));
        }
        Request::Batch(batch) => {
            for statement in &batch.statements {
                batch.values(statement).iter().for_each(drop);
            }
        }
        _ => {}
    }
}

/// Walks the segments by their lengths and repairs both checksums of each.
pub(crate) fn seal_segments(wire: &mut [u8], is_compressing: bool) {
    let checked = if is_compressing { 5 } else { 3 };
    let mut start = 0;
    while let Some(head) = wire.get(start..start + checked) {
        let length =
            head.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte)) & 0x1_FFFF;
        let crc = crc24(head).to_le_bytes();
        let Some(place) = wire.get_mut(start + checked..start + checked + 3) else { return };
        place.copy_from_slice(&crc[..3]);
        let payload = start + checked + 3;
        let end = payload + length as usize;
        let Some(bytes) = wire.get(payload..end) else { return };
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&[0xFA, 0x2D, 0x55, 0xCA]);
        hasher.update(bytes);
        let crc = hasher.finalize().to_le_bytes();
        let Some(place) = wire.get_mut(end..end + 4) else { return };
        place.copy_from_slice(&crc);
        start = end + 4;
    }
}

/// Returns the protocol's CRC24, computed bit by bit: polynomial 1974F0B, initial value 875060.
pub(crate) fn crc24(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x0087_5060, |mut crc, byte| {
        crc ^= u32::from(*byte) << 16;
        for _ in 0..8 {
            crc <<= 1;
            if crc & 0x0100_0000 != 0 {
                crc ^= 0x0197_4F0B;
            }
        }
        crc
    })
}
