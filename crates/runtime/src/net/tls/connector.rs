//! The connector makes connections to other nodes encrypted, and shows the other nodes the
//! certificate of this node.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, SignatureScheme};

use super::configuration::{Contents, TlsOptions};
use super::reloading::Reloading;
use super::{Session, TlsError, TlsState};
use crate::net::TcpStream;

/// Makes connections to other nodes encrypted.
pub struct TlsConnector(Reloading<ClientConfig>);

impl TlsConnector {
    /// Reads certificates, key and truststore. With `verifies_addresses`, the certificate of the
    /// other node must name its address; otherwise the connector accepts any certificate that an
    /// authority in the truststore signed.
    ///
    /// # Errors
    /// Fails if a file cannot be read or used, if an option is unknown, or if there is no
    /// truststore; see [`TlsError`].
    pub async fn load(
        options: TlsOptions,
        verifies_addresses: bool,
    ) -> Result<Arc<Self>, TlsError> {
        let build = Box::new(move |contents: &Contents, options: &TlsOptions| {
            contents.build_client(options, verifies_addresses)
        });
        Ok(Arc::new(Self(Reloading::load(options, build).await?)))
    }

    /// Reads the files again. If they changed, later handshakes use them. Returns whether the files
    /// changed.
    ///
    /// # Errors
    /// Fails as [`Self::load`]; the connector then keeps the certificates that it has.
    pub async fn reload(&self) -> Result<bool, TlsError> {
        self.0.reload().await
    }

    /// Performs the handshake with the node at `address`, and returns the connection. The caller
    /// limits the time.
    ///
    /// # Errors
    /// Fails if the other node closes, speaks no TLS, or has no certificate that the connector
    /// trusts.
    pub async fn connect(&self, stream: TcpStream, address: IpAddr) -> io::Result<TcpStream> {
        let name = ServerName::IpAddress(address.into());
        let state = TlsState::of_client(self.0.current(), name)?;
        let session = Session::negotiate(state, &stream).await?;
        Ok(stream.encrypted(session))
    }
}

impl fmt::Debug for TlsConnector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TlsConnector")
            .field("options", self.0.options())
            .finish_non_exhaustive()
    }
}

/// Accepts any certificate that an authority in the truststore signed, whatever name it has: the
/// authority of a ring signs only for the nodes of the ring. Cassandra does the same without
/// `require_endpoint_verification`.
#[derive(Debug)]
pub(super) struct AnyName(pub Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        use rustls::Error::InvalidCertificate;
        // The name is checked last, after signature and time.
        match self.0.verify_server_cert(certificate, intermediates, name, response, now) {
            Err(InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) => {
                Ok(ServerCertVerified::assertion())
            }
            outcome => outcome,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
