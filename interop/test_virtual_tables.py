"""The tables that describe the node itself, as drivers, cqlsh and users of Cassandra know them."""
import subprocess
import sys
from pathlib import Path

import pytest
from cassandra import InvalidRequest, Unauthorized

from driver import connect, write_all
from espalier_node import wait_until

CQLSH = Path(sys.executable).parent / "cqlsh"
# Tables that only we have, and tables that Cassandra 5.0 has as well.
OURS = {"table_statistics"}
SHARED = {
    "clients",
    "disk_usage",
    "max_partition_size",
    "max_sstable_size",
    "settings",
    "snapshots",
    "sstable_tasks",
}
ROWS = 3000


@pytest.fixture(scope="module")
def node(start_node):
    return start_node(shards=2, settings={"trace_type_query_ttl": "7200s"})


@pytest.fixture(scope="module")
def session(node):
    session = node.connect()
    session.execute(
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    session.execute(
        "CREATE TABLE ks.t (k int, c int, v text, PRIMARY KEY (k, c)) WITH compression = "
        "{'enabled': false}"
    )
    insert = session.prepare("INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)")
    rows = [(number % 10, number, "x" * 1000) for number in range(ROWS)]
    write_all(session, insert, rows, rows_per_batch=20)
    node.flush("ks")
    for number in range(7):
        session.execute(insert, (number, -1, "in memory"))
    return session


def test_the_driver_knows_them(session):
    session.cluster.refresh_schema_metadata()
    keyspaces = session.cluster.metadata.keyspaces
    for name, tables in [
        ("system_views", SHARED | OURS),
        ("system_virtual_schema", {"keyspaces", "tables", "columns"}),
    ]:
        keyspace = keyspaces[name]
        assert keyspace.virtual and set(keyspace.tables) == tables
        assert all(table.virtual for table in keyspace.tables.values())
    assert not keyspaces["system"].virtual and not keyspaces["ks"].virtual
    usage = keyspaces["system_views"].tables["disk_usage"]
    assert [column.name for column in usage.partition_key] == ["keyspace_name", "table_name"]
    assert usage.columns["mebibytes"].cql_type == "bigint"
    tasks = keyspaces["system_views"].tables["sstable_tasks"]
    assert [column.name for column in tasks.clustering_key] == ["table_name", "task_id"]
    assert (
        "VIRTUAL TABLE" in usage.as_cql_query()
        and "VIRTUAL KEYSPACE" in keyspaces["system_views"].export_as_string()
    )


def test_numbers_are_those_of_the_directory(node, session):
    sizes = {}
    for path in node.directory.glob("data/ks/t-*/*-*.*"):
        name = path.name.rpartition("-")[0]
        sizes[name] = sizes.get(name, 0) + path.stat().st_size
    usage = {
        (row.keyspace_name, row.table_name): row.mebibytes
        for row in session.execute("SELECT * FROM system_views.disk_usage")
    }
    assert usage["ks", "t"] == -(-sum(sizes.values()) // 2**20) >= 3
    assert ("system", "local") in usage and ("system_views", "disk_usage") not in usage
    by_key = session.prepare(
        "SELECT * FROM system_views.table_statistics WHERE keyspace_name = ? AND table_name = ?"
    )
    row = session.execute(by_key, ("ks", "t")).one()
    assert (row.sstables, row.sstable_bytes, row.max_sstable_bytes) == (
        len(sizes),
        sum(sizes.values()),
        max(sizes.values()),
    )
    assert (row.memtable_rows, row.memtable_partitions, row.partitions_estimate) == (7, 7, 10 + 7)
    # 300 rows of 1000 characters; the histogram's buckets grow by a fifth.
    assert 300_000 <= row.max_partition_bytes <= 400_000
    assert session.execute(by_key, ("ks", "u")).one() is None
    large = session.execute(
        "SELECT table_name FROM system_views.max_sstable_size WHERE mebibytes > 1"
    )
    assert [row.table_name for row in large] == ["t"]
    settings = dict(session.execute("SELECT name, value FROM system_views.settings"))
    assert (
        settings["native_transport_port"] == str(node.port)
        and settings["trace_type_query_ttl"] == "7200s"
    )
    assert settings["native_shard_aware_transport_port"] is None


def test_pages(session):
    statement = session.prepare("SELECT column_name FROM system_virtual_schema.columns")
    statement.fetch_size = 5000
    everything = [row.column_name for row in session.execute(statement)]
    statement.fetch_size = 3
    assert [row.column_name for row in session.execute(statement)] == everything and len(
        everything
    ) > 30


def test_snapshots(node, session):
    node.request("POST", "/storage_service/snapshots", tag="of virtual tables")
    rows = list(
        session.execute(
            "SELECT * FROM system_views.snapshots WHERE name = 'of virtual tables' AND "
            "keyspace_name = 'ks'"
        )
    )
    assert [(row.table_name, row.ephemeral, row.expires_at) for row in rows] == [("t", False, None)]
    assert rows[0].size_on_disk > ROWS * 1000 and rows[0].created_at is not None
    node.request("DELETE", "/storage_service/snapshots", tag="of virtual tables")
    assert list(session.execute("SELECT * FROM system_views.snapshots")) == []


def test_clients(node, session):
    other = node.connect("ks")
    clients = list(session.execute("SELECT * FROM system_views.clients"))
    assert {client.connection_stage for client in clients} == {"ready"}
    assert {(client.address, client.protocol_version, client.username) for client in clients} == {
        (node.host, 5, "anonymous")
    }
    assert all(
        client.driver_name and client.driver_version and not client.ssl_enabled
        for client in clients
    )
    assert all(client.client_options["CQL_VERSION"].startswith("3.") for client in clients)
    assert (
        len({client.port for client in clients}) == len(clients) >= 4
    ), "a session has two connections at least"
    assert "ks" in {client.keyspace_name for client in clients}
    ports = {client.port for client in clients}
    by_port = session.prepare(
        "SELECT port FROM system_views.clients WHERE address = ? AND port = ?"
    )
    assert [row.port for row in session.execute(by_port, (node.host, min(ports)))] == [min(ports)]
    assert list(session.execute(by_port, ("10.0.0.1", min(ports)))) == []
    other.cluster.shutdown()
    wait_until(
        lambda: len(list(session.execute("SELECT port FROM system_views.clients"))) < len(clients),
        what="fewer clients",
    )


def cqlsh(node, *statements):
    done = subprocess.run(
        [CQLSH, node.host, str(node.port), "--no-color", "-e", ";\n".join(statements)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_cqlsh(node, session):
    said = cqlsh(node, "DESCRIBE KEYSPACE system_views")
    assert "VIRTUAL KEYSPACE system_views;" in said
    assert all(f"VIRTUAL TABLE system_views.{table} (" in said for table in SHARED | OURS)
    assert {"system_views", "system_virtual_schema"} <= set(
        cqlsh(node, "DESCRIBE KEYSPACES").split()
    )
    assert "system_views" not in cqlsh(node, "DESCRIBE SCHEMA")
    said = cqlsh(
        node,
        "SELECT keyspace_name, mebibytes FROM system_views.disk_usage WHERE keyspace_name = 'ks' "
        "AND table_name = 't'",
    )
    assert "ks |" in said and "(1 rows)" in said


REFUSED = [
    "INSERT INTO system_views.settings (name, value) VALUES ('a', 'b')",
    "INSERT INTO system_views.settings (name, value) VALUES ('a', 'b') USING TTL 5",
    "UPDATE system_views.settings USING TIMESTAMP 5 SET value = 'b' WHERE name = 'a'",
    "DELETE FROM system_virtual_schema.tables WHERE keyspace_name = 'system_views'",
    "BEGIN BATCH INSERT INTO system_views.settings (name, value) VALUES ('a', 'b'); APPLY BATCH",
    "BEGIN UNLOGGED BATCH INSERT INTO system_views.snapshots (name, keyspace_name, table_name) "
    "VALUES ('a', 'b', 'c'); APPLY BATCH",
    "BEGIN UNLOGGED BATCH INSERT INTO system_views.settings (name, value) VALUES ('a', 'b');"
    " INSERT INTO system_traces.sessions (session_id) VALUES (00000000-0000-1000-8000-000000000000);"
    " APPLY BATCH",
    "TRUNCATE system_views.disk_usage",
    "CREATE TABLE system_views.t (k int PRIMARY KEY)",
    "ALTER TABLE system_views.settings ADD c int",
    "DROP TABLE system_virtual_schema.tables",
    "DROP KEYSPACE system_views",
]


def refusal(session, statement):
    with pytest.raises((InvalidRequest, Unauthorized)) as refused:
        session.execute(statement)
    return str(refused.value)


def test_changes_are_refused(session):
    for statement in REFUSED:
        refusal(session, statement)


def test_as_cassandra_has_them(node, session, cassandra):
    """Columns, descriptions and refusals of common tables are the same as Cassandra's."""
    theirs, ours = connect(cassandra), connect(node)
    try:
        columns = (
            "SELECT column_name, clustering_order, column_name_bytes, kind, position, type FROM "
            "system_virtual_schema.columns"
            " WHERE keyspace_name = %s AND table_name = %s"
        )
        tables = [("system_views", table) for table in sorted(SHARED)]
        tables += [("system_virtual_schema", table) for table in ("keyspaces", "tables", "columns")]
        for table in tables:
            assert list(ours.execute(columns, table)) == list(theirs.execute(columns, table)), table
            comment = (
                "SELECT comment FROM system_virtual_schema.tables WHERE keyspace_name = %s AND "
                "table_name = %s"
            )
            assert ours.execute(comment, table).one() == theirs.execute(comment, table).one()
            describe = "DESCRIBE TABLE " + ".".join(table)
            assert ours.execute(describe).one() == theirs.execute(describe).one()
        for keyspace in ("system_views", "system_virtual_schema"):
            describe = f"DESCRIBE ONLY KEYSPACE {keyspace}"
            assert ours.execute(describe).one() == theirs.execute(describe).one()
        for statement in REFUSED:
            assert refusal(ours, statement) == refusal(theirs, statement), statement
    finally:
        theirs.cluster.shutdown()
        ours.cluster.shutdown()
