//! Roles, permissions and identities: CREATE, ALTER, DROP, GRANT, REVOKE and LIST.

use std::borrow::Cow;
use std::fmt;

use super::{Name, QualifiedName, TypeName};

/// A statement about roles, permissions or identities.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum RoleStatement<'a> {
    Create(DefineRole<'a>),
    Alter(DefineRole<'a>),
    Drop { role: Name<'a>, if_exists: bool },
    AddIdentity { identity: Cow<'a, str>, role: Name<'a>, if_not_exists: bool },
    DropIdentity { identity: Cow<'a, str>, if_exists: bool },
    GrantRole { role: Name<'a>, to: Name<'a> },
    RevokeRole { role: Name<'a>, from: Name<'a> },
    GrantPermissions(Grant<'a>),
    RevokePermissions(Grant<'a>),
    ListUsers,
    ListRoles { of: Option<Name<'a>>, recursive: bool },
    ListPermissions(ListPermissions<'a>),
}

impl RoleStatement<'_> {
    /// Returns whether the statement is a LIST.
    pub fn is_list(&self) -> bool {
        matches!(self, Self::ListUsers | Self::ListRoles { .. } | Self::ListPermissions(_))
    }
}

/// CREATE or ALTER of a role or user.
#[derive(Clone, Debug)]
pub struct DefineRole<'a> {
    /// The role.
    pub role: Name<'a>,
    /// `IF NOT EXISTS` of CREATE, `IF EXISTS` of ALTER.
    pub conditional: bool,
    /// The options, including those that USER implies.
    pub options: RoleOptions<'a>,
}

/// The options of a role; `None` if an option is not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct RoleOptions<'a> {
    pub password: Option<Password<'a>>,
    pub superuser: Option<bool>,
    pub login: Option<bool>,
    /// `OPTIONS`: names and values for other role managers.
    pub custom: Option<Vec<(Cow<'a, str>, Cow<'a, str>)>>,
    /// `ACCESS TO DATACENTERS`.
    pub datacenters: Option<Access<'a>>,
    /// `ACCESS FROM CIDRS`.
    pub cidrs: Option<Access<'a>>,
}

/// The password of a role. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Password<'a> {
    Plain(Cow<'a, str>),
    Hashed(Cow<'a, str>),
    /// The node generates a random password and returns it.
    Generated,
}

impl fmt::Debug for Password<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const HIDDEN: &str = "*******";
        match self {
            Self::Plain(_) => f.debug_tuple("Plain").field(&HIDDEN).finish(),
            Self::Hashed(_) => f.debug_tuple("Hashed").field(&HIDDEN).finish(),
            Self::Generated => f.write_str("Generated"),
        }
    }
}

/// The data centres or groups of addresses that a role may use.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Access<'a> {
    All,
    Only(Vec<Cow<'a, str>>),
}

/// `permissions ON resource` with the role that gets or loses them.
#[derive(Clone, Debug)]
pub struct Grant<'a> {
    /// The permissions.
    pub permissions: Permissions,
    /// The resource.
    pub resource: Resource<'a>,
    /// The role.
    pub role: Name<'a>,
}

/// `LIST permissions [ON resource] [OF role] [NORECURSIVE]`.
#[derive(Clone, Debug)]
pub struct ListPermissions<'a> {
    /// The permissions.
    pub permissions: Permissions,
    /// The resource, if there is one.
    pub resource: Option<Resource<'a>>,
    /// The role, if there is one.
    pub of: Option<Name<'a>>,
    /// True if permissions on parents of the resource are listed too.
    pub recursive: bool,
}

/// The permissions of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permissions {
    /// `ALL`: those that can be granted on the resource.
    All,
    /// Named permissions, in upper case.
    Some(Vec<&'static str>),
}

/// The object of a permission.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Resource<'a> {
    AllKeyspaces,
    Keyspace(Name<'a>),
    AllTables(Name<'a>),
    Table(QualifiedName<'a>),
    AllRoles,
    Role(Name<'a>),
    AllFunctions,
    FunctionsOf(Name<'a>),
    Function {
        name: QualifiedName<'a>,
        arguments: Vec<TypeName<'a>>,
    },
    AllMbeans,
    /// One MBean, or a pattern of them; `plural` if the word is MBEANS.
    Mbean {
        pattern: Cow<'a, str>,
        plural: bool,
    },
}
