//! The names of the keyspaces that the node keeps for itself, as Cassandra does.

/// Keyspaces whose tables no statement of a user creates, alters or drops.
const SYSTEM_KEYSPACES: [&str; 7] = [
    "system",
    "system_schema",
    "system_auth",
    "system_distributed",
    "system_traces",
    "system_views",
    "system_virtual_schema",
];

/// Returns whether a keyspace is one of the node's own. Users may give theirs names like
/// `system_prod`.
pub fn is_system_keyspace(keyspace: &str) -> bool {
    SYSTEM_KEYSPACES.contains(&keyspace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keyspaces_of_users_are_no_system_keyspaces() {
        for keyspace in crate::system::keyspaces() {
            assert!(is_system_keyspace(&keyspace.name), "{}", keyspace.name);
        }
        for name in ["systems", "system_prod", "System", ""] {
            assert!(!is_system_keyspace(name), "{name}");
        }
    }
}
