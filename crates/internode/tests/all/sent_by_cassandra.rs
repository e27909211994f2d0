//! Tests the bodies of messages that nodes of Cassandra 5.0.9 sent.

use bytes::Bytes;
use espalier_internode::{
    MessagingVersion,
    message::Verb,
    payload::{Counted, Payload, Selection},
};

use crate::vectors::{self, Schema, hex, to_hex};

const VERSION: MessagingVersion = MessagingVersion::V13;

pub fn schema() -> Schema {
    vectors::parse(include_str!("../../../../testdata/internode/schema.txt")).0
}

/// Returns verb and body of each message.
pub fn bodies() -> Vec<(Verb, Bytes)> {
    let text = include_str!("../../../../testdata/internode/sent_by_cassandra.txt");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let body = |line: &str| {
        let (name, body) = line.split_once(' ').unwrap();
        let verb = Verb::ALL.iter().find(|verb| verb.name() == Some(name));
        (*verb.unwrap_or_else(|| panic!("{name}")), hex(body))
    };
    lines.map(body).collect()
}

pub fn decode(verb: Verb, body: &Bytes) -> Payload {
    let payload = Payload::decode(verb, VERSION, body, &schema());
    payload.unwrap_or_else(|error| panic!("{verb} {}: {error}", to_hex(body)))
}

#[test]
fn bodies_decode_and_encode_to_the_same_bytes() {
    let schema = schema();
    let bodies = bodies();
    assert!(bodies.len() > 60, "{}", bodies.len());
    for (verb, body) in bodies {
        let payload = Payload::decode(verb, VERSION, &body, &schema);
        let payload = payload.unwrap_or_else(|error| panic!("{verb} {}: {error}", to_hex(&body)));
        let mut encoded = Vec::new();
        payload.encode(VERSION, &mut encoded).unwrap();
        assert_eq!(to_hex(&encoded), to_hex(&body), "{verb}");
        match payload {
            Payload::Mutation(mutation) => {
                let stored = mutation.clone().into_mutation();
                stored.unwrap_or_else(|error| panic!("{error}: {mutation:?}"));
            }
            Payload::BatchStore(batch) => assert_eq!(batch.mutations(&schema).unwrap().len(), 2),
            _ => {}
        }
    }
}

#[test]
fn a_read_of_a_role_decodes_to_its_key_columns_and_limits() {
    let (verb, body) = bodies().into_iter().find(|(verb, _)| *verb == Verb::READ_REQ).unwrap();
    let Payload::Read(read) = decode(verb, &body) else { panic!() };
    assert_eq!(format!("{}.{}", read.table.keyspace, read.table.name), "system_auth.roles");
    let Counted::Rows { limit, per_partition, is_distinct } = read.limits.counted else { panic!() };
    assert_eq!((limit, per_partition, is_distinct), (i32::MAX as u32, i32::MAX as u32, false));
    let Selection::Partition { key, .. } = &read.selection else { panic!() };
    assert_eq!(&key[..], b"cassandra");
    let (_, regulars) = read.columns.fetched().unwrap();
    let names: Vec<_> = regulars.names().iter().map(|name| str::from_utf8(name).unwrap()).collect();
    assert_eq!(names, ["can_login", "is_superuser", "salted_hash", "member_of"]);
}
