//! Tests that random messages of Cassandra's own serializers decode and encode to the same bytes,
//! in both versions, and that digests of random answers equal Cassandra's.
//!
//! The test needs Java, and Cassandra in `.deps/cassandra` below the repository's root, where
//! `interop/scripts/install_cassandra.sh` installs it. Without Cassandra the test prints that it
//! was skipped. A full run has 200 tables with 500 messages each, the gate 20 with 100 each;
//! `TEST_CASES` is the number of tables.
#![allow(clippy::disallowed_methods, reason = "the messages come from another process")]

use std::{path::Path, process::Command};

use bytes::Bytes;
use espalier_internode::{
    MessagingVersion,
    digest::digest_of,
    message::{Message, Verb},
    payload::{Payload, encode_partitions},
};
use espalier_testing::{cases, first_seed, runs_all};

use crate::vectors::{self, Schema, Vector, to_hex};

fn numbers() -> (u64, u64) {
    (cases(200), if runs_all() { 500 } else { 100 })
}

/// Returns what a class of interop/cassandra prints; `None` without Cassandra.
pub fn output_of(class: &str, numbers: &[u64]) -> Option<String> {
    let node = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.deps/cassandra/node");
    if !node.join(format!("tools/{class}.class")).exists() {
        println!("SKIPPED: no Cassandra in {}", node.display());
        return None;
    }
    let numbers = numbers.iter().map(u64::to_string);
    let mut command = Command::new(node.join("run.sh"));
    command.envs([("CONF", "tools.yaml"), ("HEAP", "512M"), ("XMS", "64M"), ("LOGLEVEL", "OFF")]);
    command.env("GC", "-XX:+UseSerialGC").env("QUICK", "1").arg(class).args(numbers);
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn messages_of_cassandra_encode_to_the_same_bytes_and_digests_agree() {
    let (tables, messages) = numbers();
    let numbers_given = [first_seed(), tables, messages];
    let Some(text) = output_of("InternodeVectors", &numbers_given) else { return };
    let (schema, vectors) = vectors::parse(&text);
    let mut digests = 0;
    for vector in &vectors {
        match vector {
            Vector::Message(version, message) => check_message(&schema, *version, message),
            Vector::Answer { version, command, response, digest } => {
                check_answer(&schema, *version, command, response, digest);
                digests += 1;
            }
            Vector::Write(_) => panic!(),
        }
    }
    let count = vectors.len() as u64;
    println!("{count} messages, {digests} digests");
    assert!(count >= tables * messages);
    assert!(digests * 20 > count);
}

fn check_message(schema: &Schema, version: MessagingVersion, bytes: &Bytes) {
    let fail = |error: String| -> ! { panic!("{error}: {version:?} {}", to_hex(bytes)) };
    let message = Message::decode(bytes).unwrap_or_else(|error| fail(error.to_string()));
    let header = &message.header;
    header.forward_to().unwrap();
    header.respond_to().unwrap();
    header.trace_session().unwrap();
    header.custom_parameters().unwrap();
    let payload = Payload::decode(header.verb, version, &message.payload, schema);
    let payload = payload.unwrap_or_else(|error| fail(format!("{}: {error}", header.verb)));
    let mut encoded = Vec::new();
    payload.encode(version, &mut encoded).unwrap_or_else(|error| fail(error));
    assert_eq!(to_hex(&encoded), to_hex(&message.payload), "{}", header.verb);
    let mut whole = Vec::new();
    Message { header: header.clone(), payload: encoded.into() }.encode(&mut whole);
    assert_eq!(to_hex(&whole), to_hex(bytes), "{header:?}");
    if let Payload::Mutation(mutation) = payload {
        mutation.into_mutation().unwrap_or_else(|error| fail(error.to_string()));
    }
}

fn check_answer(
    schema: &Schema,
    version: MessagingVersion,
    command: &Bytes,
    response: &Bytes,
    digest: &Bytes,
) {
    let fail = |error: String| -> ! {
        panic!("{error}: {version:?} {} {}", to_hex(command), to_hex(response))
    };
    let decode = |verb, bytes| {
        let payload = Payload::decode(verb, version, bytes, schema);
        payload.unwrap_or_else(|error| fail(format!("{verb}: {error}")))
    };
    let Payload::Read(command) = decode(Verb::READ_REQ, command) else { panic!() };
    let payload = decode(Verb::READ_RSP, response);
    let mut encoded = Vec::new();
    payload.encode(version, &mut encoded).unwrap();
    assert_eq!(to_hex(&encoded), to_hex(response));
    let Payload::ReadResponse(response) = payload else { panic!() };
    let partitions = response.partitions(&command);
    let partitions = partitions.unwrap_or_else(|error| fail(error.to_string()));
    let data = encode_partitions(&command, &partitions).unwrap_or_else(|error| fail(error));
    let espalier_internode::payload::ReadResponse::Data { data: sent, .. } = &response else {
        panic!()
    };
    assert_eq!(to_hex(&data), to_hex(sent));
    let computed = digest_of(&command.table, &partitions);
    assert_eq!(to_hex(&computed), to_hex(digest), "{command:?} {partitions:?}");
}
