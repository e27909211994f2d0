//! LIST ROLES, USERS and PERMISSIONS, with Cassandra's columns.

use std::collections::BTreeSet;
use std::sync::Arc;

use espalier_types::CqlType;

use super::super::login::unauthorized;
use super::super::permission::{Permission, PermissionSet};
use super::super::resource::Resource;
use super::super::{AUTH_KEYSPACE, Authorizer, role};
use super::{Run, grant};
use crate::grammar::ast::{ListPermissions, Permissions};
use crate::select::put;
use crate::{ColumnSpec, Error, QueryResult, Result, ResultMetadata, Rows, internal_query};

impl Run<'_> {
    pub(super) async fn list_roles(
        &self,
        of: Option<&str>,
        recursive: bool,
    ) -> Result<QueryResult> {
        let names = self.listed_roles(of, recursive).await?;
        let text = |name| (name, CqlType::Text);
        let texts = Arc::new(CqlType::Text);
        let options = CqlType::Map { key: texts.clone(), value: texts, frozen: true };
        let columns = [
            text("role"),
            ("super", CqlType::Boolean),
            ("login", CqlType::Boolean),
            ("options", options),
            text("datacenters"),
        ];
        let mut table = Table::new("roles", columns);
        for name in names {
            let row = role::find(self.database, &name).await?.unwrap_or_default();
            let (is_superuser, can_login) = (u8::from(row.is_superuser), u8::from(row.can_login));
            let no_options = 0i32.to_be_bytes();
            let datacenters = self.datacenters_of(&name).await?;
            table.add_row(&[
                name.as_bytes(),
                &[is_superuser],
                &[can_login],
                &no_options,
                datacenters.as_bytes(),
            ]);
        }
        Ok(table.into_result())
    }

    pub(super) async fn list_users(&self) -> Result<QueryResult> {
        // As in Cassandra, a client that may not see all roles gets its own role and the roles
        // granted to it, but not the roles that these inherit.
        let names = self.listed_roles(None, false).await?;
        let columns =
            [("name", CqlType::Text), ("super", CqlType::Boolean), ("datacenters", CqlType::Text)];
        let mut table = Table::new("users", columns);
        for name in names {
            let rows = role::with_inherited(self.database, &name).await?;
            if !rows.get(&name).is_some_and(|row| row.can_login) {
                continue;
            }
            let is_superuser = u8::from(role::include_superuser(&rows));
            let datacenters = self.datacenters_of(&name).await?;
            table.add_row(&[name.as_bytes(), &[is_superuser], datacenters.as_bytes()]);
        }
        Ok(table.into_result())
    }

    /// Returns the roles of a list: `of` and the roles granted to it, or all roles that the client
    /// may see. A client with DESCRIBE on all roles may see all roles, another client only its own.
    async fn listed_roles(&self, of: Option<&str>, recursive: bool) -> Result<BTreeSet<String>> {
        self.check_not_anonymous()?;
        if let Some(name) = of {
            self.check_listed(name).await?;
        }
        let describes = self.sees_all_roles();
        match of {
            None if describes => Ok(role::all(self.database).await?.into_keys().collect()),
            None => self.roles_of(self.login.name(), recursive).await,
            Some(name) if describes || self.role.roles.contains(name) => {
                self.roles_of(name, recursive).await
            }
            Some(name) => Err(unauthorized(format!(
                "You are not authorized to view roles granted to {name} "
            ))),
        }
    }

    async fn check_listed(&self, name: &str) -> Result<()> {
        if self.exists(name).await? {
            return Ok(());
        }
        Err(Error::invalid(format!("{} doesn't exist", Resource::Role(name.to_owned()))))
    }

    fn sees_all_roles(&self) -> bool {
        let settings = &self.auth.settings;
        settings.authorizer == Authorizer::AllowAll
            || self.role.permissions_on(&Resource::AllRoles).has(Permission::Describe)
    }

    /// Returns a role and the roles that are granted to it, with `recursive` also indirectly.
    async fn roles_of(&self, name: &str, recursive: bool) -> Result<BTreeSet<String>> {
        if recursive {
            return Ok(role::with_inherited(self.database, name).await?.into_keys().collect());
        }
        let Some(row) = role::find(self.database, name).await? else { return Ok(BTreeSet::new()) };
        let mut names = BTreeSet::from([name.to_owned()]);
        for granted in row.member_of {
            if self.exists(&granted).await? {
                names.insert(granted);
            }
        }
        Ok(names)
    }

    async fn datacenters_of(&self, name: &str) -> Result<String> {
        if !self.auth.settings.limits_datacenters {
            return Ok("ALL".to_owned());
        }
        let row = role::find(self.database, name).await?.unwrap_or_default();
        if !row.can_login {
            return Ok("n/a".to_owned());
        }
        let names = role::restriction(self.database, "network_permissions", "dcs", name).await?;
        Ok(names.map_or_else(|| "ALL".to_owned(), |names| names.join(", ")))
    }

    pub(super) async fn list_permissions(&self, list: &ListPermissions<'_>) -> Result<QueryResult> {
        self.check_not_anonymous()?;
        let resource = list.resource.as_ref().map(|named| self.resource(named)).transpose()?;
        if let Some(resource) = &resource
            && !self.resource_exists(resource).await?
        {
            return Err(Error::invalid(format!("{resource} doesn't exist")));
        }
        let of = list.of.as_ref().map(|name| name.as_str());
        if let Some(name) = of {
            self.check_listed(name).await?;
        }
        self.check_kept("LIST PERMISSIONS")?;
        self.check_sees_permissions(of)?;
        let roles = match of {
            Some(name) => self.roles_of(name, true).await?,
            None => self.roles_with_permissions().await?,
        };
        let wanted = match &list.permissions {
            Permissions::All => Permission::ALL.into_iter().collect(),
            Permissions::Some(names) => grant::named(names),
        };
        let resources: Option<Vec<String>> = resource.map(|resource| {
            let chain = resource.chain().map(|resource| resource.name());
            if list.recursive { chain.collect() } else { chain.take(1).collect() }
        });
        let columns =
            ["role", "username", "resource", "permission"].map(|name| (name, CqlType::Text));
        let mut table = Table::new("permissions", columns);
        for name in roles {
            let mut granted = role::permissions_of(self.database, &name).await?;
            granted.sort_unstable_by(|one, other| one.0.cmp(&other.0));
            for (resource, permissions) in granted {
                if resources.as_ref().is_some_and(|wanted| !wanted.contains(&resource)) {
                    continue;
                }
                let Some(shown) = Resource::from_name(&resource) else { continue };
                let shown = shown.to_string();
                for permission in PermissionSet::intersection(permissions, wanted).iter() {
                    let row = [name.as_str(), name.as_str(), shown.as_str(), permission.name()];
                    table.add_row(&row.map(str::as_bytes));
                }
            }
        }
        Ok(table.into_result())
    }

    /// Checks that the client may see the permissions of a role, or of all roles.
    fn check_sees_permissions(&self, of: Option<&str>) -> Result<()> {
        let describes =
            |resource: Resource| self.role.permissions_on(&resource).has(Permission::Describe);
        let may = self.is_super()
            || of.is_some_and(|name| self.role.roles.contains(name))
            || describes(Resource::AllRoles)
            || of.is_some_and(|name| describes(Resource::Role(name.to_owned())));
        if may {
            return Ok(());
        }
        let whose = of.unwrap_or("everyone");
        Err(unauthorized(format!("You are not authorized to view {whose}'s permissions")))
    }

    async fn roles_with_permissions(&self) -> Result<BTreeSet<String>> {
        const TEXT: &str = "SELECT DISTINCT role FROM system_auth.role_permissions";
        Ok(internal_query::read_texts(self.database, TEXT, &[]).await?.into_iter().collect())
    }
}

/// The answer of a LIST statement.
struct Table {
    columns: Vec<ColumnSpec>,
    rows: i32,
    content: Vec<u8>,
}

impl Table {
    fn new(table: &str, columns: impl IntoIterator<Item = (&'static str, CqlType)>) -> Self {
        let spec = |(name, column_type): (&str, CqlType)| ColumnSpec {
            keyspace: AUTH_KEYSPACE.into(),
            table: table.into(),
            name: name.to_owned(),
            column_type,
        };
        Self { columns: columns.into_iter().map(spec).collect(), rows: 0, content: Vec::new() }
    }

    /// Adds a row with a value for each column.
    fn add_row(&mut self, values: &[&[u8]]) {
        values.iter().for_each(|&value| put(Some(value), &mut self.content));
        self.rows += 1;
    }

    /// Returns the rows. An empty list is a void answer, without columns, as in Cassandra.
    fn into_result(self) -> QueryResult {
        if self.rows == 0 {
            return QueryResult::Void;
        }
        QueryResult::Rows(Rows {
            metadata: Arc::new(ResultMetadata::of_one_answer(self.columns)),
            row_count: self.rows,
            content: self.content,
            paging_state: None,
        })
    }
}

/// Returns the answer to a statement that generated a password.
pub(super) fn generated_password(password: &str) -> QueryResult {
    let mut table = Table::new("roles", [("generated_password", CqlType::Text)]);
    table.add_row(&[password.as_bytes()]);
    table.into_result()
}
