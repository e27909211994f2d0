//! The effective role of a log-in at one epoch: the properties of the role and of all roles granted
//! to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use espalier_storage::Node;
use hashbrown::HashMap;

use super::permission::{Permission, PermissionSet};
use super::resource::Resource;
use crate::{Result, internal_query};

/// A role as one row of `system_auth.roles` has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleRow {
    /// `can_login`.
    pub can_login: bool,
    /// `is_superuser`.
    pub is_superuser: bool,
    /// `member_of`: the roles that are directly granted to the role.
    pub member_of: Vec<String>,
    /// `salted_hash`.
    pub salted_hash: Option<String>,
}

/// A role with all its rights.
#[derive(Debug, Default)]
pub struct EffectiveRole {
    /// A number that no other loaded role has; 0 if the role is not loaded. A statement remembers
    /// the number of the last role that passed its check.
    pub token: u64,
    /// The epoch at which the log-in has read the role.
    pub epoch: u64,
    /// True if the role, or a role that is granted to it, is a superuser.
    pub is_superuser: bool,
    /// The role and all roles granted to it, directly or not.
    pub roles: BTreeSet<String>,
    /// The permissions of all these roles by resource name.
    pub(super) permissions: HashMap<String, PermissionSet>,
    /// The data centres that the role may use; `None` if it may use all.
    pub datacenters: Option<Vec<String>>,
    /// The groups of addresses from which the role has access; `None` if it has access from all
    /// addresses.
    pub cidr_groups: Option<Vec<String>>,
}

impl EffectiveRole {
    /// Reads a role from the tables.
    ///
    /// # Errors
    /// The storage fails.
    pub async fn load(database: &Node, name: &str, epoch: u64) -> Result<Self> {
        static TOKENS: AtomicU64 = AtomicU64::new(1);
        let rows = with_inherited(database, name).await?;
        let mut role = Self {
            token: TOKENS.fetch_add(1, Ordering::Relaxed),
            epoch,
            is_superuser: include_superuser(&rows),
            datacenters: restriction(database, "network_permissions", "dcs", name).await?,
            cidr_groups: restriction(database, "cidr_permissions", "cidr_groups", name).await?,
            ..Self::default()
        };
        for name in rows.into_keys() {
            for (resource, permissions) in permissions_of(database, &name).await? {
                let known = role.permissions.entry(resource).or_default();
                *known = known.union(permissions);
            }
            role.roles.insert(name);
        }
        Ok(role)
    }

    /// Returns whether the role has a permission on one of `resources`.
    pub fn has(&self, permission: Permission, resources: impl Iterator<Item = Resource>) -> bool {
        let mut resources = resources;
        resources.any(|resource| self.permissions_on(&resource).has(permission))
    }

    /// Returns the permissions on exactly this resource. A superuser has all.
    pub fn permissions_on(&self, resource: &Resource) -> PermissionSet {
        if self.is_superuser {
            return resource.applicable();
        }
        self.permissions.get(resource.name().as_str()).copied().unwrap_or_default()
    }
}

/// Reads one role; `None` if it does not exist.
///
/// # Errors
/// The storage fails.
pub async fn find(database: &Node, name: &str) -> Result<Option<RoleRow>> {
    const TEXT: &str = "SELECT can_login, is_superuser, member_of, salted_hash \
                        FROM system_auth.roles WHERE role = ?";
    let rows = internal_query::read(database, TEXT, &[name]).await?;
    Ok(rows.first().map(row_of))
}

/// Reads the role to which an identity of certificates is bound; `None` if there is none.
///
/// # Errors
/// The storage fails.
pub async fn of_identity(database: &Node, identity: &str) -> Result<Option<String>> {
    const TEXT: &str = "SELECT role FROM system_auth.identity_to_role WHERE identity = ?";
    Ok(internal_query::read_texts(database, TEXT, &[identity]).await?.into_iter().next())
}

/// Reads all roles by name.
///
/// # Errors
/// The storage fails.
pub async fn all(database: &Node) -> Result<BTreeMap<String, RoleRow>> {
    const TEXT: &str = "SELECT can_login, is_superuser, member_of, salted_hash, role \
                        FROM system_auth.roles";
    let rows = internal_query::read(database, TEXT, &[]).await?;
    let named = |row: &internal_query::Row| {
        let name = internal_query::text(row.get(4)?.as_ref())?.to_owned();
        Some((name, row_of(row)))
    };
    Ok(rows.iter().filter_map(named).collect())
}

fn row_of(row: &internal_query::Row) -> RoleRow {
    let column = |index: usize| row.get(index).and_then(Option::as_ref);
    RoleRow {
        can_login: internal_query::boolean(column(0)),
        is_superuser: internal_query::boolean(column(1)),
        member_of: internal_query::texts(column(2)),
        salted_hash: internal_query::text(column(3)).map(str::to_owned),
    }
}

/// Reads a role and all roles that are granted to it, directly or not. Skips roles that do not
/// exist.
///
/// # Errors
/// The storage fails.
pub async fn with_inherited(database: &Node, name: &str) -> Result<BTreeMap<String, RoleRow>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![name.to_owned()];
    while let Some(next) = waiting.pop() {
        if found.contains_key(&next) {
            continue;
        }
        if let Some(row) = find(database, &next).await? {
            waiting.extend(row.member_of.iter().cloned());
            found.insert(next, row);
        }
    }
    Ok(found)
}

/// Returns whether one of the roles is a superuser.
pub fn include_superuser(rows: &BTreeMap<String, RoleRow>) -> bool {
    rows.values().any(|row| row.is_superuser)
}

/// Reads the permissions that are granted to one role itself, by resource name.
///
/// # Errors
/// The storage fails.
pub async fn permissions_of(database: &Node, role: &str) -> Result<Vec<(String, PermissionSet)>> {
    const TEXT: &str =
        "SELECT resource, permissions FROM system_auth.role_permissions WHERE role = ?";
    let rows = internal_query::read(database, TEXT, &[role]).await?;
    let named = |row: &internal_query::Row| {
        let resource = internal_query::text(row.first()?.as_ref())?.to_owned();
        Some((resource, permission_set(row.get(1)?.as_ref())))
    };
    Ok(rows.iter().filter_map(named).collect())
}

/// Returns the permissions of a column `permissions`. Skips unknown names.
pub fn permission_set(value: Option<&bytes::Bytes>) -> PermissionSet {
    internal_query::texts(value).iter().filter_map(|name| Permission::from_name(name)).collect()
}

/// Reads the set of names that limits a role; `None` if the role has no limit.
///
/// # Errors
/// The storage fails.
pub async fn restriction(
    database: &Node,
    table: &str,
    column: &str,
    role: &str,
) -> Result<Option<Vec<String>>> {
    let text = format!("SELECT {column} FROM system_auth.{table} WHERE role = ?");
    let rows = internal_query::read(database, &text, &[role]).await?;
    let names = rows.first().map(|row| internal_query::texts(row.first().and_then(Option::as_ref)));
    Ok(names.filter(|names| !names.is_empty()))
}
