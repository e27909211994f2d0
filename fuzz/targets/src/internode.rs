//! The target of the messages between nodes, from a peer's side.

use std::sync::{Arc, LazyLock};

use bytes::{Bytes, BytesMut};
use espalier_internode::{
    MessagingVersion,
    frame::{DEFAULT_MAX_MESSAGE_BYTES, MessageReader},
    handshake::{Accept, Initiate},
    message::{Message, Verb},
    payload::{Payload, Tables},
};
use espalier_mutation::schema::{TableBuilder, TableId, TableMetadata};
use espalier_types::CqlType;
use uuid::Uuid;

use crate::input::Input;

/// A schema that has one table, under every id. The table has columns of many forms.
struct OneTable;

static TABLE: LazyLock<Arc<TableMetadata>> = LazyLock::new(|| {
    let list = CqlType::List { element: Arc::new(CqlType::Text), frozen: false };
    let (key, value) = (Arc::new(CqlType::Text), Arc::new(CqlType::Int));
    let table = TableBuilder::new("ks", "t", TableId(Uuid::nil()))
        .partition_key("k", CqlType::Text)
        .clustering("c", CqlType::Int, false)
        .clustering("d", CqlType::Text, true)
        .static_column("s", CqlType::Int)
        .regular("m", CqlType::Map { key, value, frozen: false })
        .regular("l", list)
        .regular("v", CqlType::Text)
        .regular("w", CqlType::Int);
    Arc::new(table.build())
});

impl Tables for OneTable {
    fn table(&self, _: TableId) -> Option<Arc<TableMetadata>> {
        Some(TABLE.clone())
    }
}

/// Decodes messages. Input: `MODE, VERB`, then bytes: a payload of the verb, or, if bit 0 of MODE
/// is set, the bytes of a connection. Bit 1 of MODE chooses the version; bit 2 is set for
/// compressed frames.
pub fn internode(data: &[u8]) {
    let mut input = Input(data);
    let mode = input.byte();
    let verb = *input.choose(Verb::ALL);
    let version = MessagingVersion::ALL[usize::from(mode >> 1 & 1)];
    let bytes = Bytes::copy_from_slice(input.0);
    if mode & 1 == 0 {
        payload(verb, version, &bytes);
        return;
    }
    let _ = Initiate::decode(&bytes);
    let _ = Accept::decode(&bytes);
    let mut reader = MessageReader::new(mode & 4 != 0, DEFAULT_MAX_MESSAGE_BYTES);
    let mut buffer = BytesMut::from(&bytes[..]);
    while let Ok(Some(message)) = reader.next(&mut buffer) {
        envelope(&message, version);
    }
    envelope(&bytes, version);
}

fn envelope(bytes: &Bytes, version: MessagingVersion) {
    let Ok(message) = Message::decode(bytes) else { return };
    let _ = message.header.forward_to();
    let _ = message.header.respond_to();
    let _ = message.header.custom_parameters();
    payload(message.header.verb, version, &message.payload);
}

/// Decodes a payload. Checks that its encoding decodes to the same payload.
fn payload(verb: Verb, version: MessagingVersion, bytes: &Bytes) {
    let Ok(payload) = Payload::decode(verb, version, bytes, &OneTable) else { return };
    let mut encoded = Vec::new();
    if payload.encode(version, &mut encoded).is_ok() {
        let again = Payload::decode(verb, version, &encoded.into(), &OneTable);
        assert!(again.is_ok_and(|again| again == payload), "{verb} changes when it is encoded");
    }
    match payload {
        Payload::Mutation(mutation) => drop(mutation.into_mutation()),
        Payload::BatchStore(batch) => drop(batch.mutations(&OneTable)),
        _ => {}
    }
}
