//! TLS between nodes: the node accepts encrypted connections from its peers, and encrypts its own.

use std::{io, net::SocketAddr, rc::Rc, sync::Arc, time::Duration};

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
    connector: Arc<TlsConnector>,
    handshake: Handshake,
}

impl Encryption {
    /// Reads the certificates.
    pub async fn load(settings: &RingEncryption) -> Result<Self, TlsError> {
        let RingEncryption { options, handshake, verifies_addresses } = settings;
        let acceptor = TlsAcceptor::load(options.clone()).await?;
        let connector = TlsConnector::load(options.clone(), *verifies_addresses).await?;
        Ok(Self { acceptor, connector, handshake: *handshake })
    }

    /// Performs the handshake of an accepted connection.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<TcpStream> {
        self.acceptor.accept(stream, self.handshake).await
    }

    /// Performs the handshake of a connection to a peer.
    pub async fn connect(&self, stream: TcpStream, peer: SocketAddr) -> io::Result<TcpStream> {
        self.connector.connect(stream, peer.ip()).await
    }

    async fn reload(&self) -> Result<bool, TlsError> {
        Ok(self.acceptor.reload().await? | self.connector.reload().await?)
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
                    "new certificates between nodes cannot be used, the node keeps the old ones"
                ),
                Err(_) => {}
            }
        }
    }
}
