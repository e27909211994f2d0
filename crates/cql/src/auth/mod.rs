//! Authentication and authorization: log-ins, roles, permissions.
//!
//! 1. A connection logs in ([`Auth::log_in`]) and gets a [`Login`].
//! 2. The planner computes the needs of a statement ([`access::Need`]).
//! 3. The processor compares the needs with the role of the log-in before each execution. A
//!    statement remembers the last log-in that passed, so the check of a prepared statement costs
//!    two comparisons if the same connection executes it again.
//! 4. Each change of a role or permission increases the node's epoch. Then every log-in reads its
//!    role again at its next statement.
//!
//! The roles and permissions are in the tables of `system_auth`; see docs/decisions/0035.

pub mod access;
mod cidr;
mod failures;
mod login;
mod obfuscate;
pub mod password;
pub mod permission;
pub mod resource;
mod role;
mod settings;
mod statement;
mod store;
mod superuser;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use espalier_runtime::net::tls::ClientCertificate;
use espalier_runtime::time::Instant;
use espalier_storage::Node;

pub use access::Need;
pub(crate) use access::needs_of_schema_change;
use failures::Attempt;
pub use login::Login;
pub use obfuscate::obfuscate;
pub use settings::{AuthSettings, Authenticator, Authorizer, Superuser};
pub(crate) use statement::{creator_permissions, execute, revoke_dropped};
pub use superuser::{FirstSuperuser, make_superuser};

use crate::{Error, ErrorCode, Result};

/// The keyspace of roles and permissions.
pub const AUTH_KEYSPACE: &str = "system_auth";

/// The state of authentication that all shards of a node share.
#[derive(Debug, Default)]
pub struct Auth {
    /// The settings.
    pub settings: AuthSettings,
    /// A number that grows with each change of a role or permission.
    epoch: AtomicU64,
    failures: failures::FailedLogins,
}

impl Auth {
    /// Creates the state of a node.
    pub fn new(settings: AuthSettings) -> Arc<Self> {
        Arc::new(Self { settings, ..Self::default() })
    }

    /// Returns the epoch of roles and permissions.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Makes all log-ins, on all shards, read their roles again before their next statement. Call
    /// this function after the tables have changed.
    pub fn roles_changed(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// Checks the token of SASL PLAIN, or the certificate of the client, and returns the log-in.
    ///
    /// # Errors
    /// Error 0x0100 if the token is malformed, if name or password is wrong, if the identity of the
    /// certificate has no role, if the role may not log in, or if the address has failed too often;
    /// error 0x1001 if too many clients log in at the same time. Also fails if the storage fails.
    /// With [`Authenticator::Transitional`], a failed log-in is anonymous instead of an error.
    pub async fn log_in(
        self: &Arc<Self>,
        database: &Node,
        token: Option<&[u8]>,
        certificate: Option<&ClientCertificate>,
        address: IpAddr,
    ) -> Result<Login> {
        let authenticator = self.settings.authenticator;
        let by_certificate = authenticator == Authenticator::MutualTls
            || authenticator == Authenticator::MutualTlsOrPassword && certificate.is_some();
        if by_certificate {
            return self.log_in_by_certificate(database, certificate, address).await;
        }
        let credentials = plain_credentials(token.unwrap_or_default());
        if self.settings.authenticator == Authenticator::Transitional {
            let Ok((name, password)) = credentials else { return Ok(Login::anonymous(self)) };
            let login = self.log_in_as(database, &name, password, address).await;
            return Ok(login.unwrap_or_else(|_| Login::anonymous(self)));
        }
        let (name, password) = credentials?;
        self.log_in_as(database, &name, password, address).await
    }

    async fn log_in_by_certificate(
        self: &Arc<Self>,
        database: &Node,
        certificate: Option<&ClientCertificate>,
        address: IpAddr,
    ) -> Result<Login> {
        let Some(certificate) = certificate else {
            return Err(refused("Invalid or not supported certificate"));
        };
        let Some(identity) = certificate.spiffe_id() else {
            return Err(refused("Unable to extract Spiffe from the certificate"));
        };
        let Some(name) = role::of_identity(database, &identity).await? else {
            return Err(refused(format!("Certificate identity '{identity}' not authorized")));
        };
        if !role::find(database, &name).await?.is_some_and(|row| row.can_login) {
            return Err(refused(format!("{name} is not permitted to log in")));
        }
        Login::of(self, database, &name, address).await
    }

    async fn log_in_as(
        self: &Arc<Self>,
        database: &Node,
        name: &str,
        password: String,
        address: IpAddr,
    ) -> Result<Login> {
        let too_many = || {
            refused(format!("Too many failed log-ins from {address}; try again in some seconds"))
        };
        if !self.failures.may_try(address, Instant::now()) {
            return Err(too_many());
        }
        let row = role::find(database, name).await?;
        let hash = row.as_ref().and_then(|row| row.salted_hash.clone());
        let mut attempt = None;
        let admit = async {
            attempt = self.failures.attempt(address).await;
            if attempt.is_some() { Ok(()) } else { Err(too_many()) }
        };
        if !password::fits_in_background(password, hash, admit).await? {
            return Err(refused(format!("Provided username {name} and/or password are incorrect")));
        }
        attempt.into_iter().for_each(Attempt::succeed);
        if !row.is_some_and(|row| row.can_login) {
            return Err(refused(format!("{name} is not permitted to log in")));
        }
        Login::of(self, database, name, address).await
    }
}

/// Splits a token of SASL PLAIN (RFC 4616) into name and password. As Cassandra does, ignores the
/// text before the first zero byte, which names the role for which the client wants to act.
///
/// # Errors
/// Cassandra's error if name or password is missing, or has a zero byte.
pub fn plain_credentials(token: &[u8]) -> Result<(String, String)> {
    let mut parts = token.rsplit(|byte| *byte == 0);
    let (last, second, first) = (parts.next(), parts.next(), parts.next());
    let (name, password) = match (first, second) {
        (Some(_), name) => (name, last),
        (None, Some(_)) => (None, last),
        (None, None) => (None, None),
    };
    if parts.next().is_some() {
        return Err(refused(
            "Credential format error: username or password is empty or contains NUL(\\0) character",
        ));
    }
    let (name, password) = (name.unwrap_or_default(), password.unwrap_or_default());
    if password.is_empty() {
        return Err(refused("Password must not be null"));
    }
    if name.is_empty() {
        return Err(refused("Authentication ID must not be null"));
    }
    // Cassandra replaces malformed text.
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((text(name), text(password)))
}

fn refused(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::Authentication, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_split_as_in_cassandra() {
        let read = |token: &[u8]| plain_credentials(token).map_err(|error| error.message);
        assert_eq!(read(b"\0me\0secret"), Ok(("me".into(), "secret".into())));
        assert_eq!(read(b"other\0me\0secret"), Ok(("me".into(), "secret".into())));
        assert_eq!(read(b"\0me\0"), Err("Password must not be null".into()));
        assert_eq!(read(b"\0\0secret"), Err("Authentication ID must not be null".into()));
        assert_eq!(read(b"\0secret"), Err("Authentication ID must not be null".into()));
        assert_eq!(read(b"secret"), Err("Password must not be null".into()));
        assert_eq!(read(b""), Err("Password must not be null".into()));
        assert!(read(b"\0me\0sec\0ret").unwrap_err().starts_with("Credential format error"));
    }
}
