//! The answers to clients with unsupported versions.

use cassandra_protocol::compression::Compression;
use cassandra_protocol::frame::message_error::ErrorType;
use cassandra_protocol::frame::message_response::ResponseBody;
use cassandra_protocol::frame::{Envelope, Version};
use espalier_server::protocol::{DEFAULT_MAX_FRAME_SIZE, DecodeError, Decoder, SendBuffer};

use super::driver::decode_all;

fn answer(request: &[u8]) -> (i16, Vec<u8>) {
    let decoded = decode_all(&mut Decoder::new(DEFAULT_MAX_FRAME_SIZE), request, 3);
    assert_eq!(decoded.len(), 1);
    let failure = decoded.into_iter().next().unwrap().unwrap_err();
    assert!(failure.fatal);
    let mut buffer = SendBuffer::default();
    buffer.write_failure(&failure);
    (failure.stream, buffer.take())
}

fn options_of_version(version: u8) -> [u8; 9] {
    [version, 0, 0, 7, 5, 0, 0, 0, 0]
}

#[test]
fn a_newer_version_is_answered_in_version_5() {
    for requested in [6, 65, 66, 127] {
        let (stream, wire) = answer(&options_of_version(requested));
        assert_eq!(stream, 7);
        let envelope = Envelope::from_buffer(&wire, Compression::None).unwrap().envelope;
        assert_eq!((envelope.version, envelope.stream_id), (Version::V5, 7));
        match envelope.response_body().unwrap() {
            ResponseBody::Error(error) => {
                assert!(error.is_bad_protocol());
                assert_eq!(error.ty, ErrorType::Protocol);
                assert_eq!(
                    error.message,
                    format!(
                        "Invalid or unsupported protocol version ({requested}); \
                         supported versions are (3/v3, 4/v4, 5/v5)"
                    )
                );
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn versions_1_and_2_are_answered_with_their_shorter_header() {
    for requested in [1, 2] {
        let (stream, wire) = answer(&[requested, 0, 9, 5, 0, 0, 0, 0]);
        assert_eq!(stream, 9);
        assert_eq!(&wire[..4], &[requested | 0x80, 0, 9, 0]);
        let length = u32::from_be_bytes(wire[4..8].try_into().unwrap()) as usize;
        assert_eq!(length, wire.len() - 8);
        assert_eq!(&wire[8..12], &[0, 0, 0, 0x0A]);
        let message = String::from_utf8(wire[14..].to_vec()).unwrap();
        assert!(message.contains("unsupported protocol version"), "{message}");
    }
}

#[test]
fn bytes_of_another_protocol_are_an_unsupported_version() {
    let decoded =
        decode_all(&mut Decoder::new(DEFAULT_MAX_FRAME_SIZE), b"GET / HTTP/1.1\r\n\r\n", 100);
    let failure = decoded[0].as_ref().unwrap_err();
    assert_eq!(failure.error, DecodeError::UnsupportedVersion { requested: b'G' });
    assert!(failure.fatal);
}
