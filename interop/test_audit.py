"""The audit log, and a secret that no log, trace, table, error or audit line may show."""

import json
import logging

import pytest
from cassandra import InvalidRequest, OperationTimedOut, Unauthorized
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster, NoHostAvailable
from cassandra.protocol import SyntaxException
from cassandra.query import BatchStatement, SimpleStatement

from espalier_node import nodetool, wait_until
from test_auth import ONE_COPY
from test_tracing import write_all_traces

PASSWORD = "the first secret"
SECRET = "Xq7secretXq7"
SETTINGS = {
    "authenticator": "PasswordAuthenticator",
    "authorizer": "CassandraAuthorizer",
    "auth_superuser_password": PASSWORD,
}


def connect(node, role, password):
    provider = PlainTextAuthProvider(role, password)
    cluster = Cluster([node.host], port=node.port, auth_provider=provider)
    node.clusters.append(cluster)
    return cluster.connect()


def lines(node):
    text = "".join(path.read_text() for path in sorted((node.directory / "audit").glob("*.jsonl")))
    return [json.loads(line) for line in text.splitlines()]


def test_statements_and_logins_are_logged(start_node):
    node = start_node("audited", settings={**SETTINGS, "audit_logging_options.enabled": "true"})
    session = connect(node, "cassandra", PASSWORD)
    session.execute(f"CREATE KEYSPACE k {ONE_COPY}")
    session.execute("CREATE TABLE k.t (k int PRIMARY KEY, v text)")
    insert = session.prepare("INSERT INTO k.t (k, v) VALUES (?, ?)")
    session.execute(insert, (1, SECRET))
    session.execute("SELECT * FROM k.t")
    batch = BatchStatement()
    batch.add(insert, (2, "b"))
    batch.add(insert, (4, "d"))
    batch.add(SimpleStatement("DELETE FROM k.t WHERE k = 3"))
    session.execute(batch)
    for wrong in ("SELECT * FROM k.nosuch", "SELEC"):
        with pytest.raises((InvalidRequest, SyntaxException)):
            session.execute(wrong)
    session.execute("CREATE ROLE r WITH PASSWORD = 'r' AND LOGIN = true")
    with pytest.raises(Unauthorized):
        connect(node, "r", "r").execute("SELECT * FROM k.t")
    # The audit log excludes the keyspace `system`. It is in use here, but these statements must be
    # logged.
    other = connect(node, "cassandra", PASSWORD)
    other.execute("USE system")
    other.execute("GRANT MODIFY ON k.t TO r")
    other.execute("BEGIN BATCH DELETE FROM k.t WHERE k = 9; APPLY BATCH")
    with pytest.raises(InvalidRequest):
        other.execute("SELECT * FROM hidden")
    with pytest.raises(NoHostAvailable):
        connect(node, "r", "wrong")
    wait_until(lambda: any(line["type"] == "LOGIN_ERROR" for line in lines(node)))
    found = lines(node)
    assert {line["source"] for line in found} == {"127.0.0.1"}
    kinds = {(line["type"], line["category"], line.get("ks"), line.get("scope")) for line in found}
    assert kinds >= {
        ("CREATE_KEYSPACE", "DDL", "k", None),
        ("CREATE_TABLE", "DDL", "k", "t"),
        ("PREPARE_STATEMENT", "PREPARE", "k", "t"),
        ("UPDATE", "DML", "k", "t"),
        ("SELECT", "QUERY", "k", "t"),
        ("BATCH", "DML", "k", None),
        ("DELETE", "DML", "k", "t"),
        ("REQUEST_FAILURE", "ERROR", "k", "nosuch"),
        ("REQUEST_FAILURE", "ERROR", None, None),
        ("CREATE_ROLE", "DCL", None, "r"),
        ("GRANT", "DCL", None, "r"),
        ("REQUEST_FAILURE", "ERROR", "system", "hidden"),
        ("UNAUTHORIZED_ATTEMPT", "AUTH", "k", "t"),
        ("LOGIN_SUCCESS", "AUTH", None, None),
        ("LOGIN_ERROR", "AUTH", None, None),
    }, kinds
    batches = [line for line in found if "batch" in line]
    assert [line["type"] for line in batches] == ["BATCH", "UPDATE", "DELETE"]
    assert [line.get("count") for line in batches] == [None, 2, None]
    assert "BATCH of [3] statements" in batches[0]["operation"]
    assert any("k = 9" in line["operation"] for line in found)
    assert len({line["batch"] for line in batches}) == 1
    # nodetool changes the options, and switches the log off and on.
    nodetool(node, "disableauditlog")
    session.execute("SELECT * FROM k.t WHERE k = 100")
    nodetool(node, "enableauditlog", "--included-categories", "ddl")
    session.execute("SELECT * FROM k.t WHERE k = 101")
    session.execute("ALTER TABLE k.t ADD w int")
    wait_until(lambda: lines(node)[-1]["type"] == "ALTER_TABLE")
    assert not any("k = 10" in line["operation"] for line in lines(node))
    shown = dict(line.split(None, 1) for line in nodetool(node, "getauditlog").splitlines()
                 if len(line.split()) == 2)
    assert shown["included_categories"] == "DDL" and shown["enabled"] == "true"
    with pytest.raises(RuntimeError, match="category NONE not found"):
        nodetool(node, "enableauditlog", "--included-categories", "NONE")
    # The stop writes the lines that wait.
    session.execute("DROP TABLE k.t")
    assert node.stop() == 0
    assert lines(node)[-1]["type"] == "DROP_TABLE"


def test_a_secret_appears_nowhere(start_node):
    """Executes each statement that has a secret, also malformed, in four ways."""
    logging.getLogger("cassandra").setLevel(logging.CRITICAL)
    settings = {**SETTINGS, "audit_logging_options.enabled": "true"}
    node = start_node("secret", settings=settings, arguments=("--log", "debug"))
    session = connect(node, "cassandra", PASSWORD)
    session.execute(f"CREATE KEYSPACE k {ONE_COPY}")
    shapes = [
        "CREATE ROLE {role} WITH PASSWORD = '{secret}' AND LOGIN = true",
        "CREATE USER {role} WITH PASSWORD '{secret}'",
        "ALTER ROLE {role} WITH PASSWORD = '{secret}'",
        "ALTER USER {role} WITH PASSWORD '{secret}'",
        "CREATE ROLE {role} WITH HASHED PASSWORD = '{secret}'",
        "ALTER ROLE {role} WITH HASHED PASSWORD = '{secret}'",
        "CREATE ROLE {role} WITH LOGIN = true AND PASSWORD = $${secret}$$",
        "/* a */ CREATE ROLE {role} WITH PASSWORD = '{secret}'",
        "-- a\nCREATE ROLE {role} WITH PASSWORD = '{secret}'",
        "CREATE ROLE {role} WITH PASSWORD = '{secret}' AND",
        "CREATE ROLE {role} WITH PASSWORD = '{secret}",
        "CREATE ROLE {role} WITH PASSWORD = {secret}",
        "CREATE ROLE {role} WITH PASSWORD '{secret}' AND NOSUCH = 1",
        "ALTER ROLE nosuch WITH PASSWORD = '{secret}'",
        "CREATE ROLE '' WITH PASSWORD = '{secret}'",
        "BEGIN BATCH CREATE ROLE {role} WITH PASSWORD = '{secret}'; APPLY BATCH",
    ]
    errors, done = [], 0
    for number, shape in enumerate(shapes):
        for way in ("text", "traced", "prepared", "batch"):
            text = shape.format(role=f"r{number}{way}", secret=SECRET)
            try:
                if way == "prepared":
                    session.execute(session.prepare(text))
                elif way == "batch":
                    session.execute(batch_of(text))
                else:
                    session.execute(text, trace=way == "traced")
                done += 1
            except (InvalidRequest, SyntaxException, Unauthorized, OperationTimedOut,
                    NoHostAvailable) as error:
                errors.append(str(error))
    assert done >= 10 and len(errors) >= 20, (done, len(errors))
    for role, password in (("cassandra", SECRET), ("nobody", SECRET)):
        with pytest.raises(NoHostAvailable) as refused:
            connect(node, role, password)
        errors.append(str(refused.value))
    write_all_traces(session, "SELECT * FROM system.local", None)
    # The node of one shard writes audit lines in the order of the statements.
    session.execute("CREATE TABLE k.last (k int PRIMARY KEY)")
    wait_until(lambda: any(line.get("scope") == "last" for line in lines(node)), what="all lines")
    places = {"errors": "\n".join(errors), "log": node.log()}
    places["audit"] = json.dumps(lines(node))
    for table in ("system_traces.sessions", "system_traces.events", "system_views.settings",
                  "system_views.clients", "system_auth.roles", "system.prepared_statements"):
        try:
            places[table] = repr(list(session.execute(f"SELECT * FROM {table}")))
        except InvalidRequest:
            continue
    places["describe"] = repr(list(session.execute("DESCRIBE FULL SCHEMA")))
    places["metrics"] = node.request("GET", "/metrics")
    assert "CREATE ROLE" in places["audit"] and "*******" in places["system_traces.sessions"]
    leaks = [place for place, text in places.items() if SECRET in text or PASSWORD in text]
    assert not leaks, {place: text_around(places[place]) for place in leaks}


def batch_of(text):
    batch = BatchStatement()
    batch.add(SimpleStatement(text))
    return batch


def text_around(text):
    at = max(text.find(SECRET), text.find(PASSWORD))
    return text[max(0, at - 200):at + 50]
