//! Refuses requests that a member of a Cassandra ring cannot serve.
//!
//! A member does not coordinate requests, because it would acknowledge a write that no other
//! replica has, and read the rows of only one replica. Requests that need a coordinator fail with
//! IS_BOOTSTRAPPING; then drivers try the next node. A member serves its own tables, because
//! drivers read them to connect. It also serves SELECT at consistency NODE_LOCAL, which asks for
//! the rows of this replica.

use espalier_cql as cql;

use crate::connection::Connection;
use crate::protocol::Consistency;
use crate::protocol::response::{ErrorDetail, ErrorResponse};

/// The text of the error: Cassandra's, then our reason.
const REFUSAL: &str = "Cannot read from a bootstrapping node: this node is a member of a ring but \
                       coordinates no requests; send them to a Cassandra node";

/// Refuses a statement that a member of a ring cannot serve.
#[inline]
pub(super) fn check_statement(
    connection: &Connection,
    prepared: &cql::Prepared,
    consistency: Consistency,
) -> Result<(), ErrorResponse> {
    if !connection.server.config.is_ring_member || is_served(prepared, consistency) {
        Ok(())
    } else {
        Err(refusal())
    }
}

#[cold]
fn is_served(prepared: &cql::Prepared, consistency: Consistency) -> bool {
    let reads_replica = prepared.is_select() && consistency == Consistency::NodeLocal;
    reads_replica || prepared.concerns_node_alone()
}

/// Refuses a request that a member of a ring never serves.
pub(super) fn check_member(connection: &Connection) -> Result<(), ErrorResponse> {
    if connection.server.config.is_ring_member { Err(refusal()) } else { Ok(()) }
}

/// Returns the error for a text that has no plan. The schema of a member may be older than that of
/// its ring, so the error says nothing about the ring's tables.
pub(super) fn explain(
    connection: &Connection,
    text: &str,
    keyspace: Option<&str>,
    error: ErrorResponse,
) -> ErrorResponse {
    let is_member = connection.server.config.is_ring_member;
    if is_member && !cql::selects_from_node(text, keyspace) { refusal() } else { error }
}

#[cold]
fn refusal() -> ErrorResponse {
    ErrorResponse::new(ErrorDetail::IsBootstrapping, REFUSAL)
}
