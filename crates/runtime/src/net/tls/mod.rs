//! TLS by rustls, on accepted connections and on those to other nodes: versions 1.2 and 1.3.
//!
//! [`TlsAcceptor`] has the certificates and makes an accepted [`super::TcpStream`] encrypted;
//! [`TlsConnector`] does this for a connection to another node. From then on, reads and writes of
//! that stream have the same contract as those of a plain one. The ciphertext goes through the same
//! socket operations as plain bytes.
//!
//! Memory of an encrypted connection: rustls's state (a few KiB), a buffer for received ciphertext
//! (one record, up to 18 KiB), and a buffer for ciphertext on its way out ([`state`] bounds it).

mod acceptor;
mod certificate;
mod configuration;
mod connector;
mod error;
mod reloading;
mod session;
mod state;

pub use acceptor::{Handshake, TlsAcceptor};
pub use certificate::ClientCertificate;
pub use configuration::{ClientCertificates, TlsOptions, TlsVersion, provide_cryptography};
pub use connector::TlsConnector;
pub use error::TlsError;
pub(super) use session::Session;
pub use session::TlsDescription;
pub use state::TlsState;
