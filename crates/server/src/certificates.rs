//! Reads certificates again while the node runs, and uses new ones.

use std::rc::Rc;
use std::time::Duration;

use espalier_runtime::net::tls::TlsError;
use espalier_runtime::{JoinHandle, spawn_local, time};
use futures_util::future::LocalBoxFuture;

/// Interval at which a task reads the files. Arbitrary.
const INTERVAL: Duration = Duration::from_secs(10);

/// Reads the certificate files of one kind of connections again (CQL, admin API, between nodes),
/// and returns whether they changed. If that fails, these connections keep their certificates.
pub type ReloadCertificates = Box<dyn Fn() -> LocalBoxFuture<'static, Result<bool, TlsError>>>;

/// The certificates of one kind of connections.
pub(crate) struct Certificates {
    /// The connections that the certificates protect, for the log.
    connections: &'static str,
    reload: ReloadCertificates,
}

impl Certificates {
    pub fn new(connections: &'static str, reload: ReloadCertificates) -> Rc<Self> {
        Rc::new(Self { connections, reload })
    }

    /// Reads the files again. Returns whether they changed.
    ///
    /// # Errors
    /// Fails with the reason if the files cannot be used; the node then keeps its certificates.
    pub async fn reload(&self) -> Result<bool, String> {
        let changed = (self.reload)().await.map_err(|error| error.to_string())?;
        if changed {
            let connections = self.connections;
            tracing::info!(connections, "new certificates are used from now on");
        }
        Ok(changed)
    }

    /// Starts a task that reads the files at each interval.
    pub fn watch(self: Rc<Self>) -> JoinHandle<()> {
        spawn_local(async move {
            let mut last_failure = String::new();
            loop {
                time::sleep(INTERVAL).await;
                match self.reload().await {
                    Ok(_) => last_failure.clear(),
                    // The file may stay damaged for long, so the log has one line for each reason.
                    Err(reason) if reason == last_failure => {}
                    Err(reason) => {
                        tracing::error!(
                            connections = self.connections,
                            %reason,
                            "new certificates cannot be used, the node keeps the old ones"
                        );
                        last_failure = reason;
                    }
                }
            }
        })
    }
}
