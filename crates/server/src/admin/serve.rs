//! The listener and the connections of the admin API. One shard has it; a request that concerns all
//! shards is sent to them.
//!
//! Memory: at most [`MAX_CONNECTIONS`] connections, each with the buffer of one request and one
//! answer.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use espalier_runtime::net::{ListenOptions, TcpListener, TcpStream};
use espalier_runtime::sync::Semaphore;
use espalier_runtime::{JoinHandle, spawn_local, time};

use super::http::{self, MAX_HEAD, Parsed};
use super::routes;
use crate::shard::ShardServer;

/// Limit of open connections; more wait to be accepted. Arbitrary.
const MAX_CONNECTIONS: usize = 64;

/// Time without a byte after which a connection is closed.
const IDLE_LIMIT: Duration = Duration::from_secs(60);

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
    let places = Semaphore::new(MAX_CONNECTIONS);
    loop {
        let place = places.acquire(1).await;
        match listener.accept().await {
            Ok((stream, _)) => {
                let server = Rc::clone(&server);
                spawn_local(async move {
                    if let Err(error) = serve(&server, &stream).await {
                        tracing::debug!(%error, "an admin connection failed");
                    }
                    drop(place);
                })
                .detach();
            }
            Err(error) => {
                tracing::warn!(
                    %error,
                    "accepting an admin connection failed, trying again in 0.1 s"
                );
                time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(server: &Rc<ShardServer>, stream: &TcpStream) -> io::Result<()> {
    let mut buffer = BytesMut::new();
    loop {
        let (response, keep_alive) = match http::parse(&buffer) {
            Parsed::Incomplete => {
                buffer.reserve(MAX_HEAD);
                let reading = stream.read(buffer);
                let Ok((result, back)) = time::timeout(IDLE_LIMIT, reading).await else {
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
                let response = routes::answer(server, &request).await;
                // The client may have gone meanwhile, so the log has the failure too.
                if let Some(reason) = response.failure() {
                    let path = request.path.join("/");
                    tracing::warn!(
                        method = request.method,
                        path,
                        "an admin request failed: {reason}"
                    );
                }
                (response, request.keep_alive)
            }
        };
        let mut out = Vec::new();
        response.encode(keep_alive, &mut out);
        stream.write_all(out).await.0?;
        if !keep_alive {
            return Ok(());
        }
    }
}
