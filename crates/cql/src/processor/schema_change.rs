//! Executes schema statements for clients with permissions.

use espalier_mutation::schema::Schema;

use super::QueryProcessor;
use crate::{
    QueryOptions, QueryResult, Result,
    auth::{self, Login},
    ddl,
    guard::Guard,
    prepared::Prepared,
};

impl QueryProcessor {
    /// Executes a schema statement. Grants the client the permissions on an object that the
    /// statement creates, and revokes all permissions on an object that it drops.
    ///
    /// The statement waits for earlier changes of the schema. One of them may create the index that
    /// the statement drops, for example. So this function determines the needed permissions again,
    /// for the schema to which the statement is applied, and checks them if they differ from those
    /// of the planning.
    pub(super) async fn change_schema(
        &self,
        prepared: &Prepared,
        login: Option<&Login>,
        keyspace: Option<&str>,
        options: &QueryOptions<'_>,
    ) -> Result<QueryResult> {
        let database = &self.inner.database;
        let text = &prepared.text;
        let is_fixed = login.is_none() || !prepared.depends_on_schema;
        let mut checked = prepared.needs.clone();
        let result = loop {
            let mut needs = None;
            let is_permitted = |schema: &Schema| {
                if is_fixed {
                    return true;
                }
                let needed = needs.insert(auth::needs_of_schema_change(text, keyspace, schema));
                *needed == checked
            };
            let guard = Guard::of(database, options);
            let executed = ddl::execute(database, text, keyspace, guard, is_permitted).await?;
            if let Some(result) = executed {
                break result;
            }
            checked = needs.unwrap_or_default();
            if let Some(login) = login {
                login.check_needs(database, &checked).await?;
            }
        };
        if let QueryResult::SchemaChange(change) = &result {
            let auth = &self.inner.auth;
            auth::creator_permissions(database, auth, login, change).await?;
            auth::revoke_dropped(database, auth, change).await?;
        }
        Ok(result)
    }
}
