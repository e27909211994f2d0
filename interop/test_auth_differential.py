"""Runs random statements about roles and permissions on Cassandra and on our node.

Then roles execute every kind of statement. Both nodes must allow and refuse the same statements,
with the same texts, and LIST must return the same rows."""

import os
import random
import re

import pytest
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster

from cassandra_node import CassandraNode
from conftest import ORACLE
from gate import FIRST_SEED, part

# The sequences are divided into parts, which several runs of pytest can execute at once, because
# Cassandra mostly waits for its disk.
PARTS, SEQUENCES_OF_PART = part(4, 1), part(500, 6)
ROLES = ("r1", "r2", "r3", "s1")
ROOT = "cassandra"
ONE_COPY = "WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
# If the revocations of DROP ROLE time out, Cassandra only logs a warning; the role that is created
# next by that name has the permissions then.
YAML = """
read_request_timeout: 60s
range_request_timeout: 60s
write_request_timeout: 60s
request_timeout: 60s
authenticator: PasswordAuthenticator
authorizer: CassandraAuthorizer
permissions_validity: 0ms
roles_validity: 0ms
credentials_validity: 0ms
"""
# The test does not compare refusals of passwords that are changed too often, so Cassandra need not
# require a pause between changes.
OPTIONS = (
    "-Dcassandra.superuser_setup_delay_ms=0 -Dcassandra.auth_bcrypt_gensalt_log2_rounds=4"
    " -Dcassandra.role_password_update_min_interval_in_ms=0"
)
SETUP = [
    f"CREATE KEYSPACE k1 {ONE_COPY}",
    f"CREATE KEYSPACE k2 {ONE_COPY}",
    "CREATE TABLE k1.t1 (k int PRIMARY KEY, v int)",
    "CREATE TABLE k1.t2 (k int PRIMARY KEY, v int)",
    "CREATE TABLE k2.t1 (k int PRIMARY KEY, v int)",
    "CREATE TYPE k1.y (a int)",
]
MAKE_ROLES = [
    *(f"CREATE ROLE IF NOT EXISTS {role} WITH PASSWORD = '{role}' AND LOGIN = true"
      for role in ROLES),
    "ALTER ROLE s1 WITH SUPERUSER = true",
]
PERMISSIONS = ["CREATE", "ALTER", "DROP", "SELECT", "MODIFY", "AUTHORIZE", "DESCRIBE", "EXECUTE",
               "UNMASK", "SELECT_MASKED", "ALL", "ALL PERMISSIONS", "SELECT, MODIFY",
               "CREATE, DROP, ALTER"]
RESOURCES = ["ALL KEYSPACES", "KEYSPACE k1", "KEYSPACE k2", "TABLE k1.t1", "k1.t2", "k2.t1",
             "ALL TABLES IN KEYSPACE k1", "ALL ROLES", "ROLE r1", "ROLE r2", "ROLE o1",
             "ALL FUNCTIONS", "ALL FUNCTIONS IN KEYSPACE k1", "ALL MBEANS", "KEYSPACE system",
             "TABLE system_auth.roles", "KEYSPACE nosuch", "TABLE k1.nosuch", "ROLE nosuch",
             "ALL TABLES IN KEYSPACE system_traces", "KEYSPACE system_auth",
             "TABLE system_views.clients"]
# Our texts name the place of a fault behind Cassandra's text.
PLACE = re.compile(r' \(line \d+:\d+\)(?="$)')
NAMES = ["r1", "r2", "r3", "s1", "o1", "o2", "nosuch"]
CREATIONS = ["CREATE ROLE o1", "CREATE ROLE IF NOT EXISTS o1 WITH LOGIN = true", "CREATE USER o2",
             "CREATE ROLE o2 WITH SUPERUSER = true", "CREATE ROLE o1 WITH OPTIONS = {'a': 'b'}",
             "CREATE ROLE o1 WITH HASHED PASSWORD = 'x'", "CREATE USER o1 SUPERUSER",
             "CREATE ROLE IF NOT EXISTS r1", "CREATE ROLE ''",
             "CREATE ROLE o2 WITH ACCESS TO DATACENTERS {'dc9'}",
             "CREATE ROLE o1 WITH ACCESS FROM CIDRS {'g'}"]
IDENTITIES = ["ADD IDENTITY 'i1' TO ROLE 'r1'", "ADD IDENTITY IF NOT EXISTS 'i1' TO ROLE 'r2'",
              "ADD IDENTITY 'i2' TO ROLE 's1'", "ADD IDENTITY 'i3' TO ROLE 'nosuch'",
              "DROP IDENTITY 'i1'", "DROP IDENTITY IF EXISTS 'i2'", "DROP IDENTITY 'i9'"]
LISTS = ["LIST ROLES", "LIST USERS", "LIST ROLES OF r1", "LIST ROLES OF r2 NORECURSIVE",
         "LIST ROLES OF nosuch", "LIST ROLES OF r3"]
KINDS = [
    "SELECT * FROM k1.t1", "SELECT * FROM k1.t2 WHERE k = 1", "SELECT * FROM k2.t1",
    "INSERT INTO k1.t1 (k, v) VALUES (1, 1)", "UPDATE k1.t1 SET v = 1 WHERE k = 1",
    "DELETE FROM k1.t1 WHERE k = 1", "INSERT INTO k1.t1 (k) VALUES (5) IF NOT EXISTS",
    "UPDATE k1.t2 SET v = 3 WHERE k = 1 IF v = 9",
    "BEGIN BATCH INSERT INTO k1.t1 (k) VALUES (1); INSERT INTO k2.t1 (k) VALUES (1); APPLY BATCH",
    "TRUNCATE k1.t2", "USE k1", "DESCRIBE KEYSPACES", "SELECT key FROM system.local",
    "SELECT peer FROM system.peers WHERE peer = '127.0.0.7'",
    "SELECT role FROM system_auth.roles WHERE role = 'zz'",
    "SELECT cf_id FROM system.paxos WHERE row_key = 0x00",
    "SELECT value FROM system_views.settings WHERE name = 'zz'",
    "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = 'zz'",
    "INSERT INTO system_auth.role_members (role, member) VALUES ('zz', 'zz')",
    f"CREATE KEYSPACE IF NOT EXISTS k2 {ONE_COPY}",
    "CREATE TABLE IF NOT EXISTS k1.t1 (k int PRIMARY KEY, v int)",
    "ALTER TABLE k1.t1 WITH comment = 'x'", "ALTER KEYSPACE k1 WITH durable_writes = true",
    "DROP TABLE IF EXISTS k1.nosuch", "DROP KEYSPACE IF EXISTS nosuch",
    "CREATE TYPE IF NOT EXISTS k1.y (a int)", "DROP TYPE IF EXISTS k1.nosuch",
    "DROP KEYSPACE system_auth", "DROP TABLE system_auth.roles",
    "ALTER TABLE system_auth.roles WITH comment = 'x'", "CREATE TABLE system.t (k int PRIMARY KEY)",
    "SELECT session_id FROM system_traces.sessions LIMIT 1",
    "CREATE TABLE k1.made (k int PRIMARY KEY)", "DROP TABLE k1.made",
    "DROP INDEX IF EXISTS k1.nosuch", "LIST ROLES", "LIST USERS",
]


class Side:
    """One of the two nodes, with a session of each role."""

    def __init__(self, node):
        self.node, self.sessions, self.clusters = node, {}, []

    def connect(self, role, password):
        provider = PlainTextAuthProvider(role, password)
        cluster = Cluster([self.node.host], port=self.node.port, auth_provider=provider)
        self.clusters.append(cluster)
        self.sessions[role] = cluster.connect()

    def outcome(self, role, statement):
        """Returns the sorted rows and the warnings, or the text of the error."""
        try:
            result = self.sessions[role].execute_async(statement)
            rows = sorted(str(tuple(row)) for row in result.result())
            return rows, result.warnings or []
        except Exception as error:  # noqa: BLE001: every error is compared
            return PLACE.sub("", str(error).split(": ", 1)[-1])

    def close(self):
        for cluster in self.clusters:
            cluster.shutdown()


@pytest.fixture(scope="module")
def sides(start_node, tmp_path_factory):
    if os.environ.get("WITHOUT_CASSANDRA"):
        pytest.skip(f"without Cassandra: {os.environ['WITHOUT_CASSANDRA']}")
    if not ORACLE.exists():
        pytest.skip("Cassandra is not installed: make deps")
    cassandra = CassandraNode(tmp_path_factory.mktemp("cassandra"), YAML, OPTIONS)
    settings = {"authenticator": "PasswordAuthenticator", "authorizer": "CassandraAuthorizer",
                "auth_superuser_password": ROOT}
    sides = [Side(cassandra), Side(start_node("auth-differential", settings=settings))]
    try:
        cassandra.start()
        for side in sides:
            side.connect(ROOT, ROOT)
            for statement in SETUP + MAKE_ROLES:
                side.sessions[ROOT].execute(statement)
            for role in ROLES:
                side.connect(role, role)
        yield sides
    finally:
        for side in sides:
            side.close()
        cassandra.stop()


def draw(chance):
    """Draws a statement about roles or permissions."""
    name, permissions, resource = (lambda: chance.choice(NAMES), chance.choice(PERMISSIONS),
                                   chance.choice(RESOURCES))
    of = chance.choice(["", f" OF {name()}"])
    makers = [
        (30, lambda: f"GRANT {permissions} ON {resource} TO {name()}"),
        (15, lambda: f"REVOKE {permissions} ON {resource} FROM {name()}"),
        (10, lambda: f"GRANT {name()} TO {name()}"),
        (7, lambda: f"REVOKE {name()} FROM {name()}"),
        (6, lambda: chance.choice(CREATIONS)),
        (6, lambda: chance.choice(["ALTER ROLE ", "ALTER ROLE IF EXISTS "]) + name() + " WITH "
            + chance.choice(["LOGIN = true", "SUPERUSER = false", "SUPERUSER = true",
                             "ACCESS TO ALL DATACENTERS", "ACCESS FROM ALL CIDRS",
                             "OPTIONS = {'a': 'b'}", "LOGIN = false"])),
        (6, lambda: chance.choice(["DROP ROLE ", "DROP ROLE IF EXISTS "]) + name()),
        (4, lambda: chance.choice(IDENTITIES)),
        (8, lambda: chance.choice(LISTS)),
        (8, lambda: f"LIST {permissions}" + chance.choice(["", f" ON {resource}"]) + of
            + chance.choice(["", " NORECURSIVE"])),
    ]
    weights = [weight for weight, _ in makers]
    return chance.choices([maker for _, maker in makers], weights)[0]()


def refuses_more(theirs, ours):
    """Returns True if `ours` is a refusal that only our node has (see docs/security.md)."""
    texts = ("Only superusers can alter a role with superuser status",
             "Only superusers can bind identities")
    return theirs != ours and any(text in str(ours) for text in texts)


def keeps_more(theirs, ours, statement):
    """Returns True if the lists differ only by permissions on roles and tables that may have been
    dropped. Cassandra keeps such permissions if one of them was revoked before."""
    is_list = statement.startswith("LIST") and isinstance(theirs, tuple) and isinstance(ours, tuple)
    if not is_list or "ROLES" in statement or not set(theirs[0]) > set(ours[0]):
        return False
    more = set(theirs[0]) - set(ours[0])
    return all("<role " in row or "<table k1.made>" in row for row in more)


def compare(sides, role, statement, done):
    theirs, ours = (side.outcome(role, statement) for side in sides)
    done.append(f"{role}: {statement}")
    if refuses_more(theirs, ours):
        # If Cassandra executes the statement, a superuser executes it on our node, too.
        ours = sides[1].outcome(ROOT, statement) if isinstance(theirs, tuple) else theirs
    if theirs != ours and not keeps_more(theirs, ours, statement):
        pytest.fail("\n".join([*done, f"Cassandra: {theirs}", f"ours: {ours}"]))


@pytest.mark.parametrize("number", range(PARTS))
def test_roles_and_permissions(sides, number):
    first = FIRST_SEED + number * SEQUENCES_OF_PART
    for seed in range(first, first + SEQUENCES_OF_PART):
        chance = random.Random(seed)
        done = [f"seed {seed}"]
        for _ in range(chance.randint(3, 10)):
            role = chance.choice([ROOT] * 4 + ["s1", "r1", "r2", "r3"])
            compare(sides, role, draw(chance), done)
        for statement in ("LIST ALL PERMISSIONS", "LIST ROLES"):
            compare(sides, ROOT, statement, done)
        for role in chance.sample(ROLES, 2):
            for statement in KINDS:
                compare(sides, role, statement, done)
        for statement in MAKE_ROLES:
            compare(sides, ROOT, statement, done)
