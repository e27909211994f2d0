//! Tests reads that end early: limits of tombstones, deadlines, limits of memory, and commands that
//! the node refuses. Cassandra 5.0.9 sent the commands; some tests change them.

use std::time::Duration;

use bytes::Bytes;
use espalier_internode::{
    MessagingVersion,
    digest::digest_of,
    message::{ParameterKind, Verb},
    payload::{
        Counted, Expression, FailureReason, Operator, Payload, ReadCommand, ReadResponse, Selection,
    },
    replica::{ReadAnswer, ReadFailure, ReadTerms, TombstoneLimits, answer},
};
use espalier_mutation::{
    Cell, Clustering, ColumnData, DecoratedKey, Liveness, Mutation, PartitionUpdate, Row,
    schema::{IndexKind, IndexMetadata, IndexPart, TableBuilder, TableId},
};
use espalier_runtime::{block_on, time::Instant};
use espalier_storage::Node;
use espalier_types::CqlType;
use uuid::Uuid;

use crate::{
    replica::{create, open, terms},
    sent_by_cassandra::{bodies, decode, schema},
};

/// Returns a command that Cassandra sent for all rows of a partition of `ks.t`.
pub fn whole_partition() -> ReadCommand {
    let reads = commands().into_iter();
    let mut reads = reads.filter(|read| {
        let is_unlimited =
            matches!(&read.limits.counted, Counted::Rows { limit, .. } if *limit > 999);
        read.table.name == "t"
            && matches!(read.selection, Selection::Partition { .. })
            && is_unlimited
            && read.filter.expressions.is_empty()
    });
    let read = reads.next().unwrap();
    ReadCommand { digest_version: None, ..read }
}

fn commands() -> Vec<ReadCommand> {
    let reads = bodies().into_iter().filter_map(|(verb, body)| match decode(verb, &body) {
        Payload::Read(read) if matches!(verb, Verb::READ_REQ | Verb::RANGE_REQ) => Some(*read),
        _ => None,
    });
    reads.filter(|read| read.table.keyspace == "ks" && !read.table.is_counter()).collect()
}

pub fn key_of(read: &ReadCommand) -> DecoratedKey {
    match &read.selection {
        Selection::Partition { key, .. } => DecoratedKey::new(key.clone()),
        Selection::Range(_) => panic!("{read:?}"),
    }
}

/// Writes `rows` rows to the partition of a command. In the first `dead` of them, the cell is a
/// tombstone.
pub async fn write(database: &Node, read: &ReadCommand, rows: i32, dead: i32) {
    let columns = read.table.columns();
    let value = columns.iter().find(|column| column.name == "v").unwrap().id;
    let mut update = PartitionUpdate::new(read.table.id, key_of(read));
    for number in 0..rows {
        let place = Bytes::copy_from_slice(&number.to_be_bytes());
        let mut row = Row::empty(Clustering::new([place]));
        row.liveness = Liveness::live(7);
        let cell = if number < dead {
            Cell::tombstone(7, read.now_s)
        } else {
            Cell::live(7, Bytes::from_static(b"text"))
        };
        row.columns.push((value, ColumnData::Simple(cell)));
        update.rows.push(row);
    }
    database.apply(Mutation { updates: vec![update] }).await.unwrap();
}

pub async fn database() -> Node {
    let database = open().await;
    let tables = schema().0.into_values().filter(|table| table.keyspace == "ks").collect();
    create(&database, tables).await;
    database
}

async fn with_limits(
    database: &Node,
    read: &ReadCommand,
    (warn, fail): (u64, u64),
    tracks_warnings: bool,
) -> Result<ReadAnswer, ReadFailure> {
    let tombstones = TombstoneLimits { warn: Some(warn), fail: Some(fail) };
    answer(database, read.clone(), ReadTerms { tombstones, tracks_warnings, ..terms() }).await
}

#[test]
fn tombstones_beyond_a_limit_warn_or_fail() {
    block_on(async {
        let (database, read) = (database().await, whole_partition());
        write(&database, &read, 10, 6).await;
        let quiet = with_limits(&database, &read, (6, 6), true).await.unwrap();
        assert!(quiet.parameters.is_empty() && quiet.many_tombstones.is_none());
        let warned = with_limits(&database, &read, (5, 6), true).await.unwrap();
        let [parameter] = &warned.parameters[..] else { panic!("{warned:?}") };
        assert_eq!(parameter.kind, ParameterKind::TombstoneWarning as u32);
        assert_eq!(&parameter.value[..], 6i32.to_be_bytes());
        assert_eq!(warned.response.partitions(&read).unwrap().len(), 1);
        let untracked = with_limits(&database, &read, (5, 6), false).await.unwrap();
        assert!(untracked.parameters.is_empty() && untracked.many_tombstones == Some(6));
        let failed = with_limits(&database, &read, (2, 5), false).await;
        let ReadFailure::Refused(reason, _) = failed.unwrap_err() else { panic!() };
        assert_eq!(reason, FailureReason::ReadTooManyTombstones);
        // With tracking, the coordinator finds the reason in an answer without rows.
        let failed = with_limits(&database, &read, (2, 5), true).await.unwrap();
        assert_eq!(failed.parameters[0].kind, ParameterKind::TombstoneFail as u32);
        assert_eq!(failed.response.partitions(&read).unwrap(), []);
    });
}

#[test]
fn a_read_ends_when_its_coordinator_gives_up() {
    block_on(async {
        let (database, read) = (database().await, whole_partition());
        write(&database, &read, 1000, 0).await;
        let expired = ReadTerms { deadline: Instant::now(), ..terms() };
        let outcome = answer(&database, read.clone(), expired).await;
        assert_eq!(outcome.unwrap_err(), ReadFailure::Expired);
        let later = ReadTerms { deadline: Instant::now() + Duration::from_secs(600), ..terms() };
        let answer = answer(&database, read.clone(), later).await.unwrap();
        let partitions = answer.response.partitions(&read).unwrap();
        assert_eq!(partitions[0].content.as_ref().unwrap().unfiltered.len(), 1000);
    });
}

#[test]
fn a_read_among_purged_rows_ends_when_its_coordinator_gives_up() {
    block_on(async {
        let (database, read) = (database().await, whole_partition());
        let value = read.table.column("v").unwrap().id;
        let mut update = PartitionUpdate::new(read.table.id, key_of(&read));
        for number in 0i32..600 {
            let place = Bytes::copy_from_slice(&number.to_be_bytes());
            let mut row = Row::empty(Clustering::new([place]));
            // The grace period of the table has passed long ago.
            row.columns.push((value, ColumnData::Simple(Cell::tombstone(7, 1))));
            update.rows.push(row);
        }
        database.apply(Mutation { updates: vec![update] }).await.unwrap();
        let empty = answer(&database, read.clone(), terms()).await.unwrap();
        assert_eq!(empty.response.partitions(&read).unwrap(), []);
        let expired = ReadTerms { deadline: Instant::now(), ..terms() };
        let outcome = answer(&database, read, expired).await;
        assert_eq!(outcome.unwrap_err(), ReadFailure::Expired);
    });
}

#[test]
fn an_answer_beyond_its_memory_fails() {
    block_on(async {
        let (database, read) = (database().await, whole_partition());
        let value = read.table.column("v").unwrap().id;
        for number in 0i32..40 {
            let mut update = PartitionUpdate::new(read.table.id, key_of(&read));
            let place = Bytes::copy_from_slice(&number.to_be_bytes());
            let mut row = Row::empty(Clustering::new([place]));
            let large = Bytes::from(vec![b'x'; 1 << 20]);
            row.columns.push((value, ColumnData::Simple(Cell::live(7, large))));
            update.rows.push(row);
            database.apply(Mutation { updates: vec![update] }).await.unwrap();
        }
        let refused = answer(&database, read.clone(), terms()).await.unwrap_err();
        let ReadFailure::Refused(reason, text) = refused else { panic!() };
        assert_eq!(reason, FailureReason::ReadSize, "{text}");
        // A digest takes no memory for its rows.
        let digest = ReadCommand { digest_version: Some(13), ..read };
        assert!(answer(&database, digest, terms()).await.is_ok());
    });
}

#[test]
fn unknown_indexes_and_conditions_are_refused() {
    block_on(async {
        let (database, read) = (database().await, whole_partition());
        let refused = |read: ReadCommand| {
            let database = database.clone();
            async move {
                match answer(&database, read, terms()).await.unwrap_err() {
                    ReadFailure::Refused(reason, _) => reason,
                    failure => panic!("{failure:?}"),
                }
            }
        };
        let index = Some(Uuid::from_u128(1));
        let with_index = ReadCommand { index, ..read.clone() };
        assert_eq!(refused(with_index).await, FailureReason::IndexNotAvailable);
        let (column, value) = (Bytes::from_static(b"v"), Bytes::from_static(b"x"));
        for operator in [Operator::Ann, Operator::LikePrefix, Operator::ContainsKey] {
            let mut filtered = read.clone();
            let (column, value) = (column.clone(), value.clone());
            filtered.filter.expressions = vec![Expression::Simple { column, operator, value }];
            assert_eq!(refused(filtered).await, FailureReason::Unknown);
        }
        let mut custom = read.clone();
        custom.filter.expressions = vec![Expression::Custom { index: Uuid::nil(), value }];
        assert_eq!(refused(custom).await, FailureReason::IndexNotAvailable);
    });
}

/// The node refuses conditions with SAI for which Cassandra's replicas return the rows that meet
/// any of the conditions.
#[test]
fn conditions_on_several_columns_with_sai_are_refused() {
    block_on(async {
        let options = [("class_name", "sai"), ("target", "a")];
        let index = IndexMetadata {
            name: "by_a".into(),
            column: "a".into(),
            part: IndexPart::Simple,
            kind: IndexKind::Custom,
            options: options.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        };
        let table = TableBuilder::new("ks", "indexed", TableId(Uuid::from_u128(9)))
            .partition_key("k", CqlType::Int)
            .clustering("c", CqlType::Int, false)
            .static_column("s", CqlType::Int)
            .regular("a", CqlType::Int)
            .regular("b", CqlType::Int)
            .indexes(vec![index]);
        let table = std::sync::Arc::new(table.build());
        let database = open().await;
        create(&database, vec![table.clone()]).await;
        // Cassandra's id of an index is the UUID of version 3 of its name.
        let id = Uuid::parse_str("917efe2e-982e-3ee5-bcb5-b1d064bb5dcb").unwrap();
        for (columns, is_refused) in [
            (vec!["a"], false),
            (vec!["a", "a"], false),
            (vec!["a", "c", "k"], false),
            (vec!["s"], false),
            (vec!["a", "b"], true),
            (vec!["a", "c", "b"], true),
            (vec!["s", "c"], true),
            (vec!["s", "s"], true),
            (vec!["a", "s"], true),
        ] {
            let mut read = whole_partition();
            let condition = |column: &&'static str| Expression::Simple {
                column: Bytes::from_static(column.as_bytes()),
                operator: Operator::Gt,
                value: Bytes::from_static(&[0; 4]),
            };
            read.filter.expressions = columns.iter().map(condition).collect();
            (read.table, read.index, read.needs_reconciliation) = (table.clone(), Some(id), true);
            let outcome = answer(&database, read, terms()).await;
            assert_eq!(outcome.is_err(), is_refused, "{columns:?}: {outcome:?}");
        }
    });
}

#[test]
fn commands_of_cassandra_are_answered_with_matching_digests() {
    block_on(async {
        let (database, commands) = (database().await, commands());
        for read in &commands {
            if read.table.name == "t" && matches!(read.selection, Selection::Partition { .. }) {
                write(&database, read, 5, 1).await;
            }
        }
        let mut with_rows = 0;
        for read in commands {
            let data = ReadCommand { digest_version: None, ..read.clone() };
            let data = answer(&database, data, terms()).await.unwrap();
            let partitions = data.response.partitions(&read).unwrap();
            with_rows += usize::from(!partitions.is_empty());
            let digest = ReadCommand { digest_version: Some(13), ..read.clone() };
            let digest = answer(&database, digest, terms()).await.unwrap();
            let ReadResponse::Digest(digest) = digest.response else { panic!() };
            assert_eq!(digest[..], digest_of(&read.table, &partitions));
        }
        assert!(with_rows > 5, "{with_rows}");
    });
}

#[test]
fn commands_with_a_wrong_byte_cause_no_panic() {
    block_on(async {
        let database = database().await;
        let schema = database.store().schema();
        write(&database, &whole_partition(), 20, 3).await;
        let mut answered = 0;
        let is_read = |verb: &Verb| matches!(*verb, Verb::READ_REQ | Verb::RANGE_REQ);
        for (verb, body) in bodies().into_iter().filter(|(verb, _)| is_read(verb)) {
            for place in 0..body.len() {
                for bits in [0x01, 0x80, 0xFF] {
                    let mut wrong = body.to_vec();
                    wrong[place] ^= bits;
                    let decoded =
                        Payload::decode(verb, MessagingVersion::V13, &wrong.into(), &*schema);
                    let Ok(Payload::Read(read)) = decoded else { continue };
                    answered += usize::from(answer(&database, *read, terms()).await.is_ok());
                }
            }
        }
        assert!(answered > 500, "{answered}");
    });
}
