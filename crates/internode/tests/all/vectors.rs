//! Reads the text of `interop/cassandra/InternodeVectors.java` and `ReadVectors.java`: tables, and
//! messages that Cassandra's serializers wrote.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use espalier_internode::{MessagingVersion, payload::Tables};
use espalier_mutation::schema::{TableBuilder, TableId, TableMetadata};
use espalier_types::CqlType;

/// Tables by their ids.
#[derive(Clone, Debug, Default)]
pub struct Schema(pub HashMap<TableId, Arc<TableMetadata>>);

impl Tables for Schema {
    fn table(&self, id: TableId) -> Option<Arc<TableMetadata>> {
        self.0.get(&id).cloned()
    }
}

/// A line that does not describe a table.
#[derive(Clone, Debug)]
pub enum Vector {
    /// A whole message.
    Message(MessagingVersion, Bytes),
    /// The payload of a mutation.
    Write(Bytes),
    /// The payloads of a read and its answer, and the digest of the answer.
    Answer { version: MessagingVersion, command: Bytes, response: Bytes, digest: Bytes },
}

/// Reads a text of tables and vectors.
pub fn parse(text: &str) -> (Schema, Vec<Vector>) {
    let mut schema = Schema::default();
    let mut vectors = Vec::new();
    let mut builder: Option<TableBuilder> = None;
    let mut close = |builder: Option<TableBuilder>| {
        let table = builder.map(|builder| Arc::new(builder.build()));
        schema.0.extend(table.map(|table| (table.id, table)));
    };
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["table", id, keyspace, name] => {
                close(builder.take());
                builder = Some(TableBuilder::new(keyspace, name, TableId(id.parse().unwrap())));
            }
            ["column", name, kind, ref marshal @ .., order] => {
                let marshal = marshal.join(" ");
                let (column_type, _) = CqlType::parse_marshal_maybe_reversed(&marshal)
                    .unwrap_or_else(|error| panic!("{marshal}: {error}"));
                let table = builder.take().unwrap();
                builder = Some(match kind {
                    "partition_key" => table.partition_key(name, column_type),
                    "clustering" => table.clustering(name, column_type, order == "desc"),
                    "static" => table.static_column(name, column_type),
                    "regular" => table.regular(name, column_type),
                    _ => panic!("{line}"),
                });
            }
            ["message", version, message] => {
                vectors.push(Vector::Message(self::version(version), hex(message)));
            }
            ["write", body] => vectors.push(Vector::Write(hex(body))),
            ["answer", version, command, response, digest] => vectors.push(Vector::Answer {
                version: self::version(version),
                command: hex(command),
                response: hex(response),
                digest: hex(digest),
            }),
            _ => panic!("{line}"),
        }
    }
    close(builder);
    (schema, vectors)
}

fn version(text: &str) -> MessagingVersion {
    MessagingVersion::from_number(text.parse().unwrap()).unwrap()
}

/// Reads hexadecimal digits.
pub fn hex(text: &str) -> Bytes {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap() as u8;
    text.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// Writes hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
