//! The options that SUPPORTED lists, and the checks of the options that STARTUP asks for.

use espalier_storage::ClientSession;

use crate::protocol::request::Startup;
use crate::protocol::response::{ErrorDetail, ErrorResponse};
use crate::protocol::{Compression, ProtocolVersion};

/// The version of CQL that this node speaks: the version of Cassandra 5.0.
pub const CQL_VERSION: &str = "3.4.7";

/// The shard of a connection. Shard-aware drivers send each request to a connection of the shard
/// that owns the request's token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardInfo {
    /// The connection's shard.
    pub index: usize,
    /// The number of shards of the node.
    pub count: usize,
    /// A port on which the client's own port chooses the shard (port modulo the number of shards).
    pub shard_aware_port: Option<u16>,
}

/// Returns the options of SUPPORTED.
pub(crate) fn supported(shard: ShardInfo) -> Vec<(String, Vec<String>)> {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let one = |value: String| vec![value];
    let mut options = vec![
        ("CQL_VERSION".to_owned(), names(&[CQL_VERSION])),
        ("COMPRESSION".to_owned(), names(&Compression::NAMES)),
        ("PROTOCOL_VERSIONS".to_owned(), names(&ProtocolVersion::NAMES)),
        ("SCYLLA_SHARD".to_owned(), one(shard.index.to_string())),
        ("SCYLLA_NR_SHARDS".to_owned(), one(shard.count.to_string())),
        ("SCYLLA_PARTITIONER".to_owned(), names(&["org.apache.cassandra.dht.Murmur3Partitioner"])),
        ("SCYLLA_SHARDING_ALGORITHM".to_owned(), names(&["biased-token-round-robin"])),
        ("SCYLLA_SHARDING_IGNORE_MSB".to_owned(), names(&["0"])),
    ];
    if let Some(port) = shard.shard_aware_port {
        options.push(("SCYLLA_SHARD_AWARE_PORT".to_owned(), one(port.to_string())));
    }
    options
}

/// Returns the compression that STARTUP asks for, or the error that answers STARTUP. Like
/// Cassandra, this refuses a CQL version that does not parse or is older than 3, and accepts all
/// others (the Rust driver sends 4.0.0).
pub(crate) fn accept_startup(
    version: ProtocolVersion,
    startup: &Startup<'_>,
) -> Result<Option<Compression>, ErrorResponse> {
    let refuse = |message| Err(ErrorResponse::new(ErrorDetail::Protocol, message));
    let cql_version = startup.get("CQL_VERSION").unwrap_or_default();
    if !is_cql_3_or_later(cql_version) {
        return refuse(format!(
            "CQL version {cql_version:.20} is not supported (the supported version is {CQL_VERSION})"
        ));
    }
    match startup.get("COMPRESSION") {
        None | Some("") => Ok(None),
        Some(name) => match (Compression::from_name(name), version) {
            (None, _) => refuse(format!("Unknown compression algorithm: {name:.20}")),
            (Some(Compression::Snappy), ProtocolVersion::V5) => {
                refuse("Compression snappy is not part of version 5; it has lz4".to_owned())
            }
            (Some(compression), _) => Ok(Some(compression)),
        },
    }
}

/// Returns the description of a client from its STARTUP options. The node keeps it for as long as
/// the client is connected, so its size is bounded.
pub(crate) fn session_of(version: ProtocolVersion, startup: &Startup<'_>) -> ClientSession {
    /// Drivers send about six options.
    const MAX_OPTIONS: usize = 16;
    const MAX_CHARACTERS: usize = 128;
    let cut = |text: &str| text.chars().take(MAX_CHARACTERS).collect::<String>();
    let options = startup.options().iter().take(MAX_OPTIONS);
    ClientSession {
        protocol_version: version.number(),
        options: options.map(|(name, value)| (cut(name), cut(value))).collect(),
    }
}

fn is_cql_3_or_later(version: &str) -> bool {
    let mut parts = version.split('.');
    parts.next().and_then(|major| major.parse::<u16>().ok()).is_some_and(|major| major >= 3)
        && parts.next().is_some_and(|minor| minor.parse::<u16>().is_ok())
        && parts.next().is_some_and(|patch| patch.parse::<u16>().is_ok())
        && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::is_cql_3_or_later;

    #[test]
    fn cql_versions() {
        for good in ["3.0.0", "3.4.7", "3.3.1", "4.0.0"] {
            assert!(is_cql_3_or_later(good), "{good}");
        }
        for bad in ["", "3", "3.4", "2.0.0", "3.4.7.1", "3.x.0"] {
            assert!(!is_cql_3_or_later(bad), "{bad}");
        }
    }
}
