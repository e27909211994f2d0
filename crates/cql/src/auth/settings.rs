//! The settings of authentication and authorization.

/// The settings by which the node checks its clients. The default checks nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthSettings {
    /// `authenticator`: the way in which clients log in.
    pub authenticator: Authenticator,
    /// `authorizer`: the way in which the node stores and checks permissions.
    pub authorizer: Authorizer,
    /// `network_authorizer`: true if the node limits roles to data centres
    /// (CassandraNetworkAuthorizer).
    pub limits_datacenters: bool,
    /// `cidr_authorizer`: true if the node limits roles to groups of addresses
    /// (CassandraCIDRAuthorizer).
    pub limits_cidrs: bool,
    /// The first superuser, which a start makes if there is no role.
    pub superuser: Superuser,
}

/// The ways to log in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authenticator {
    /// Clients do not log in (AllowAllAuthenticator).
    #[default]
    AllowAll,
    /// Clients log in with a password (PasswordAuthenticator).
    Password,
    /// Clients log in by a certificate whose identity has a role (MutualTlsAuthenticator).
    MutualTls,
    /// Clients with a certificate log in by it, and others with a password
    /// (MutualTlsWithPasswordFallbackAuthenticator).
    MutualTlsOrPassword,
    /// Clients may log in with a password. A client whose log-in fails is an anonymous user
    /// (TransitionalAuthenticator of ScyllaDB).
    Transitional,
}

/// The ways to handle permissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authorizer {
    /// Every client may do everything; the node refuses GRANT (AllowAllAuthorizer).
    #[default]
    AllowAll,
    /// The node stores and checks permissions (CassandraAuthorizer).
    Cassandra,
    /// The node stores permissions. It checks only GRANT, REVOKE and statements on roles and on
    /// `system_auth` (TransitionalAuthorizer of ScyllaDB).
    Transitional,
}

/// The first superuser. `Debug` does not show its password.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Superuser {
    /// `auth_superuser_name`; without it, `cassandra`.
    pub name: Option<String>,
    /// `auth_superuser_password`.
    pub password: Option<String>,
    /// `auth_superuser_salted_password`: a hash of the password instead.
    pub salted_password: Option<String>,
}

impl std::fmt::Debug for Superuser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Superuser").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Authenticator {
    /// Returns whether a connection begins with a log-in.
    pub fn requires_login(self) -> bool {
        self != Self::AllowAll
    }

    /// Returns whether roles may have passwords.
    pub fn has_passwords(self) -> bool {
        !matches!(self, Self::AllowAll | Self::MutualTls)
    }

    /// Returns whether clients may log in by a certificate.
    pub fn takes_certificates(self) -> bool {
        matches!(self, Self::MutualTls | Self::MutualTlsOrPassword)
    }

    /// Returns the name of the class, without its package.
    pub fn class_name(self) -> &'static str {
        match self {
            Self::AllowAll => "AllowAllAuthenticator",
            Self::Password => "PasswordAuthenticator",
            Self::MutualTls => "MutualTlsAuthenticator",
            Self::MutualTlsOrPassword => "MutualTlsWithPasswordFallbackAuthenticator",
            Self::Transitional => "TransitionalAuthenticator",
        }
    }
}

impl AuthSettings {
    /// Returns whether the node has to check statements of clients.
    pub fn checks_statements(&self) -> bool {
        self.authorizer != Authorizer::AllowAll || self.limits_datacenters || self.limits_cidrs
    }
}
