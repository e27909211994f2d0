//! Tests the decoder with hostile bodies: recorded bodies that are cut at each byte or have a byte
//! flipped or repeated, and garbage. The decoder does not panic. It returns an error, or a payload
//! whose encoding decodes to the same payload.

use bytes::Bytes;
use espalier_internode::{MessagingVersion, message::Verb, payload::Payload};
use proptest::prelude::*;

use crate::{
    sent_by_cassandra::{bodies, schema},
    vectors::Schema,
};

fn decode(verb: Verb, body: Vec<u8>, schema: &Schema) {
    let body = Bytes::from(body);
    for version in MessagingVersion::ALL {
        let Ok(payload) = Payload::decode(verb, version, &body, schema) else { continue };
        // The encoding of the payload may differ from the hostile body.
        let mut encoded = Vec::new();
        if payload.encode(version, &mut encoded).is_ok() {
            let again = Payload::decode(verb, version, &encoded.into(), schema);
            assert_eq!(again.as_ref(), Ok(&payload), "{verb}");
        }
        if let Payload::Mutation(mutation) = payload {
            let _ = mutation.into_mutation();
        }
    }
}

#[test]
fn each_byte_cut_flipped_and_repeated() {
    let schema = schema();
    for (verb, body) in bodies() {
        if body.len() > 700 && !espalier_testing::runs_all() {
            continue;
        }
        for place in 0..body.len() {
            decode(verb, body[..place].to_vec(), &schema);
            for bits in [0x01, 0x80, 0xFF] {
                let mut flipped = body.to_vec();
                flipped[place] ^= bits;
                decode(verb, flipped, &schema);
            }
            let mut repeated = body.to_vec();
            repeated.insert(place, body[place]);
            decode(verb, repeated, &schema);
        }
    }
}

#[test]
fn counts_that_exceed_the_message_allocate_nothing() {
    let schema = schema();
    // 2^31 - 1 as a vint.
    let count = [0xF0, 0x7F, 0xFF, 0xFF, 0xFF];
    for verb in Verb::ALL {
        for head in [&[][..], &[0; 16], &[0; 24], &[0; 28]] {
            decode(*verb, [head, &count[..]].concat(), &schema);
        }
        decode(*verb, vec![0x7F, 0xFF, 0xFF, 0xFF], &schema);
    }
}

proptest! {
    #![proptest_config(espalier_testing::properties(2000))]

    #[test]
    fn garbage_does_not_panic(verb in prop::sample::select(Verb::ALL), body: Vec<u8>) {
        decode(verb, body, &Schema::default());
    }

    #[test]
    fn garbage_behind_a_sound_head_does_not_panic(
        index: prop::sample::Index,
        keep: prop::sample::Index,
        tail: Vec<u8>,
    ) {
        let bodies = bodies();
        let (verb, body) = index.get(&bodies);
        let head = &body[..keep.index(body.len())];
        decode(*verb, [head, &tail[..]].concat(), &schema());
    }
}
