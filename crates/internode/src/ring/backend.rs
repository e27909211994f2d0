//! The node behind a member: its schema, and the storage of writes.

use std::{future::Future, pin::Pin, sync::Arc};

use espalier_mutation::schema::Schema;
use uuid::Uuid;

use crate::payload::Mutation;

/// A future of the calling shard.
pub type LocalFuture<T> = Pin<Box<dyn Future<Output = T>>>;

/// The node behind a member.
pub trait Backend {
    /// Returns the schema, by which messages are decoded.
    fn schema(&self) -> Arc<Schema>;

    /// Makes the keyspaces of the ring those of the node. `rows` are all rows of the schema tables
    /// of a peer.
    ///
    /// Returns the number of tables that the node cannot have as the ring does.
    fn take_schema(&self, rows: Vec<Mutation>) -> LocalFuture<Result<usize, String>>;

    /// Stores a write. It is synced when the future is ready.
    fn store(&self, write: espalier_mutation::Mutation) -> LocalFuture<Result<(), String>>;

    /// Returns the version of the node's own schema, for a member that has not taken the ring's.
    fn own_schema_version(&self) -> Uuid {
        self.schema().version
    }
}
