//! The socket of a client, with TLS if the input asks for it.
#![allow(clippy::disallowed_types, reason = "the client is another program's part")]

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use super::node::{Node, Nodes};

/// Time for which the client waits for an answer in a handshake that the input may have broken.
const HANDSHAKE_PATIENCE: Duration = Duration::from_millis(50);
/// Maximum round trips of a handshake.
const MAX_FLIGHTS: usize = 4;
/// Time in which the node must close a connection whose client has closed its side.
const END_LIMIT: Duration = Duration::from_secs(8);

/// The TLS of a client.
pub(super) struct Encryption {
    /// The number of the client's certificate; see [`Nodes`].
    pub certificate: u8,
    pub is_version_1_2: bool,
}

pub(super) struct Client {
    socket: TcpStream,
    tls: Option<ClientConnection>,
    /// The change of the next bytes on the wire; see [`Client::change_wire`].
    change: Option<u16>,
    received: Vec<u8>,
    is_broken: bool,
}

impl Client {
    /// Connects to a node. Returns `None` if the kernel has no socket left.
    pub fn connect(
        nodes: &Nodes,
        node: &Node,
        encryption: Option<Encryption>,
        is_new: bool,
    ) -> Option<Self> {
        let socket = socket(node.address, is_new)?;
        socket.set_read_timeout(Some(HANDSHAKE_PATIENCE)).ok()?;
        socket.set_write_timeout(Some(END_LIMIT)).ok()?;
        let tls = encryption.and_then(|encryption| {
            let name = ServerName::try_from("localhost").ok()?;
            ClientConnection::new(nodes.client_of(&encryption), name).ok()
        });
        Some(Self { socket, tls, change: None, received: Vec::new(), is_broken: false })
    }

    /// Changes the next bytes on the wire at the offset `number / 2`: cuts them there if the number
    /// is odd, and flips a bit otherwise.
    pub fn change_wire(&mut self, number: u16) {
        self.change = Some(number);
    }

    /// Sends plaintext, after the handshake if there is one.
    pub fn send(&mut self, bytes: &[u8]) {
        if self.tls.is_none() {
            return self.put(bytes.to_vec());
        }
        self.shake_hands();
        if let Some(tls) = &mut self.tls
            && !tls.is_handshaking()
        {
            let _ = tls.writer().write_all(bytes);
        }
        self.put_ciphertext();
    }

    fn shake_hands(&mut self) {
        for _ in 0..MAX_FLIGHTS {
            self.put_ciphertext();
            let is_over = self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking());
            if is_over || self.is_broken || !self.take_ciphertext() {
                return;
            }
        }
    }

    fn put_ciphertext(&mut self) {
        let mut wire = Vec::new();
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() && tls.write_tls(&mut wire).is_ok() {}
        }
        self.put(wire);
    }

    fn put(&mut self, mut wire: Vec<u8>) {
        let change = if wire.is_empty() { None } else { self.change.take() };
        if let Some(number) = change {
            let place = usize::from(number / 2);
            match wire.get_mut(place) {
                Some(byte) if number % 2 == 0 => *byte ^= 1 << (place % 8),
                _ => wire.truncate(place),
            }
        }
        // The write fails if the node has closed the connection.
        self.is_broken |= self.socket.write_all(&wire).is_err();
    }

    /// Reads once. Returns true if the node has sent something.
    fn take_ciphertext(&mut self) -> bool {
        let mut wire = [0; 16 << 10];
        match self.socket.read(&mut wire) {
            Ok(count) if count > 0 => {
                self.receive(&wire[..count]);
                true
            }
            _ => false,
        }
    }

    fn receive(&mut self, mut wire: &[u8]) {
        let Some(tls) = &mut self.tls else { return self.received.extend_from_slice(wire) };
        while !wire.is_empty() && tls.read_tls(&mut wire).is_ok_and(|count| count > 0) {
            if tls.process_new_packets().is_err() {
                self.is_broken = true;
                return;
            }
            let _ = tls.reader().read_to_end(&mut self.received);
        }
    }

    /// Closes the client's side, and returns all plaintext of the node. Panics if the node does not
    /// close its side within [`END_LIMIT`].
    pub fn finish(mut self) -> Vec<u8> {
        let _ = self.socket.shutdown(Shutdown::Write);
        let _ = self.socket.set_read_timeout(Some(END_LIMIT));
        let mut wire = [0; 16 << 10];
        loop {
            match self.socket.read(&mut wire) {
                Ok(0) => return self.received,
                Ok(count) => self.receive(&wire[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    panic!("the node keeps a connection whose client has closed");
                }
                Err(_) => return self.received,
            }
        }
    }
}

/// Connects from an address of this machine. Unless `is_new`, earlier log-ins from the address may
/// have failed, and the node then limits further log-ins from this address.
fn socket(to: SocketAddr, is_new: bool) -> Option<TcpStream> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = if is_new { NEXT.fetch_add(1, Relaxed) % 0x00FF_0000 } else { 0 };
    let from = Ipv4Addr::from_bits(0x7F01_0001 + number);
    let socket = rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    );
    let socket = socket.ok()?;
    rustix::net::bind(&socket, &SocketAddr::from((from, 0))).ok()?;
    rustix::net::connect(&socket, &to).ok()?;
    Some(TcpStream::from(socket))
}
