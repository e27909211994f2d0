//! A listening socket and its options.

use super::TcpStream;
use super::network::canonical;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// Options of a listener.
#[derive(Debug, Clone, Copy)]
pub struct ListenOptions {
    /// Lets several listeners, one per shard, have the same address; the kernel spreads connections
    /// over them (SO_REUSEPORT).
    pub shared: bool,
    /// The maximum number of connections that wait to be accepted.
    pub backlog: i32,
}

impl Default for ListenOptions {
    fn default() -> Self {
        ListenOptions { shared: false, backlog: 1024 }
    }
}

/// A listening socket of the calling shard.
pub struct TcpListener {
    inner: compio::net::TcpListener,
}

/// Checks, by listening for a moment, that no other process listens on `address`, and returns the
/// address, with the port that the kernel chose if the port is 0. A listener with
/// [`ListenOptions::shared`] could share the address with another process unnoticed; this check
/// fails if another process uses the address.
///
/// Best effort: another process may take the address right afterwards.
///
/// # Errors
/// Fails if the address is in use or the kernel refuses to listen on it.
pub fn probe_address(address: SocketAddr) -> io::Result<SocketAddr> {
    let socket = listen(address, ListenOptions::default())?;
    let listener = std::net::TcpListener::from(socket);
    listener.local_addr()
}

fn listen(address: SocketAddr, options: ListenOptions) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if options.shared {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, options.backlog)?;
    Ok(socket)
}

impl TcpListener {
    /// Listens on `address`; port 0 lets the kernel choose. An address that a closed listener used
    /// before may be used again at once (SO_REUSEADDR).
    ///
    /// # Errors
    /// Fails if the address is in use or the kernel refuses to listen on it.
    pub fn bind(address: SocketAddr, options: ListenOptions) -> io::Result<Self> {
        let socket = listen(address, options)?;
        let inner = compio::net::TcpListener::from_std(std::net::TcpListener::from(socket))?;
        Ok(TcpListener { inner })
    }

    /// Waits for the next connection and returns it with the address of its peer. The connection
    /// belongs to the calling shard; see [`TcpStream::detach`] for handing it to another one. The
    /// address of an IPv4 peer is an IPv4 address, also on a listener for both families.
    ///
    /// # Errors
    /// Fails if the kernel cannot accept, for example for lack of file descriptors.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        loop {
            match self.inner.accept().await {
                Ok((stream, peer)) => return Ok((TcpStream::wrap(stream), canonical(peer))),
                // The peer closed the connection before it was accepted.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the address on which the listener listens.
    ///
    /// # Errors
    /// Fails if the kernel does not report the address.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }
}
