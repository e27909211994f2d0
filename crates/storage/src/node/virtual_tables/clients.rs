//! `system_views.clients`: the connections of the server.

use std::net::IpAddr;

use bytes::Bytes;

use super::VirtualRows;
use crate::{node::Node, system::address};

/// The connection of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectedClient {
    /// IP address of the client.
    pub address: IpAddr,
    /// Port of the client.
    pub port: u16,
    /// The client's current keyspace, if it has one.
    pub keyspace: Option<String>,
    /// The role of the client, if clients log in and this one has done so.
    pub role: Option<String>,
    /// True if the client has still to log in.
    pub awaits_login: bool,
    /// The client's session, once it has sent STARTUP.
    pub session: Option<ClientSession>,
    /// The encryption of the connection; `None` if it is plain.
    pub encryption: Option<ClientEncryption>,
}

/// The properties that a TLS handshake settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientEncryption {
    /// The version by Java's name, such as `TLSv1.3`.
    pub protocol: &'static str,
    /// The IANA name of the cipher suite.
    pub cipher_suite: String,
}

/// The properties that a client sends when it connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSession {
    /// Version of the native protocol.
    pub protocol_version: u8,
    /// Names and values of the options.
    pub options: Vec<(String, String)>,
}

impl Node {
    /// Sets the function that lists this shard's clients for `system_views.clients`. Only the first
    /// call has an effect.
    pub fn set_clients(&self, find: impl Fn() -> Vec<ConnectedClient> + 'static) {
        let _ = self.inner.clients.set(Box::new(find));
    }
}

impl VirtualRows<'_> {
    pub(super) async fn put_clients(&mut self, node: &Node) {
        let clients = node.on_all_shards(|node| async move {
            node.inner.clients.get().map(|find| find()).unwrap_or_default()
        });
        for client in clients.await.into_iter().flatten() {
            let port = Bytes::copy_from_slice(&i32::from(client.port).to_be_bytes());
            self.put(&[address(client.address)], [port], |row| {
                let tls = client.encryption.as_ref();
                let row = row
                    .text("username", client.role.as_deref().unwrap_or("anonymous"))
                    .boolean("ssl_enabled", tls.is_some())
                    .optional_text("ssl_protocol", tls.map(|tls| tls.protocol))
                    .optional_text("ssl_cipher_suite", tls.map(|tls| tls.cipher_suite.as_str()))
                    .optional_text("keyspace_name", client.keyspace.as_deref());
                let stage = if client.awaits_login { "authenticating" } else { "ready" };
                let Some(ClientSession { protocol_version, options }) = client.session else {
                    return row.text("connection_stage", "established");
                };
                let option = |name: &str| {
                    let found = options.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
                    found.map(|(_, value)| value.as_str())
                };
                let row = row
                    .text("connection_stage", stage)
                    .int("protocol_version", i32::from(protocol_version))
                    .optional_text("driver_name", option("DRIVER_NAME"))
                    .optional_text("driver_version", option("DRIVER_VERSION"));
                let options: std::collections::BTreeMap<_, _> = options.into_iter().collect();
                row.map("client_options", options)
            });
        }
    }
}
