//! Under TransitionalAuthorizer, a client that has not logged in can use all tables but those of
//! roles and permissions.

use std::{net::Ipv4Addr, rc::Rc};

use espalier_cql::auth::{Authenticator, Authorizer};
use espalier_cql::{ClientState, QueryOptions};
use espalier_runtime::block_on;
use espalier_storage::StorageConfiguration;

use super::auth_scripts::open_as;

#[test]
fn anonymous_clients_may_do_everything_but_with_roles_and_permissions() {
    block_on(async {
        let configuration = StorageConfiguration::new("node");
        let (authenticator, authorizer) = (Authenticator::Transitional, Authorizer::Transitional);
        let processor = open_as(configuration, authenticator, authorizer).await;
        let (auth, address) = (processor.auth(), Ipv4Addr::LOCALHOST.into());
        let login = auth.log_in(processor.database(), None, None, address).await.unwrap();
        let mut client = ClientState { keyspace: None, login: Some(Rc::new(login)) };
        let options = QueryOptions::default();
        for (statement, is_allowed) in [
            ("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'}", true),
            ("CREATE TABLE k.t (k int PRIMARY KEY, v int)", true),
            ("ALTER TABLE k.t ADD w int", true),
            ("INSERT INTO k.t (k, v) VALUES (1, 2)", true),
            ("SELECT * FROM k.t", true),
            ("SELECT * FROM system_auth.roles", false),
            ("INSERT INTO system_auth.roles (role, is_superuser) VALUES ('x', true)", false),
            ("CREATE ROLE x WITH SUPERUSER = true", false),
            ("DROP ROLE cassandra", false),
            ("GRANT SELECT ON KEYSPACE k TO cassandra", false),
            ("DROP KEYSPACE k", true),
        ] {
            let answer = processor.query(statement, &mut client, &options).await;
            let code = answer.as_ref().err().map(|error| format!("{:?}", error.code));
            let expected = (!is_allowed).then(|| "Unauthorized".to_owned());
            assert_eq!(code, expected, "{statement}: {answer:?}");
        }
    });
}
