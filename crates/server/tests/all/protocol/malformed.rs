//! Broken requests, each with the error that answers it.

use cassandra_protocol::frame::message_error::ErrorType;
use cassandra_protocol::frame::message_response::ResponseBody;
use espalier_server::protocol::{DecodeFailure, Request};

use super::driver::{MODES, Mode, decode_all};

const V4: Mode = MODES[0];
const V4_LZ4: Mode = MODES[1];
const V4_SNAPPY: Mode = MODES[2];
const V5: Mode = MODES[3];
const V5_LZ4: Mode = MODES[4];

/// Returns the error that answers `wire`, and true if the connection stays open.
fn answer(mode: Mode, wire: &[u8]) -> (String, bool) {
    let mut decoder = mode.decoder();
    let decoded = decode_all(&mut decoder, wire, 7);
    assert_eq!(decoded.len(), 1, "{decoded:?}");
    let failure = match decoded.into_iter().next().unwrap() {
        Err(failure) => failure,
        Ok(envelope) => DecodeFailure {
            stream: envelope.header.stream,
            error: Request::decode(&envelope).unwrap_err(),
            fatal: false,
        },
    };
    let mut buffer = mode.send_buffer();
    buffer.write_failure(&failure);
    let envelope = mode.client_understands(&buffer.take(), 1000).remove(0);
    assert_eq!(envelope.stream_id, failure.stream);
    match envelope.response_body().unwrap() {
        ResponseBody::Error(error) => {
            let code = match error.ty {
                ErrorType::Protocol => "protocol",
                ErrorType::Invalid => "invalid",
                other => panic!("{other:?}"),
            };
            (format!("{code}: {}", error.message), !failure.fatal)
        }
        other => panic!("{other:?}"),
    }
}

fn v4(opcode: u8, flags: u8, body: &[u8]) -> Vec<u8> {
    let mut wire = vec![4, flags, 0, 1, opcode];
    wire.extend((body.len() as u32).to_be_bytes());
    wire.extend(body);
    wire
}

fn survives(mode: Mode, wire: &[u8], message: &str) {
    assert_eq!(answer(mode, wire), (message.to_owned(), true));
}

fn closes(mode: Mode, wire: &[u8], message: &str) {
    assert_eq!(answer(mode, wire), (message.to_owned(), false));
}

#[test]
fn malformed_headers_are_refused() {
    survives(V4, &v4(0x04, 0, &[1, 2]), "protocol: Unknown opcode 0x04");
    survives(V4, &v4(0x77, 0, &[]), "protocol: Unknown opcode 0x77");
    survives(V4, &v4(0x08, 0, &[]), "protocol: Unexpected opcode Result: it is not a request");
    closes(
        V4,
        &[0x84, 0, 0, 0, 7, 0, 0, 0, 0],
        "protocol: Wrong protocol direction, expected a request",
    );
    closes(
        V4,
        &[5, 0, 0, 0, 5, 0, 0, 0, 0],
        "protocol: Invalid message version. Got 5 but previous messages on this connection had version 4",
    );
    survives(
        V4,
        &v4(0x07, 0, &vec![0; 16_777_217]),
        "invalid: Request is too big: length 16777217 exceeds maximum allowed length 16777216",
    );
    closes(
        V4,
        &[4, 0, 0, 1, 7, 0xff, 0xff, 0xff, 0xff],
        "protocol: Invalid message: the body has the length -1",
    );
}

#[test]
fn compressed_bodies() {
    survives(
        V4,
        &v4(0x07, 1, &[0, 0, 0, 0]),
        "protocol: Unexpected compressed body: no compression was negotiated in STARTUP",
    );
    for body in
        [&[][..], &[0, 0], &[0, 0, 0, 9, 0xff], &[0, 0, 1, 0, 0x10, 1], &[0, 0, 0, 2, 0x10, 1]]
    {
        survives(V4_LZ4, &v4(0x07, 1, body), "protocol: Invalid compressed body");
    }
    survives(
        V4_LZ4,
        &v4(0x07, 1, &[0x7f, 0, 0, 0, 0]),
        "invalid: Request is too big: length 2130706432 exceeds maximum allowed length 16777216",
    );
    for body in [&[][..], &[9, 0], &[0xff, 0xff]] {
        survives(V4_SNAPPY, &v4(0x07, 1, body), "protocol: Invalid compressed body");
    }
    survives(
        V4_SNAPPY,
        &v4(0x07, 1, &[0xff, 0xff, 0xff, 0x7f, 0]),
        "invalid: Request is too big: length 268435455 exceeds maximum allowed length 16777216",
    );
}

#[test]
fn malformed_fields_are_refused() {
    let protocol = |opcode, body: &[u8], message: &str| {
        survives(V4, &v4(opcode, 0, body), &format!("protocol: {message}"));
    };
    protocol(0x07, &[0, 0], "Invalid message: query needs 4 bytes but 2 remain");
    protocol(0x07, &[0, 0, 0, 9, b'x'], "Invalid message: query needs 9 bytes but 1 remain");
    protocol(0x07, &[0xff; 4], "Invalid message: query has the length -1");
    protocol(0x07, &[0, 0, 0, 1, 0xff], "Invalid message: query is not valid UTF-8");
    let x = [0, 0, 0, 1, b'x'];
    let after_x = |rest: &[u8]| [&x[..], rest].concat();
    protocol(0x07, &after_x(&[0, 12, 0]), "Unknown code 12 for a consistency level");
    protocol(0x07, &after_x(&[0, 1]), "Invalid message: query flags needs 1 bytes but 0 remain");
    protocol(
        0x07,
        &after_x(&[0, 1, 1, 0xff, 0xff, 0, 0, 0, 0]),
        "Invalid message: values needs 262140 bytes but 4 remain",
    );
    protocol(
        0x07,
        &after_x(&[0, 1, 1, 0, 1, 0xff, 0xff, 0xff, 0xfd]),
        "Invalid message: value has the length -3",
    );
    protocol(
        0x07,
        &after_x(&[0, 1, 1, 0, 1, 0, 0, 0, 2, 7]),
        "Invalid message: value needs 2 bytes but 1 remain",
    );
    protocol(
        0x07,
        &after_x(&[0, 1, 0x41, 0, 1, 0, 1, 0xc0, 0xff, 0xff, 0xff, 0xff]),
        "Invalid message: value name is not valid UTF-8",
    );
    protocol(
        0x07,
        &after_x(&[0, 1, 0x20, 0x80, 0, 0, 0, 0, 0, 0, 0]),
        "Out of bound timestamp, must be in [-9223372036854775807, 9223372036854775807] \
         (got -9223372036854775808)",
    );
    protocol(0x07, &after_x(&[0, 1, 0x10, 0, 99]), "Unknown code 99 for a consistency level");
    protocol(0x0A, &[0, 9, 1], "Invalid message: prepared statement id needs 9 bytes but 1 remain");
    protocol(0x01, &[0, 0], "Missing value CQL_VERSION in STARTUP message");
    protocol(0x01, &[0, 9], "Invalid message: STARTUP options needs 36 bytes but 0 remain");
    protocol(0x0B, &[0, 1, 0, 3, b'F', b'O', b'O'], "Unknown event type \"FOO\"");
    protocol(0x0D, &[3], "Invalid message: batch type cannot be 3");
    protocol(0x0D, &[0, 0, 1, 2, 0, 0, 0, 0], "Invalid message: statement kind cannot be 2");
    protocol(
        0x0D,
        &[0, 0xff, 0xff, 0],
        "Invalid message: batch statements needs 327675 bytes but 1 remain",
    );
    protocol(0x0D, &[0, 0, 0, 0, 1, 0x40], "Values of a BATCH cannot be named");
    survives(
        V4,
        &v4(0x05, 0x04, &[0, 1, 0, 1, b'k']),
        "protocol: Invalid message: custom payload needs 6 bytes but 3 remain",
    );
}

/// Returns one envelope in a segment of version 5.
fn segment(mode: Mode, opcode: cassandra_protocol::frame::Opcode, body: Vec<u8>) -> Vec<u8> {
    mode.client_bytes(&[mode.request(3, opcode, body)])
}

#[test]
fn flipped_bits_of_a_segment_fail_its_checksum() {
    for mode in [V5, V5_LZ4] {
        let good = segment(mode, cassandra_protocol::frame::Opcode::Options, vec![]);
        assert!(decode_all(&mut mode.decoder(), &good, 7)[0].is_ok());
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                let (message, open) = answer(mode, &bad);
                assert!(!open, "{message}");
                assert!(message.contains("checksum"), "byte {at}: {message}");
            }
        }
    }
}

#[test]
fn segments_that_do_not_line_up() {
    let whole = |payload: &[u8], self_contained: bool| {
        let mut header = payload.len() as u32 | u32::from(self_contained) << 17;
        let crc = cassandra_protocol::crc::crc24(&header.to_le_bytes()[..3]) as u32;
        let mut wire = header.to_le_bytes()[..3].to_vec();
        header = crc;
        wire.extend(&header.to_le_bytes()[..3]);
        wire.extend(payload);
        wire.extend(cassandra_protocol::crc::crc32(payload).to_le_bytes());
        wire
    };
    let options = [5, 0, 0, 1, 5, 0, 0, 0, 0];
    let long = [5, 0, 0, 1, 5, 0, 0, 0, 2, 1];
    closes(
        V5,
        &whole(&options[..5], true),
        "protocol: Invalid segment: a segment ends inside the header of an envelope",
    );
    closes(
        V5,
        &whole(&long, true),
        "protocol: Invalid segment: a self-contained segment ends inside an envelope",
    );
    closes(
        V5,
        &[whole(&long, false), whole(&options, true)].concat(),
        "protocol: Invalid segment: a large envelope is interrupted by another segment",
    );
    closes(
        V5,
        &[whole(&long, false), whole(&[1, 2], false)].concat(),
        "protocol: Invalid segment: more bytes than the large envelope has",
    );
    closes(
        V5,
        &whole(&[4, 0, 0, 1, 5, 0, 0, 0, 0], true),
        "protocol: Invalid message version. Got 4 but previous messages on this connection had version 5",
    );
    survives(V5, &whole(&[5, 0, 0, 1, 0x33, 0, 0, 0, 0], true), "protocol: Unknown opcode 0x33");
    // An empty segment is valid, and an envelope may be split into segments of one byte.
    let pieces: Vec<u8> =
        options.iter().flat_map(|byte| whole(&[*byte], false)).chain(whole(&[], true)).collect();
    let decoded = decode_all(&mut V5.decoder(), &pieces, 1000);
    assert_eq!(decoded.len(), 1);
    assert!(decoded[0].is_ok());
}

#[test]
fn broken_lz4_in_a_segment() {
    let mut bits: u64 = 3 | 900 << 17 | 1 << 34;
    bits |= (cassandra_protocol::crc::crc24(&bits.to_le_bytes()[..5]) as u64) << 40;
    let mut wire = bits.to_le_bytes().to_vec();
    wire.extend([0xff, 0xff, 0xff]);
    wire.extend(cassandra_protocol::crc::crc32(&[0xff, 0xff, 0xff]).to_le_bytes());
    closes(V5_LZ4, &wire, "protocol: Invalid compressed body");
}
