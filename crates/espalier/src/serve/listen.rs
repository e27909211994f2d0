//! The addresses of a node. The node checks them before it opens the data, so that a used port is
//! reported at once.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use espalier_runtime::net::probe_address;
use espalier_runtime::time::{self, Instant};
use espalier_server::ServerConfig;

use super::ServeError;

/// The addresses that the `ready` line shows. Where the settings have port 0, the kernel has chosen
/// the port.
#[derive(Clone, Debug)]
pub struct Addresses {
    /// For CQL.
    pub cql: SocketAddr,
    /// For the admin API and the metrics.
    pub admin: SocketAddr,
    /// True if the admin API is served over TLS.
    pub admin_has_tls: bool,
}

impl Addresses {
    /// Checks that no other process uses the addresses of `server`, and replaces each port 0 in
    /// `server` with the port that the kernel has chosen.
    ///
    /// # Errors
    /// Fails if an address is in use for longer than a second, or if the node cannot listen on it.
    pub async fn claim(server: &mut ServerConfig) -> Result<Self, ServeError> {
        let cql = claim(server.listen, "CQL", "--port or --host").await?;
        server.listen = cql;
        if let Some(address) = server.shard_aware_listen {
            let setting = "--set native_shard_aware_transport_port=";
            server.shard_aware_listen = Some(claim(address, "shard-aware CQL", setting).await?);
        }
        if let Some(encryption) = &mut server.encryption {
            let setting = "--set native_transport_port_ssl=";
            if let Some(address) = &mut encryption.listen {
                *address = claim(*address, "CQL with TLS", setting).await?;
            }
            let setting = "--set native_shard_aware_transport_port_ssl=";
            if let Some(address) = &mut encryption.shard_aware_listen {
                *address = claim(*address, "shard-aware CQL with TLS", setting).await?;
            }
        }
        let admin = match server.admin_listen {
            Some(address) => claim(address, "the admin API", ADMIN_SETTING).await?,
            None => SocketAddr::new(cql.ip(), 0),
        };
        server.admin_listen = Some(admin);
        Ok(Self { cql, admin, admin_has_tls: server.admin_access.acceptor.is_some() })
    }

    /// Returns the URL of the admin API.
    pub fn admin_url(&self) -> String {
        let scheme = if self.admin_has_tls { "https" } else { "http" };
        format!("{scheme}://{}", self.admin)
    }

    /// Returns the error of a CQL server that cannot listen on an address that was free before.
    pub fn cql_failed(&self, error: io::Error) -> ServeError {
        let setting = "--port or --host";
        ServeError::Listen { purpose: "CQL", address: self.cql, error, setting }
    }

    /// Returns the error of an admin API that cannot listen on an address that was free before.
    pub fn admin_failed(&self, error: io::Error) -> ServeError {
        let (address, setting) = (self.admin, ADMIN_SETTING);
        ServeError::Listen { purpose: "the admin API", address, error, setting }
    }
}

const ADMIN_SETTING: &str = "--set api_port=";

/// Time for which the node waits for an address in use before it fails. After a process was killed,
/// the kernel closes the sockets of the process in the background, together with its io_uring.
const PATIENCE: Duration = Duration::from_secs(1);

async fn claim(
    address: SocketAddr,
    purpose: &'static str,
    setting: &'static str,
) -> Result<SocketAddr, ServeError> {
    let began = Instant::now();
    loop {
        match probe_address(address) {
            Ok(address) => return Ok(address),
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse && began.elapsed() < PATIENCE =>
            {
                time::sleep(Duration::from_millis(10)).await;
            }
            Err(error) => {
                return Err(ServeError::Listen { purpose, address, error, setting });
            }
        }
    }
}
