//! TCP: listeners, streams and their halves, with buffers that are handed over and given back.
//!
//! A dropped read or write is cancelled in the kernel; bytes that were on their way are lost. Whoever wants
//! to stop waiting closes the connection.

mod listener;
mod stream;

pub use listener::{ListenOptions, TcpListener, probe_address};
pub use stream::{DetachedStream, ReadHalf, Shutdown, TcpStream, WriteHalf};

pub use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
