//! The acceptor makes accepted connections encrypted. It can reload its certificates at any time.

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use rustls::ServerConfig;

use super::configuration::{Contents, TlsOptions};
use super::reloading::Reloading;
use super::{Session, TlsError, TlsState};
use crate::net::TcpStream;

/// First byte of a TLS connection: the type of a handshake record (RFC 8446, section 5.1).
const HANDSHAKE_RECORD: u8 = 22;

/// Maximum bytes of the first read, which shows whether the client speaks TLS. Arbitrary.
const FIRST_BYTES: usize = 512;

/// Makes accepted connections encrypted. All shards share it.
pub struct TlsAcceptor(Reloading<ServerConfig>);

/// Whether a connection must be encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// The client must begin with a TLS handshake.
    Required,
    /// The client may begin with a TLS handshake. Otherwise the connection is not encrypted.
    Optional,
}

impl TlsAcceptor {
    /// Reads the certificates, the key and, if the options name one, the truststore.
    ///
    /// # Errors
    /// Fails if a file cannot be read or used, or if an option is unknown; see [`TlsError`].
    pub async fn load(options: TlsOptions) -> Result<Arc<Self>, TlsError> {
        Ok(Arc::new(Self(Reloading::load(options, Box::new(Contents::build)).await?)))
    }

    /// Returns the options.
    pub fn options(&self) -> &TlsOptions {
        self.0.options()
    }

    /// Reads the files again. If they changed, later handshakes use them; open connections do not.
    /// Returns whether the files changed.
    ///
    /// # Errors
    /// Fails as [`Self::load`]; the acceptor then keeps the certificates that it has.
    pub async fn reload(&self) -> Result<bool, TlsError> {
        self.0.reload().await
    }

    /// Performs the handshake of a new connection and returns the connection. With
    /// [`Handshake::Optional`], the client decides whether the connection is encrypted. The caller
    /// limits the time.
    ///
    /// # Errors
    /// Fails if the client closes, sends no TLS, or does not agree on version, cipher suite or
    /// certificate. Unless the client has closed, the node sends it an alert with the reason.
    pub async fn accept(&self, stream: TcpStream, handshake: Handshake) -> io::Result<TcpStream> {
        let (count, first) = stream.read(BytesMut::with_capacity(FIRST_BYTES)).await;
        if count? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if handshake == Handshake::Optional && first[0] != HANDSHAKE_RECORD {
            return Ok(stream.with_received(first));
        }
        let is_plain = first[0] != HANDSHAKE_RECORD;
        let negotiated = match TlsState::new(self.0.current(), first) {
            Ok(state) => Session::negotiate(state, &stream).await,
            Err(error) => Err(error),
        };
        let session = negotiated.map_err(|error| {
            if is_plain {
                io::Error::new(error.kind(), format!("{error} (a client without TLS?)"))
            } else {
                error
            }
        })?;
        Ok(stream.encrypted(session))
    }
}

impl fmt::Debug for TlsAcceptor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TlsAcceptor")
            .field("options", self.0.options())
            .finish_non_exhaustive()
    }
}
