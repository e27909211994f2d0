//! The log-in of a connection, and the check of its statements.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use espalier_mutation::schema::TableMetadata;
use espalier_storage::{Node, system::DATA_CENTER};

use super::access::{Need, resource_of_reads};
use super::permission::Permission;
use super::resource::Resource;
use super::role::EffectiveRole;
use super::settings::Authorizer;
use super::{AUTH_KEYSPACE, Auth, cidr};
use crate::prepared::Prepared;
use crate::{Error, ErrorCode, Result};

/// The log-in of a connection. It reads its role again when roles or permissions have changed.
#[derive(Debug)]
pub struct Login {
    auth: Arc<Auth>,
    /// The role; `None` for an anonymous user.
    name: Option<String>,
    address: IpAddr,
    role: RefCell<Rc<EffectiveRole>>,
    /// The reason why the role has no access from this address; `None` if it has access.
    refused: RefCell<Option<Error>>,
}

impl Login {
    /// Creates the log-in of a client that may stay anonymous.
    pub(super) fn anonymous(auth: &Arc<Auth>) -> Self {
        Self::before_role(auth, None, Ipv4Addr::UNSPECIFIED.into())
    }

    /// Creates a log-in that has not read its role.
    fn before_role(auth: &Arc<Auth>, name: Option<String>, address: IpAddr) -> Self {
        let role = EffectiveRole { epoch: u64::MAX, ..EffectiveRole::default() };
        let (role, refused) = (RefCell::new(Rc::new(role)), RefCell::default());
        Self { auth: Arc::clone(auth), name, address, role, refused }
    }

    /// Creates the log-in of a role. The caller has authenticated the client.
    ///
    /// # Errors
    /// The storage fails.
    pub async fn of(
        auth: &Arc<Auth>,
        database: &Node,
        name: &str,
        address: IpAddr,
    ) -> Result<Self> {
        let login = Self::before_role(auth, Some(name.to_owned()), address);
        login.role(database).await?;
        Ok(login)
    }

    /// Returns the name of the role, or `anonymous`.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("anonymous")
    }

    /// Returns the role's name and the client's address, from which another shard can make the
    /// same log-in; `None` for an anonymous user.
    pub(super) fn name_and_address(&self) -> Option<(String, IpAddr)> {
        Some((self.name.clone()?, self.address))
    }

    /// Returns whether the client has no role.
    pub fn is_anonymous(&self) -> bool {
        self.name.is_none()
    }

    /// Returns whether the role was a superuser when the log-in last read it.
    pub(crate) fn is_superuser(&self) -> bool {
        self.role.borrow().is_superuser
    }

    /// Returns the role in effect. Reads it again if roles or permissions have changed.
    ///
    /// # Errors
    /// The storage fails.
    pub async fn role(&self, database: &Node) -> Result<Rc<EffectiveRole>> {
        let known = Rc::clone(&self.role.borrow());
        let epoch = self.auth.epoch();
        let Some(name) = self.name.as_deref().filter(|_| known.epoch != epoch) else {
            return Ok(known);
        };
        let role = Rc::new(EffectiveRole::load(database, name, epoch).await?);
        if self.auth.settings.limits_cidrs {
            self.refused.replace(cidr::check(database, &role, self.address).await?.err());
        }
        self.role.replace(Rc::clone(&role));
        Ok(role)
    }

    /// Checks a statement without waiting. Returns `None` if the log-in must read the role first.
    /// If this role was the last to pass the check of the statement, the check costs two
    /// comparisons.
    #[inline]
    pub(crate) fn check_now(&self, prepared: &Prepared) -> Option<Result<()>> {
        if !self.auth.settings.checks_statements() {
            return Some(Ok(()));
        }
        let role = self.role.borrow();
        if role.epoch != self.auth.epoch() && self.name.is_some() {
            return None;
        }
        if role.token != 0 && prepared.passed.load(Ordering::Relaxed) == role.token {
            return Some(Ok(()));
        }
        Some(self.check_with(&role, prepared))
    }

    /// Checks whether the client may execute a statement.
    ///
    /// # Errors
    /// Error 0x2100 with Cassandra's text if it may not; the storage fails.
    pub(crate) async fn check(&self, database: &Node, prepared: &Prepared) -> Result<()> {
        if let Some(checked) = self.check_now(prepared) {
            return checked;
        }
        let role = self.role(database).await?;
        self.check_with(&role, prepared)
    }

    /// Checks needs that a statement has under a newer schema than that of its planning.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub(crate) async fn check_needs(&self, database: &Node, needs: &[Need]) -> Result<()> {
        if !self.auth.settings.checks_statements() {
            return Ok(());
        }
        let role = self.role(database).await?;
        self.check_place(&role)?;
        needs.iter().try_for_each(|need| self.check_need(&role, need))
    }

    #[cold]
    fn check_with(&self, role: &EffectiveRole, prepared: &Prepared) -> Result<()> {
        self.check_place(role)?;
        prepared.needs.iter().try_for_each(|need| self.check_need(role, need))?;
        prepared.passed.store(role.token, Ordering::Relaxed);
        Ok(())
    }

    /// Checks whether the role may use this data centre, from this address.
    pub(super) fn check_place(&self, role: &EffectiveRole) -> Result<()> {
        let limits = self.auth.settings.limits_datacenters;
        let may = |names: &Vec<String>| names.iter().any(|name| name == DATA_CENTER);
        if limits && role.datacenters.as_ref().is_some_and(|names| !may(names)) {
            return Err(unauthorized(format!(
                "You do not have access to this datacenter ({DATA_CENTER})"
            )));
        }
        self.refused.borrow().clone().map_or(Ok(()), Err)
    }

    /// Checks one need of a statement.
    ///
    /// # Errors
    /// Error 0x2100 with Cassandra's text.
    pub(super) fn check_need(&self, role: &EffectiveRole, need: &Need) -> Result<()> {
        let (permission, resource) = match need {
            Need::Permission(permission, resource) => (*permission, resource),
            Need::QueryMasked(table, columns) => return self.check_query(role, table, columns),
            Need::Superuser(message) if role.is_superuser => {
                debug_assert!(!message.is_empty());
                return Ok(());
            }
            Need::Superuser(message) => return Err(unauthorized(*message)),
        };
        if let Some(keyspace) = resource.keyspace() {
            check_system_keyspace(keyspace, permission, resource)?;
            if permission == Permission::Select && is_readable(resource) {
                return Ok(());
            }
        }
        self.check_permission(role, permission, resource)
    }

    /// Checks whether the role may restrict masked columns. The answer to such a query shows which
    /// values the columns have.
    fn check_query(
        &self,
        role: &EffectiveRole,
        table: &Resource,
        columns: &[String],
    ) -> Result<()> {
        let may = |permission| self.check_permission(role, permission, table).is_ok();
        let Resource::Table(keyspace, name) = table else { return Ok(()) };
        if may(Permission::Unmask) || may(Permission::SelectMasked) {
            return Ok(());
        }
        Err(unauthorized(format!(
            "User {} has no UNMASK nor SELECT_MASKED permission on table {keyspace}.{name}, \
             cannot query masked columns [{}]",
            self.name(),
            columns.join(", ")
        )))
    }

    /// Returns whether the client sees the values of a table's masked columns. The call does not
    /// read the role again, because the check of the statement has done so.
    pub(crate) fn unmasks(&self, table: &TableMetadata) -> bool {
        let role = Rc::clone(&self.role.borrow());
        self.check_permission(&role, Permission::Unmask, &resource_of_reads(table)).is_ok()
    }

    /// Checks a permission on a resource or on a resource that contains it. A permission on all
    /// keyspaces does not include the system keyspaces, unless the role is a superuser.
    ///
    /// # Errors
    /// Error 0x2100 with Cassandra's text.
    pub(super) fn check_permission(
        &self,
        role: &EffectiveRole,
        permission: Permission,
        resource: &Resource,
    ) -> Result<()> {
        let keyspace = resource.keyspace();
        let enforced = match self.auth.settings.authorizer {
            Authorizer::AllowAll => false,
            Authorizer::Cassandra => true,
            Authorizer::Transitional => {
                permission == Permission::Authorize
                    || matches!(resource, Resource::AllRoles | Resource::Role(_))
                    || keyspace == Some(AUTH_KEYSPACE)
            }
        };
        let is_system = keyspace.is_some_and(crate::ddl::is_system_keyspace);
        let counts =
            |one: &Resource| !is_system || role.is_superuser || *one != Resource::AllKeyspaces;
        if !enforced || role.has(permission, resource.chain().filter(counts)) {
            return Ok(());
        }
        Err(unauthorized(format!(
            "User {} has no {permission} permission on {resource} or any of its parents",
            self.name()
        )))
    }
}

/// Refuses changes of the schema of system keyspaces, except ALTER of a replicated keyspace.
fn check_system_keyspace(
    keyspace: &str,
    permission: Permission,
    resource: &Resource,
) -> Result<()> {
    let changes = matches!(permission, Permission::Create | Permission::Alter | Permission::Drop);
    if !changes || !crate::ddl::is_system_keyspace(keyspace) {
        return Ok(());
    }
    if !crate::ddl::is_replicated_system_keyspace(keyspace) {
        // The statement itself refuses virtual keyspaces, with another text.
        if espalier_storage::system::is_virtual(keyspace) {
            return Ok(());
        }
        return Err(unauthorized(format!("{keyspace} keyspace is not user-modifiable.")));
    }
    if permission == Permission::Alter && matches!(resource, Resource::Keyspace(_)) {
        return Ok(());
    }
    Err(unauthorized(format!("Cannot {permission} {resource}")))
}

/// Returns whether every user may read a table, because drivers and tools need the table.
fn is_readable(resource: &Resource) -> bool {
    let Resource::Table(keyspace, table) = resource else { return false };
    match keyspace.as_str() {
        "system_schema" | "system_virtual_schema" => true,
        "system" => matches!(
            table.as_str(),
            "local" | "peers" | "peers_v2" | "size_estimates" | "table_estimates"
        ),
        "system_traces" => matches!(table.as_str(), "events" | "sessions"),
        _ => false,
    }
}

pub(super) fn unauthorized(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::Unauthorized, message)
}
