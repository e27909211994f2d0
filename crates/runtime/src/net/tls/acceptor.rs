//! The acceptor: it makes accepted connections encrypted, and takes new certificates while it runs.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bytes::BytesMut;
use rustls::ServerConfig;

use super::configuration::{Contents, TlsOptions};
use super::{Session, TlsError, TlsState};
use crate::net::TcpStream;

/// First byte of a TLS connection: the type of a handshake record (RFC 8446, section 5.1).
const HANDSHAKE_RECORD: u8 = 22;

/// Bytes that are read to tell a TLS connection from another one. Arbitrary.
const FIRST_BYTES: usize = 512;

/// Makes accepted connections encrypted. All shards share it.
pub struct TlsAcceptor {
    options: TlsOptions,
    current: RwLock<Arc<ServerConfig>>,
    /// The files of the present configuration, to tell whether they changed.
    contents: Mutex<Contents>,
}

/// Says if a connection must be encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// The client must begin with a TLS handshake.
    Required,
    /// A client that does not begin with a TLS handshake goes on without encryption.
    Optional,
}

impl TlsAcceptor {
    /// Reads certificates and key.
    ///
    /// # Errors
    /// Fails if a file cannot be read or used, or if an option is unknown; see [`TlsError`].
    pub async fn load(options: TlsOptions) -> Result<Arc<Self>, TlsError> {
        let contents = Contents::read(&options).await?;
        let current = RwLock::new(contents.build(&options)?);
        Ok(Arc::new(TlsAcceptor { options, current, contents: Mutex::new(contents) }))
    }

    /// Returns the options.
    pub fn options(&self) -> &TlsOptions {
        &self.options
    }

    /// Reads the files again. If they changed, later handshakes use them; connections that are open
    /// stay as they are. Returns whether the files changed.
    ///
    /// # Errors
    /// Fails as [`Self::load`]; the acceptor then keeps the certificates that it has.
    pub async fn reload(&self) -> Result<bool, TlsError> {
        let contents = Contents::read(&self.options).await?;
        if *self.contents.lock().unwrap_or_else(PoisonError::into_inner) == contents {
            return Ok(false);
        }
        let built = contents.build(&self.options)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = built;
        *self.contents.lock().unwrap_or_else(PoisonError::into_inner) = contents;
        Ok(true)
    }

    /// Performs the handshake of a connection that was just accepted, and returns the connection,
    /// encrypted unless the client may and does choose otherwise. The caller limits the time.
    ///
    /// # Errors
    /// Fails if the client closes, sends no TLS, or does not agree on version, cipher suite or
    /// certificate. The client has got an alert with the reason then.
    pub async fn accept(&self, stream: TcpStream, handshake: Handshake) -> io::Result<TcpStream> {
        let (count, first) = stream.read(BytesMut::with_capacity(FIRST_BYTES)).await;
        if count? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if handshake == Handshake::Optional && first[0] != HANDSHAKE_RECORD {
            return Ok(stream.with_received(first));
        }
        let configuration =
            Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner));
        let state = TlsState::new(configuration, first)?;
        let session = Session::negotiate(state, &stream).await?;
        Ok(stream.encrypted(session))
    }
}

impl fmt::Debug for TlsAcceptor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TlsAcceptor")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
