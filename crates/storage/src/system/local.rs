//! `system.local`: the description of the node.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use bytes::Bytes;
use espalier_mutation::{Cell, DecoratedKey, PartitionUpdate, Row};
use uuid::Uuid;

use super::{
    SYSTEM_KEYSPACE,
    row::{Fields, RowWriter},
    table,
};

/// The release of Cassandra with the protocol, CQL and files of this node. Drivers choose their
/// queries by this version.
pub const RELEASE_VERSION: &str = "5.0.9";
/// CQL version.
pub const CQL_VERSION: &str = "3.4.7";
/// Name of the data centre of a node that is no member of a ring; Cassandra's default.
pub const DATA_CENTER: &str = "datacenter1";
/// Name of the rack of such a node.
pub const RACK: &str = "rack1";
/// The only token of such a node, which owns the whole ring.
pub const TOKEN: &str = "-9223372036854775808";

/// The content of `system.local`.
#[derive(Clone, Debug)]
pub struct LocalNode {
    /// Id of the node, generated at the first start.
    pub host_id: Uuid,
    /// Name of the cluster (`cluster_name`).
    pub cluster_name: String,
    /// Address of the native protocol.
    pub rpc_address: IpAddr,
    /// Port of the native protocol.
    pub rpc_port: u16,
    /// Version of the schema.
    pub schema_version: Uuid,
    /// Time of the start, in seconds since 1970.
    pub generation_s: u32,
    /// The data centre.
    pub data_center: String,
    /// The rack.
    pub rack: String,
    /// The tokens, as numbers.
    pub tokens: Vec<String>,
}

/// Returns the key of the one row of `system.local`.
pub fn local_key() -> DecoratedKey {
    DecoratedKey::new(Bytes::from_static(b"local"))
}

/// Returns the time of the start that a row of `system.local` describes, in seconds since 1970.
pub fn generation_of(row: &Row) -> Option<u32> {
    let table = table(SYSTEM_KEYSPACE, "local");
    let seconds = Fields::new(&table, row).int("gossip_generation")?;
    u32::try_from(seconds).ok()
}

/// Returns the tokens in a row of `system.local`.
pub fn tokens_of(row: &Row) -> Vec<String> {
    let table = table(SYSTEM_KEYSPACE, "local");
    let tokens = Fields::new(&table, row).cells("tokens");
    let live = tokens.iter().filter(|(_, cell)| !cell.is_tombstone());
    live.map(|(token, _)| String::from_utf8_lossy(token).into_owned()).collect()
}

/// Returns the times of a Cassandra node's truncations in a row of `system.local`, by the table's
/// id, in µs since 1970. Cassandra keeps a position in its commit log (12 bytes) and a time in ms
/// for each table. The time here is the last µs of that ms.
pub(crate) fn truncations_of(row: &Row) -> BTreeMap<Uuid, i64> {
    let table = table(SYSTEM_KEYSPACE, "local");
    let entries = Fields::new(&table, row).cells("truncated_at");
    let live = entries.iter().filter(|(_, cell)| !cell.is_tombstone());
    let entry = |(id, cell): &(Bytes, Cell)| {
        let at_ms = i64::from_be_bytes(cell.value.get(12..)?.try_into().ok()?);
        let at_us = at_ms.checked_mul(1000)?.checked_add(999)?;
        Some((Uuid::from_slice(id).ok()?, at_us)).filter(|_| at_ms > 0)
    };
    live.filter_map(entry).collect()
}

/// Returns the serialised form of an `inet`.
pub(crate) fn address(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Returns the write of the whole row, for a start that changes it.
pub fn local_update(node: &LocalNode, timestamp: i64, now_s: u32) -> PartitionUpdate {
    let table = table(SYSTEM_KEYSPACE, "local");
    // A set is in the order of its elements as text.
    let tokens: BTreeSet<_> = node.tokens.iter().collect();
    RowWriter::new(&table, &[], timestamp)
        .text("bootstrapped", "COMPLETED")
        .bytes("broadcast_address", address(node.rpc_address))
        .int("broadcast_port", i32::from(node.rpc_port))
        .text("cluster_name", &node.cluster_name)
        .text("cql_version", CQL_VERSION)
        .text("data_center", &node.data_center)
        .int("gossip_generation", node.generation_s as i32)
        .uuid("host_id", node.host_id)
        .bytes("listen_address", address(node.rpc_address))
        .int("listen_port", i32::from(node.rpc_port))
        .text("native_protocol_version", "5")
        .text("partitioner", "org.apache.cassandra.dht.Murmur3Partitioner")
        .text("rack", &node.rack)
        .text("release_version", RELEASE_VERSION)
        .bytes("rpc_address", address(node.rpc_address))
        .int("rpc_port", i32::from(node.rpc_port))
        .uuid("schema_version", node.schema_version)
        .set_cells("tokens", tokens, now_s)
        .update(local_key())
}

/// Returns the write of the tokens alone.
pub fn tokens_update(tokens: &[String], timestamp: i64, now_s: u32) -> PartitionUpdate {
    let table = table(SYSTEM_KEYSPACE, "local");
    let tokens: BTreeSet<_> = tokens.iter().collect();
    RowWriter::new(&table, &[], timestamp).set_cells("tokens", tokens, now_s).update(local_key())
}

/// Returns the write of a new schema version. Drivers wait until all nodes show the same version.
pub fn schema_version_update(version: Uuid, timestamp: i64) -> PartitionUpdate {
    let table = table(SYSTEM_KEYSPACE, "local");
    RowWriter::new(&table, &[], timestamp).uuid("schema_version", version).update(local_key())
}

/// Returns whether a live row of `system.local` already describes the node, so that it need not be
/// written again. The start time and the tokens do not count.
pub fn is_described_by(node: &LocalNode, row: &Row) -> bool {
    let table = table(SYSTEM_KEYSPACE, "local");
    let fields = Fields::new(&table, row);
    fields.uuid("host_id") == Some(node.host_id)
        && fields.uuid("schema_version") == Some(node.schema_version)
        && fields.text("cluster_name") == Some(&node.cluster_name)
        && fields.text("data_center") == Some(&node.data_center)
        && fields.text("rack") == Some(&node.rack)
        && fields.bytes("rpc_address").is_some_and(|bytes| *bytes == address(node.rpc_address))
        && fields.int("rpc_port") == Some(i32::from(node.rpc_port))
        && fields.text("release_version") == Some(RELEASE_VERSION)
        && fields.text("cql_version") == Some(CQL_VERSION)
}
