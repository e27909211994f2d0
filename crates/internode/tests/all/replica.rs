//! Tests random reads of random tables, answered from storage: rows, tombstones and digests are
//! those that Cassandra's own classes make of the same writes
//! (`interop/cassandra/ReadVectors.java`).
//!
//! The test needs Java and Cassandra, as the test `oracle` does. A full run has 210 tables with 500
//! reads each, so that it compares at least 100,000 digests; the gate has 21 with 100 each.
#![allow(clippy::disallowed_methods, reason = "the messages come from another process")]

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use espalier_internode::{
    MessagingVersion,
    message::Verb,
    payload::{Minima, Partition, Payload, ReadCommand, ReadResponse, Tables},
    replica::{AnswerBudget, ReadTerms, TombstoneLimits, answer},
};
use espalier_mutation::schema::{KeyspaceMetadata, Schema as NodeSchema, TableMetadata};
use espalier_runtime::{
    ShardContext, block_on,
    file::FileSystem,
    random::{Generator, uuid_v4},
    time::{Instant, ManualClock},
};
use espalier_storage::{Node, SharedStorage, StorageConfiguration};
use espalier_testing::{cases, first_seed, runs_all};

use crate::{
    oracle::output_of,
    vectors::{self, Vector, to_hex},
};

pub async fn open() -> Node {
    let mut configuration = StorageConfiguration::new("node");
    // A compaction would purge by the node's clock, which may be later than the time of the reads.
    configuration.autocompaction = false;
    let context = ShardContext { index: 0, count: 1 };
    let (files, shared) = (FileSystem::simulated(1), SharedStorage::new());
    Node::open(context, files, Arc::new(configuration), shared).await.unwrap()
}

pub async fn create(database: &Node, tables: Vec<Arc<TableMetadata>>) {
    let tables: BTreeMap<_, _> =
        tables.into_iter().map(|table| (table.name.clone(), table)).collect();
    let keyspace = KeyspaceMetadata {
        replication: [("class".into(), "SimpleStrategy".into())].into(),
        tables,
        ..KeyspaceMetadata::new("ks")
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

/// Returns partitions whose baselines (`minima`) are 0, because an encoder may choose baselines
/// freely.
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

/// Returns true if Cassandra's answer closes a range deletion before the position at which it
/// opens. Cassandra does so if a limit of groups ends the partition at a row behind the opening.
fn is_out_of_order(partition: &Partition, table: &TableMetadata) -> bool {
    let items = partition.content.iter().flat_map(|content| &content.unfiltered);
    let items: Vec<_> = items.collect();
    items.windows(2).any(|pair| {
        let order = table.comparator().compare(pair[0].position(), pair[1].position());
        if partition.is_reversed { order.is_le() } else { order.is_ge() }
    })
}

/// The outcome of a check that found no difference.
enum Checked {
    /// The answer has no partition.
    Empty,
    Full,
    /// The answers were not compared, because the order of Cassandra's own answer is wrong.
    LeftOut,
}

async fn check(
    database: &Node,
    version: MessagingVersion,
    (command, response, digest): (&Bytes, &Bytes, &Bytes),
) -> Result<Checked, String> {
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
    if expected.iter().any(|partition| is_out_of_order(partition, &command.table)) {
        return Ok(Checked::LeftOut);
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
    Ok(if expected.is_empty() { Checked::Empty } else { Checked::Full })
}

/// The clock of the storage, in µs since 1970: eleven days before the reads of `ReadVectors`, so
/// that the storage purges nothing.
const CLOCK_US: i64 = (1_795_000_000 - 11 * 86_400) * 1_000_000;

#[test]
fn answers_and_digests_are_those_of_cassandra() {
    let (tables, reads) = (cases(210), if runs_all() { 500 } else { 100 });
    let numbers = [first_seed(), tables, reads];
    let Some(text) = output_of("ReadVectors", &numbers) else { return };
    // The storage purges by its clock; the real time may be later than the time of the reads.
    let _installed = ManualClock::new(CLOCK_US).moving_when_idle().install();
    block_on(async move {
        let database = open().await;
        let (schema, _) = vectors::parse(&text);
        create(&database, schema.0.into_values().collect()).await;
        let mut generator = Generator::from_seed(first_seed());
        let (_, vectors) = vectors::parse(&text);
        let (mut compared, mut full, mut left_out) = (0, 0, 0);
        let mut differences = Vec::new();
        for vector in &vectors {
            match vector {
                Vector::Write(body) => {
                    let version = MessagingVersion::V13;
                    let schema = database.store().schema();
                    let write = Payload::decode(Verb::MUTATION_REQ, version, body, &*schema);
                    let Payload::Mutation(write) = write.unwrap() else { panic!() };
                    let write = write.into_mutation().unwrap();
                    let table = Tables::table(&*schema, write.updates[0].table).unwrap();
                    database.apply(write).await.unwrap();
                    // Some writes of tables with even numbers are in files (`isFlushed` of
                    // `ReadVectors.java`), all others in memory.
                    let number: u64 = table.name[1..].parse().unwrap();
                    if number.is_multiple_of(2) && generator.below(30) == 0 {
                        database.flush("ks", Some(&table.name)).await.unwrap();
                    }
                }
                Vector::Answer { version, command, response, digest } => {
                    let read = (command, response, digest);
                    match check(&database, *version, read).await {
                        Ok(Checked::LeftOut) => left_out += 1,
                        Ok(checked) => {
                            compared += 1;
                            full += u64::from(matches!(checked, Checked::Full));
                        }
                        Err(difference) => differences.push(difference),
                    }
                }
                Vector::Message(..) => panic!(),
            }
        }
        println!("{compared} digests, {full} of rows; {left_out} reads left out");
        let first = differences.iter().take(10).cloned().collect::<Vec<_>>().join("\n");
        assert!(differences.is_empty(), "{} differ:\n{first}", differences.len());
        assert_eq!(compared + left_out, tables * reads);
        // A tenth of the tables may be far from the average.
        let (of_left_out, of_full) = if runs_all() { (50, 3) } else { (10, 6) };
        assert!(
            left_out * of_left_out < compared && full * of_full > compared,
            "{compared} {full} {left_out}"
        );
    });
}
