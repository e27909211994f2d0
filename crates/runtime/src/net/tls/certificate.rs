//! The certificate of a client, and the names in it.

use std::net::IpAddr;

use rustls::pki_types::{CertificateDer, ServerName};

/// A certificate that a client has shown. The handshake has checked that a trusted certificate
/// signed it and that it was valid then.
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

    /// Returns whether `address` is among the alternative names of the subject.
    pub fn names(&self, address: IpAddr) -> bool {
        let name = ServerName::IpAddress(address.into());
        webpki::EndEntityCert::try_from(&self.0)
            .is_ok_and(|certificate| certificate.verify_is_valid_for_subject_name(&name).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_names_its_addresses_alone() {
        let names = ["10.0.0.1", "2001:db8::1", "node"].map(str::to_owned).to_vec();
        let signed = rcgen::generate_simple_self_signed(names).unwrap();
        let certificate = ClientCertificate::from_der(signed.cert.der().to_vec());
        let is_named = |address: &str| certificate.names(address.parse().unwrap());
        assert!(is_named("10.0.0.1") && is_named("2001:db8::1"));
        assert!(!is_named("10.0.0.2") && !is_named("2001:db8::2"));
        let damaged = ClientCertificate::from_der(b"no certificate".to_vec());
        assert!(!damaged.names("10.0.0.1".parse().unwrap()));
    }
}
