//! `system_views.clients`: the connections that the layer above has.

use std::net::IpAddr;

use bytes::Bytes;

use super::VirtualRows;
use crate::{database::Database, system::address};

/// A client's connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectedClient {
    /// Its address.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
    /// Its keyspace, if it has chosen one.
    pub keyspace: Option<String>,
    /// What is known since it has introduced itself.
    pub session: Option<ClientSession>,
}

/// What a client says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSession {
    /// The version of the native protocol that it speaks.
    pub protocol_version: u8,
    /// Names and values of its options.
    pub options: Vec<(String, String)>,
}

impl Database {
    /// Says how the clients of this shard are found, for `system_views.clients`. The first who says it is believed.
    pub fn set_clients(&self, find: impl Fn() -> Vec<ConnectedClient> + 'static) {
        let _ = self.inner.clients.set(Box::new(find));
    }

    pub(super) async fn put_clients(&self, rows: &mut VirtualRows<'_>) {
        let clients = self.on_all_shards(|database| async move {
            database.inner.clients.get().map(|find| find()).unwrap_or_default()
        });
        for client in clients.await.into_iter().flatten() {
            let port = Bytes::copy_from_slice(&i32::from(client.port).to_be_bytes());
            rows.put(&[address(client.address)], [port], |row| {
                // There are neither users nor encrypted connections here.
                let row = row.boolean("ssl_enabled", false).text("username", "anonymous");
                let row = match &client.keyspace {
                    Some(keyspace) => row.text("keyspace_name", keyspace),
                    None => row,
                };
                let Some(ClientSession { protocol_version, options }) = client.session else {
                    return row.text("connection_stage", "established");
                };
                let row = row
                    .text("connection_stage", "ready")
                    .int("protocol_version", i32::from(protocol_version));
                let named = [("driver_name", "DRIVER_NAME"), ("driver_version", "DRIVER_VERSION")];
                let row = named.into_iter().fold(row, |row, (column, name)| {
                    match options.iter().find(|(option, _)| option.eq_ignore_ascii_case(name)) {
                        Some((_, value)) => row.text(column, value),
                        None => row,
                    }
                });
                let options: std::collections::BTreeMap<_, _> = options.into_iter().collect();
                row.map("client_options", options)
            });
        }
    }
}
