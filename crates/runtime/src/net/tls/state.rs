//! The state of an encrypted connection, without its socket: ciphertext comes in and goes out.

use std::io::{self, BufRead as _, Write as _};
use std::sync::Arc;

use bytes::{Buf as _, BytesMut};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};

/// Maximum plaintext to encrypt between two writes to the socket. It bounds the ciphertext in
/// memory, and the time on the core to some tens of microseconds.
const CHUNK_BYTES: usize = 48 * 1024;

/// The node's side of an encrypted connection.
pub struct TlsState {
    pub(super) connection: Connection,
    /// Ciphertext that the socket delivered and rustls has not taken.
    pub(super) received: BytesMut,
    /// True once this side has announced the end of the connection.
    pub(super) is_ending: bool,
}

impl TlsState {
    /// Begins an accepted connection. `received` holds the first bytes of the client.
    ///
    /// # Errors
    /// Fails if rustls does not take the configuration.
    pub fn new(configuration: Arc<ServerConfig>, received: BytesMut) -> io::Result<Self> {
        let connection = ServerConnection::new(configuration).map_err(io::Error::other)?;
        Ok(Self { connection: connection.into(), received, is_ending: false })
    }

    /// Begins a connection to another node.
    ///
    /// # Errors
    /// Fails if rustls does not take the configuration.
    pub(super) fn of_client(
        configuration: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> io::Result<Self> {
        let connection = ClientConnection::new(configuration, name).map_err(io::Error::other)?;
        let received = BytesMut::new();
        Ok(Self { connection: connection.into(), received, is_ending: false })
    }

    /// Adds ciphertext that the socket delivered.
    pub fn receive(&mut self, ciphertext: &[u8]) {
        self.received.extend_from_slice(ciphertext);
    }

    /// Returns whether the handshake has not ended.
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Passes received ciphertext to rustls until rustls has plaintext or all ciphertext is passed.
    ///
    /// # Errors
    /// Fails if the ciphertext is no TLS, or if rustls refuses it.
    pub fn process(&mut self) -> io::Result<()> {
        while !self.received.is_empty() && self.connection.wants_read() {
            let mut rest: &[u8] = &self.received;
            let count = self.connection.read_tls(&mut rest)?;
            self.received.advance(count);
            let processed = self.connection.process_new_packets();
            processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
        Ok(())
    }

    /// Moves plaintext into the spare capacity of `buffer`; returns 0 if more ciphertext is needed.
    ///
    /// # Errors
    /// Fails as [`Self::process`].
    pub fn decrypt(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        let mut moved = 0;
        loop {
            let spare = buffer.capacity() - buffer.len();
            if spare == 0 {
                return Ok(moved);
            }
            let mut reader = self.connection.reader();
            let count = match reader.fill_buf() {
                Ok(plaintext) => {
                    let count = plaintext.len().min(spare);
                    buffer.extend_from_slice(&plaintext[..count]);
                    count
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                Err(error) => return Err(error),
            };
            reader.consume(count);
            moved += count;
            if count == 0 {
                if self.received.is_empty() || !self.connection.wants_read() {
                    return Ok(moved);
                }
                self.process()?;
            }
        }
    }

    /// Encrypts up to [`CHUNK_BYTES`] of `bytes` and appends all ciphertext to `out`. Returns the
    /// number of bytes that were encrypted.
    ///
    /// # Errors
    /// Fails if rustls takes no more plaintext.
    pub fn encrypt(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> io::Result<usize> {
        let chunk = &bytes[..bytes.len().min(CHUNK_BYTES)];
        let count = self.connection.writer().write(chunk)?;
        if count == 0 && !chunk.is_empty() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.take_ciphertext(out)?;
        Ok(count)
    }

    /// Appends the ciphertext that must be sent to `out`.
    ///
    /// # Errors
    /// None: a buffer in memory takes everything.
    pub fn take_ciphertext(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        while self.connection.wants_write() {
            self.connection.write_tls(out)?;
        }
        Ok(())
    }

    /// Returns whether the peer has announced the end of the connection. Call it while rustls has
    /// no plaintext.
    pub(super) fn is_closed(&self) -> bool {
        !self.connection.wants_read()
    }
}
