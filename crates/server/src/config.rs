//! What the server is told to do. Keys have the names of cassandra.yaml and scylla.yaml; sizes are in bytes.

use std::net::{IpAddr, SocketAddr};

use crate::admission::ConnectionLimits;
use crate::protocol::DEFAULT_MAX_FRAME_SIZE;

/// Settings of the native transport and the admin API.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// `rpc_address` and `native_transport_port`: where CQL clients connect.
    pub listen: SocketAddr,
    /// `native_shard_aware_transport_port` on the same address: there the client's port chooses the shard.
    pub shard_aware_listen: Option<SocketAddr>,
    /// `api_address` and `api_port`: the admin HTTP API and the metrics.
    pub admin_listen: Option<SocketAddr>,
    /// `native_transport_max_frame_size`
    pub max_frame_size: usize,
    /// `native_transport_max_concurrent_connections[_per_ip]`
    pub connection_limits: ConnectionLimits,
    /// `native_transport_max_request_data_in_flight`, of the whole node.
    pub max_request_data_in_flight: usize,
    /// `native_transport_max_request_data_in_flight_per_ip`, of the whole node.
    pub max_request_data_in_flight_per_ip: usize,
    /// `broadcast_rpc_address`: what others are told of where this node is. Without the setting, the address that it listens on.
    pub broadcast_address: IpAddr,
    /// `trace_type_query_ttl`, in seconds: how long the rows of traces live.
    pub trace_ttl_s: u32,
}

impl ServerConfig {
    /// The defaults for a node with `memory` bytes: a tenth of them for requests in flight, a fortieth for those of one
    /// address, as Cassandra has it for its heap.
    pub fn new(listen: SocketAddr, memory: usize) -> Self {
        Self {
            listen,
            shard_aware_listen: None,
            admin_listen: None,
            max_frame_size: DEFAULT_MAX_FRAME_SIZE,
            connection_limits: ConnectionLimits::default(),
            max_request_data_in_flight: memory / 10,
            max_request_data_in_flight_per_ip: memory / 40,
            broadcast_address: listen.ip(),
            trace_ttl_s: 24 * 3600,
        }
    }
}
