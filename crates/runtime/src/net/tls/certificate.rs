//! The certificate of a client, and the identity in it.

use rustls::pki_types::CertificateDer;

/// A certificate that a client has shown. The handshake has checked that a trusted certificate
/// signed it and that it is valid now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate(CertificateDer<'static>);

impl ClientCertificate {
    pub(super) fn new(certificate: CertificateDer<'static>) -> Self {
        Self(certificate)
    }

    /// Creates a certificate from DER without a check of its signature.
    pub fn from_der(der: Vec<u8>) -> Self {
        Self(der.into())
    }

    /// Returns the first `spiffe://` URI among the alternative names of the subject.
    pub fn spiffe_id(&self) -> Option<String> {
        let certificate = webpki::EndEntityCert::try_from(&self.0).ok()?;
        let mut uris = certificate.valid_uri_names();
        uris.find(|uri| uri.starts_with("spiffe://")).map(str::to_owned)
    }
}
