//! Executes GRANT and REVOKE of permissions.

use espalier_storage::system::is_virtual;
use espalier_types::CqlType;

use super::super::login::unauthorized;
use super::super::permission::{Permission, PermissionSet};
use super::super::resource::Resource;
use super::super::role;
use super::super::settings::Authorizer;
use super::super::store::Change;
use super::Run;
use crate::grammar::ast::{self, Grant};
use crate::internal_query::{set_value, text_value};
use crate::{Error, QueryResult, Result};

/// Permissions that can be granted on a system keyspace.
const ALLOWED_ON_SYSTEM: PermissionSet =
    PermissionSet::of(&[Permission::Select, Permission::Describe, Permission::Alter]);

impl Run<'_> {
    pub(super) async fn grant_permissions(&self, grant: &Grant<'_>) -> Result<QueryResult> {
        let (permissions, resource) = self.check_grant(grant).await?;
        let is_system = resource.keyspace().is_some_and(|keyspace| {
            crate::ddl::is_system_keyspace(keyspace) && !is_virtual(keyspace)
        });
        if is_system && !permissions.without(ALLOWED_ON_SYSTEM).is_empty() {
            return Err(unauthorized(
                "Granting permissions on system keyspaces is strictly limited, this operation is not permitted",
            ));
        }
        self.check_kept("GRANT")?;
        let name = grant.role.as_str();
        let known = self.granted(name, &resource).await?;
        let new = permissions.without(known);
        let mut change = Change::default();
        if !new.is_empty() {
            put(&mut change, name, &resource, new);
            change.apply(self.database, self.auth).await?;
        }
        let twice = permissions.intersection(known);
        if !twice.is_empty() {
            self.warnings
                .add(format!("Role '{name}' was already granted {} on {resource}", names(twice)));
        }
        Ok(QueryResult::Void)
    }

    pub(super) async fn revoke_permissions(&self, grant: &Grant<'_>) -> Result<QueryResult> {
        let (permissions, resource) = self.check_grant(grant).await?;
        self.check_kept("REVOKE")?;
        let name = grant.role.as_str();
        let known = self.granted(name, &resource).await?;
        let lost = permissions.intersection(known);
        if !lost.is_empty() {
            let mut change = Change::default();
            const TEXT: &str = "UPDATE system_auth.role_permissions SET permissions = permissions - ? \
                                WHERE role = ? AND resource = ?";
            change.add_values(
                TEXT,
                vec![
                    set_value(lost.iter().map(Permission::name)),
                    text_value(name),
                    text_value(&resource.name()),
                ],
            );
            if known.without(lost).is_empty() {
                const TEXT: &str = "DELETE FROM system_auth.resource_role_permissons_index \
                                    WHERE resource = ? AND role = ?";
                change.add(TEXT, &[&resource.name(), name]);
            }
            change.apply(self.database, self.auth).await?;
        }
        let missing = permissions.without(known);
        if !missing.is_empty() {
            self.warnings
                .add(format!("Role '{name}' was not granted {} on {resource}", names(missing)));
        }
        Ok(QueryResult::Void)
    }

    /// Checks that the client may grant or revoke, and that the role and the resource exist.
    /// Returns the permissions of the statement and its resource.
    async fn check_grant(&self, grant: &Grant<'_>) -> Result<(PermissionSet, Resource)> {
        let resource = self.resource(&grant.resource)?;
        let permissions = permission_set(&grant.permissions, &resource)?;
        self.check_on(Permission::Authorize, &resource)?;
        // A role grants and revokes only permissions that it has.
        permissions.iter().try_for_each(|permission| self.check_on(permission, &resource))?;
        self.check_not_anonymous()?;
        let name = grant.role.as_str();
        if !self.exists(name).await? {
            return Err(Error::invalid(format!("Role {name} doesn't exist")));
        }
        if !self.resource_exists(&resource).await? {
            return Err(Error::invalid(format!("Resource {resource} doesn't exist")));
        }
        Ok((permissions, resource))
    }

    fn check_on(&self, permission: Permission, resource: &Resource) -> Result<()> {
        self.login.check_permission(&self.role, permission, resource)
    }

    /// Refuses the operation if the authorizer does not store permissions.
    pub(super) fn check_kept(&self, operation: &str) -> Result<()> {
        if self.auth.settings.authorizer == Authorizer::AllowAll {
            return Err(Error::invalid(format!(
                "{operation} operation is not supported by AllowAllAuthorizer"
            )));
        }
        Ok(())
    }

    /// Returns the permissions that a role itself has on exactly this resource.
    async fn granted(&self, name: &str, resource: &Resource) -> Result<PermissionSet> {
        let (all, resource) = (role::permissions_of(self.database, name).await?, resource.name());
        let found = all.into_iter().find(|(known, _)| *known == resource);
        Ok(found.map(|(_, permissions)| permissions).unwrap_or_default())
    }

    /// Returns the resource that a statement names.
    pub(super) fn resource(&self, named: &ast::Resource<'_>) -> Result<Resource> {
        let owned = |name: &ast::Name<'_>| name.as_str().to_owned();
        Ok(match named {
            ast::Resource::AllKeyspaces => Resource::AllKeyspaces,
            ast::Resource::Keyspace(name) => Resource::Keyspace(owned(name)),
            ast::Resource::AllTables(name) => Resource::AllTables(owned(name)),
            ast::Resource::Table(name) => {
                let keyspace = name.keyspace_or(self.keyspace).ok_or_else(Error::no_keyspace)?;
                Resource::Table(keyspace.to_owned(), owned(&name.name))
            }
            ast::Resource::AllRoles => Resource::AllRoles,
            ast::Resource::Role(name) => Resource::Role(owned(name)),
            ast::Resource::AllFunctions => Resource::AllFunctions,
            ast::Resource::FunctionsOf(name) => Resource::FunctionsOf(owned(name)),
            ast::Resource::Function { name, arguments } => {
                let Some(keyspace) = &name.keyspace else {
                    return Err(Error::invalid(
                        "In this context function name must be explictly qualified by a keyspace",
                    ));
                };
                let parse = |argument: &ast::TypeName<'_>| {
                    CqlType::parse_cql(&argument.to_string(), keyspace.as_str(), &|_| None)
                        .map(|parsed| parsed.marshal_name())
                        .map_err(Error::invalid_from)
                };
                let arguments: Vec<_> = arguments.iter().map(parse).collect::<Result<_>>()?;
                Resource::Function(owned(keyspace), owned(&name.name), arguments.join("^"))
            }
            ast::Resource::AllMbeans => Resource::AllMbeans,
            ast::Resource::Mbean { pattern, .. } => Resource::Mbean(pattern.to_string()),
        })
    }

    /// Returns whether a resource exists. The node has no MBeans, but stores permissions on them.
    pub(super) async fn resource_exists(&self, resource: &Resource) -> Result<bool> {
        let schema = self.database.store().schema();
        Ok(match resource {
            Resource::AllKeyspaces
            | Resource::AllRoles
            | Resource::AllFunctions
            | Resource::AllMbeans
            | Resource::Mbean(_) => true,
            Resource::Keyspace(keyspace)
            | Resource::AllTables(keyspace)
            | Resource::FunctionsOf(keyspace) => schema.keyspace(keyspace).is_some(),
            Resource::Table(keyspace, table) => schema.table(keyspace, table).is_some(),
            Resource::Role(name) => self.exists(name).await?,
            Resource::Function(..) => false,
        })
    }

    /// Adds statements to `change` that grant all permissions on a new resource to its creator.
    pub(super) fn grant_to_creator(&self, change: &mut Change, resource: &Resource) {
        if self.auth.settings.authorizer != Authorizer::AllowAll {
            put(change, self.login.name(), resource, resource.applicable());
        }
    }

    /// Adds statements to `change` that revoke all permissions of a role.
    pub(super) async fn revoke_all_from(&self, change: &mut Change, name: &str) -> Result<()> {
        for (resource, _) in role::permissions_of(self.database, name).await? {
            const TEXT: &str = "DELETE FROM system_auth.resource_role_permissons_index \
                                WHERE resource = ? AND role = ?";
            change.add(TEXT, &[&resource, name]);
        }
        change.add("DELETE FROM system_auth.role_permissions WHERE role = ?", &[name]);
        Ok(())
    }
}

/// Returns those permissions of a statement that can be granted on the resource. `ALL` means all of
/// these. Refuses a statement that names only other permissions.
pub(super) fn permission_set(
    permissions: &ast::Permissions,
    resource: &Resource,
) -> Result<PermissionSet> {
    let names = match permissions {
        ast::Permissions::All => return Ok(resource.applicable()),
        ast::Permissions::Some(names) => names,
    };
    let set = named(names).intersection(resource.applicable());
    if !set.is_empty() {
        return Ok(set);
    }
    Err(Error::syntax(format!(
        "Resource type {} does not support any of the requested permissions",
        kind(resource)
    )))
}

/// Returns the permissions with these names. Skips unknown names.
pub(super) fn named(names: &[&str]) -> PermissionSet {
    names.iter().filter_map(|name| Permission::from_name(name)).collect()
}

/// Adds statements to `change` that grant permissions to a role.
pub(super) fn put(change: &mut Change, role: &str, resource: &Resource, new: PermissionSet) {
    const TEXT: &str = "UPDATE system_auth.role_permissions SET permissions = permissions + ? \
                        WHERE role = ? AND resource = ?";
    let resource = resource.name();
    change.add_values(
        TEXT,
        vec![set_value(new.iter().map(Permission::name)), text_value(role), text_value(&resource)],
    );
    const INDEX: &str =
        "INSERT INTO system_auth.resource_role_permissons_index (resource, role) VALUES (?, ?)";
    change.add(INDEX, &[&resource, role]);
}

/// Returns the names of permissions in their order, as the warnings list them.
fn names(permissions: PermissionSet) -> String {
    let names: Vec<_> = permissions.iter().map(Permission::name).collect();
    names.join(", ")
}

/// Returns the name of the class of a resource in Cassandra's errors.
fn kind(resource: &Resource) -> &'static str {
    match resource {
        Resource::AllKeyspaces
        | Resource::Keyspace(_)
        | Resource::AllTables(_)
        | Resource::Table(..) => "DataResource",
        Resource::AllRoles | Resource::Role(_) => "RoleResource",
        Resource::AllFunctions | Resource::FunctionsOf(_) | Resource::Function(..) => {
            "FunctionResource"
        }
        Resource::AllMbeans | Resource::Mbean(_) => "JMXResource",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cassandra 5.0.9 warns: "Role 'r1' was not granted SELECT, MODIFY on <table k1.t1>".
    #[test]
    fn warnings_list_permissions_in_the_order_of_their_declaration() {
        let all = PermissionSet::of(&[Permission::Modify, Permission::Select, Permission::Alter]);
        assert_eq!(names(all), "ALTER, SELECT, MODIFY");
    }
}
