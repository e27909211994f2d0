//! Faults of certificates and TLS options.

use std::path::PathBuf;

use crate::file::FileError;

/// A reason why TLS cannot be set up. Each names the file or the value, and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file is a Java keystore or PKCS #12.
    #[error(
        "{path} is a {kind} keystore, and only PEM files are read: convert it by `{command}`",
        path = path.display()
    )]
    Keystore {
        /// The file.
        path: PathBuf,
        /// The kind of keystore.
        kind: &'static str,
        /// The command that makes a PEM file of it.
        command: &'static str,
    },
    /// A file is not PEM.
    #[error("{path} is not a PEM file: {reason}", path = path.display())]
    NotPem {
        /// The file.
        path: PathBuf,
        /// The parser's reason.
        reason: String,
    },
    /// A file lacks a certificate or a private key.
    #[error("{path} has no {what}: it must be a PEM file with one", path = path.display())]
    Lacking {
        /// The file.
        path: PathBuf,
        /// The missing part.
        what: &'static str,
    },
    /// Certificates of clients or of other nodes are to be checked without a truststore.
    #[error(
        "no truststore says which authority may sign the certificates of clients or other nodes"
    )]
    NoTruststore,
    /// A cipher suite is unknown.
    #[error("cipher suite {name} is unknown or not offered; these are offered: {known}")]
    UnknownCipherSuite {
        /// The given name.
        name: String,
        /// All known names.
        known: String,
    },
    /// The certificate, key and options do not work together.
    #[error("{path}: {reason}", path = path.display())]
    Rejected {
        /// The file of the certificate.
        path: PathBuf,
        /// The reason of rustls.
        reason: String,
    },
}
