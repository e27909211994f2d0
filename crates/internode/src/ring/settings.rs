//! The facts about the node that a member of a ring announces.

use std::{net::SocketAddr, time::Duration};

use espalier_mutation::Token;
use espalier_runtime::net::tls::{Handshake, TlsOptions};
use uuid::Uuid;

use super::Gossiper;
use crate::{
    MessagingVersion,
    payload::{ApplicationState, gossip::tokens_value},
};

/// The settings of a member, by the names of cassandra.yaml where it has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingSettings {
    /// `cluster_name`; nodes of another cluster do not answer.
    pub cluster_name: String,
    /// `listen_address` and `storage_port`.
    pub listen: SocketAddr,
    /// `broadcast_address` and `storage_port`, by which peers know the node.
    pub broadcast: SocketAddr,
    /// The seeds of `seed_provider`.
    pub seeds: Vec<SocketAddr>,
    /// `initial_token`, one or several. Empty if the tokens are those of the node's files.
    pub tokens: Vec<Token>,
    /// The data centre.
    pub data_center: String,
    /// The rack.
    pub rack: String,
    /// `internode_compression`: the connections of the node that have frames of LZ4.
    pub compression: Compression,
    /// `server_encryption_options`; `None` if connections between nodes are plain.
    pub encryption: Option<RingEncryption>,
    /// The greatest version of messages. The form of some messages depends on it, so it must be the
    /// ring's version: 12, or 13 if all nodes have `storage_compatibility_mode: NONE`.
    pub version: MessagingVersion,
    /// Time after the start in which gossip tells the member of all nodes, as Cassandra's
    /// `ring_delay_ms`. Until then, the member finishes no batches of the batch log, because it may
    /// take a wrong node for a replica.
    pub ring_delay: Duration,
}

/// The peers to which a node sends frames of LZ4. Each node decides for the connections that it
/// opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// `none`
    #[default]
    None,
    /// `dc`: the peers of other data centres.
    BetweenDataCenters,
    /// `all`
    All,
}

/// The encryption of connections between nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingEncryption {
    /// Files and choices of TLS. The node shows its certificate on the connections that it opens
    /// and on those that it accepts. With `is_opened`, it needs a truststore.
    pub options: TlsOptions,
    /// True if the connections that the node opens have TLS.
    pub is_opened: bool,
    /// [`Handshake::Required`] if the connections that the node accepts must have TLS.
    pub handshake: Handshake,
    /// `require_endpoint_verification`: the certificate of a peer must name its address, whichever
    /// of the two opens the connection.
    pub verifies_addresses: bool,
}

/// The facts about the node besides its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalView {
    /// The id of the node. It stays the same over restarts.
    pub host_id: Uuid,
    /// The tokens of the node in its files, with which it was a member before. They count if the
    /// settings have none.
    pub saved_tokens: Vec<Token>,
    /// The time of the start, in seconds since 1970; each start has a greater one.
    pub generation: i32,
    /// The release of Cassandra with the same protocol.
    pub release_version: String,
    /// The address of the native protocol for clients.
    pub native: SocketAddr,
    /// The version letters of SSTables that the node reads, with their formats (`big-nb`).
    pub sstable_versions: String,
}

impl RingSettings {
    /// Returns whether the node compresses what it sends to a peer of this data centre, which may
    /// be unknown.
    pub(super) fn compresses(&self, data_center: Option<&str>) -> bool {
        match self.compression {
            Compression::None => false,
            Compression::BetweenDataCenters => {
                data_center.is_some_and(|other| other != self.data_center)
            }
            Compression::All => true,
        }
    }

    /// Returns the tokens of the node: those of the settings, or those of its files.
    pub fn tokens_of<'t>(&'t self, local: &'t LocalView) -> &'t [Token] {
        if self.tokens.is_empty() { &local.saved_tokens } else { &self.tokens }
    }

    /// Returns the state of gossip of a node that takes its place in the ring. The node announces
    /// its tokens at once, without data from other nodes.
    pub(super) fn gossiper(&self, local: &LocalView) -> Gossiper {
        use ApplicationState as State;
        let (own, seeds) = (self.broadcast, self.seeds.clone());
        let mut gossiper = Gossiper::new(own, &self.cluster_name, seeds, local.generation);
        let tokens = self.tokens_of(local);
        let status = match tokens.first() {
            Some(token) => format!("NORMAL,{}", token.0),
            None => "NORMAL,".to_owned(),
        };
        gossiper.set(State::NetVersion, self.version.number().to_string());
        gossiper.set(State::HostId, local.host_id.to_string());
        gossiper.set(State::RpcAddress, local.native.ip().to_string());
        gossiper.set(State::NativeAddressAndPort, local.native.to_string());
        gossiper.set(State::ReleaseVersion, &local.release_version);
        gossiper.set(State::SstableVersions, &local.sstable_versions);
        gossiper.set(State::InternalIp, self.listen.ip().to_string());
        gossiper.set(State::InternalAddressAndPort, self.listen.to_string());
        gossiper.set(State::Dc, &self.data_center);
        gossiper.set(State::Rack, &self.rack);
        // A node that is not ready for clients gets no counter writes to lead.
        gossiper.set(State::RpcReady, "false");
        // Tokens come before the status, because a peer reads both when the status changes.
        gossiper.set(State::Tokens, tokens_value(tokens));
        gossiper.set(State::StatusWithPort, &status);
        gossiper.set(State::Status, &status);
        gossiper
    }
}
