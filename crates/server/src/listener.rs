//! The listener accepts connections and passes each to its shard.
//!
//! Every shard listens on the same address. On the usual port a connection goes to the shard with
//! the fewest connections, so that a few connections spread evenly (the kernel's own spreading does
//! not) and a shard-aware driver soon has one on each shard. On the shard-aware port the client
//! chooses: shard = its port modulo the number of shards.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use espalier_runtime::net::{DetachedStream, TcpListener, TcpStream};
use espalier_runtime::{spawn_local, submit_to, time};

use crate::admission::ConnectionPlace;
use crate::connection::Connection;
use crate::shard::ShardServer;

/// Pause after a failed accept, which happens when the kernel has no descriptor or memory for
/// another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How a listener chooses the shard of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// The shard with the fewest connections.
    FewestConnections,
    /// The client's port modulo the number of shards.
    ClientPort,
}

/// Accepts connections for ever; cancel the task to stop.
pub(crate) async fn accept_all(
    server: Rc<ShardServer>,
    listener: TcpListener,
    placement: Placement,
) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => place(&server, stream, peer, placement),
            Err(error) => {
                tracing::warn!(
                    %error,
                    "accepting a connection failed, trying again in 0.1 s; a limit of open files may be too low"
                );
                time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn place(server: &Rc<ShardServer>, stream: TcpStream, peer: SocketAddr, placement: Placement) {
    let target = match placement {
        Placement::FewestConnections => None,
        Placement::ClientPort => Some(usize::from(peer.port()) % server.shard.count),
    };
    let place = match server.connections.enter(peer.ip(), target) {
        Ok(place) => place,
        Err(limit) => {
            server.metrics.connections_refused.increment();
            tracing::warn!(
                %peer,
                limit,
                "refused a connection: the limit is reached, raise it to admit more"
            );
            return;
        }
    };
    let target = place.shard();
    if target == server.shard.index {
        return begin(Rc::clone(server), stream, peer, place);
    }
    match stream.detach() {
        Ok(stream) => {
            let arrive = move || async move {
                if let Err(error) = arrive(stream, peer, place) {
                    tracing::warn!(
                        %peer,
                        %error,
                        "moving a connection to its shard failed, it is closed"
                    );
                }
            };
            spawn_local(submit_to(target, arrive)).detach();
        }
        Err(error) => tracing::warn!(%peer, %error, "detaching a connection failed, it is closed"),
    }
}

/// Begins to serve a connection that another shard accepted.
fn arrive(stream: DetachedStream, peer: SocketAddr, place: ConnectionPlace) -> io::Result<()> {
    let server = ShardServer::current().ok_or(io::ErrorKind::NotConnected)?;
    begin(server, TcpStream::attach(stream)?, peer, place);
    Ok(())
}

fn begin(server: Rc<ShardServer>, stream: TcpStream, peer: SocketAddr, place: ConnectionPlace) {
    // The connection writes whole answers: waiting for more bytes would only delay them.
    if let Err(error) = stream.set_nodelay(true).and_then(|()| stream.set_keepalive(true)) {
        tracing::debug!(%peer, %error, "setting a connection's options failed");
    }
    let Ok(pass) = server.gate.enter() else { return };
    let connection = Connection::new(server, stream, peer, place, pass);
    connection.server.remember(&connection);
    spawn_local(connection.serve()).detach();
}
