//! TLS between nodes: the node accepts encrypted connections from its peers, and encrypts its own.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use espalier_runtime::{
    net::{
        TcpStream,
        tls::{Handshake, TlsAcceptor, TlsConnector, TlsError},
    },
    time,
};

use super::{RingMember, settings::RingEncryption};

/// The interval at which the node reads its certificates again. Arbitrary.
const INTERVAL: Duration = Duration::from_secs(10);

/// The two sides of encrypted connections.
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

    async fn reload(&self) -> Result<bool, TlsError> {
        let is_new = self.acceptor.reload().await?;
        match &self.connector {
            Some(connector) => Ok(connector.reload().await? | is_new),
            None => Ok(is_new),
        }
    }
}

impl RingMember {
    /// Reads the certificates again and again, until the member stops. Later connections use new
    /// ones.
    pub(super) async fn watch_certificates(self: Rc<Self>) {
        let Some(encryption) = &self.encryption else { return };
        loop {
            time::sleep(INTERVAL).await;
            match encryption.reload().await {
                Ok(false) => {}
                Ok(true) => tracing::info!("new certificates between nodes are used from now on"),
                Err(error) if self.log_limit.is_due("damaged certificates") => tracing::error!(
                    %error,
                    "new certificates between nodes cannot be used, opened connections keep the \
                     old ones"
                ),
                Err(_) => {}
            }
        }
    }
}
