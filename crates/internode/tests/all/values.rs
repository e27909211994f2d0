//! Tests small values: strings of Java, tokens of gossip, verbs.

use bytes::Bytes;
use espalier_internode::{
    DecodeError, MessagingVersion,
    message::Verb,
    payload::{
        FailureReason, GossipSyn, Payload,
        gossip::{tokens_of, tokens_value},
    },
};
use espalier_mutation::Token;
use proptest::prelude::*;

use crate::vectors::Schema;

fn round_trip(payload: &Payload, verb: Verb) -> Result<Payload, DecodeError> {
    let mut bytes = Vec::new();
    payload.encode(MessagingVersion::V13, &mut bytes).unwrap();
    Payload::decode(verb, MessagingVersion::V13, &Bytes::from(bytes), &Schema::default())
}

#[test]
fn verbs_answer_by_responses() {
    assert_eq!(Verb::MUTATION_REQ.response(), Some(Verb::MUTATION_RSP));
    assert_eq!(Verb::GOSSIP_DIGEST_SYN.response(), None);
    assert_eq!(Verb(250).to_string(), "verb 250");
    for verb in Verb::ALL {
        let response = verb.response();
        assert!(response.is_none_or(|verb| verb.name().is_some_and(|name| name.contains("_RSP"))));
    }
    assert!(Verb::READ_RSP.is_response() && Verb::FAILURE_RSP.is_response());
    // `VALIDATION_RSP` is a request of a repair, although its name ends like that of a response.
    let requests = [Verb::READ_REQ, Verb::VALIDATION_RSP, Verb::GOSSIP_DIGEST_SYN, Verb(250)];
    assert!(!requests.into_iter().any(Verb::is_response));
}

#[test]
fn strings_take_the_bytes_of_java() {
    let syn = |cluster: &str| {
        let mut bytes = Vec::new();
        let syn = GossipSyn { cluster: cluster.into(), partitioner: "p".into(), digests: vec![] };
        Payload::GossipSyn(syn).encode(MessagingVersion::V12, &mut bytes).unwrap();
        bytes
    };
    assert_eq!(syn("a\0\u{e4}")[..7], [0, 5, b'a', 0xC0, 0x80, 0xC3, 0xA4]);
    assert_eq!(syn("\u{1F600}")[..8], [0, 6, 0xED, 0xA0, 0xBD, 0xED, 0xB8, 0x80]);
}

#[test]
fn tokens_are_characters_of_bytes() {
    let tokens = [Token(-9_141_000_000_000_000_001), Token(0), Token(i64::MAX)];
    let value = tokens_value(&tokens);
    assert_eq!(value.chars().count(), 3 * 12 + 4);
    assert_eq!(tokens_of(&value).unwrap(), tokens);
    assert_eq!(tokens_of("abc"), None);
}

#[test]
fn unknown_reasons_of_failure_are_unknown() {
    let decode = |byte: u8| {
        let bytes = Bytes::from(vec![byte]);
        Payload::decode(Verb::FAILURE_RSP, MessagingVersion::V12, &bytes, &Schema::default())
    };
    assert_eq!(decode(3), Ok(Payload::Failure(FailureReason::IncompatibleSchema)));
    assert_eq!(decode(99), Ok(Payload::Failure(FailureReason::Unknown)));
}

#[test]
fn unimplemented_verbs_are_unsupported() {
    let decode = |verb| {
        let empty = Bytes::new();
        Payload::decode(verb, MessagingVersion::V12, &empty, &Schema::default())
    };
    for verb in [Verb::PAXOS2_PREPARE_REQ, Verb::VALIDATION_REQ, Verb::SNAPSHOT_REQ, Verb(77)] {
        assert!(matches!(decode(verb), Err(DecodeError::Unsupported(_))), "{verb}");
    }
}

proptest! {
    #![proptest_config(espalier_testing::properties(500))]

    #[test]
    fn strings_round_trip(cluster in any::<String>(), partitioner in any::<String>()) {
        let sent = Payload::GossipSyn(GossipSyn { cluster, partitioner, digests: Vec::new() });
        prop_assert_eq!(round_trip(&sent, Verb::GOSSIP_DIGEST_SYN), Ok(sent));
    }
}
