//! TCP listeners, streams and their halves, and TLS over them. A read or write owns its buffer and
//! returns it.
//!
//! A dropped read or write is cancelled in the kernel, and bytes on their way are lost. A caller
//! that stops waiting must close the connection.

mod listener;
mod network;
mod stream;
pub mod tls;

pub use listener::{ListenOptions, TcpListener, probe_address};
pub use network::client_network;
pub use stream::{DetachedStream, ReadHalf, Shutdown, TcpStream, WriteHalf};

pub use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
