//! Executes statements about roles, permissions and identities.
//!
//! All of them run on shard 0, one after the other, so that no two of them decide from the same
//! state. As in Cassandra, a statement that changes roles first checks the permissions of its
//! client. So a client without permissions cannot make the node compute a hash, and learns from
//! LIST alone whether a role exists.

mod creator;
mod define;
mod grant;
mod identity;
mod list;

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use espalier_runtime::sync::Mutex;
use espalier_storage::{Node, Warnings};
use futures_util::future::LocalBoxFuture;

pub(crate) use creator::{creator_permissions, revoke_dropped};

use super::login::{Login, unauthorized};
use super::permission::Permission;
use super::resource::Resource;
use super::role::EffectiveRole;
use super::{Auth, role};
use crate::grammar::{self, ast::RoleStatement, ast::Statement};
use crate::{Error, ErrorCode, QueryResult, Result};

/// The shard on which the statements run.
const SHARD: usize = 0;

thread_local! {
    static LOCK: Rc<Mutex<()>> = Rc::new(Mutex::new(()));
}

/// Executes a statement for a client. Returns the outcome and the warnings for the client.
///
/// # Errors
/// Cassandra's error if the client may not execute the statement, or if the statement does not fit
/// the roles; the storage fails.
pub(crate) fn execute<'a>(
    database: &'a Node,
    auth: &'a Arc<Auth>,
    text: &'a str,
    keyspace: Option<&'a str>,
    login: Option<&'a Login>,
) -> LocalBoxFuture<'a, (Result<QueryResult>, Vec<String>)> {
    let client = login.and_then(Login::name_and_address);
    let (text, keyspace) = (text.to_owned(), keyspace.map(str::to_owned));
    let auth = Arc::clone(auth);
    Box::pin(database.on_shard(SHARD, move |database| async move {
        let lock = LOCK.with(Rc::clone);
        let _permit = lock.lock().await;
        let warnings = Warnings::default();
        let keyspace = keyspace.as_deref();
        let result = run(&database, &auth, &text, keyspace, client, &warnings).await;
        (result, warnings.take())
    }))
}

async fn run(
    database: &Node,
    auth: &Arc<Auth>,
    text: &str,
    keyspace: Option<&str>,
    client: Option<(String, IpAddr)>,
    warnings: &Warnings,
) -> Result<QueryResult> {
    let login = match client {
        Some((name, address)) => Login::of(auth, database, &name, address).await?,
        None => Login::anonymous(auth),
    };
    let role = login.role(database).await?;
    let run = Run { database, auth, login: &login, role, keyspace, warnings };
    let parsed = grammar::parse(text)?;
    let Statement::Role(statement) = &parsed.statement else {
        return Err(Error::new(ErrorCode::ServerError, "not a statement about roles"));
    };
    run.statement(statement).await
}

/// The execution of a statement.
struct Run<'a> {
    database: &'a Node,
    auth: &'a Arc<Auth>,
    login: &'a Login,
    role: Rc<EffectiveRole>,
    keyspace: Option<&'a str>,
    /// Collects the warnings for the client.
    warnings: &'a Warnings,
}

impl Run<'_> {
    async fn statement(&self, statement: &RoleStatement<'_>) -> Result<QueryResult> {
        match statement {
            RoleStatement::Create(define) => self.create_role(define).await,
            RoleStatement::Alter(define) => self.alter_role(define).await,
            RoleStatement::Drop { role, if_exists } => {
                self.drop_role(role.as_str(), *if_exists).await
            }
            RoleStatement::AddIdentity { identity, role, if_not_exists } => {
                self.add_identity(identity, role.as_str(), *if_not_exists).await
            }
            RoleStatement::DropIdentity { identity, if_exists } => {
                self.drop_identity(identity, *if_exists).await
            }
            RoleStatement::GrantRole { role, to } => {
                self.grant_role(role.as_str(), to.as_str()).await
            }
            RoleStatement::RevokeRole { role, from } => {
                self.revoke_role(role.as_str(), from.as_str()).await
            }
            RoleStatement::GrantPermissions(grant) => self.grant_permissions(grant).await,
            RoleStatement::RevokePermissions(grant) => self.revoke_permissions(grant).await,
            RoleStatement::ListUsers => self.list_users().await,
            RoleStatement::ListRoles { of, recursive } => {
                self.list_roles(of.as_ref().map(|role| role.as_str()), *recursive).await
            }
            RoleStatement::ListPermissions(list) => self.list_permissions(list).await,
        }
    }

    /// Returns whether the client is a superuser.
    fn is_super(&self) -> bool {
        self.role.is_superuser
    }

    /// Checks a permission on a role or on all roles.
    fn check_on_role(&self, permission: Permission, resource: &Resource) -> Result<()> {
        self.login.check_permission(&self.role, permission, resource).map_err(|_| {
            unauthorized(format!(
                "User {} does not have sufficient privileges to perform the requested operation",
                self.login.name()
            ))
        })
    }

    /// Checks that the client has logged in, and that its role may use this data centre from its
    /// address.
    fn check_not_anonymous(&self) -> Result<()> {
        self.login.check_place(&self.role)?;
        if self.login.is_anonymous() {
            return Err(unauthorized(
                "You have to be logged in and not anonymous to perform this request",
            ));
        }
        Ok(())
    }

    async fn exists(&self, name: &str) -> Result<bool> {
        Ok(role::find(self.database, name).await?.is_some())
    }

    /// Checks that a role exists.
    async fn check_exists(&self, name: &str) -> Result<()> {
        if self.exists(name).await? {
            return Ok(());
        }
        Err(Error::invalid(format!("{name} doesn't exist")))
    }
}
