//! Envelopes around and above the size of a segment, and above the frame limit.

use bytes::BytesMut;
use cassandra_protocol::frame::{Opcode, Serialize};
use espalier_server::protocol::response::{EncodedColumns, Rows, RowsMetadata};
use espalier_server::protocol::{
    Compression, DecodeError, Decoder, LARGE_CONTENT, MAX_PIECE, ProtocolVersion, Request,
    Response, ResponseExtras, SendBuffer,
};

use super::driver::{MODES, Mode, V3, decode_all};

/// Returns text that compresses in part.
fn text(length: usize) -> String {
    (0..length).map(|i| char::from(b'a' + (i * i / 7 % 26) as u8)).collect()
}

fn query(mode: Mode, stream: i16, length: usize) -> cassandra_protocol::frame::Envelope {
    let body = cassandra_protocol::frame::message_query::BodyReqQuery {
        query: text(length),
        query_params: Default::default(),
    };
    mode.request(stream, Opcode::Query, body.serialize_to_vec(mode.oracle_version()))
}

#[test]
fn requests_of_every_size_around_a_segment_arrive() {
    let sizes = [131_000, 131_040, 131_055, 131_060, 131_071, 131_072, 262_142, 262_200, 900_000];
    for mode in MODES {
        let requests: Vec<_> =
            sizes.iter().zip(0..).map(|(&size, stream)| query(mode, stream, size)).collect();
        let wire = mode.client_bytes(&requests);
        for chunk in [1013, 70_000, wire.len()] {
            let decoded = decode_all(&mut mode.decoder(), &wire, chunk);
            let mut seen: Vec<_> = decoded
                .iter()
                .map(|envelope| {
                    let envelope = envelope.as_ref().unwrap();
                    match Request::decode(envelope).unwrap() {
                        Request::Query(query) => {
                            assert_eq!(query.text, text(query.text.len()));
                            (envelope.header.stream, query.text.len())
                        }
                        other => panic!("{other:?}"),
                    }
                })
                .collect();
            seen.sort_unstable();
            let expected: Vec<_> =
                sizes.iter().zip(0..).map(|(&size, stream)| (stream, size)).collect();
            assert_eq!(seen, expected, "{mode:?}");
        }
    }
}

#[test]
fn responses_of_every_size_around_a_segment_arrive() {
    let columns = EncodedColumns::default();
    let sizes = [10, 131_000, 131_030, 131_040, 131_050, 131_071, 60, 262_142, 900_000, 80];
    for mode in MODES {
        let mut buffer = mode.send_buffer();
        let body = text(900_000);
        for (&size, stream) in sizes.iter().zip(0..) {
            let metadata = RowsMetadata::Full(&columns);
            let content = &body.as_bytes()[..size];
            let rows = Rows { metadata, paging_state: None, row_count: 0, content };
            buffer.write(stream, &ResponseExtras::default(), &Response::Rows(rows));
        }
        let wire = buffer.take();
        assert!(buffer.is_empty());
        for chunk in [1009, wire.len()] {
            let envelopes = mode.client_understands(&wire, chunk);
            assert_eq!(envelopes.len(), sizes.len(), "{mode:?}");
            for ((envelope, &size), stream) in envelopes.iter().zip(&sizes).zip(0..) {
                assert_eq!(envelope.stream_id, stream);
                assert_eq!(&envelope.body[16..], &body.as_bytes()[..size]);
            }
        }
    }
}

#[test]
fn a_request_above_the_limit_is_refused_alone() {
    for mode in MODES {
        let requests = [query(mode, 1, 900_000), query(mode, 2, 900)];
        let mut wire = mode.client_bytes(&requests[..1]);
        wire.extend(mode.client_bytes(&requests[1..]));
        for chunk in [997, 200_000] {
            let mut decoder = Decoder::new(1000);
            decoder.start(mode.version, mode.compression);
            let decoded = decode_all(&mut decoder, &wire, chunk);
            assert_eq!(decoded.len(), 2, "{mode:?}");
            let failure = decoded[0].as_ref().unwrap_err();
            assert_eq!((failure.stream, failure.fatal), (1, false));
            assert!(matches!(failure.error, DecodeError::TooLarge { limit: 1000, .. }));
            assert_eq!(decoded[1].as_ref().unwrap().header.stream, 2);
        }
    }
}

/// A driver that receives the answer while it is still sending considers the connection busy.
#[test]
fn a_request_above_the_limit_is_refused_once_its_last_byte_is_there() {
    for mode in MODES {
        let wire = mode.client_bytes(&[query(mode, 1, 900_000)]);
        for cut in [1, 6, 8, 9, 20, 131_000, 140_000, wire.len() - 1] {
            // A compressed request may be shorter than `cut`.
            let (begin, end) = wire.split_at(cut.min(wire.len() - 1));
            let (last, rest) = end.split_last().unwrap();
            let mut decoder = Decoder::new(1000);
            decoder.start(mode.version, mode.compression);
            let mut buffer = BytesMut::new();
            for piece in [begin, rest] {
                buffer.extend_from_slice(piece);
                assert_eq!(decoder.next(&mut buffer), Ok(None), "{mode:?}, {cut} bytes");
            }
            buffer.extend_from_slice(&[*last]);
            let failure = decoder.next(&mut buffer).unwrap_err();
            assert_eq!((failure.stream, failure.fatal), (1, false), "{mode:?}");
            assert!(matches!(failure.error, DecodeError::TooLarge { limit: 1000, .. }));
            assert_eq!(decoder.next(&mut buffer), Ok(None), "{mode:?}: a second failure");
            buffer.extend_from_slice(&mode.client_bytes(&[query(mode, 2, 900)]));
            let next = decoder.next(&mut buffer).unwrap().unwrap();
            assert_eq!(next.header.stream, 2);
        }
    }
}

#[test]
fn requests_around_one_above_the_limit_arrive_byte_by_byte() {
    for mode in MODES {
        let wire: Vec<u8> = [(1, 900), (2, 300_000), (3, 900), (4, 200_000), (5, 200_000), (6, 10)]
            .into_iter()
            .flat_map(|(stream, length)| mode.client_bytes(&[query(mode, stream, length)]))
            .collect();
        let mut decoder = Decoder::new(1000);
        decoder.start(mode.version, mode.compression);
        let decoded = decode_all(&mut decoder, &wire, 1);
        let streams: Vec<_> = decoded
            .iter()
            .map(|decoded| match decoded {
                Ok(envelope) => (envelope.header.stream, true),
                Err(failure) => {
                    assert!(!failure.fatal, "{mode:?}: {failure:?}");
                    (failure.stream, false)
                }
            })
            .collect();
        let expected = [(1, true), (2, false), (3, true), (4, false), (5, false), (6, true)];
        assert_eq!(streams, expected, "{mode:?}");
    }
}

/// Returns bytes that do not compress.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1u64;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    })
    .take(length)
    .collect()
}

/// Returns the bytes of the large responses of `buffer`, and the length of the longest piece.
fn large_responses(buffer: &mut SendBuffer) -> (Vec<u8>, usize) {
    let (mut wire, mut longest) = (Vec::new(), 0);
    for response in buffer.take_large() {
        let response = if response.must_be_compressed() { response.compressed() } else { response };
        for piece in response.into_pieces() {
            longest = longest.max(piece.len());
            wire.extend_from_slice(&piece);
        }
    }
    (wire, longest)
}

/// Between two yields, the connection frames and writes one piece.
#[test]
fn a_response_in_pieces_has_the_bytes_of_a_whole_one() {
    let columns = EncodedColumns::default();
    let metadata = RowsMetadata::Full(&columns);
    let warnings = ["a warning".to_owned()];
    let long_warnings = vec![text(50_000); 6];
    let mut cases = vec![
        (text(1 << 20).into_bytes().repeat(64), &warnings[..]),
        (noise(900_000), &warnings),
        (text(900_000).into_bytes(), &long_warnings),
    ];
    let lengths = [LARGE_CONTENT, 262_100, 262_142, 393_213];
    cases.extend(lengths.map(|length| (text(length).into_bytes(), &warnings[..])));
    for mode in MODES.into_iter().chain([V3]) {
        for (content, warnings) in &cases {
            let extras = ResponseExtras { warnings, ..ResponseExtras::default() };
            let paging_state = Some(&b"state"[..]);
            let rows = Rows { metadata, paging_state, row_count: 7, content };
            let mut buffer = mode.send_buffer();
            buffer.write(5, &extras, &Response::Rows(rows));
            let whole = buffer.take();
            buffer.write_large(5, &extras, rows, content.clone());
            assert!(!buffer.is_empty() && buffer.take().is_empty());
            let (wire, longest) = large_responses(&mut buffer);
            assert!(wire == whole, "{mode:?}: {} bytes", content.len());
            assert!(longest <= MAX_PIECE, "{mode:?}: {longest} bytes in one step");
            assert!(buffer.is_empty());
        }
    }
}

#[test]
fn a_response_above_the_limit_of_drivers_is_an_error() {
    let columns = EncodedColumns::default();
    let metadata = RowsMetadata::Full(&columns);
    let rows = Rows { metadata, paging_state: None, row_count: 1, content: &[] };
    for mode in MODES {
        let mut buffer = mode.send_buffer();
        buffer.write_large(5, &ResponseExtras::default(), rows, vec![0; 256 << 20]);
        assert!(buffer.take_large().is_empty());
        let wire = buffer.take();
        let envelopes = mode.client_understands(&wire, wire.len());
        assert_eq!(envelopes[0].opcode, Opcode::Error);
    }
}

/// Bytes that do not compress are sent uncompressed; the segment's uncompressed length is then 0.
#[test]
fn noise_is_sent_as_it_is() {
    let mode = Mode { version: ProtocolVersion::V5, compression: Some(Compression::Lz4) };
    let noise = noise(300_000);
    let columns = EncodedColumns::default();
    let metadata = RowsMetadata::Full(&columns);
    let rows = Rows { metadata, paging_state: None, row_count: 0, content: &noise };
    let mut buffer = mode.send_buffer();
    buffer.write(5, &ResponseExtras::default(), &Response::Rows(rows));
    let wire = buffer.take();
    assert!(wire.len() < noise.len() + 100);
    assert_eq!(&mode.client_understands(&wire, wire.len())[0].body[16..], &noise);
}
