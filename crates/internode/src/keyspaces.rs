//! The keyspaces that each Cassandra node keeps for itself.

/// The names of Cassandra's local, replicated and virtual system keyspaces.
const SYSTEM_KEYSPACES: [&str; 7] = [
    "system",
    "system_schema",
    "system_auth",
    "system_distributed",
    "system_traces",
    "system_views",
    "system_virtual_schema",
];

/// Returns whether a keyspace is Cassandra's own. Users may give theirs names like `system_prod`.
pub(crate) fn is_system(keyspace: &str) -> bool {
    SYSTEM_KEYSPACES.contains(&keyspace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keyspaces_of_users_are_no_system_keyspaces() {
        for keyspace in espalier_storage::system::keyspaces() {
            assert!(is_system(&keyspace.name), "{}", keyspace.name);
        }
        for name in ["systems", "system_prod", "System", ""] {
            assert!(!is_system(name), "{name}");
        }
    }
}
