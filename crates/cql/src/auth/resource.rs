//! The objects of permissions: keyspaces and tables, roles, functions, MBeans.
//!
//! `system_auth` stores a resource under its name (`data/ks/t`). Errors and LIST show it as
//! `<table ks.t>`. Both forms are Cassandra's.

use std::fmt;

use espalier_types::CqlType;

use super::permission::{Permission, PermissionSet};

/// The object of a permission.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Resource {
    AllKeyspaces,
    Keyspace(String),
    AllTables(String),
    Table(String, String),
    AllRoles,
    Role(String),
    AllFunctions,
    FunctionsOf(String),
    /// A function by keyspace, name and argument types. The argument types are Cassandra's class
    /// names, joined by `^`.
    Function(String, String, String),
    AllMbeans,
    Mbean(String),
}

impl Resource {
    /// Returns the name that `system_auth` stores.
    pub fn name(&self) -> String {
        match self {
            Self::AllKeyspaces => "data".into(),
            Self::Keyspace(keyspace) => format!("data/{keyspace}"),
            Self::AllTables(keyspace) => format!("data/{keyspace}/*"),
            Self::Table(keyspace, table) => format!("data/{keyspace}/{table}"),
            Self::AllRoles => "roles".into(),
            Self::Role(role) => format!("roles/{role}"),
            Self::AllFunctions => "functions".into(),
            Self::FunctionsOf(keyspace) => format!("functions/{keyspace}"),
            Self::Function(keyspace, name, arguments) => {
                format!("functions/{keyspace}/{name}[{arguments}]")
            }
            Self::AllMbeans => "mbean".into(),
            Self::Mbean(pattern) => format!("mbean/{pattern}"),
        }
    }

    /// Returns the resource that has this name in `system_auth`. Returns `None` if the name is
    /// malformed.
    pub fn from_name(name: &str) -> Option<Self> {
        let (kind, rest) = match name.split_once('/') {
            Some((kind, rest)) => (kind, Some(rest)),
            None => (name, None),
        };
        Some(match (kind, rest) {
            ("data", None) => Self::AllKeyspaces,
            ("data", Some(rest)) => match rest.split_once('/') {
                None => Self::Keyspace(rest.into()),
                Some((keyspace, "*")) => Self::AllTables(keyspace.into()),
                Some((keyspace, table)) => Self::Table(keyspace.into(), table.into()),
            },
            ("roles", None) => Self::AllRoles,
            ("roles", Some(role)) => Self::Role(role.into()),
            ("functions", None) => Self::AllFunctions,
            ("functions", Some(rest)) => match rest.split_once('/') {
                None => Self::FunctionsOf(rest.into()),
                Some((keyspace, function)) => {
                    let (name, arguments) = function.strip_suffix(']')?.rsplit_once('[')?;
                    Self::Function(keyspace.into(), name.into(), arguments.into())
                }
            },
            ("mbean", None) => Self::AllMbeans,
            ("mbean", Some(pattern)) => Self::Mbean(pattern.into()),
            _ => return None,
        })
    }

    /// Returns the resource that contains this one.
    pub fn parent(&self) -> Option<Self> {
        Some(match self {
            Self::Keyspace(_) => Self::AllKeyspaces,
            Self::AllTables(keyspace) => Self::Keyspace(keyspace.clone()),
            Self::Table(keyspace, _) => Self::AllTables(keyspace.clone()),
            Self::Role(_) => Self::AllRoles,
            Self::FunctionsOf(_) => Self::AllFunctions,
            Self::Function(keyspace, ..) => Self::FunctionsOf(keyspace.clone()),
            Self::Mbean(_) => Self::AllMbeans,
            Self::AllKeyspaces | Self::AllRoles | Self::AllFunctions | Self::AllMbeans => {
                return None;
            }
        })
    }

    /// Returns this resource and all resources that contain it.
    pub fn chain(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self.clone()), Self::parent)
    }

    /// Returns the permissions that can be granted on this resource.
    pub fn applicable(&self) -> PermissionSet {
        use Permission::{
            Alter, Authorize, Create, Describe, Drop, Execute, Modify, Select, SelectMasked, Unmask,
        };
        const TABLE: PermissionSet =
            PermissionSet::of(&[Alter, Drop, Select, Modify, Authorize, Unmask, SelectMasked]);
        match self {
            Self::Table(..) => TABLE,
            Self::AllKeyspaces | Self::Keyspace(_) | Self::AllTables(_) => {
                TABLE.union(PermissionSet::of(&[Create]))
            }
            Self::AllRoles => PermissionSet::of(&[Create, Alter, Drop, Authorize, Describe]),
            Self::Role(_) => PermissionSet::of(&[Alter, Drop, Authorize, Describe]),
            Self::AllFunctions | Self::FunctionsOf(_) => {
                PermissionSet::of(&[Create, Alter, Drop, Authorize, Execute])
            }
            Self::Function(..) => PermissionSet::of(&[Alter, Drop, Authorize, Execute]),
            Self::AllMbeans | Self::Mbean(_) => {
                PermissionSet::of(&[Authorize, Describe, Execute, Modify, Select])
            }
        }
    }

    /// Returns the keyspace of a data resource; `None` for all keyspaces and for other resources.
    pub fn keyspace(&self) -> Option<&str> {
        match self {
            Self::Keyspace(keyspace) | Self::AllTables(keyspace) | Self::Table(keyspace, _) => {
                Some(keyspace)
            }
            _ => None,
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllKeyspaces => f.write_str("<all keyspaces>"),
            Self::Keyspace(keyspace) => write!(f, "<keyspace {keyspace}>"),
            Self::AllTables(keyspace) => write!(f, "<all tables in {keyspace}>"),
            Self::Table(keyspace, table) => write!(f, "<table {keyspace}.{table}>"),
            Self::AllRoles => f.write_str("<all roles>"),
            Self::Role(role) => write!(f, "<role {role}>"),
            Self::AllFunctions => f.write_str("<all functions>"),
            Self::FunctionsOf(keyspace) => write!(f, "<all functions in {keyspace}>"),
            Self::Function(keyspace, name, arguments) => {
                let types = arguments.split('^').filter(|argument| !argument.is_empty());
                let types: Vec<_> = types.map(cql_name).collect();
                write!(f, "<function {keyspace}.{name}({})>", types.join(", "))
            }
            Self::AllMbeans => f.write_str("<all mbeans>"),
            Self::Mbean(pattern) => write!(f, "<mbean {pattern}>"),
        }
    }
}

/// Returns the CQL name of a type by its class name. Returns the text itself if it names no type.
fn cql_name(marshal_name: &str) -> String {
    CqlType::parse_marshal(marshal_name)
        .map_or_else(|_| marshal_name.to_owned(), |parsed| parsed.cql_name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        let int = "org.apache.cassandra.db.marshal.Int32Type";
        let function = Resource::Function("k".into(), "f".into(), format!("{int}^{int}"));
        assert_eq!(function.to_string(), "<function k.f(int, int)>");
        for resource in [
            Resource::AllKeyspaces,
            Resource::Keyspace("k".into()),
            Resource::AllTables("k".into()),
            Resource::Table("k".into(), "t".into()),
            Resource::AllRoles,
            Resource::Role("a/b".into()),
            Resource::AllFunctions,
            Resource::FunctionsOf("k".into()),
            function,
            Resource::AllMbeans,
            Resource::Mbean("a:type=b/c".into()),
        ] {
            assert_eq!(Resource::from_name(&resource.name()), Some(resource));
        }
        assert_eq!(Resource::from_name("tables/x"), None);
    }

    #[test]
    fn a_table_is_in_all_tables_of_a_keyspace_of_all() {
        let chain: Vec<_> = Resource::Table("k".into(), "t".into()).chain().collect();
        let names: Vec<_> = chain.iter().map(ToString::to_string).collect();
        let expected = ["<table k.t>", "<all tables in k>", "<keyspace k>", "<all keyspaces>"];
        assert_eq!(names, expected);
    }
}
