//! ADD and DROP IDENTITY. A client whose certificate has an identity logs in as the identity's
//! role.

use super::super::login::unauthorized;
use super::super::permission::Permission;
use super::super::resource::Resource;
use super::super::role;
use super::super::store::Change;
use super::Run;
use crate::{Error, QueryResult, Result, internal_query};

impl Run<'_> {
    pub(super) async fn add_identity(
        &self,
        identity: &str,
        name: &str,
        if_not_exists: bool,
    ) -> Result<QueryResult> {
        self.check_on_role(Permission::Create, &Resource::AllRoles)?;
        let rows = role::with_inherited(self.database, name).await?;
        // Cassandra checks only the role itself. But a role to which a superuser is granted gives
        // its identity the same rights.
        if !self.is_super() && role::include_superuser(&rows) {
            return Err(unauthorized(
                "Only superusers can bind identities to a role with superuser status",
            ));
        }
        self.check_not_anonymous()?;
        if !rows.contains_key(name) {
            return Err(Error::invalid(format!(
                "Can not add identity for non-existent role '{name}'"
            )));
        }
        if role::of_identity(self.database, identity).await?.is_some() {
            if if_not_exists {
                return Ok(QueryResult::Void);
            }
            return Err(Error::invalid(format!("{identity} already exists")));
        }
        let mut change = Change::default();
        const TEXT: &str =
            "INSERT INTO system_auth.identity_to_role (identity, role) VALUES (?, ?)";
        change.add(TEXT, &[identity, name]);
        change.apply(self.database, self.auth).await?;
        Ok(QueryResult::Void)
    }

    pub(super) async fn drop_identity(
        &self,
        identity: &str,
        if_exists: bool,
    ) -> Result<QueryResult> {
        let found = role::of_identity(self.database, identity).await?;
        match &found {
            None => self.check_on_role(Permission::Drop, &Resource::AllRoles)?,
            Some(name) => {
                self.check_on_role(Permission::Drop, &Resource::Role(name.clone()))?;
                let rows = role::with_inherited(self.database, name).await?;
                if !self.is_super() && role::include_superuser(&rows) {
                    return Err(unauthorized(
                        "Only superusers can remove identity bindings from a role with superuser status",
                    ));
                }
            }
        }
        self.check_not_anonymous()?;
        if found.is_none() {
            if if_exists {
                return Ok(QueryResult::Void);
            }
            return Err(Error::invalid(format!("identity '{identity}' doesn't exist")));
        }
        let mut change = Change::default();
        change.add("DELETE FROM system_auth.identity_to_role WHERE identity = ?", &[identity]);
        change.apply(self.database, self.auth).await?;
        Ok(QueryResult::Void)
    }

    /// Returns the identities of a role.
    pub(super) async fn identities_of(&self, name: &str) -> Result<Vec<String>> {
        const TEXT: &str = "SELECT identity, role FROM system_auth.identity_to_role";
        let rows = internal_query::read(self.database, TEXT, &[]).await?;
        let of_role = |row: &internal_query::Row| {
            let text = |index: usize| internal_query::text(row.get(index).and_then(Option::as_ref));
            (text(1) == Some(name)).then(|| text(0).map(str::to_owned)).flatten()
        };
        Ok(rows.iter().filter_map(of_role).collect())
    }
}
