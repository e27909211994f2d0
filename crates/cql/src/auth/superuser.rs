//! The first superuser of a node.
//!
//! If the node authenticates its clients and has no role, its start makes a superuser with the
//! password of the settings. Without this setting, the password is random, and the caller prints it
//! once. So no superuser has a known password unless the settings ask for one.

use espalier_storage::Node;

use super::settings::AuthSettings;
use super::store::Change;
use super::{Auth, password, role};
use crate::Result;
use crate::internal_query::text_value;

/// The superuser's name if the settings name none, as in Cassandra.
const DEFAULT_NAME: &str = "cassandra";

/// The superuser that a start has made.
#[derive(Clone, PartialEq, Eq)]
pub struct FirstSuperuser {
    /// Its name.
    pub name: String,
    /// Its password, if the node made it.
    pub generated_password: Option<String>,
}

impl std::fmt::Debug for FirstSuperuser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FirstSuperuser").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Makes the first superuser if the node authenticates its clients and has no role yet. Call this
/// function once, after the start and before clients connect.
///
/// # Errors
/// The storage fails, the hash in the settings is malformed or too costly, the password cannot be
/// hashed, or the kernel returns no random bytes.
pub async fn make_superuser(database: &Node, auth: &Auth) -> Result<Option<FirstSuperuser>> {
    let AuthSettings { authenticator, superuser, .. } = &auth.settings;
    if !authenticator.requires_login() {
        return Ok(None);
    }
    if !role::all(database).await?.is_empty() {
        if superuser.name.is_some() || superuser.salted_password.is_some() {
            tracing::info!(
                "auth_superuser_name and its password have no effect, because there are roles; \
                 docs/security.md, \"A lost password\", says how to set a password"
            );
        }
        return Ok(None);
    }
    let name = superuser.name.clone().unwrap_or_else(|| DEFAULT_NAME.to_owned());
    let mut generated_password = None;
    let hash = match (&superuser.salted_password, &superuser.password) {
        (Some(hash), _) => {
            password::check_hash(hash)?;
            hash.clone()
        }
        (None, Some(text)) => password::hash_in_background(text.clone()).await?,
        (None, None) => {
            let made = password::random_password()?;
            generated_password = Some(made.clone());
            password::hash_in_background(made).await?
        }
    };
    let mut change = Change::default();
    const TEXT: &str = "INSERT INTO system_auth.roles (role, is_superuser, can_login, salted_hash) \
                        VALUES (?, true, true, ?)";
    change.add_values(TEXT, vec![text_value(&name), text_value(&hash)]);
    change.apply(database, auth).await?;
    Ok(Some(FirstSuperuser { name, generated_password }))
}
