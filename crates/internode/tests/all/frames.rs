//! Tests the reader of messages from frames: whole messages, messages spread over frames, and
//! broken messages.

use bytes::{Bytes, BytesMut};
use espalier_internode::{
    DecodeError,
    frame::{DEFAULT_MAX_MESSAGE_BYTES, MessageReader, put_message},
    message::{Header, Message, MessageFlags, Verb},
};
use proptest::prelude::*;

fn message(id: u64, length: usize) -> Message {
    let payload: Vec<u8> = (0..length).map(|index| (index * 7 + id as usize) as u8).collect();
    Message {
        header: Header {
            id,
            created_ms: 77,
            expires_in_ms: 2000,
            verb: Verb::MUTATION_REQ,
            flags: MessageFlags(1),
            parameters: Vec::new(),
        },
        payload: payload.into(),
    }
}

fn framed(messages: &[Message], compressing: bool) -> Vec<u8> {
    let (mut scratch, mut out) = (Vec::new(), Vec::new());
    for message in messages {
        let put = put_message(compressing, &mut scratch, &mut out, |out| {
            message.encode(out);
            Ok::<_, ()>(())
        });
        put.unwrap();
    }
    out
}

/// Reads the messages of `bytes`, which arrive in pieces of `piece` bytes.
fn read(bytes: &[u8], piece: usize, compressing: bool) -> Result<Vec<Message>, DecodeError> {
    let mut reader = MessageReader::new(compressing, DEFAULT_MAX_MESSAGE_BYTES);
    let mut buffer = BytesMut::new();
    let mut messages = Vec::new();
    for piece in bytes.chunks(piece) {
        buffer.extend_from_slice(piece);
        while let Some(message) = reader.next(&mut buffer)? {
            messages.push(Message::decode(&message)?);
        }
    }
    Ok(messages)
}

#[test]
fn messages_of_every_length_arrive_in_any_pieces() {
    let lengths = [0, 1, 100, 65_536, 131_060, 131_071, 131_072, 400_000];
    let sent: Vec<_> = (0..).zip(lengths).map(|(id, length)| message(id, length)).collect();
    for compressing in [false, true] {
        let bytes = framed(&sent, compressing);
        for piece in [1 << 20, 65_536, 4099] {
            assert_eq!(read(&bytes, piece, compressing).unwrap(), sent);
        }
    }
}

#[test]
fn a_message_beyond_the_limit_is_refused_before_it_arrives() {
    let bytes = framed(&[message(1, 1_000_000)], false);
    let mut reader = MessageReader::new(false, 500_000);
    let mut buffer = BytesMut::from(&bytes[..140_000]);
    let refused = reader.next(&mut buffer);
    assert!(matches!(refused, Err(DecodeError::Oversized { limit: 500_000, .. })), "{refused:?}");
}

#[test]
fn a_whole_message_inside_a_large_one_is_refused() {
    let large = framed(&[message(1, 300_000)], false);
    let first_frame = 6 + 131_071 + 4;
    let mixed = [&large[..first_frame], &framed(&[message(2, 5)], false)].concat();
    assert!(matches!(read(&mixed, 1 << 20, false), Err(DecodeError::Malformed(_))));
}

#[test]
fn a_message_has_no_more_than_64_parameters() {
    use espalier_internode::message::Parameter;
    let mut message = message(1, 3);
    message.header.parameters = vec![Parameter { kind: 1, value: Bytes::new() }; 64];
    assert_eq!(read(&framed(&[message.clone()], false), 1 << 20, false).unwrap().len(), 1);
    message.header.parameters.push(Parameter { kind: 1, value: Bytes::new() });
    let refused = read(&framed(&[message], false), 1 << 20, false);
    assert!(matches!(refused, Err(DecodeError::Malformed(_))), "{refused:?}");
}

#[test]
fn the_first_frame_of_a_large_message_has_its_whole_header() {
    use espalier_internode::message::Parameter;
    let mut message = message(1, 3);
    let value = Bytes::from(vec![0; 200_000]);
    message.header.parameters = vec![Parameter { kind: 1, value }];
    let refused = read(&framed(&[message], false), 1 << 20, false);
    assert_eq!(refused, Err(DecodeError::Ended));
}

proptest! {
    #![proptest_config(espalier_testing::properties(200))]

    #[test]
    fn a_flipped_byte_never_gives_another_message(place: prop::sample::Index, bits in 1u8.., compressing: bool) {
        let sent = [message(3, 90), message(4, 0)];
        let mut bytes = framed(&sent, compressing);
        let place = place.index(bytes.len());
        bytes[place] ^= bits;
        match read(&bytes, 1 << 20, compressing) {
            Err(_) => {}
            Ok(messages) => prop_assert!(messages.len() < 2 && sent.starts_with(&messages)),
        }
    }

    #[test]
    fn garbage_does_not_panic(bytes: Vec<u8>, compressing: bool) {
        let _ = read(&bytes, 7, compressing);
        let _ = Message::decode(&Bytes::from(bytes));
    }
}
