//! CREATE, ALTER and DROP of roles, and the grants of roles to roles.

use std::cell::RefCell;
use std::time::Duration;

use espalier_runtime::time::Instant;
use espalier_storage::system::DATA_CENTER;
use hashbrown::HashMap;

use super::super::login::unauthorized;
use super::super::permission::Permission;
use super::super::resource::Resource;
use super::super::store::Change;
use super::super::{password, role};
use super::Run;
use super::list::generated_password;
use crate::grammar::ast::{Access, DefineRole, Password, RoleOptions};
use crate::internal_query::{self, boolean_value, set_value, text_value};
use crate::{Error, ErrorCode, QueryResult, Result};

/// Minimum time between two changes of a role's password, as in Cassandra, because hashes cost
/// processor time.
const MIN_PASSWORD_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum number of roles whose last change of the password the node remembers. At the limit, the
/// node refuses further changes. Arbitrary.
const MAX_REMEMBERED: usize = 1024;

thread_local! {
    static CHANGED: RefCell<HashMap<String, Instant>> = RefCell::default();
}

impl Run<'_> {
    pub(super) async fn create_role(&self, define: &DefineRole<'_>) -> Result<QueryResult> {
        let (name, options) = (define.role.as_str(), &define.options);
        self.check_on_role(Permission::Create, &Resource::AllRoles)?;
        let is_superuser = options.superuser == Some(true);
        if is_superuser && !self.is_super() {
            return Err(unauthorized("Only superusers can create a role with superuser status"));
        }
        self.check_options(options)?;
        if name.is_empty() {
            return Err(Error::invalid("Role name can't be an empty string"));
        }
        self.check_access(options).await?;
        self.check_not_anonymous()?;
        if self.exists(name).await? {
            if define.conditional {
                return Ok(QueryResult::Void);
            }
            return Err(Error::invalid(format!("{name} already exists")));
        }
        if !self.identities_of(name).await?.is_empty() {
            return Err(Error::invalid(format!(
                "Cannot create a role '{name}' when identities already exists for it"
            )));
        }
        let (hash, generated) = self.hash_of(options).await?;
        let mut change = Change::default();
        let login = options.login == Some(true);
        let mut values = vec![text_value(name), boolean_value(is_superuser), boolean_value(login)];
        let text = "INSERT INTO system_auth.roles (role, is_superuser, can_login";
        match hash {
            Some(hash) => {
                values.push(text_value(&hash));
                change.add_values(format!("{text}, salted_hash) VALUES (?, ?, ?, ?)"), values);
            }
            None => change.add_values(format!("{text}) VALUES (?, ?, ?)"), values),
        }
        self.put_access(&mut change, name, options);
        let resource = Resource::Role(name.to_owned());
        self.grant_to_creator(&mut change, &resource);
        change.apply(self.database, self.auth).await?;
        Ok(generated)
    }

    pub(super) async fn alter_role(&self, define: &DefineRole<'_>) -> Result<QueryResult> {
        let (name, options) = (define.role.as_str(), &define.options);
        let refuse = |message: &str| Err(unauthorized(message));
        if options.superuser.is_some() && self.role.roles.contains(name) {
            return refuse(
                "You aren't allowed to alter your own superuser status or that of a role granted to you",
            );
        }
        if !self.is_super() {
            if options.superuser.is_some() {
                return refuse("Only superusers are allowed to alter superuser status");
            }
            if options.datacenters.is_some() {
                return refuse("Only superusers are allowed to alter access to datacenters.");
            }
            if options.cidrs.is_some() {
                return refuse("Only superusers are allowed to alter access from CIDR groups.");
            }
            if self.login.name() == name && !self.login.is_anonymous() {
                self.check_own_options(options)?;
            } else {
                self.check_on_role(Permission::Alter, &Resource::Role(name.to_owned()))?;
                self.check_superuser_is_spared(name).await?;
            }
        }
        self.check_options(options)?;
        if *options == RoleOptions::default() {
            return Err(Error::invalid("ALTER [ROLE|USER] can't be empty"));
        }
        self.check_access(options).await?;
        self.check_not_anonymous()?;
        if !self.exists(name).await? {
            if define.conditional {
                return Ok(QueryResult::Void);
            }
            return Err(Error::invalid(format!("Role {name} doesn't exist")));
        }
        if options.password.is_some() {
            check_password_interval(name, self.login.name())?;
        }
        if options.datacenters.is_some() && !self.auth.settings.limits_datacenters {
            return Err(Error::invalid(
                "ACCESS TO DATACENTERS operations not supported by AllowAllNetworkAuthorizer",
            ));
        }
        let (hash, generated) = self.hash_of(options).await?;
        let mut change = Change::default();
        let mut set = |column: &str, value| {
            let text = format!("UPDATE system_auth.roles SET {column} = ? WHERE role = ?");
            change.add_values(text, vec![value, text_value(name)]);
        };
        if let Some(superuser) = options.superuser {
            set("is_superuser", boolean_value(superuser));
        }
        if let Some(login) = options.login {
            set("can_login", boolean_value(login));
        }
        if let Some(hash) = hash {
            set("salted_hash", text_value(&hash));
        }
        self.put_access(&mut change, name, options);
        change.apply(self.database, self.auth).await?;
        Ok(generated)
    }

    /// Checks that only a superuser alters the options of a superuser. Otherwise a user with ALTER
    /// on all roles could take over a superuser by a new password, as in Cassandra 5.0.9.
    async fn check_superuser_is_spared(&self, name: &str) -> Result<()> {
        let rows = role::with_inherited(self.database, name).await?;
        if role::include_superuser(&rows) {
            return Err(unauthorized("Only superusers can alter a role with superuser status"));
        }
        Ok(())
    }

    /// Checks that a user without further rights alters only the password of its own role.
    fn check_own_options(&self, options: &RoleOptions<'_>) -> Result<()> {
        let refuse = |name| Err(unauthorized(format!("You aren't allowed to alter {name}")));
        if options.login.is_some() {
            return refuse("LOGIN");
        }
        if options.custom.is_some() {
            return refuse("OPTIONS");
        }
        if options.password.is_some() && !self.has_passwords() {
            return refuse("PASSWORD");
        }
        Ok(())
    }

    fn has_passwords(&self) -> bool {
        self.auth.settings.authenticator.has_passwords()
    }

    /// Checks the options of the role itself.
    fn check_options(&self, options: &RoleOptions<'_>) -> Result<()> {
        let unsupported = |option| {
            Err(Error::invalid(format!(
                "org.apache.cassandra.auth.CassandraRoleManager doesn't support {option}"
            )))
        };
        if options.custom.is_some() {
            return unsupported("OPTIONS");
        }
        match &options.password {
            None => Ok(()),
            Some(Password::Hashed(_)) if !self.has_passwords() => unsupported("HASHED PASSWORD"),
            Some(_) if !self.has_passwords() => unsupported("PASSWORD"),
            Some(Password::Hashed(hash)) => password::check_hash(hash),
            Some(_) => Ok(()),
        }
    }

    /// Checks the data centres and groups of addresses of a role.
    async fn check_access(&self, options: &RoleOptions<'_>) -> Result<()> {
        if let Some(Access::Only(names)) = &options.datacenters
            && names.iter().any(|name| name != DATA_CENTER)
        {
            return Err(Error::invalid(format!(
                "Invalid value(s) for DATACENTERS '[{}]',All values must be valid datacenters",
                names.join(", ")
            )));
        }
        let Some(Access::Only(names)) = &options.cidrs else { return Ok(()) };
        const TEXT: &str = "SELECT cidr_group FROM system_auth.cidr_groups";
        let known = internal_query::read_texts(self.database, TEXT, &[]).await?;
        if names.iter().all(|name| known.iter().any(|known| known == name)) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "Invalid CIDR group(s): [{}]. Available CIDR Groups are: [{}]",
            names.join(", "),
            known.join(", ")
        )))
    }

    /// Returns the hash of the new password, and the answer. If the node generated the password,
    /// the answer contains it.
    async fn hash_of(&self, options: &RoleOptions<'_>) -> Result<(Option<String>, QueryResult)> {
        Ok(match &options.password {
            None => (None, QueryResult::Void),
            Some(Password::Hashed(hash)) => (Some(hash.to_string()), QueryResult::Void),
            Some(Password::Plain(text)) => {
                (Some(password::hash_in_background(text.to_string()).await?), QueryResult::Void)
            }
            Some(Password::Generated) => {
                let made = password::random_password()?;
                let hash = password::hash_in_background(made.clone()).await?;
                (Some(hash), generated_password(&made))
            }
        })
    }

    fn put_access(&self, change: &mut Change, name: &str, options: &RoleOptions<'_>) {
        let accesses = [
            ("network_permissions", "dcs", &options.datacenters),
            ("cidr_permissions", "cidr_groups", &options.cidrs),
        ];
        for (table, column, access) in accesses {
            let Some(access) = access else { continue };
            if table == "network_permissions" && !self.auth.settings.limits_datacenters {
                continue; // Like Cassandra, ignores the option of CREATE.
            }
            let names = match access {
                Access::All => set_value([]),
                Access::Only(names) => set_value(names.iter().map(|name| &**name)),
            };
            change.add_values(
                format!("INSERT INTO system_auth.{table} (role, {column}) VALUES (?, ?)"),
                vec![text_value(name), names],
            );
        }
    }

    /// Drops a role. Also deletes its identities, its limits of access, the permissions granted to
    /// it or on it, and its memberships in both directions.
    pub(super) async fn drop_role(&self, name: &str, if_exists: bool) -> Result<QueryResult> {
        self.check_on_role(Permission::Drop, &Resource::Role(name.to_owned()))?;
        let rows = role::with_inherited(self.database, name).await?;
        if role::include_superuser(&rows) && !self.is_super() {
            return Err(unauthorized("Only superusers can drop a role with superuser status"));
        }
        self.check_not_anonymous()?;
        if !rows.contains_key(name) && !if_exists {
            return Err(Error::invalid(format!("{name} doesn't exist")));
        }
        if self.login.name() == name {
            return Err(Error::invalid("Cannot DROP primary role for current login"));
        }
        let Some(row) = rows.get(name) else { return Ok(QueryResult::Void) };
        let mut change = Change::default();
        change.add("DELETE FROM system_auth.roles WHERE role = ?", &[name]);
        for granted in &row.member_of {
            const TEXT: &str = "DELETE FROM system_auth.role_members WHERE role = ? AND member = ?";
            change.add(TEXT, &[granted, name]);
        }
        const MEMBERS: &str = "SELECT member FROM system_auth.role_members WHERE role = ?";
        for member in internal_query::read_texts(self.database, MEMBERS, &[name]).await? {
            leave(&mut change, &member, name);
        }
        change.add("DELETE FROM system_auth.role_members WHERE role = ?", &[name]);
        for identity in self.identities_of(name).await? {
            change.add("DELETE FROM system_auth.identity_to_role WHERE identity = ?", &[&identity]);
        }
        for table in ["network_permissions", "cidr_permissions"] {
            change.add(format!("DELETE FROM system_auth.{table} WHERE role = ?"), &[name]);
        }
        self.revoke_all_from(&mut change, name).await?;
        let resource = Resource::Role(name.to_owned());
        super::creator::revoke_all_on(self.database, &mut change, &resource).await?;
        change.apply(self.database, self.auth).await?;
        Ok(QueryResult::Void)
    }

    pub(super) async fn grant_role(&self, name: &str, to: &str) -> Result<QueryResult> {
        self.check_on_role(Permission::Authorize, &Resource::Role(name.to_owned()))?;
        self.check_not_anonymous()?;
        self.check_exists(name).await?;
        self.check_exists(to).await?;
        let is_member =
            |member, name| Err(Error::invalid(format!("{member} is a member of {name}")));
        if role::with_inherited(self.database, to).await?.contains_key(name) {
            return is_member(to, name);
        }
        if role::with_inherited(self.database, name).await?.contains_key(to) {
            return is_member(name, to);
        }
        let mut change = Change::default();
        const TEXT: &str = "UPDATE system_auth.roles SET member_of = member_of + ? WHERE role = ?";
        change.add_values(TEXT, vec![set_value([name]), text_value(to)]);
        change
            .add("INSERT INTO system_auth.role_members (role, member) VALUES (?, ?)", &[name, to]);
        change.apply(self.database, self.auth).await?;
        Ok(QueryResult::Void)
    }

    pub(super) async fn revoke_role(&self, name: &str, from: &str) -> Result<QueryResult> {
        self.check_on_role(Permission::Authorize, &Resource::Role(name.to_owned()))?;
        self.check_not_anonymous()?;
        self.check_exists(name).await?;
        self.check_exists(from).await?;
        let row = role::find(self.database, from).await?;
        // Cassandra counts each role as a member of itself.
        let is_member = row.is_some_and(|row| row.member_of.iter().any(|role| role == name));
        if !is_member && name != from {
            return Err(Error::invalid(format!("{from} is not a member of {name}")));
        }
        let mut change = Change::default();
        leave(&mut change, from, name);
        const TEXT: &str = "DELETE FROM system_auth.role_members WHERE role = ? AND member = ?";
        change.add(TEXT, &[name, from]);
        change.apply(self.database, self.auth).await?;
        Ok(QueryResult::Void)
    }
}

/// Adds a statement to `change` that removes `role` from the roles of `member`.
fn leave(change: &mut Change, member: &str, role: &str) {
    const TEXT: &str = "UPDATE system_auth.roles SET member_of = member_of - ? WHERE role = ?";
    change.add_values(TEXT, vec![set_value([role]), text_value(member)]);
}

/// Refuses a new password within [`MIN_PASSWORD_INTERVAL`] after the last one.
fn check_password_interval(role: &str, performer: &str) -> Result<()> {
    CHANGED.with_borrow_mut(|changed| {
        let now = Instant::now();
        if changed.len() >= MAX_REMEMBERED {
            changed.retain(|_, at| now.since(*at) < MIN_PASSWORD_INTERVAL);
        }
        let is_recent = |at: &Instant| now.since(*at) < MIN_PASSWORD_INTERVAL;
        if changed.get(role).is_some_and(is_recent) || changed.len() >= MAX_REMEMBERED {
            let interval_ms = MIN_PASSWORD_INTERVAL.as_millis();
            return Err(Error::new(
                ErrorCode::Overloaded,
                format!(
                    "Password for role {role} can only be changed every {interval_ms}ms. [performer: {performer}]"
                ),
            ));
        }
        changed.insert(role.to_owned(), now);
        Ok(())
    })
}
