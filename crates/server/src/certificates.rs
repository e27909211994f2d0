//! Takes new certificates from their files while the node runs.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use espalier_runtime::net::tls::TlsAcceptor;
use espalier_runtime::{JoinHandle, spawn_local, time};

use crate::shard::ShardServer;

/// Time between two looks at the files. Arbitrary.
const INTERVAL: Duration = Duration::from_secs(10);

/// Starts a task that reads the files of the certificates at each interval; `None` if clients
/// connect without TLS. One shard has the task, for all of them.
pub(crate) fn watch(server: &Rc<ShardServer>) -> Option<JoinHandle<()>> {
    let acceptor = Arc::clone(&server.config.encryption.as_ref()?.acceptor);
    Some(spawn_local(async move {
        let mut last_failure = String::new();
        loop {
            time::sleep(INTERVAL).await;
            match reload(&acceptor).await {
                Ok(_) => last_failure.clear(),
                // The file may stay as it is for long: one line is enough.
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
    }))
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
