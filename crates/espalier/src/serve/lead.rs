//! What shard 0 does for all: it says who we are, lets clients in, waits for the signal to stop, and stops in order.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use espalier_runtime::signal::{StopSignal, stop_requested};
use espalier_runtime::sync::Event;
use espalier_runtime::time::Instant;
use espalier_runtime::{spawn_local, submit_to_all};

use super::ServeError;
use super::introduce::introduce;
use super::listen::Addresses;
use super::shard::ShardNode;

/// What the leading shard has to know.
#[derive(Clone)]
pub struct Leadership {
    /// When the process began.
    pub began: Instant,
    /// What `system.local` says.
    pub cluster_name: String,
    /// The address that clients are told.
    pub broadcast_address: IpAddr,
    /// Where to listen.
    pub addresses: Addresses,
    /// The working directory, for people.
    pub directory: String,
    /// How many shards there are.
    pub shards: usize,
}

/// Serves until a signal comes. All shards are released at the end, whatever happens.
pub async fn lead(
    node: Rc<ShardNode>,
    leadership: Leadership,
    stop: Event,
) -> Result<(), ServeError> {
    let served = serve_until_stopped(&node, &leadership, stop).await;
    stop_servers().await;
    let stopped =
        node.database.shutdown().await.map_err(|error| ServeError::Shutdown(Box::new(error)));
    submit_to_all(|_| async { ShardNode::release() }).await;
    served.and(stopped)
}

async fn serve_until_stopped(
    node: &ShardNode,
    leadership: &Leadership,
    stop: Event,
) -> Result<(), ServeError> {
    introduce(&node.database, leadership)
        .await
        .map_err(|error| ServeError::Open(Box::new(error)))?;
    listen(node, &leadership.addresses).await?;
    announce(leadership);
    stop.wait().await;
    Ok(())
}

async fn listen(node: &ShardNode, addresses: &Addresses) -> Result<(), ServeError> {
    let outcomes = submit_to_all(|_| async { ShardNode::here().await.server.listen().map(drop) });
    for outcome in outcomes.await {
        outcome.map_err(|error| addresses.cql_failed(error))?;
    }
    node.server.listen_admin().map_err(|error| addresses.admin_failed(error))?;
    Ok(())
}

/// The one line on stdout: whoever started us may wait for it.
fn announce(leadership: &Leadership) {
    let Leadership { began, addresses, directory, shards, .. } = leadership;
    let shards = match shards {
        1 => "1 shard".to_owned(),
        count => format!("{count} shards"),
    };
    let line = format!(
        "ready: CQL on {}, admin API on {}; {shards}, data in {directory}, after {} ms",
        addresses.cql,
        url(addresses.admin),
        began.elapsed().as_millis(),
    );
    // Nobody may be there to read it.
    let mut output = std::io::stdout();
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
    tracing::info!("{line}");
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}")
}

async fn stop_servers() {
    submit_to_all(|_| async {
        ShardNode::here().await.server.stop().await;
    })
    .await;
}

/// An event for the first SIGTERM or SIGINT. A second one ends the process at once: what was acknowledged is in the commit
/// log.
pub fn stop_at_signal() -> Result<Event, ServeError> {
    let stop = Event::new();
    let (first, told) = (stop_requested().map_err(ServeError::Start)?, stop.clone());
    spawn_local(async move {
        let signal = first.await;
        let second = stop_requested();
        tracing::info!("{}: stopping; a second one stops at once", name(signal));
        told.set();
        if let Ok(second) = second {
            let signal = second.await;
            tracing::warn!("{} again: stopping at once", name(signal));
            // As shells show a death by this signal.
            let number = if signal == StopSignal::Interrupt { 2 } else { 15 };
            std::process::exit(128 + number);
        }
    })
    .detach();
    Ok(stop)
}

fn name(signal: StopSignal) -> &'static str {
    match signal {
        StopSignal::Terminate => "SIGTERM",
        StopSignal::Interrupt => "SIGINT",
    }
}
