//! Random reads of random tables, answered from storage: rows, tombstones and digests are those
//! that Cassandra's own classes make of the same writes (`interop/cassandra/ReadVectors.java`).
//!
//! The test needs what the oracle of messages needs; see `oracle`. A full run has 200 tables with
//! 500 reads each, the gate 20 with 100 each.
#![allow(clippy::disallowed_methods, reason = "the messages come from another process")]

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use espalier_internode::{
    MessagingVersion,
    message::Verb,
    payload::{Minima, Partition, Payload, ReadCommand, ReadResponse},
    replica::{AnswerBudget, ReadTerms, TombstoneLimits, answer},
};
use espalier_mutation::{
    Unfiltered,
    schema::{KeyspaceMetadata, Schema as NodeSchema, TableMetadata},
};
use espalier_runtime::{
    ShardContext, block_on,
    file::FileSystem,
    random::{Generator, uuid_v4},
    time::{Instant, ManualClock},
};
use espalier_storage::{Node, SharedStorage, StorageConfiguration};
use espalier_testing::{cases, first_seed, runs_all};
use espalier_types::byte_comparable::{decode_component, encode_component};

use crate::{
    oracle::output_of,
    vectors::{self, Vector, to_hex},
};

pub async fn open() -> Node {
    let mut configuration = StorageConfiguration::new("node");
    // The clock of the reads is years behind that of compactions.
    configuration.autocompaction = false;
    let context = ShardContext { index: 0, count: 1 };
    let (files, shared) = (FileSystem::simulated(1), SharedStorage::new());
    Node::open(context, files, Arc::new(configuration), shared).await.unwrap()
}

pub async fn create(database: &Node, tables: Vec<Arc<TableMetadata>>) {
    let tables: BTreeMap<_, _> =
        tables.into_iter().map(|table| (table.name.clone(), table)).collect();
    let keyspace = KeyspaceMetadata {
        name: "ks".into(),
        replication: [("class".into(), "SimpleStrategy".into())].into(),
        durable_writes: true,
        tables,
        types: Default::default(),
        annotations: Default::default(),
        unreadable: Default::default(),
    };
    let change = |schema: &NodeSchema| -> Result<Option<NodeSchema>, ()> {
        let mut keyspaces = schema.keyspaces.clone();
        keyspaces.insert("ks".into(), Arc::new(keyspace));
        Ok(Some(NodeSchema::new(keyspaces, uuid_v4())))
    };
    database.change_schema(change).await.unwrap().unwrap();
}

pub fn terms() -> ReadTerms {
    ReadTerms {
        deadline: Instant::now() + Duration::from_secs(600),
        tombstones: TombstoneLimits::default(),
        tracks_warnings: false,
        tracks_repaired: false,
        budget: AnswerBudget::default(),
    }
}

async fn answered(database: &Node, command: &ReadCommand, digest: bool) -> ReadResponse {
    let command = ReadCommand { digest_version: digest.then_some(13), ..command.clone() };
    let answer = answer(database, command.clone(), terms()).await;
    answer.unwrap_or_else(|failure| panic!("{failure:?}: {command:?}")).response
}

/// Returns partitions without the baselines of their form, which are free.
fn plain(partitions: Vec<Partition>) -> Vec<Partition> {
    let minima = Minima { timestamp: 0, local_deletion_time: 0, ttl: 0 };
    let plain = |mut partition: Partition| {
        if let Some(content) = &mut partition.content {
            content.minima = minima;
        }
        partition
    };
    partitions.into_iter().map(plain).collect()
}

/// Returns whether Cassandra closes a range deletion before the place where it opens. It does so if
/// a limit of groups ends the partition at a row behind the opening.
fn is_out_of_order(partition: &Partition, table: &TableMetadata) -> bool {
    let items = partition.content.iter().flat_map(|content| &content.unfiltered);
    let items: Vec<_> = items.collect();
    items.windows(2).any(|pair| {
        let order = table.comparator().compare(pair[0].position(), pair[1].position());
        if partition.is_reversed { order.is_le() } else { order.is_ge() }
    })
}

/// Returns whether a bound of a range deletion is not the form of its value that the node keeps: it
/// keeps the number of a decimal, without zeros at the end. docs/ring.md names this fault.
fn has_other_bounds(partition: &Partition, table: &TableMetadata) -> bool {
    let items = partition.content.iter().flat_map(|content| &content.unfiltered);
    let mut markers = items.filter(|item| matches!(item, Unfiltered::Marker(_)));
    markers.any(|marker| {
        let values = marker.position().values.iter();
        values.zip(table.clustering_columns()).any(|(value, column)| {
            let mut encoded = Vec::new();
            encode_component(&column.column_type, false, value.as_deref(), &mut encoded);
            let kept = decode_component(&column.column_type, false, &mut &encoded[..]);
            kept.unwrap() != *value
        })
    })
}

async fn check(
    database: &Node,
    version: MessagingVersion,
    (command, response, digest): (&Bytes, &Bytes, &Bytes),
) -> Result<bool, String> {
    let schema = database.store().schema();
    let decode = |verb, bytes| {
        let payload = Payload::decode(verb, version, bytes, &*schema);
        payload.unwrap_or_else(|error| panic!("{verb}: {error}: {}", to_hex(bytes)))
    };
    let Payload::Read(command) = decode(Verb::READ_REQ, command) else { panic!() };
    let Payload::ReadResponse(expected) = decode(Verb::READ_RSP, response) else { panic!() };
    let ours = answered(database, &command, false).await;
    // The test compares the decoded message, as a coordinator sees it.
    let mut encoded = Vec::new();
    Payload::ReadResponse(ours).encode(version, &mut encoded).unwrap();
    let Payload::ReadResponse(ours) = decode(Verb::READ_RSP, &encoded.into()) else { panic!() };
    let ours = plain(ours.partitions(&command).unwrap());
    let expected = plain(expected.partitions(&command).unwrap());
    let is_left_out = |partition: &Partition| {
        is_out_of_order(partition, &command.table) || has_other_bounds(partition, &command.table)
    };
    if expected.iter().any(is_left_out) {
        return Ok(true);
    }
    let show = |partitions: &[Partition]| {
        let show = |partition: &Partition| {
            let content = partition.content.as_ref();
            let content = content.map(|content| {
                let row = content.static_row.as_ref().map(|(columns, row)| (columns.names(), row));
                (content.deletion, content.regulars.names(), row, &content.unfiltered)
            });
            format!("{} {} {content:?}", to_hex(&partition.key), partition.is_reversed)
        };
        partitions.iter().map(show).collect::<Vec<_>>().join("\n")
    };
    let about = format!(
        "{:?} {:?} {:?} {:?} {:?} {}",
        command.columns,
        command.filter,
        command.limits,
        command.selection,
        command.now_s,
        command.needs_reconciliation,
    );
    if ours != expected {
        return Err(format!("{about}\n  ours {}\n  cassandra {}", show(&ours), show(&expected)));
    }
    let ReadResponse::Digest(ours) = answered(database, &command, true).await else { panic!() };
    if ours != *digest {
        let (ours, digest) = (to_hex(&ours), to_hex(digest));
        return Err(format!("{about}\n  {}\n  ours {ours}\n  cassandra {digest}", show(&expected)));
    }
    Ok(!expected.is_empty())
}

/// The clock of the storage, in µs since 1970: eleven days before the reads of `ReadVectors`, so
/// that it purges nothing.
const CLOCK_US: i64 = (1_795_000_000 - 11 * 86_400) * 1_000_000;

#[test]
fn answers_and_digests_are_those_of_cassandra() {
    let (tables, reads) = (cases(200), if runs_all() { 500 } else { 100 });
    let numbers = [first_seed(), tables, reads];
    let Some(text) = output_of("ReadVectors", &numbers) else { return };
    // The storage purges by the clock, which would be later than the time of the reads.
    let _installed = ManualClock::new(CLOCK_US).moving_when_idle().install();
    block_on(async move {
        let database = open().await;
        let (schema, _) = vectors::parse(&text);
        create(&database, schema.0.into_values().collect()).await;
        let mut generator = Generator::from_seed(first_seed());
        let (_, vectors) = vectors::parse(&text);
        let (mut count, mut full, mut differences) = (0, 0, Vec::new());
        for vector in &vectors {
            match vector {
                Vector::Write(body) => {
                    let version = MessagingVersion::V13;
                    let schema = database.store().schema();
                    let write = Payload::decode(Verb::MUTATION_REQ, version, body, &*schema);
                    let Payload::Mutation(write) = write.unwrap() else { panic!() };
                    database.apply(write.into_mutation().unwrap()).await.unwrap();
                    // Some writes are in files, others in memory.
                    if generator.below(30) == 0 {
                        database.flush("ks", None).await.unwrap();
                    }
                }
                Vector::Answer { version, command, response, digest } => {
                    let read = (command, response, digest);
                    match check(&database, *version, read).await {
                        Ok(has_rows) => full += u64::from(has_rows),
                        Err(difference) => differences.push(difference),
                    }
                    count += 1;
                }
                Vector::Message(..) => panic!(),
            }
        }
        println!("{count} reads, {full} with rows");
        let first = differences.iter().take(10).cloned().collect::<Vec<_>>().join("\n");
        assert!(differences.is_empty(), "{} differ:\n{first}", differences.len());
        assert!(count == tables * reads && full * 3 > count, "{count} {full}");
    });
}
