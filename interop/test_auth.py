"""Log-ins, roles and permissions through the Python driver, and a test for each known vulnerability
of Cassandra."""

import socket
import time

import pytest
from cassandra import AuthenticationFailed, InvalidRequest, Unauthorized
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster, NoHostAvailable
from cassandra.query import BatchStatement

SETTINGS = {
    "authenticator": "PasswordAuthenticator",
    "authorizer": "CassandraAuthorizer",
    "auth_superuser_password": "first secret",
}
ONE_COPY = "WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"


class Clients:
    """Sessions of roles on one node."""

    def __init__(self, node):
        self.node, self.clusters = node, []

    def connect(self, role, password):
        provider = PlainTextAuthProvider(role, password)
        cluster = Cluster([self.node.host], port=self.node.port, auth_provider=provider)
        self.clusters.append(cluster)
        return cluster.connect()

    def close(self):
        for cluster in self.clusters:
            cluster.shutdown()


@pytest.fixture(scope="module")
def clients(start_node):
    clients = Clients(start_node("auth", settings=SETTINGS, shards=2))
    root = clients.connect("cassandra", "first secret")
    clients.root = root
    root.execute(f"CREATE KEYSPACE k {ONE_COPY}")
    root.execute("CREATE TABLE k.t (k int PRIMARY KEY, v int)")
    root.execute("CREATE TABLE k.u (k int PRIMARY KEY, v int)")
    root.execute("INSERT INTO k.t (k, v) VALUES (1, 2)")
    yield clients
    clients.close()


@pytest.fixture
def role(clients, request):
    """Returns the session of a new role that may log in, and the role's name."""
    name = request.node.name[5:45]
    clients.root.execute(f"CREATE ROLE {name} WITH PASSWORD = 'pw' AND LOGIN = true")
    return clients.connect(name, "pw"), name


def refused(session, statement, message, *values):
    with pytest.raises(Unauthorized) as error:
        session.execute(statement, *values)
    assert message in str(error.value), str(error.value)


def test_select_and_nothing_else(clients, role):
    session, name = role
    refused(session, "SELECT * FROM k.t", f"User {name} has no SELECT permission on <table k.t>")
    clients.root.execute(f"GRANT SELECT ON k.t TO {name}")
    assert list(session.execute("SELECT v FROM k.t")) == [(2,)]
    refused(session, "SELECT * FROM k.u", "has no SELECT permission on <table k.u>")
    refused(session, "INSERT INTO k.t (k, v) VALUES (1, 3)", "has no MODIFY permission")


def test_a_prepared_statement_is_checked_at_each_execution(clients, role):
    session, name = role
    clients.root.execute(f"GRANT SELECT ON k.t TO {name}")
    read = session.prepare("SELECT v FROM k.t WHERE k = ?")
    for _ in range(3):
        assert list(session.execute(read, [1])) == [(2,)]
    clients.root.execute(f"REVOKE SELECT ON k.t FROM {name}")
    refused(session, read, "has no SELECT permission", [1])
    # A direct change of the tables counts at once, too.
    clients.root.execute(
        "UPDATE system_auth.role_permissions SET permissions = {'SELECT'}"
        f" WHERE role = '{name}' AND resource = 'data/k/t'"
    )
    assert list(session.execute(read, [1])) == [(2,)]


def test_a_prepared_drop_of_an_index_needs_the_permission_of_its_table(clients, role):
    session, _ = role
    drop = session.prepare("DROP INDEX IF EXISTS k.later")
    session.execute(drop)  # there is no such index yet
    clients.root.execute("CREATE INDEX later ON k.t (v)")
    refused(session, drop, "has no ALTER permission on <table k.t>")
    clients.root.execute("DROP INDEX k.later")


def test_new_passwords_do_not_delay_reads_of_the_nodes_own_tables(clients):
    """A driver that connects reads these tables, while the node computes the hashes."""
    created = []
    texts = [f"CREATE ROLE hashed_{number} WITH PASSWORD = 'pw'" for number in range(8)]
    creations = [clients.root.execute_async(text) for text in texts]
    for creation in creations:
        creation.add_callback(created.append)
    clients.root.execute("SELECT key FROM system.local")
    assert len(created) < 4
    for creation in creations:
        creation.result()


def test_wrong_passwords(clients, role):
    _, name = role
    for user, password in [(name, "wrong"), ("nobody", "pw")]:
        with pytest.raises(NoHostAvailable) as error:
            clients.connect(user, password)
        [failed] = error.value.errors.values()
        assert isinstance(failed, AuthenticationFailed)
        assert f"Provided username {user} and/or password are incorrect" in str(failed)
    clients.root.execute(f"ALTER ROLE {name} WITH LOGIN = false")
    with pytest.raises(NoHostAvailable) as error:
        clients.connect(name, "pw")
    assert f"{name} is not permitted to log in" in str(error.value)


def test_no_request_passes_before_the_login(clients):
    """A client that skips the log-in gets an error for each request, and then no connection."""
    node = clients.node
    with socket.create_connection((node.host, node.port)) as client:
        options = b"\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0"
        client.sendall(b"\x04\0\0\0\x01" + len(options).to_bytes(4, "big") + options)
        answer = client.recv(4096)
        assert answer[4] == 0x03 and b"org.apache.cassandra.auth.PasswordAuthenticator" in answer
        text = b"SELECT * FROM system.local"
        query = len(text).to_bytes(4, "big") + text + b"\x00\x01\x00"
        for _ in range(3):
            client.sendall(b"\x04\0\0\0\x07" + len(query).to_bytes(4, "big") + query)
            answer = client.recv(4096)
            assert b"Unexpected message QUERY, expecting SASL_RESPONSE" in answer, answer
        assert client.recv(4096) == b""


def test_a_client_that_never_logs_in_is_dropped(clients):
    node = clients.node
    with socket.create_connection((node.host, node.port)) as client:
        client.settimeout(60)
        assert client.recv(1) == b""


def test_guesses_are_slowed_down(start_node):
    clients = Clients(start_node("guesses", settings=SETTINGS))
    try:
        texts = []
        for number in range(14):
            with pytest.raises(NoHostAvailable) as error:
                clients.connect("cassandra", f"guess {number}")
            texts.append(str(error.value))
        assert any("Too many failed log-ins from 127.0.0.1" in text for text in texts), texts[-1]
    finally:
        clients.close()


def test_the_first_superuser_has_a_random_password(start_node):
    settings = {key: value for key, value in SETTINGS.items() if "superuser" not in key}
    node = start_node("first", settings=settings)
    [line] = [line for line in node.log().splitlines() if "the first superuser is" in line]
    password = line.split(" with the password ")[1].split()[0]
    clients = Clients(node)
    try:
        with pytest.raises(NoHostAvailable):
            clients.connect("cassandra", "cassandra")
        assert clients.connect("cassandra", password).execute("LIST ROLES").one().super
    finally:
        clients.close()


def test_cve_2025_23015_modify_on_all_keyspaces_does_not_reach_system_tables(clients, role):
    session, name = role
    clients.root.execute(f"GRANT MODIFY ON ALL KEYSPACES TO {name}")
    clients.root.execute(f"GRANT SELECT ON ALL KEYSPACES TO {name}")
    session.execute("INSERT INTO k.t (k, v) VALUES (9, 9)")
    for statement in (
        f"INSERT INTO system_auth.roles (role, is_superuser) VALUES ('{name}', true)",
        "UPDATE system_auth.role_permissions SET permissions = {'ALTER'}"
        f" WHERE role = '{name}' AND resource = 'data'",
        "TRUNCATE system_auth.roles",
    ):
        refused(session, statement, "has no MODIFY permission on <table system")
    refused(session, "INSERT INTO system.peers (peer) VALUES ('127.0.0.9')", "not user-modifiable")
    refused(session, "SELECT salted_hash FROM system_auth.roles", "has no SELECT permission")
    with pytest.raises(Unauthorized, match="strictly limited"):
        clients.root.execute(f"GRANT MODIFY ON system_auth.roles TO {name}")


def test_cve_2025_24860_roles_cannot_widen_their_own_access(clients, role):
    session, name = role
    clients.root.execute(f"GRANT ALTER ON ALL ROLES TO {name}")
    for access in ("TO ALL DATACENTERS", "TO DATACENTERS {'datacenter1'}", "FROM ALL CIDRS"):
        refused(session, f"ALTER ROLE {name} WITH ACCESS {access}", "Only superusers are allowed")


def test_cve_2026_27314_identities_need_more_than_create(clients, role):
    session, name = role
    clients.root.execute(f"GRANT CREATE ON ALL ROLES TO {name}")
    message = "Only superusers can bind identities to a role with superuser status"
    refused(session, "ADD IDENTITY 'mine' TO ROLE 'cassandra'", message)
    clients.root.execute("CREATE ROLE powerful")
    clients.root.execute("GRANT cassandra TO powerful")
    refused(session, "ADD IDENTITY 'mine' TO ROLE 'powerful'", message)


def test_cve_2026_32588_role_statements_are_no_denial_of_service(clients, role):
    session, name = role
    # A hash whose computation takes days is refused without computing it.
    costly = "$2a$31$GXhWPHJoHQFaxCFOy6PHlOrq0gLQQyVPLNk8Vu0gmqmtCZ/q.NZ7S"
    began = time.monotonic()
    with pytest.raises(InvalidRequest, match="Invalid hashed password value"):
        session.execute(f"ALTER ROLE {name} WITH HASHED PASSWORD = '{costly}'")
    # A role without permission makes the node compute nothing.
    refused(session, "CREATE ROLE other WITH PASSWORD = 'x'", "sufficient privileges")
    session.execute(f"ALTER ROLE {name} WITH PASSWORD = 'new'")
    with pytest.raises(Exception, match="can only be changed every 5000ms"):
        session.execute(f"ALTER ROLE {name} WITH PASSWORD = 'newer'")
    assert time.monotonic() - began < 60, "the computation takes days"


def test_create_if_not_exists_on_existing_objects_grants_nothing(clients, role):
    session, name = role
    clients.root.execute(f"GRANT CREATE ON ALL KEYSPACES TO {name}")
    clients.root.execute(f"GRANT CREATE ON ALL ROLES TO {name}")
    session.execute(f"CREATE KEYSPACE IF NOT EXISTS k {ONE_COPY}")
    session.execute("CREATE TABLE IF NOT EXISTS k.t (k int PRIMARY KEY, v int)")
    session.execute("CREATE ROLE IF NOT EXISTS cassandra")
    listed = session.execute(f"LIST ALL PERMISSIONS OF {name}")
    assert {row.permission for row in listed} == {"CREATE"}
    refused(session, "DROP TABLE k.t", "has no DROP permission")


def test_a_failed_statement_of_a_batch_authorises_no_other(clients, role):
    session, name = role
    clients.root.execute(f"GRANT MODIFY ON k.t TO {name}")
    one = session.prepare("INSERT INTO k.t (k, v) VALUES (?, 0)")
    two = session.prepare("INSERT INTO k.u (k, v) VALUES (?, 0)")
    for _ in range(2):
        batch = BatchStatement()
        batch.add(one, [7])
        batch.add(two, [7])
        refused(session, batch, "has no MODIFY permission on <table k.u>")
        refused(session, two, "has no MODIFY permission on <table k.u>", [7])
    assert not list(clients.root.execute("SELECT k FROM k.t WHERE k = 7"))
    session.execute(one, [8])


def test_altering_a_superuser_needs_one(clients, role):
    session, name = role
    for permission in ("ALTER", "DROP", "AUTHORIZE"):
        clients.root.execute(f"GRANT {permission} ON ALL ROLES TO {name}")
    refused(session, "ALTER ROLE cassandra WITH PASSWORD = 'x'", "Only superusers can alter")
    refused(session, "ALTER ROLE cassandra WITH LOGIN = false", "Only superusers can alter")
    refused(session, f"ALTER ROLE {name} WITH SUPERUSER = true", "superuser status")
    refused(session, "DROP ROLE cassandra", "Only superusers can drop")


def test_system_auth_is_not_dropped(clients):
    for statement in ("DROP KEYSPACE system_auth", "DROP TABLE system_auth.roles"):
        refused(clients.root, statement, "Cannot DROP <")


def test_permissions_of_a_creator_end_with_the_table(clients, role):
    session, name = role
    clients.root.execute(f"GRANT CREATE ON KEYSPACE k TO {name}")
    session.execute("CREATE TABLE k.made (k int PRIMARY KEY)")
    session.execute("INSERT INTO k.made (k) VALUES (1)")
    clients.root.execute("DROP TABLE k.made")
    clients.root.execute("CREATE TABLE k.made (k int PRIMARY KEY)")
    refused(session, "SELECT * FROM k.made", "has no SELECT permission")
    clients.root.execute("DROP TABLE k.made")


def test_passwords_are_shown_nowhere(clients):
    root = clients.root
    statement = "CREATE ROLE hidden WITH PASSWORD = 'open sesame' AND LOGIN = true"
    root.execute(statement, trace=True).get_query_trace(max_wait_sec=10)
    with pytest.raises(Exception) as error:
        root.execute("ALTER ROLE hidden WITH PASSWORD = 'open sesame' ANDD LOGIN = true")
    assert "sesame" not in str(error.value)
    for table in ("system_traces.sessions", "system_traces.events", "system_views.clients",
                  "system_views.settings", "system.prepared_statements", "system_auth.roles"):
        assert "sesame" not in str(list(root.execute(f"SELECT * FROM {table}"))), table
        assert "first secret" not in str(list(root.execute(f"SELECT * FROM {table}"))), table
    assert "sesame" not in clients.node.log()


def test_a_node_that_starts_again_knows_its_roles(start_node):
    node = start_node("again", settings=SETTINGS)
    clients = Clients(node)
    try:
        clients.connect("cassandra", "first secret").execute(
            "CREATE ROLE kept WITH PASSWORD = 'pw' AND LOGIN = true"
        )
        clients.close()
        node.restart(kill=True)
        assert clients.connect("kept", "pw").execute("LIST ROLES").one().role == "kept"
    finally:
        clients.close()
