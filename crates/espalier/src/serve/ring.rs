//! The node as a member of a Cassandra ring (docs/ring.md).

use std::net::SocketAddr;
use std::rc::Rc;

use espalier_internode::ring::{LocalView, RingMember};
use espalier_storage::system::RELEASE_VERSION;

use super::ServeError;
use super::lead::Leadership;
use super::shard::ShardNode;

/// The SSTables that the node reads, as Cassandra names them.
const SSTABLE_VERSIONS: &str = "big-nb,big-oa,bti-da";

/// Joins the ring; `None` if the node is a cluster of its own.
///
/// # Errors
/// Fails if the node cannot listen on the address for its peers.
pub fn join(
    node: &ShardNode,
    leadership: &Leadership,
    generation: u32,
) -> Result<Option<Rc<RingMember>>, ServeError> {
    let Some(settings) = leadership.ring.clone() else { return Ok(None) };
    let native = SocketAddr::new(leadership.broadcast_address, leadership.addresses.cql.port());
    let local = LocalView {
        host_id: node.database.host_id(),
        generation: i32::try_from(generation).unwrap_or(i32::MAX),
        release_version: RELEASE_VERSION.to_owned(),
        native,
        sstable_versions: SSTABLE_VERSIONS.to_owned(),
    };
    let address = settings.listen;
    let database = node.database.clone();
    let schema_version = Box::new(move || database.schema().version);
    let member = RingMember::start(settings, &local, schema_version).map_err(|error| {
        let setting = "--set storage_port=";
        ServeError::Listen { purpose: "the nodes of the ring", address, error, setting }
    })?;
    let metrics = member.metrics();
    node.server.add_counters(Box::new(move || metrics.counts().to_vec()));
    tracing::warn!(
        listen = %address,
        "joined a ring as an experiment: reads and writes of the ring are refused (docs/ring.md)"
    );
    Ok(Some(member))
}
