//! The node as a member of a Cassandra ring (docs/ring.md).

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use espalier_internode::paxos::{self, PaxosAnswer, PaxosRequest};
use espalier_internode::payload::{Batch, Mutation as RingMutation, ReadCommand};
use espalier_internode::replica::{self, ReadAnswer, ReadFailure, ReadTerms, TombstoneLimits};
use espalier_internode::ring::{
    Backend, BatchPage, LocalFuture, LocalView, RingMember, StartError,
};
use espalier_mutation::Mutation;
use espalier_mutation::schema::{Schema, TableId};
use espalier_runtime::maybe_yield;
use espalier_runtime::sync::Event;
use espalier_storage::guardrails::{Level, Limit};
use espalier_storage::system::RELEASE_VERSION;
use espalier_storage::{Node, ReadPosition, SchemaMerge};
use futures_util::FutureExt;
use uuid::Uuid;

use super::ServeError;
use super::introduce::Introduced;
use super::lead::Leadership;
use super::ring_batches;
use super::shard::ShardNode;

/// The formats and versions of SSTables that the node announces to its peers, in Cassandra's names.
const SSTABLE_VERSIONS: &str = "big-nb,big-oa,bti-da";

/// Joins the ring. Returns `None` if the node is a cluster of its own, or if `stop` is set before
/// the node has joined.
///
/// # Errors
/// Fails if the node cannot listen on the address for its peers, if its certificates cannot be
/// used, or if it cannot join: see [`JoinError`](espalier_internode::ring::JoinError).
pub async fn join(
    node: &ShardNode,
    leadership: &Leadership,
    introduced: Introduced,
    stop: &Event,
) -> Result<Option<Rc<RingMember>>, ServeError> {
    let Some(settings) = leadership.ring.clone() else { return Ok(None) };
    let native = SocketAddr::new(leadership.broadcast_address, leadership.addresses.cql.port());
    let local = LocalView {
        host_id: node.database.store().host_id(),
        saved_tokens: introduced.saved_tokens,
        generation: i32::try_from(introduced.generation).unwrap_or(i32::MAX),
        release_version: RELEASE_VERSION.to_owned(),
        native,
        sstable_versions: SSTABLE_VERSIONS.to_owned(),
    };
    let address = settings.listen;
    let backend = Box::new(RingNode(node.database.clone()));
    let member = RingMember::start(settings, local, backend, stop).await;
    let member = member.map_err(|error| match error {
        StartError::Listen(error) => {
            let setting = "--set storage_port=";
            ServeError::Listen { purpose: "the nodes of the ring", address, error, setting }
        }
        StartError::Tls(error) => ServeError::Tls("server_encryption_options", error),
        StartError::Join(error) => ServeError::Join(error),
    })?;
    let Some(member) = member else { return Ok(None) };
    let metrics = member.metrics();
    node.server.add_counters(Box::new(move || metrics.counts().to_vec()));
    if member.has_certificates() {
        let member = Rc::downgrade(&member);
        let reload = move || {
            let member = member.upgrade();
            async move {
                match member {
                    Some(member) => member.reload_certificates().await,
                    None => Ok(false),
                }
            }
            .boxed_local()
        };
        node.server.watch_certificates("between nodes", Box::new(reload));
    }
    tracing::warn!(
        listen = %address,
        "joined a ring as an experiment (docs/ring.md)"
    );
    Ok(Some(member))
}

/// The storage of a member of a ring.
struct RingNode(Node);

impl Backend for RingNode {
    fn schema(&self) -> Arc<Schema> {
        self.0.store().schema()
    }

    fn take_schema(&self, rows: Vec<RingMutation>) -> LocalFuture<Result<SchemaMerge, String>> {
        let database = self.0.clone();
        Box::pin(async move {
            let mut updates = Vec::new();
            for update in rows.into_iter().flat_map(|mutation| mutation.updates) {
                updates.push(update.into_update().map_err(|error| error.to_string())?);
                maybe_yield().await;
            }
            database.merge_schema(updates).await.map_err(|error| error.to_string())
        })
    }

    fn store(&self, write: Mutation) -> LocalFuture<Result<(), String>> {
        let database = self.0.clone();
        Box::pin(async move { database.apply(write).await.map_err(|error| error.to_string()) })
    }

    fn store_unless_truncated(
        &self,
        mut write: Mutation,
        made_ms: i64,
    ) -> LocalFuture<Result<(), String>> {
        let database = self.0.clone();
        Box::pin(async move {
            let made_us = made_ms.saturating_mul(1000);
            let tables: BTreeSet<_> = write.updates.iter().map(|update| update.table).collect();
            for table in tables {
                let truncated = database.truncated_at_us(table).await;
                let truncated = truncated.map_err(|error| error.to_string())?;
                if truncated.is_some_and(|at_us| at_us >= made_us) {
                    write.updates.retain(|update| update.table != table);
                }
            }
            if write.updates.is_empty() {
                return Ok(());
            }
            database.apply(write).await.map_err(|error| error.to_string())
        })
    }

    fn truncated_at_us(&self, table: TableId) -> LocalFuture<Result<Option<i64>, String>> {
        let database = self.0.clone();
        Box::pin(
            async move { database.truncated_at_us(table).await.map_err(|error| error.to_string()) },
        )
    }

    fn store_batch(&self, batch: Batch) -> LocalFuture<Result<(), String>> {
        let database = self.0.clone();
        Box::pin(async move { ring_batches::store(&database, batch).await })
    }

    fn remove_batch(&self, id: Uuid) -> LocalFuture<Result<(), String>> {
        let database = self.0.clone();
        Box::pin(async move { ring_batches::remove(&database, id).await })
    }

    fn batches(&self, after: Option<ReadPosition>) -> LocalFuture<Result<BatchPage, String>> {
        let database = self.0.clone();
        Box::pin(async move { ring_batches::page(&database, after).await })
    }

    fn truncate(&self, table: TableId, wait: Duration) -> LocalFuture<Result<(), String>> {
        let database = self.0.clone();
        Box::pin(async move {
            let truncated = database.truncate_within(table, wait).await;
            truncated.map_err(|error| error.to_string())
        })
    }

    fn paxos(&self, request: PaxosRequest) -> LocalFuture<Result<PaxosAnswer, String>> {
        let database = self.0.clone();
        Box::pin(async move { paxos::answer(&database, request).await })
    }

    fn read(
        &self,
        command: ReadCommand,
        terms: ReadTerms,
    ) -> LocalFuture<Result<ReadAnswer, ReadFailure>> {
        let database = self.0.clone();
        Box::pin(async move { replica::answer(&database, command, terms).await })
    }

    fn tombstone_limits(&self) -> TombstoneLimits {
        let guardrails = &self.0.store().configuration().guardrails;
        let limit = |level| {
            let threshold = guardrails.threshold(Limit::Tombstones, level);
            threshold.and_then(|threshold| u64::try_from(threshold).ok())
        };
        TombstoneLimits { warn: limit(Level::Warn), fail: limit(Level::Fail) }
    }
}
