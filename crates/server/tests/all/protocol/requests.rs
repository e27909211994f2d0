//! Requests that the reference implementation encodes are decoded to the same request.

use cassandra_protocol::frame::Serialize;
use espalier_server::protocol::Request;
use proptest::prelude::*;

use super::arbitrary;
use super::driver::{MODES, Mode, decode_all};
use super::oracle_requests;

fn mode_and_requests() -> impl Strategy<
    Value = (
        Mode,
        Vec<(
            cassandra_protocol::frame::Opcode,
            cassandra_protocol::frame::message_request::RequestBody,
        )>,
    ),
> {
    prop::sample::select(MODES.to_vec()).prop_flat_map(|mode| {
        (Just(mode), prop::collection::vec(arbitrary::request(mode.version), 1..8))
    })
}

proptest! {
    #![proptest_config(espalier_testing::properties(600))]

    #[test]
    fn requests_decode_to_the_bodies_the_oracle_encoded(
        (mode, requests) in mode_and_requests(),
        first_stream in -1i16..32000,
        chunk in prop_oneof![1usize..64, 64usize..20000],
    ) {
        let envelopes: Vec<_> = requests.iter().zip(first_stream..).map(|((opcode, body), stream)| {
            mode.request(stream, *opcode, body.serialize_to_vec(mode.oracle_version()))
        }).collect();
        let wire = mode.client_bytes(&envelopes);
        let decoded = decode_all(&mut mode.decoder(), &wire, chunk);
        prop_assert_eq!(decoded.len(), requests.len());
        for ((decoded, sent), (_, body)) in decoded.iter().zip(&envelopes).zip(&requests) {
            let envelope = decoded.as_ref().unwrap();
            prop_assert_eq!(envelope.header.version, mode.version);
            prop_assert_eq!(envelope.header.stream, sent.stream_id);
            prop_assert_eq!(envelope.header.opcode as u8, u8::from(sent.opcode));
            let request = Request::decode(envelope).unwrap();
            prop_assert_eq!(&oracle_requests::request(&request), body);
        }
    }
}

/// The reference implementation never asks to skip metadata, so this request is written by hand.
#[test]
fn skip_metadata_is_a_flag_of_its_own() {
    for (mode, flags) in [(MODES[0], &[0x02][..]), (MODES[3], &[0, 0, 0, 0x02])] {
        let body = [&[0, 0, 0, 1, b'x', 0, 1][..], flags].concat();
        let envelope = mode.request(3, cassandra_protocol::frame::Opcode::Query, body);
        let decoded = decode_all(&mut mode.decoder(), &mode.client_bytes(&[envelope]), 1000);
        match Request::decode(decoded[0].as_ref().unwrap()).unwrap() {
            Request::Query(query) => {
                assert!(query.parameters.skip_metadata);
                assert!(query.parameters.values.is_empty());
                assert_eq!(query.text, "x");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The names of STARTUP options may have any case, because some drivers write `compression`.
#[test]
fn startup_options_have_no_case() {
    let mode = MODES[0];
    let map = [("cql_version".to_owned(), "3.4.7".to_owned())].into_iter().collect();
    let startup = cassandra_protocol::frame::message_startup::BodyReqStartup { map };
    let opcode = cassandra_protocol::frame::Opcode::Startup;
    let envelope = mode.request(0, opcode, startup.serialize_to_vec(mode.oracle_version()));
    let decoded = decode_all(&mut mode.decoder(), &mode.client_bytes(&[envelope]), 1000);
    match Request::decode(decoded[0].as_ref().unwrap()).unwrap() {
        Request::Startup(startup) => {
            assert_eq!(startup.get("CQL_VERSION"), Some("3.4.7"));
            assert_eq!(startup.get("COMPRESSION"), None);
        }
        other => panic!("{other:?}"),
    }
}
