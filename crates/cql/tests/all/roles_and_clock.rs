//! The clock is set back between two lives of a node. Changes of roles and permissions in the
//! second life win over those of the first.

use espalier_cql::{
    QueryOptions,
    auth::{Authenticator, Authorizer},
};
use espalier_runtime::{block_on, file::FileSystem, time::ManualClock};
use espalier_storage::StorageConfiguration;

use super::{
    auth_scripts::{SUPERUSER, log_in, open_on},
    scripts::show_answer,
};

const LATE_US: i64 = 1_700_000_007_200_000;
const EARLY_US: i64 = LATE_US - 7_200_000_000;

/// Executes statements of the superuser in one life of a node. Returns their answers.
#[allow(clippy::disallowed_methods)]
fn live(files: &FileSystem, start_us: i64, statements: &[&str]) -> Vec<String> {
    // A thread of its own, because timestamps of one thread only grow.
    let life = move || {
        let clock = ManualClock::new(start_us).moving_when_idle();
        let _installed = clock.install();
        block_on(async {
            let configuration = StorageConfiguration::new("node");
            let (authenticator, authorizer) = (Authenticator::Password, Authorizer::Cassandra);
            let processor = open_on(files, configuration, authenticator, authorizer).await;
            let mut root = log_in(&processor, SUPERUSER).await;
            let mut answers = Vec::new();
            for statement in statements {
                let options = QueryOptions::default();
                let answer = processor.query(statement, &mut root, &options).await;
                answers.push(show_answer(answer));
            }
            processor.database().shutdown().await.unwrap();
            answers
        })
    };
    std::thread::scope(|scope| scope.spawn(life).join().unwrap())
}

/// The queries of all roles, permissions and identities.
const QUERIES: [&str; 5] = [
    "SELECT role, can_login, is_superuser, member_of FROM system_auth.roles",
    "SELECT role, member FROM system_auth.role_members",
    "SELECT role, resource, permissions FROM system_auth.role_permissions",
    "SELECT resource, role FROM system_auth.resource_role_permissons_index",
    "SELECT identity, role FROM system_auth.identity_to_role",
];

/// Prepares roles in a life that begins at [`LATE_US`], and executes the changes in a life that
/// begins at `second_life_us`. Returns the answers of a third life to [`QUERIES`].
fn read_after(changes: &[&str], second_life_us: i64) -> Vec<String> {
    let files = FileSystem::simulated(1);
    let prepared = [
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'}",
        "CREATE TABLE k.t (k int PRIMARY KEY)",
        "CREATE ROLE giver",
        "CREATE ROLE r WITH LOGIN = true AND SUPERUSER = true",
        "GRANT giver TO r",
        "GRANT SELECT ON k.t TO r",
        "GRANT MODIFY ON k.t TO r",
        "GRANT DESCRIBE ON ALL ROLES TO r",
        "ADD IDENTITY 'someone' TO ROLE 'r'",
    ];
    for answer in live(&files, LATE_US, &prepared) {
        assert!(!answer.contains(": "), "{answer}");
    }
    for (change, answer) in changes.iter().zip(live(&files, second_life_us, changes)) {
        assert!(!answer.contains(": "), "{change}: {answer}");
    }
    live(&files, second_life_us, &QUERIES)
}

#[test]
fn changes_of_roles_take_effect_after_the_clock_was_set_back() {
    for changes in [
        &["REVOKE SELECT ON k.t FROM r"] as &[_],
        &["ALTER ROLE r WITH LOGIN = false AND SUPERUSER = false"],
        &["REVOKE giver FROM r"],
        &["DROP IDENTITY 'someone'"],
        &["DROP TABLE k.t"],
        &["DROP ROLE r"],
        &["DROP ROLE r", "CREATE ROLE r", "GRANT giver TO r", "GRANT SELECT ON k.t TO r"],
    ] {
        let set_back = read_after(changes, EARLY_US);
        assert_eq!(set_back, read_after(changes, LATE_US + 1_000_000), "{changes:?}");
    }
}
