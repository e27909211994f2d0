//! The listener and the connections of the admin API. One shard has the listener and answers all
//! requests; for some answers, it calls the other shards.
//!
//! Memory: at most [`MAX_CONNECTIONS`] connections, each with the buffer of one request and one
//! answer. At the limit, `places` closes an idle connection.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use espalier_runtime::log_limit::Quoted;
use espalier_runtime::net::tls::Handshake;
use espalier_runtime::net::{ListenOptions, TcpListener, TcpStream};
use espalier_runtime::time::{self, Instant};
use espalier_runtime::{JoinHandle, spawn_local};

use super::http::{self, HttpResponse, MAX_HEAD, Parsed};
use super::routes;
use crate::places::{Places, Waiting};
use crate::shard::ShardServer;

/// Limit of open connections. Arbitrary.
const MAX_CONNECTIONS: usize = 64;

/// Time in which the first request of a connection must arrive as a whole, TLS handshake included.
/// Arbitrary; clients of CQL have as much time to log in.
const FIRST_REQUEST_LIMIT: Duration = Duration::from_secs(10);

/// Time in which a further request must arrive as a whole, and in which the client must read an
/// answer; after this time the node closes the connection. Arbitrary.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);

/// Pause after a failed accept, which happens when the kernel has no descriptor or memory for
/// another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Begins to serve the admin API at `address`. Returns the address on which it listens, and the
/// task that a stop cancels.
pub(crate) fn listen(
    server: &Rc<ShardServer>,
    address: SocketAddr,
) -> io::Result<(SocketAddr, JoinHandle<()>)> {
    let listener = TcpListener::bind(address, ListenOptions::default())?;
    let address = listener.local_address()?;
    Ok((address, spawn_local(accept_all(Rc::clone(server), listener))))
}

async fn accept_all(server: Rc<ShardServer>, listener: TcpListener) {
    let places = Places::new(MAX_CONNECTIONS);
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let server = Rc::clone(&server);
                let serve = move |connection: Rc<Waiting>| async move {
                    if let Err(error) = secure(&server, &connection, stream).await {
                        tracing::debug!(%peer, %error, "an admin connection failed");
                    }
                };
                places.begin(peer.ip(), serve).await;
            }
            Err(error) => {
                if let Some(left_out) = server.log_limit.due("accepting an admin connection") {
                    tracing::warn!(
                        %error,
                        left_out,
                        "accepting an admin connection failed, trying again in 0.1 s"
                    );
                }
                time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Performs the TLS handshake, if there is one, and serves the connection.
async fn secure(
    server: &Rc<ShardServer>,
    connection: &Waiting,
    stream: TcpStream,
) -> io::Result<()> {
    let deadline = Instant::now() + FIRST_REQUEST_LIMIT;
    let Some(acceptor) = &server.config.admin_access.acceptor else {
        return serve(server, connection, &stream, deadline).await;
    };
    let accepting = acceptor.accept(stream, Handshake::Required);
    let accepted = time::timeout_at(deadline, accepting).await;
    let stream = accepted.map_err(|_| io::ErrorKind::TimedOut)??;
    serve(server, connection, &stream, deadline).await
}

async fn serve(
    server: &Rc<ShardServer>,
    connection: &Waiting,
    stream: &TcpStream,
    mut deadline: Instant,
) -> io::Result<()> {
    let mut buffer = BytesMut::new();
    loop {
        let (response, keep_alive) = match http::parse(&buffer) {
            Parsed::Incomplete => {
                buffer.reserve(MAX_HEAD);
                let reading = stream.read(buffer);
                let Ok((result, back)) = time::timeout_at(deadline, reading).await else {
                    return Ok(());
                };
                buffer = back;
                match result? {
                    0 => return Ok(()),
                    _ => continue,
                }
            }
            Parsed::Refused(response) => (response, false),
            Parsed::Request(request) => {
                buffer.advance(request.length);
                if let Some(refusal) = server.config.admin_access.refusal(&request) {
                    if let Some(left_out) = server.log_limit.due("refused admin request") {
                        tracing::warn!(
                            peer = ?stream.peer_address().ok(),
                            status = refusal.status,
                            left_out,
                            "an admin request was refused: its token, Host or Origin is not accepted"
                        );
                    }
                    return answer(stream, &refusal, false).await;
                }
                let response = connection.carry_out(routes::answer(server, &request)).await;
                // The client may have disconnected, so the log gets the failure too.
                if let Some(reason) = response.failure()
                    && let Some(left_out) = server.log_limit.due("failed admin request")
                {
                    tracing::warn!(
                        method = request.method,
                        path = %Quoted(&request.path.join("/")),
                        left_out,
                        "an admin request failed: {reason}"
                    );
                }
                (response, request.keep_alive)
            }
        };
        answer(stream, &response, keep_alive).await?;
        if !keep_alive {
            return Ok(());
        }
        deadline = Instant::now() + REQUEST_LIMIT;
    }
}

async fn answer(stream: &TcpStream, response: &HttpResponse, keep_alive: bool) -> io::Result<()> {
    let mut out = Vec::new();
    response.encode(keep_alive, &mut out);
    let written = time::timeout(REQUEST_LIMIT, stream.write_all(out)).await;
    written.map_err(|_| io::ErrorKind::TimedOut)?.0
}
