//! The interface from a member to its node: schema, writes, batches, conditional writes and reads.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use espalier_mutation::schema::{Schema, TableId};
use espalier_storage::{ReadPosition, SchemaMerge};
use uuid::Uuid;

use crate::{
    paxos::{PaxosAnswer, PaxosRequest},
    payload::{Batch, Mutation, ReadCommand},
    replica::{ReadAnswer, ReadFailure, ReadTerms, TombstoneLimits},
};

/// A future of the calling shard.
pub type LocalFuture<T> = Pin<Box<dyn Future<Output = T>>>;

/// Some batches, and the position after them if there are more.
pub type BatchPage = (Vec<Batch>, Option<ReadPosition>);

/// The node whose member of the ring makes these calls.
pub trait Backend {
    /// Returns the schema, by which messages are decoded.
    fn schema(&self) -> Arc<Schema>;

    /// Merges the schema of a peer into the node's. `rows` are all rows of the schema tables of the
    /// peer.
    fn take_schema(&self, rows: Vec<Mutation>) -> LocalFuture<Result<SchemaMerge, String>>;

    /// Stores a write. The future is ready when the write is synced.
    fn store(&self, write: espalier_mutation::Mutation) -> LocalFuture<Result<(), String>>;

    /// Stores a write as [`Self::store`] does, but drops its changes of each table that was
    /// truncated at or after `made_ms`, in ms since 1970.
    fn store_unless_truncated(
        &self,
        write: espalier_mutation::Mutation,
        made_ms: i64,
    ) -> LocalFuture<Result<(), String>>;

    /// Returns the time of the last truncation of a table, in µs since 1970.
    fn truncated_at_us(&self, table: TableId) -> LocalFuture<Result<Option<i64>, String>>;

    /// Keeps a batch. The future is ready when the batch is synced.
    fn store_batch(&self, batch: Batch) -> LocalFuture<Result<(), String>>;

    /// Removes a batch.
    fn remove_batch(&self, id: Uuid) -> LocalFuture<Result<(), String>>;

    /// Returns a page of the batches that the node keeps: those after a position, or the first
    /// ones.
    fn batches(&self, after: Option<ReadPosition>) -> LocalFuture<Result<BatchPage, String>>;

    /// Removes all rows of a table, if that can begin within `wait`.
    fn truncate(&self, table: TableId, wait: Duration) -> LocalFuture<Result<(), String>>;

    /// Answers a step of a conditional write. The outcome is synced when the future is ready.
    fn paxos(&self, request: PaxosRequest) -> LocalFuture<Result<PaxosAnswer, String>>;

    /// Answers a read as a Cassandra replica does.
    fn read(
        &self,
        command: ReadCommand,
        terms: ReadTerms,
    ) -> LocalFuture<Result<ReadAnswer, ReadFailure>>;

    /// Returns the limits of tombstones in a read.
    fn tombstone_limits(&self) -> TombstoneLimits;

    /// Returns the version of the node's own schema. The member reports this version to its peers
    /// until it has taken the ring's schema.
    fn own_schema_version(&self) -> Uuid {
        self.schema().version
    }
}
