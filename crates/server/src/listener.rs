//! The listener accepts connections and passes each to its shard.
//!
//! Every shard listens on the same address. On the usual port a connection goes to the shard with
//! the fewest connections, so that a few connections spread evenly (the kernel would spread them
//! unevenly) and a shard-aware driver soon has one on each shard. On the shard-aware port the
//! client chooses: the shard is the client's port modulo the number of shards.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use espalier_runtime::net::tls::Handshake;
use espalier_runtime::net::{DetachedStream, TcpListener, TcpStream};
use espalier_runtime::{spawn_local, submit_to, time};

use crate::admission::ConnectionSlot;
use crate::connection::Connection;
use crate::shard::ShardServer;

/// Pause after a failed accept, which happens when the kernel has no descriptor or memory for
/// another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Time that a client has for the TLS handshake. Arbitrary; the handshake has two round trips.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// The properties of a listening port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port {
    pub placement: Placement,
    /// `None` if connections are plain.
    pub handshake: Option<Handshake>,
}

/// The rule by which a listener chooses the shard of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// The shard with the fewest connections.
    FewestConnections,
    /// The client's port modulo the number of shards.
    ClientPort,
}

/// Accepts connections for ever; cancel the task to stop.
pub(crate) async fn accept_all(server: Rc<ShardServer>, listener: TcpListener, port: Port) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => place(&server, stream, peer, port),
            Err(error) => {
                if let Some(left_out) = server.log_limit.due("accepting a connection") {
                    tracing::warn!(
                        %error,
                        left_out,
                        "accepting a connection failed, trying again in 0.1 s; a limit of open files may be too low"
                    );
                }
                time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn place(server: &Rc<ShardServer>, stream: TcpStream, peer: SocketAddr, port: Port) {
    let target = match port.placement {
        Placement::FewestConnections => None,
        Placement::ClientPort => Some(usize::from(peer.port()) % server.shard.count),
    };
    let awaits_login = server.processor.auth().settings.authenticator.requires_login();
    let slot = match server.connections.enter(peer.ip(), target, awaits_login) {
        Ok(slot) => slot,
        Err(limit) => {
            server.metrics.connections_refused.increment();
            if let Some(left_out) = server.log_limit.due("refused connection") {
                tracing::warn!(
                    %peer,
                    limit,
                    left_out,
                    "refused a connection: the limit is reached, raise it to admit more"
                );
            }
            return;
        }
    };
    let target = slot.shard();
    let client = Client { peer, slot, handshake: port.handshake };
    if target == server.shard.index {
        return begin(Rc::clone(server), stream, client);
    }
    match stream.detach() {
        Ok(stream) => {
            let arrive = move || async move {
                if let Err(error) = arrive(stream, client) {
                    let server = ShardServer::current();
                    let due = server.and_then(|server| server.log_limit.due("moved connection"));
                    if let Some(left_out) = due {
                        tracing::warn!(
                            %peer,
                            %error,
                            left_out,
                            "moving a connection to its shard failed, it is closed"
                        );
                    }
                }
            };
            spawn_local(submit_to(target, arrive)).detach();
        }
        Err(error) => {
            if let Some(left_out) = server.log_limit.due("detaching a connection") {
                tracing::warn!(
                    %peer,
                    %error,
                    left_out,
                    "detaching a connection failed, it is closed"
                );
            }
        }
    }
}

/// Begins to serve a connection that another shard accepted.
fn arrive(stream: DetachedStream, client: Client) -> io::Result<()> {
    let server = ShardServer::current().ok_or(io::ErrorKind::NotConnected)?;
    begin(server, TcpStream::attach(stream)?, client);
    Ok(())
}

/// Time without data after which the kernel checks whether a client still exists. A client that
/// lost its power or its network then leaves its connection within two minutes. Arbitrary.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);

/// The client of a connection on its way to its shard.
struct Client {
    peer: SocketAddr,
    slot: ConnectionSlot,
    handshake: Option<Handshake>,
}

fn begin(server: Rc<ShardServer>, stream: TcpStream, client: Client) {
    let peer = client.peer;
    // The connection writes whole answers: waiting for more bytes would only delay them.
    if let Err(error) = stream.set_nodelay(true).and_then(|()| stream.set_keepalive(KEEPALIVE_IDLE))
    {
        tracing::debug!(%peer, %error, "setting a connection's options failed");
    }
    let encryption = server.config.encryption.as_ref();
    let Some((encryption, handshake)) = encryption.zip(client.handshake) else {
        return serve(server, stream, client);
    };
    let acceptor = Arc::clone(&encryption.acceptor);
    spawn_local(async move {
        let accepting = acceptor.accept(stream, handshake);
        match time::timeout(HANDSHAKE_LIMIT, accepting).await {
            Ok(Ok(stream)) => serve(server, stream, client),
            Ok(Err(error)) => refused(&server, peer, &error),
            Err(_) => refused(&server, peer, &"it took longer than 10 s"),
        }
    })
    .detach();
}

fn refused(server: &ShardServer, peer: SocketAddr, reason: &dyn std::fmt::Display) {
    server.metrics.handshakes_failed.increment();
    if let Some(left_out) = server.log_limit.due("TLS handshake") {
        tracing::warn!(
            %peer,
            %reason,
            left_out,
            "a TLS handshake failed, the connection is closed"
        );
    }
}

fn serve(server: Rc<ShardServer>, stream: TcpStream, client: Client) {
    let Ok(pass) = server.gate.enter() else { return };
    let connection = Connection::new(server, stream, client.peer, client.slot, pass);
    connection.server.remember(&connection);
    spawn_local(connection.serve()).detach();
}
