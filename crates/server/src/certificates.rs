//! Reloads changed certificates from their files while the node runs.

use std::sync::Arc;
use std::time::Duration;

use espalier_runtime::net::tls::TlsAcceptor;
use espalier_runtime::{JoinHandle, spawn_local, time};

use crate::shard::ShardServer;

/// Interval at which the task reads the files. Arbitrary.
const INTERVAL: Duration = Duration::from_secs(10);

/// Starts a task for each acceptor. The task reads the acceptor's certificates at each interval.
/// One shard runs the tasks of the node.
pub(crate) fn watch(server: &ShardServer) -> Vec<JoinHandle<()>> {
    acceptors(server).into_iter().map(watch_one).collect()
}

/// Returns the acceptors of CQL clients and of the admin API.
pub(crate) fn acceptors(server: &ShardServer) -> Vec<Arc<TlsAcceptor>> {
    let clients = server.config.encryption.as_ref().map(|encryption| &encryption.acceptor);
    clients.into_iter().chain(&server.config.admin_access.acceptor).cloned().collect()
}

fn watch_one(acceptor: Arc<TlsAcceptor>) -> JoinHandle<()> {
    spawn_local(async move {
        let mut last_failure = String::new();
        loop {
            time::sleep(INTERVAL).await;
            match reload(&acceptor).await {
                Ok(_) => last_failure.clear(),
                // The file may stay damaged for long, so the log has one line.
                Err(reason) if reason == last_failure => {}
                Err(reason) => {
                    tracing::error!(
                        %reason,
                        "new certificates cannot be used, the node keeps the old ones"
                    );
                    last_failure = reason;
                }
            }
        }
    })
}

/// Reads the files again. Returns whether they changed.
///
/// # Errors
/// Fails with the reason if the files cannot be used; the node then keeps its certificates.
pub(crate) async fn reload(acceptor: &TlsAcceptor) -> Result<bool, String> {
    let changed = acceptor.reload().await.map_err(|error| error.to_string())?;
    if changed {
        let path = acceptor.options().certificate.display();
        tracing::info!(certificate = %path, "new certificates are used from now on");
    }
    Ok(changed)
}
