//! Tests the input that a writer rejects or leaves out, and the state of the files after a crash.

mod content;
mod files_left;
mod refusals;

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{
    BoundKind, Clustering, ClusteringBound, DecoratedKey, DeletionTime, Liveness, PartitionHeader,
    RangeTombstoneMarker, Row, Unfiltered,
    schema::{TableBuilder, TableId, TableMetadata},
};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{SSTableError, SSTableWriter, WriterOptions};
use espalier_types::CqlType;

use crate::support::writing::descriptor;

const DIRECTORY: &str = "/data/ks/t";

fn table() -> Arc<TableMetadata> {
    let builder = TableBuilder::new("ks", "t", TableId(uuid::Uuid::from_u128(1)))
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Int, false)
        .regular("v", CqlType::Int);
    Arc::new(builder.build())
}

async fn writer() -> (FileSystem, SSTableWriter) {
    let file_system = FileSystem::simulated(5);
    file_system.create_dir_all(DIRECTORY).await.unwrap();
    let mut options =
        WriterOptions::for_table(descriptor(Path::new(DIRECTORY), 1), table()).unwrap();
    options.column_index_size = 1024;
    let writer = SSTableWriter::create(&file_system, options).await.unwrap();
    (file_system, writer)
}

/// Returns keys in the order of their tokens.
fn keys() -> [DecoratedKey; 3] {
    let mut keys = [1u32, 2, 3].map(|key| DecoratedKey::new(key.to_be_bytes().to_vec().into()));
    keys.sort();
    keys
}

fn header(key: &DecoratedKey) -> PartitionHeader {
    PartitionHeader { key: key.clone(), deletion: DeletionTime::LIVE, static_row: None }
}

fn values(value: u32) -> Box<[Option<Bytes>]> {
    Box::new([Some(Bytes::from(value.to_be_bytes().to_vec()))])
}

fn row(value: u32) -> Unfiltered {
    let mut row = Row::empty(Clustering { values: values(value) });
    row.liveness = Liveness::live(10);
    Unfiltered::Row(row)
}

fn marker(value: u32, kind: BoundKind, before: DeletionTime, after: DeletionTime) -> Unfiltered {
    let position = ClusteringBound { kind, values: values(value) };
    Unfiltered::Marker(RangeTombstoneMarker { position, before, after })
}

const LIVE: DeletionTime = DeletionTime::LIVE;

fn assert_rejected<T: std::fmt::Debug>(result: Result<T, SSTableError>, part: &str) {
    match result {
        Err(SSTableError::Rejected { reason, .. }) => assert!(reason.contains(part), "{reason}"),
        other => panic!("{other:?} instead of a refusal of '{part}'"),
    }
}

fn assert_taken<T: std::fmt::Debug>(result: Result<T, SSTableError>) {
    let is_taken = matches!(&result, Err(SSTableError::NameTaken { .. }));
    assert!(is_taken, "{result:?}, but a file of the name exists");
}
