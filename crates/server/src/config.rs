//! The settings of the server. The comment of a setting names its key in the configuration file;
//! sizes are in bytes.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use espalier_runtime::net::tls::{Handshake, TlsAcceptor};

use crate::admin::AdminAccess;
use crate::admission::ConnectionLimits;
use crate::audit::AuditOptions;
use crate::protocol::DEFAULT_MAX_FRAME_SIZE;

/// Settings of the native transport and the admin API.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// `rpc_address` and `native_transport_port`: the address at which CQL clients connect.
    pub listen: SocketAddr,
    /// `native_shard_aware_transport_port` on the same address, where the client's port chooses the
    /// shard.
    pub shard_aware_listen: Option<SocketAddr>,
    /// `client_encryption_options`; `None` if clients connect without TLS.
    pub encryption: Option<ClientEncryption>,
    /// `api_address` and `api_port`: the address of the admin HTTP API and of the metrics.
    pub admin_listen: Option<SocketAddr>,
    /// `api_token` and `api_encryption_options`: the conditions for requests to the admin API.
    pub admin_access: AdminAccess,
    /// `audit_logging_options`.
    pub audit: AuditOptions,
    /// `native_transport_max_frame_size`: the longest body of a request, in bytes.
    pub max_frame_size: usize,
    /// `native_transport_max_concurrent_connections[_per_ip]`: the limits of open connections.
    pub connection_limits: ConnectionLimits,
    /// `native_transport_max_request_data_in_flight`: bytes, for the whole node.
    pub max_request_data_in_flight: usize,
    /// `native_transport_max_request_data_in_flight_per_ip`: bytes, for the whole node.
    pub max_request_data_in_flight_per_ip: usize,
    /// `broadcast_rpc_address`: the address of this node that clients read. Without the setting, it
    /// is the address on which the node listens.
    pub broadcast_address: IpAddr,
    /// True if the node is a member of a Cassandra ring. It then coordinates no requests: it serves
    /// only its own tables, and local rows to clients that ask for them.
    pub is_ring_member: bool,
    /// `trace_type_query_ttl`, in seconds: the TTL of the rows of traces.
    pub trace_ttl_s: u32,
}

/// The encryption of clients' connections.
#[derive(Clone, Debug)]
pub struct ClientEncryption {
    /// Accepts the encrypted connections.
    pub acceptor: Arc<TlsAcceptor>,
    /// [`Handshake::Required`] if the clients of the encrypted ports must use TLS.
    pub handshake: Handshake,
    /// `native_transport_port_ssl`: the address of encrypted connections, if those of
    /// [`ServerConfig::listen`] are plain.
    pub listen: Option<SocketAddr>,
    /// `native_shard_aware_transport_port_ssl`: the same for
    /// [`ServerConfig::shard_aware_listen`].
    pub shard_aware_listen: Option<SocketAddr>,
}

impl ServerConfig {
    /// Returns the defaults for a node with `memory` bytes. Requests in flight get a tenth of the
    /// memory, and requests from one address a fortieth. Cassandra gives them the same shares of
    /// its heap.
    pub fn new(listen: SocketAddr, memory: usize) -> Self {
        Self {
            listen,
            shard_aware_listen: None,
            encryption: None,
            admin_listen: None,
            admin_access: AdminAccess::default(),
            audit: AuditOptions::new("audit"),
            max_frame_size: DEFAULT_MAX_FRAME_SIZE,
            connection_limits: ConnectionLimits::default(),
            max_request_data_in_flight: memory / 10,
            max_request_data_in_flight_per_ip: memory / 40,
            broadcast_address: listen.ip(),
            is_ring_member: false,
            trace_ttl_s: 24 * 3600,
        }
    }
}
