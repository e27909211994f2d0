//! The duties of shard 0: it writes the node's description, makes the first superuser, starts the
//! servers, joins the ring if the node is a member of one, waits for the signal to stop, and stops
//! everything in order.

use std::io::Write;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use espalier_internode::ring::RingSettings;
use espalier_runtime::signal::{StopSignal, stop_requested};
use espalier_runtime::sync::Event;
use espalier_runtime::time::{Instant, sleep};
use espalier_runtime::{spawn_local, submit_to_all};

use espalier_cql::auth::{FirstSuperuser, make_superuser};

use super::ServeError;
use super::introduce::{introduce, save_tokens};
use super::listen::Addresses;
use super::ring;
use super::shard::ShardNode;

/// The values that shard 0 needs.
#[derive(Clone)]
pub struct Leadership {
    /// The time at which the process started.
    pub began: Instant,
    /// The cluster name in `system.local`.
    pub cluster_name: String,
    /// The address that the node announces to clients.
    pub broadcast_address: IpAddr,
    /// The settings of a member of a Cassandra ring; `None` if the node is a cluster of its own.
    pub ring: Option<RingSettings>,
    /// The addresses to listen on.
    pub addresses: Addresses,
    /// The working directory, as text.
    pub directory: String,
    /// The number of shards.
    pub shards: usize,
}

/// Serves until a signal arrives. In the end it releases all shards, after an error too.
///
/// # Errors
/// Fails if the node cannot describe itself, make the first superuser, listen or join its ring, or
/// if it does not stop cleanly.
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
    let introduced = introduce(&node.database, leadership)
        .await
        .map_err(|error| ServeError::Open(Box::new(error)))?;
    let made = make_superuser(&node.database, &node.auth).await;
    if let Some(superuser) = made.map_err(|error| ServeError::Superuser(error.to_string()))? {
        announce_superuser(&superuser);
    }
    listen(node, &leadership.addresses).await?;
    let member = ring::join(node, leadership, introduced, &stop).await?;
    if member.is_some()
        && let Some(ring) = leadership.ring.as_ref().filter(|ring| !ring.tokens.is_empty())
        && let Err(error) = save_tokens(&node.database, &ring.tokens).await
    {
        tracing::error!(%error, "could not save the tokens of the node: keep initial_token set");
    }
    if !stop.is_set() {
        announce(leadership);
    }
    stop.wait().await;
    if let Some(member) = member {
        member.stop().await;
    }
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

/// Reports the first superuser. A password that the node made is one line on stderr, and not an
/// event of the log.
fn announce_superuser(superuser: &FirstSuperuser) {
    let FirstSuperuser { name, generated_password } = superuser;
    tracing::info!(role = name, "made the first superuser, since there was no role");
    if let Some(password) = generated_password {
        let line = format!(
            "the first superuser is {name} with the password {password} (shown only now; change it \
             with ALTER ROLE)"
        );
        // A failure is ignored, because stderr may have no reader.
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

/// Prints the `ready` line, the only line on stdout, because the process that started the node may
/// wait for it. The log has the line too.
fn announce(leadership: &Leadership) {
    let Leadership { began, addresses, directory, shards, .. } = leadership;
    let shards = match shards {
        1 => "1 shard".to_owned(),
        count => format!("{count} shards"),
    };
    let line = format!(
        "ready: CQL on {}, admin API on {}; {shards}, data in {directory}, after {} ms",
        addresses.cql,
        addresses.admin_url(),
        began.elapsed().as_millis(),
    );
    // A failure is ignored, because stdout may have no reader.
    let mut output = std::io::stdout();
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
    tracing::info!("{line}");
}

async fn stop_servers() {
    submit_to_all(|_| async {
        ShardNode::here().await.server.stop().await;
    })
    .await;
}

/// Time after the first signal in which the node ignores further signals, because `timeout` and
/// some service managers signal the process and then its group.
const SAME_REQUEST: Duration = Duration::from_millis(300);

/// Returns an event that the first SIGTERM or SIGINT sets. A signal more than [`SAME_REQUEST`]
/// later ends the process at once. The commit log then has all synced writes; under periodic sync,
/// it may lack some acknowledged writes.
///
/// # Errors
/// Fails if signals cannot be caught.
pub fn stop_at_signal() -> Result<Event, ServeError> {
    let stop = Event::new();
    let (first, reported) = (stop_requested().map_err(ServeError::Start)?, stop.clone());
    spawn_local(async move {
        let signal = first.await;
        tracing::info!(
            signal = name(signal),
            "stopping on a signal; a second one ends the process at once"
        );
        reported.set();
        sleep(SAME_REQUEST).await;
        if let Ok(second) = stop_requested() {
            let signal = second.await;
            tracing::warn!(
                signal = name(signal),
                "ending at once on a second signal; the next start replays the commit log"
            );
            // The exit status with which shells report a death by this signal.
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
