//! Tests that the answer to a read does not depend on the files in which the writes are.

use bytes::Bytes;
use espalier_internode::{
    payload::{ReadCommand, ReadResponse},
    replica::answer,
};
use espalier_mutation::{Clustering, DeletionTime, Mutation, PartitionUpdate, Row, Unfiltered};
use espalier_runtime::{block_on, time::ManualClock};

use crate::{
    replica::terms,
    replica_limits::{database, key_of, whole_partition},
};

/// Timestamp in µs of the deletions.
const AT: i64 = 7;

/// Deletes a row, and then the partition at the same timestamp, but one second earlier. With
/// `is_flushed`, a file has the deletion of the row. Returns the data and the digest.
async fn answers(read: &ReadCommand, is_flushed: bool) -> [ReadResponse; 2] {
    let database = database().await;
    let (table, key) = (read.table.id, key_of(read));
    let mut row = Row::empty(Clustering::new([Bytes::from_static(&[0, 0, 0, 1])]));
    row.deletion = DeletionTime::new(AT, read.now_s);
    let mut older = PartitionUpdate::new(table, key.clone());
    older.rows.push(row);
    database.apply(Mutation { updates: vec![older] }).await.unwrap();
    if is_flushed {
        database.flush("ks", Some("t")).await.unwrap();
    }
    let mut newer = PartitionUpdate::new(table, key);
    newer.deletion = DeletionTime::new(AT, read.now_s - 1);
    database.apply(Mutation { updates: vec![newer] }).await.unwrap();
    let data = answer(&database, read.clone(), terms()).await.unwrap().response;
    let digest = ReadCommand { digest_version: Some(13), ..read.clone() };
    let digest = answer(&database, digest, terms()).await.unwrap().response;
    [data, digest]
}

/// The file has nothing newer than the deletion of the partition, but the deletion of the row stays
/// beside it.
#[test]
fn a_deletion_of_the_same_timestamp_in_a_file_counts_in_the_digest() {
    let read = whole_partition();
    // The storage purges by its clock; the real time may be later than the time of the read.
    let _installed =
        ManualClock::new(i64::from(read.now_s) * 1_000_000).moving_when_idle().install();
    block_on(async move {
        let [data, digest] = answers(&read, true).await;
        let partitions = data.partitions(&read).unwrap();
        let content = partitions[0].content.as_ref().unwrap();
        assert_eq!(content.deletion, DeletionTime::new(AT, read.now_s - 1));
        let [Unfiltered::Row(row)] = &content.unfiltered[..] else { panic!("{content:?}") };
        assert_eq!(row.deletion, DeletionTime::new(AT, read.now_s));
        assert_eq!([data, digest], answers(&read, false).await);
    });
}
