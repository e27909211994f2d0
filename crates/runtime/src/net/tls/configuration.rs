//! Builds the configurations of rustls from PEM files and options.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion, version};

use super::TlsError;
use super::connector::AnyName;
use crate::file::FileSystem;

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2.
    V1_2,
    /// TLS 1.3.
    V1_3,
}

/// Whether clients must show a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// The node does not ask for one.
    #[default]
    NotAsked,
    /// The node asks for one, and admits clients without one.
    Asked,
    /// The node asks for one, and refuses clients without one.
    Required,
}

/// The files and choices of an acceptor or connector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// A PEM file with the node's certificate, then the intermediate certificates.
    pub certificate: PathBuf,
    /// A PEM file with the private key of the certificate, without a password.
    pub key: PathBuf,
    /// A PEM file with the certificates that may sign certificates of clients and of other nodes.
    /// Required if the node asks for certificates of clients, and for a connector. The authority of
    /// the node's own certificate is not the default, because it may sign certificates of others.
    pub truststore: Option<PathBuf>,
    /// Whether clients must show a certificate.
    pub client_certificates: ClientCertificates,
    /// The versions that a client may choose. Never empty.
    pub versions: Vec<TlsVersion>,
    /// The cipher suites that a client may choose, by their IANA names; empty means all suites of
    /// rustls.
    pub cipher_suites: Vec<String>,
}

/// The contents of the files of [`TlsOptions`].
#[derive(PartialEq, Eq)]
pub(super) struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    truststore: Option<Vec<u8>>,
}

/// The certificates, key and cryptography of the node, for connections in both directions.
struct Identity {
    provider: Arc<CryptoProvider>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Contents {
    /// Reads the files.
    ///
    /// # Errors
    /// Fails if a file cannot be read.
    pub(super) async fn read(options: &TlsOptions) -> Result<Self, TlsError> {
        let files = FileSystem::real();
        Ok(Contents {
            certificate: files.read(&options.certificate).await?,
            key: files.read(&options.key).await?,
            truststore: match &options.truststore {
                Some(path) => Some(files.read(path).await?),
                None => None,
            },
        })
    }

    /// Builds the configuration of rustls.
    ///
    /// # Errors
    /// Fails if a file is not PEM or lacks a part, if a cipher suite is unknown, if the key does
    /// not belong to the certificate, if the options ask for certificates of clients without a
    /// truststore, or if rustls refuses a certificate of the truststore, or the suites with the
    /// versions.
    pub(super) fn build(&self, options: &TlsOptions) -> Result<Arc<ServerConfig>, TlsError> {
        let Identity { provider, chain, key } = self.identity(options)?;
        let refused = |error| rejected(&options.certificate, &error);
        let versions = versions(options);
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions)
            .map_err(refused)?;
        let builder = match self.client_verifier(options, provider)? {
            None => builder.with_no_client_auth(),
            Some(verifier) => builder.with_client_cert_verifier(verifier),
        };
        let configuration = builder.with_single_cert(chain, key).map_err(refused)?;
        Ok(Arc::new(configuration))
    }

    /// Builds the configuration for connections to other nodes.
    ///
    /// # Errors
    /// Fails as [`Self::build`], or if there is no truststore.
    pub(super) fn build_client(
        &self,
        options: &TlsOptions,
        verifies_addresses: bool,
    ) -> Result<Arc<ClientConfig>, TlsError> {
        let Identity { provider, chain, key } = self.identity(options)?;
        let refused = |error| rejected(&options.certificate, &error);
        let (path, roots) = self.authorities(options)?;
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let verifier = verifier.build().map_err(|error| rejected(path, &error))?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions(options))
            .map_err(refused)?;
        let builder = if verifies_addresses {
            builder.with_webpki_verifier(verifier)
        } else {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyName(verifier)))
        };
        let configuration = builder.with_client_auth_cert(chain, key).map_err(refused)?;
        Ok(Arc::new(configuration))
    }

    /// Returns the node's certificates and key, with the cryptography of the options.
    fn identity(&self, options: &TlsOptions) -> Result<Identity, TlsError> {
        Ok(Identity {
            provider: Arc::new(provider(&options.cipher_suites)?),
            chain: certificates(&options.certificate, &self.certificate)?,
            key: private_key(&options.key, &self.key)?,
        })
    }

    /// Returns the certificates of the truststore, with its path.
    fn authorities<'o>(
        &self,
        options: &'o TlsOptions,
    ) -> Result<(&'o Path, RootCertStore), TlsError> {
        let (Some(path), Some(content)) = (&options.truststore, &self.truststore) else {
            return Err(TlsError::NoTruststore);
        };
        let mut roots = RootCertStore::empty();
        for certificate in certificates(path, content)? {
            roots.add(certificate).map_err(|error| rejected(path, &error))?;
        }
        Ok((path, roots))
    }

    fn client_verifier(
        &self,
        options: &TlsOptions,
        provider: Arc<CryptoProvider>,
    ) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
        if options.client_certificates == ClientCertificates::NotAsked {
            return Ok(None);
        }
        let (path, roots) = self.authorities(options)?;
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let builder = match options.client_certificates {
            ClientCertificates::Required => builder,
            _ => builder.allow_unauthenticated(),
        };
        builder.build().map(Some).map_err(|error| rejected(path, &error))
    }
}

/// Makes aws-lc-rs the default cryptography of the process, for users of rustls that choose none,
/// such as HTTP clients.
pub fn provide_cryptography() {
    // The call fails if the process has a default already, which then stays.
    let _ = aws_lc_rs::default_provider().install_default();
}

fn rejected(path: &Path, error: &dyn std::fmt::Display) -> TlsError {
    TlsError::Rejected { path: path.to_owned(), reason: error.to_string() }
}

fn versions(options: &TlsOptions) -> Vec<&'static SupportedProtocolVersion> {
    options.versions.iter().map(|version| supported(*version)).collect()
}

fn supported(version: TlsVersion) -> &'static SupportedProtocolVersion {
    match version {
        TlsVersion::V1_2 => &version::TLS12,
        TlsVersion::V1_3 => &version::TLS13,
    }
}

/// Returns the cryptography with these cipher suites only, or with all if none is named. A
/// connector prefers them in this order; an acceptor follows the order of the client.
fn provider(names: &[String]) -> Result<CryptoProvider, TlsError> {
    let mut provider = aws_lc_rs::default_provider();
    if names.is_empty() {
        return Ok(provider);
    }
    let mut chosen = Vec::with_capacity(names.len());
    for name in names {
        let named = |suite: &&rustls::SupportedCipherSuite| suite_name(suite.suite()) == *name;
        let Some(suite) = provider.cipher_suites.iter().find(named) else {
            let known = provider.cipher_suites.iter().map(|suite| suite_name(suite.suite()));
            return Err(TlsError::UnknownCipherSuite {
                name: name.clone(),
                known: known.collect::<Vec<_>>().join(", "),
            });
        };
        chosen.push(*suite);
    }
    provider.cipher_suites = chosen;
    Ok(provider)
}

/// Returns the IANA name of a cipher suite. rustls writes `TLS13_` where IANA writes `TLS_`.
pub(super) fn suite_name(suite: rustls::CipherSuite) -> String {
    format!("{suite:?}").replacen("TLS13_", "TLS_", 1)
}

fn certificates(path: &Path, content: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    refuse_keystore(path, content)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(content).collect();
    let found = found.map_err(|error| not_pem(path, &error))?;
    if found.is_empty() {
        return Err(TlsError::Lacking { path: path.to_owned(), what: "certificate" });
    }
    Ok(found)
}

fn private_key(path: &Path, content: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    refuse_keystore(path, content)?;
    let what = "private key without a password";
    let lacking = || TlsError::Lacking { path: path.to_owned(), what };
    match PrivateKeyDer::pem_slice_iter(content).next() {
        None => Err(lacking()),
        Some(key) => key.map_err(|error| not_pem(path, &error)),
    }
}

fn not_pem(path: &Path, error: &rustls::pki_types::pem::Error) -> TlsError {
    TlsError::NotPem { path: path.to_owned(), reason: error.to_string() }
}

fn refuse_keystore(path: &Path, content: &[u8]) -> Result<(), TlsError> {
    const JKS: &[u8] = &[0xFE, 0xED, 0xFE, 0xED];
    /// The beginning of a DER sequence of 256 to 65,535 bytes.
    const DER: &[u8] = &[0x30, 0x82];
    let (kind, command) = if content.starts_with(JKS) {
        let command = "keytool -importkeystore -srckeystore FILE -destkeystore node.p12 \
                       -deststoretype PKCS12; openssl pkcs12 -in node.p12 -nodes -out node.pem";
        ("Java (JKS)", command)
    } else if content.starts_with(DER) {
        ("PKCS #12", "openssl pkcs12 -in FILE -nodes -out node.pem")
    } else {
        return Ok(());
    };
    Err(TlsError::Keystore { path: path.to_owned(), kind, command })
}
