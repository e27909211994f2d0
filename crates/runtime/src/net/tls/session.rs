//! The encrypted session of one connection, between rustls and the socket.
//!
//! A reader and a writer may use the session at the same time, as with a plain stream. They borrow
//! the state of rustls only between two waits. [`Session::sender`] orders the ciphertext: rustls
//! numbers its records, so they must leave in the order of their numbers.

use std::cell::RefCell;
use std::io;

use bytes::BytesMut;

use super::configuration::suite_name;
use super::{ClientCertificate, TlsState};
use crate::net::TcpStream;
use crate::preempt::maybe_yield;
use crate::sync::{Mutex, Semaphore};
use crate::task::spawn_blocking;

/// Spare bytes of the buffer for received ciphertext: one record of the maximum size.
const RECEIVE_BYTES: usize = 18 * 1024;

thread_local! {
    /// Limits the handshakes of a shard that compute at the same time, so that many handshakes
    /// leave helper threads for other work. The wait counts towards the client's time for the
    /// handshake.
    static HANDSHAKES: Semaphore = Semaphore::new(2);
}

/// The session of an encrypted connection.
pub(in crate::net) struct Session {
    state: RefCell<TlsState>,
    /// The buffer for ciphertext. A task holds the lock while it takes ciphertext from rustls and
    /// sends it.
    sender: Mutex<Vec<u8>>,
}

/// The properties of the connection that the handshake has chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsDescription {
    /// The version by Java's name, such as `TLSv1.3`.
    pub protocol: &'static str,
    /// The IANA name of the cipher suite.
    pub cipher_suite: String,
}

impl Session {
    /// Performs the handshake.
    ///
    /// The arithmetic takes up to a millisecond (a signature by an RSA key), so a helper
    /// thread does it.
    ///
    /// # Errors
    /// Fails if the peer closes or the two sides do not agree.
    pub(super) async fn negotiate(mut state: TlsState, stream: &TcpStream) -> io::Result<Self> {
        loop {
            let work = move || {
                let outcome = state.process();
                (state, outcome)
            };
            let permit = HANDSHAKES.with(Semaphore::clone).acquire(1).await;
            let (processed, outcome) = spawn_blocking(work).await;
            drop(permit);
            state = processed;
            // The alert of a failure must reach the peer, too.
            let mut out = Vec::new();
            state.take_ciphertext(&mut out)?;
            stream.write_plain(out).await.0?;
            outcome?;
            if !state.is_handshaking() {
                let (state, sender) = (RefCell::new(state), Mutex::new(Vec::new()));
                return Ok(Session { state, sender });
            }
            let (count, received) = receive(state.received, stream).await;
            state.received = received;
            if count? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Reads once into `buffer`, as [`TcpStream::read`] does.
    pub(in crate::net) async fn read(
        &self,
        stream: &TcpStream,
        mut buffer: BytesMut,
    ) -> (io::Result<usize>, BytesMut) {
        loop {
            if self.state.borrow().is_ending {
                // This side has announced the end, so it sends nothing more. It drops the
                // ciphertext, so that rustls makes no alert about a broken record.
                self.state.borrow_mut().received.clear();
                match self.receive(stream).await {
                    Ok(count) if count > 0 => continue,
                    outcome => return (outcome, buffer),
                }
            }
            let outcome = self.state.borrow_mut().decrypt(&mut buffer);
            let must_send = self.state.borrow().connection.wants_write();
            if must_send && let Err(error) = self.send(stream, &[]).await {
                return (Err(error), buffer);
            }
            match outcome {
                Ok(0) => {}
                outcome => return (outcome, buffer),
            }
            if self.state.borrow().is_closed() {
                return (Ok(0), buffer);
            }
            match self.receive(stream).await {
                // Many peers close without announcing the end by an alert.
                Ok(0) => return (Ok(0), buffer),
                Ok(_) => {}
                Err(error) => return (Err(error), buffer),
            }
        }
    }

    /// Encrypts and sends all of `bytes`, after the ciphertext that rustls holds already.
    pub(in crate::net) async fn send(&self, stream: &TcpStream, bytes: &[u8]) -> io::Result<()> {
        let mut sender = self.sender.lock().await;
        let mut rest = bytes;
        loop {
            let mut out = std::mem::take(&mut *sender);
            out.clear();
            let encrypted = self.state.borrow_mut().encrypt(rest, &mut out)?;
            rest = &rest[encrypted..];
            let (result, out) = stream.write_plain(out).await;
            *sender = out;
            result?;
            if rest.is_empty() {
                return Ok(());
            }
            maybe_yield().await;
        }
    }

    /// Announces the end of the connection if the socket takes the alert at once and no write is
    /// under way.
    pub(in crate::net) fn announce_close(&self, stream: &TcpStream) {
        let (Some(_sender), Ok(mut state)) = (self.sender.try_lock(), self.state.try_borrow_mut())
        else {
            return;
        };
        state.connection.send_close_notify();
        state.is_ending = true;
        let mut out = Vec::new();
        if state.take_ciphertext(&mut out).is_ok() {
            // A client that has closed already needs no alert.
            let _ = stream.send_now(&out);
        }
    }

    /// Describes the session.
    pub(in crate::net) fn describe(&self) -> TlsDescription {
        let state = self.state.borrow();
        let suite = state.connection.negotiated_cipher_suite();
        TlsDescription {
            protocol: match state.connection.protocol_version() {
                Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
                _ => "TLSv1.3",
            },
            cipher_suite: suite.map(|suite| suite_name(suite.suite())).unwrap_or_default(),
        }
    }

    /// Returns the certificate that the peer has shown, if it has shown one.
    pub(in crate::net) fn client_certificate(&self) -> Option<ClientCertificate> {
        let state = self.state.borrow();
        let chain = state.connection.peer_certificates()?;
        chain.first().map(|certificate| ClientCertificate::new(certificate.clone().into_owned()))
    }

    async fn receive(&self, stream: &TcpStream) -> io::Result<usize> {
        let received = std::mem::take(&mut self.state.borrow_mut().received);
        let (count, received) = receive(received, stream).await;
        self.state.borrow_mut().received = received;
        count
    }
}

/// Reads once from the socket, after the bytes that the buffer has.
async fn receive(mut buffer: BytesMut, stream: &TcpStream) -> (io::Result<usize>, BytesMut) {
    buffer.reserve(RECEIVE_BYTES);
    stream.read_plain(buffer).await
}
