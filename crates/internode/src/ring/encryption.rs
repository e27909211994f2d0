//! TLS between nodes: the node accepts encrypted connections from its peers, and encrypts its own.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use espalier_runtime::net::{
    TcpStream,
    tls::{Handshake, TlsAcceptor, TlsConnector, TlsError},
};

use super::{RingMember, settings::RingEncryption};

/// The TLS of connections that the node accepts, and of connections that it opens.
#[derive(Clone, Debug)]
pub(super) struct Encryption {
    acceptor: Arc<TlsAcceptor>,
    /// `None` if the node opens plain connections.
    connector: Option<Arc<TlsConnector>>,
    handshake: Handshake,
    verifies_addresses: bool,
}

impl Encryption {
    /// Reads the certificates.
    pub async fn load(settings: &RingEncryption) -> Result<Self, TlsError> {
        let RingEncryption { options, is_opened, handshake, verifies_addresses } = settings.clone();
        let acceptor = TlsAcceptor::load(options.clone()).await?;
        let connector = if is_opened {
            Some(TlsConnector::load(options, verifies_addresses).await?)
        } else {
            None
        };
        Ok(Self { acceptor, connector, handshake, verifies_addresses })
    }

    /// Performs the handshake of a connection that a peer has opened from an address.
    pub async fn accept(&self, stream: TcpStream, peer: IpAddr) -> io::Result<TcpStream> {
        let stream = self.acceptor.accept(stream, self.handshake).await?;
        if self.verifies_addresses && stream.tls().is_some() {
            let is_named = stream.client_certificate().is_some_and(|shown| shown.names(peer));
            if !is_named {
                return Err(io::Error::other(
                    "the certificate of the peer does not name its address; see \
                     require_endpoint_verification",
                ));
            }
        }
        Ok(stream)
    }

    /// Performs the handshake of a connection to a peer, if the node opens connections with TLS.
    pub async fn connect(&self, stream: TcpStream, peer: SocketAddr) -> io::Result<TcpStream> {
        match &self.connector {
            Some(connector) => connector.connect(stream, peer.ip()).await,
            None => Ok(stream),
        }
    }

    /// Returns whether the node opens connections with TLS.
    pub fn is_opened(&self) -> bool {
        self.connector.is_some()
    }

    /// Reads the files again; later connections use new certificates. Returns whether the files
    /// changed.
    async fn reload(&self) -> Result<bool, TlsError> {
        let is_new = self.acceptor.reload().await?;
        match &self.connector {
            Some(connector) => Ok(connector.reload().await? | is_new),
            None => Ok(is_new),
        }
    }
}

impl RingMember {
    /// Returns whether the member has certificates.
    pub fn has_certificates(&self) -> bool {
        self.encryption.is_some()
    }

    /// Reads the certificates again; later connections use new ones. Returns whether they changed.
    ///
    /// # Errors
    /// Fails if new certificates cannot be used. Connections that the node opens then use the old
    /// ones.
    pub async fn reload_certificates(&self) -> Result<bool, TlsError> {
        match &self.encryption {
            Some(encryption) => encryption.reload().await,
            None => Ok(false),
        }
    }
}
