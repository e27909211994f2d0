//! Keeps permissions in step with the schema. The creator of a keyspace or table, but not of a
//! view, gets all permissions on it. A drop of a keyspace, table or view revokes all permissions on
//! it.

use std::rc::Rc;
use std::sync::Arc;

use espalier_mutation::schema::Schema;
use espalier_storage::Node;

use super::super::resource::Resource;
use super::super::settings::Authorizer;
use super::super::store::Change;
use super::super::{Auth, Login, role};
use super::{LOCK, SHARD, grant};
use crate::{ChangeKind, ChangeTarget, Result, SchemaChange, internal_query};

/// Grants the client all permissions on the object that a statement has created. The creator of a
/// view gets none, because the permissions on its base table decide.
///
/// # Errors
/// The storage fails.
pub(crate) async fn creator_permissions(
    database: &Node,
    auth: &Arc<Auth>,
    login: Option<&Login>,
    change: &SchemaChange,
) -> Result<()> {
    let Some(login) = login.filter(|login| !login.is_anonymous()) else { return Ok(()) };
    if auth.settings.authorizer == Authorizer::AllowAll || change.change != ChangeKind::Created {
        return Ok(());
    }
    let (keyspace, name) = (change.keyspace.clone(), change.name.clone());
    let resources = match change.target {
        ChangeTarget::Keyspace => {
            vec![Resource::Keyspace(keyspace.clone()), Resource::FunctionsOf(keyspace)]
        }
        ChangeTarget::Table => vec![Resource::Table(keyspace, name)],
        ChangeTarget::Type => return Ok(()),
    };
    let (auth, role) = (Arc::clone(auth), login.name().to_owned());
    let give = move |database: Node| async move {
        let lock = LOCK.with(Rc::clone);
        let _permit = lock.lock().await;
        if role::find(&database, &role).await?.is_none() {
            // Another client has dropped the role, and its permissions with it. A later role of
            // this name must not get them.
            return Ok(());
        }
        let mut change = Change::default();
        // Another client may have dropped the object meanwhile, and its permissions with it.
        for resource in resources.iter().filter(|one| is_granted(&database.store().schema(), one)) {
            grant::put(&mut change, &role, resource, resource.applicable());
        }
        change.apply(&database, &auth).await
    };
    database.on_shard(SHARD, give).await
}

/// Returns whether the creator gets permissions on the object, which must exist and be no view.
fn is_granted(schema: &Schema, resource: &Resource) -> bool {
    match resource {
        // UNMASK on a view would show masked values of its base table.
        Resource::Table(keyspace, table) => {
            schema.table(keyspace, table).is_some_and(|table| table.view.is_none())
        }
        Resource::Keyspace(name) | Resource::FunctionsOf(name) => schema.keyspace(name).is_some(),
        _ => true,
    }
}

/// Revokes all permissions on the object that a statement has dropped, and on the tables that were
/// dropped with it.
///
/// # Errors
/// The storage fails.
pub(crate) async fn revoke_dropped(
    database: &Node,
    auth: &Arc<Auth>,
    change: &SchemaChange,
) -> Result<()> {
    if auth.settings.authorizer == Authorizer::AllowAll || change.change != ChangeKind::Dropped {
        return Ok(());
    }
    let keyspace = &change.keyspace;
    let resources = match change.target {
        ChangeTarget::Keyspace => {
            let tables = change.further.iter().filter(|one| one.target == ChangeTarget::Table);
            let tables = tables.map(|table| Resource::Table(keyspace.clone(), table.name.clone()));
            let own = [
                Resource::Keyspace(keyspace.clone()),
                Resource::AllTables(keyspace.clone()),
                Resource::FunctionsOf(keyspace.clone()),
            ];
            own.into_iter().chain(tables).collect()
        }
        ChangeTarget::Table => vec![Resource::Table(keyspace.clone(), change.name.clone())],
        ChangeTarget::Type => return Ok(()),
    };
    let auth = Arc::clone(auth);
    let revoke = move |database: Node| async move {
        // With the lock, each GRANT that saw the object has ended, and a later GRANT does not see
        // it.
        let lock = LOCK.with(Rc::clone);
        let _permit = lock.lock().await;
        let mut change = Change::default();
        for resource in &resources {
            revoke_all_on(&database, &mut change, resource).await?;
        }
        change.apply(&database, &auth).await
    };
    database.on_shard(SHARD, revoke).await
}

/// Adds statements to `change` that revoke the permissions of all roles on a resource.
///
/// # Errors
/// The storage fails.
pub(super) async fn revoke_all_on(
    database: &Node,
    change: &mut Change,
    resource: &Resource,
) -> Result<()> {
    const TEXT: &str =
        "SELECT role FROM system_auth.resource_role_permissons_index WHERE resource = ?";
    let name = resource.name();
    for role in internal_query::read_texts(database, TEXT, &[&name]).await? {
        const TEXT: &str =
            "DELETE FROM system_auth.role_permissions WHERE role = ? AND resource = ?";
        change.add(TEXT, &[&role, &name]);
    }
    const INDEX: &str = "DELETE FROM system_auth.resource_role_permissons_index WHERE resource = ?";
    change.add(INDEX, &[&name]);
    Ok(())
}
