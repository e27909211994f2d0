"""A node of ours in the ring of a stock Cassandra 5.0 node.

Cassandra shows our node as one of its own. Our node adopts the schema, stores writes, also
conditional ones, and answers reads as Cassandra does. Requests that our node does not support fail
at the coordinator.

The Cassandra node is the test's own, because a ring changes its members for ever.
"""
import os
import random
import subprocess
import time
import urllib.request

import pytest
from cassandra import ConsistencyLevel, ReadFailure, WriteFailure
from cassandra.cluster import NoHostAvailable
from cassandra.policies import HostFilterPolicy, RoundRobinPolicy
from cassandra.query import SimpleStatement

import ring_conditions
import ring_reads
from cassandra_node import CassandraNode
from driver import connect, seed
from espalier_node import wait_until

ADDRESS = "127.0.0.2"
TOKEN = -4611686018427387904
SEEDS = "[{{class_name: SimpleSeedProvider, parameters: [{{seeds: '127.0.0.1:{port}'}}]}}]"


@pytest.fixture(scope="module")
def cassandra(tmp_path_factory):
    if os.environ.get("WITHOUT_CASSANDRA"):
        pytest.skip(f"without Cassandra: {os.environ['WITHOUT_CASSANDRA']}")
    # Reads at NODE_LOCAL show what Cassandra itself has.
    options = "-Dcassandra.enable_nodelocal_queries=true"
    cassandra = CassandraNode(tmp_path_factory.mktemp("cassandra"), jvm_options=options,
                              extra_yaml="hints_flush_period: 1s")
    cassandra.start()
    yield cassandra
    cassandra.stop()


def status(cassandra):
    """Returns the state that `nodetool status` shows for each address."""
    done = subprocess.run(
        [cassandra.directory / "run.sh", "org.apache.cassandra.tools.NodeTool", "-p",
         str(cassandra.jmx_port), "status"],
        env={**os.environ, "CONF": "tools.yaml", "HEAP": "128M", "XMS": "32M", "LOGLEVEL": "OFF"},
        capture_output=True, text=True, timeout=120,
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    return {words[1]: words[0] for words in lines if len(words) > 5 and words[1][0].isdigit()}


def peers(session):
    columns = "peer, data_center, rack, release_version, host_id, native_port, tokens"
    rows = session.execute(f"SELECT {columns} FROM system.peers_v2")
    return {row[0]: row[1:] for row in rows}


def agreed(session):
    """Returns True if our node announces the schema of the Cassandra node."""
    own = session.execute("SELECT schema_version FROM system.local").one()[0]
    others = session.execute("SELECT schema_version FROM system.peers_v2")
    return [row[0] for row in others] == [own]


# Static cells, collections, user-defined types, TTLs, and deletions of an element, rows, a range
# and a partition.
STATEMENTS = [
    "INSERT INTO ring.t (k, c, s, v) VALUES (1, 'a', 'static', 'value')",
    "INSERT INTO ring.t (k, c, v) VALUES (1, 'b', 'lives for a while') USING TTL 100000",
    "INSERT INTO ring.t (k, c, v, m, p) VALUES (1, 'c', 'x', {'one': 1, 'two': 2}, {x: 1, y: 2})",
    "UPDATE ring.t SET m['three'] = 3, v = 'y' WHERE k = 1 AND c = 'c'",
    "DELETE m['one'] FROM ring.t WHERE k = 1 AND c = 'c'",
    "INSERT INTO ring.t (k, c, v) VALUES (2, 'gone', 'with its row')",
    "DELETE FROM ring.t WHERE k = 2 AND c = 'gone'",
    "INSERT INTO ring.t (k, c, v) VALUES (3, 'gone', 'with its range')",
    "DELETE FROM ring.t WHERE k = 3 AND c > 'a' AND c <= 'z'",
    "INSERT INTO ring.t (k, c, v) VALUES (4, 'gone', 'with its partition')",
    "DELETE FROM ring.t WHERE k = 4",
    # A logged batch, which our node keeps until the coordinator has written it.
    "BEGIN BATCH INSERT INTO ring.t (k, c, v) VALUES (5, 'b', '1') "
    "INSERT INTO ring.t (k, c, v) VALUES (6, 'b', '2') APPLY BATCH",
    "DELETE FROM ring.t WHERE k = 6",
]


def counter(node, name):
    text = urllib.request.urlopen(f"http://127.0.0.1:{node.api_port}/metrics").read().decode()
    lines = [line for line in text.splitlines() if line.startswith(f"espalier_ring_{name}{{")]
    return sum(float(line.split()[-1]) for line in lines)


def local_rows(node, query):
    """Returns the rows that our node itself stores, as sorted texts."""
    statement = SimpleStatement(query, consistency_level=ring_reads.NODE_LOCAL)
    return sorted(map(repr, connect(node).execute(statement)))


def check_clients(ours):
    """Checks that our node coordinates no requests of clients."""
    # A client that knows only our node gets an error, never an acknowledgement.
    lone = connect(ours)
    for text in ("INSERT INTO ring.t (k, c) VALUES (9, 'lost')", "SELECT * FROM ring.t"):
        with pytest.raises(NoHostAvailable, match="bootstrapping"):
            lone.execute(text)
    with pytest.raises(NoHostAvailable, match="bootstrapping"):
        lone.execute("CREATE KEYSPACE lost WITH replication = "
                     "{'class': 'SimpleStrategy', 'replication_factor': 1}")
    lone.cluster.shutdown()


def check_reads(session, ours, cassandra):
    """Compares random reads: digests and data of our node must be those of Cassandra's rows."""
    tables = ring_reads.made_shapes(random.Random(seed()))
    ring_reads.create(session, tables)
    wait_until(lambda: agreed(session), what="agreement on the tables")
    ring_reads.write(session, tables, 20000 if ring_reads.RUNS_ALL else 500)
    for keyspace in ring_reads.KEYSPACES:
        ours.flush(keyspace)
    ring_reads.write(session, tables, 5000 if ring_reads.RUNS_ALL else 200)
    # Short TTLs have passed.
    time.sleep(2.1)
    before = counter(ours, "reads_answered")
    reads = ring_reads.check(session, tables)
    assert counter(ours, "reads_answered") - before > reads
    assert ring_reads.mismatches(cassandra) == 0


def check_schema_changes(session, ours, write):
    """Cassandra alters and drops a table whose rows are in the memory of our node."""
    changed = lambda: wait_until(lambda: agreed(session), what="agreement on a change")
    session.execute("CREATE TABLE ring.altered (k int PRIMARY KEY, v1 text, v2 text)")
    changed()
    write("INSERT INTO ring.altered (k, v1, v2) VALUES (1, 'one', 'two')")
    # The new column sorts before the others.
    session.execute("ALTER TABLE ring.altered ADD a text")
    changed()
    write("INSERT INTO ring.altered (k, a) VALUES (2, 'new')")
    query = "SELECT k, a, v1, v2 FROM ring.altered"
    assert sorted(write(query)) == [(1, None, "one", "two"), (2, "new", None, None)]
    assert local_rows(ours, query) == sorted(map(repr, write(query)))
    session.execute("ALTER TABLE ring.altered DROP v1")
    changed()
    query = "SELECT k, a, v2 FROM ring.altered"
    for _ in range(2):
        assert sorted(write(query)) == [(1, None, "two"), (2, "new", None)]
        assert local_rows(ours, query) == sorted(map(repr, write(query)))
        ours.flush("ring")
    session.execute("DROP TABLE ring.altered")
    session.execute("CREATE KEYSPACE short WITH replication = {'class': 'SimpleStrategy', "
                    "'replication_factor': 2}")
    changed()
    keyspaces = "SELECT keyspace_name FROM system_schema.keyspaces"
    assert "('short',)" in local_rows(ours, keyspaces)
    tables = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'ring'"
    assert "('altered',)" not in local_rows(ours, tables)
    session.execute("DROP KEYSPACE short")
    changed()
    assert "('short',)" not in local_rows(ours, keyspaces)


def check_hints_and_truncation(session, ours, cassandra, query):
    """The coordinator delivers the writes that our node missed while it was down, also writes to a
    table that was created meanwhile; TRUNCATE needs all nodes."""
    session.execute("INSERT INTO ring.t (k, c, s, v) VALUES (7, 'a', 'new', 'missed')")
    session.execute("DELETE FROM ring.t WHERE k = 5")
    session.execute("CREATE TABLE ring.late (k int PRIMARY KEY, v text)")
    session.execute("INSERT INTO ring.late (k, v) VALUES (1, 'missed')")
    expected = sorted(map(repr, session.execute(query)))
    ours.start()
    wait_until(lambda: status(cassandra).get(ADDRESS) == "UN", 60, "our node up once more")
    wait_until(lambda: local_rows(ours, query) == expected, 60, "the hints")
    late = "SELECT k, v FROM ring.late"
    wait_until(lambda: agreed(session), what="agreement on the new table")
    wait_until(lambda: local_rows(ours, late) == ["(1, 'missed')"], 60, "the late hint")
    everywhere = SimpleStatement(query, consistency_level=ConsistencyLevel.ALL)
    assert sorted(map(repr, session.execute(everywhere))) == expected
    session.execute("TRUNCATE ring.t", timeout=60)
    assert local_rows(ours, query) == []


def test_a_member_is_shown_and_stores_writes(node, cassandra):
    settings = {
        "join_ring": "true", "auto_bootstrap": "false", "cluster_name": "peer",
        "listen_address": ADDRESS, "storage_port": cassandra.storage_port,
        "initial_token": TOKEN, "storage_compatibility_mode": "NONE",
        "seed_provider": SEEDS.format(port=cassandra.storage_port),
    }
    # Two shards, so that reads and writes go to the shard that owns the partition.
    ours = node(settings=settings, shards=2)
    # Our node serves its own tables to drivers, but the queries here are for the Cassandra node.
    only = HostFilterPolicy(RoundRobinPolicy(), lambda host: host.endpoint.port == cassandra.port)
    session = connect(cassandra, policy=only)
    wait_until(lambda: None not in peers(session).get(ADDRESS, [None]), what="our node in peers_v2")
    center, rack, release, host_id, native_port, tokens = peers(session)[ADDRESS]
    assert (center, rack, release) == ("datacenter1", "rack1", "5.0.9")
    assert (native_port, list(tokens)) == (ours.port, [str(TOKEN)])
    assert status(cassandra) == {"127.0.0.1": "UN", ADDRESS: "UN"}

    # Another node with the same token does not start.
    other = {**settings, "listen_address": "127.0.0.3"}
    with pytest.raises(AssertionError, match=f"the token {TOKEN} belongs to the node {ADDRESS}"):
        node("other", settings=other)

    # Our node adopts the schema and announces it, so all nodes agree.
    session.execute("CREATE KEYSPACE ring WITH replication = {'class': 'SimpleStrategy', "
                    "'replication_factor': 2}")
    session.execute("CREATE TYPE ring.point (x int, y int)")
    session.execute("CREATE TABLE ring.t (k int, c text, s text static, v text, m map<text, int>, "
                    "p ring.point, PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC)")
    wait_until(lambda: agreed(session), what="agreement on the schema")

    # Both nodes are replicas of every row. Ours acknowledges a write once it is synced.
    everywhere = ConsistencyLevel.ALL
    write = lambda text: session.execute(SimpleStatement(text, consistency_level=everywhere))
    for text in STATEMENTS:
        write(text)
    # A read that needs our node is answered, and our digest equals Cassandra's.
    assert list(write("SELECT v FROM ring.t WHERE k = 1 AND c = 'a'")) == [("value",)]
    check_reads(session, ours, cassandra)
    is_up = lambda: status(cassandra).get(ADDRESS) == "UN"
    ring_conditions.check(session, cassandra, ours, lambda: agreed(session), is_up, local_rows)
    # A read by an index: our node finds the rows by the condition.
    session.execute("CREATE INDEX ON ring.t (v)")
    session.execute("CREATE TABLE ring.n (k int PRIMARY KEY, n counter)")
    wait_until(lambda: agreed(session), what="agreement on the schema with counters")
    with pytest.raises(WriteFailure):
        write("UPDATE ring.n SET n += 1 WHERE k = 1")
    with pytest.raises(WriteFailure):
        write("INSERT INTO system_traces.sessions (session_id) VALUES (uuid())")
    with pytest.raises(ReadFailure):
        write("SELECT n FROM ring.n WHERE k = 1")
    assert list(write("SELECT k, c FROM ring.t WHERE v = 'y'")) == [(1, "c")]
    assert list(write("SELECT k, c FROM ring.t WHERE k = 1 AND v = 'y'")) == [(1, "c")]
    assert counter(ours, "requests_refused") >= 3
    assert counter(ours, "connections_broken") == 0
    assert "refused a request of a peer" in ours.log()
    query = "SELECT k, c, s, v, m, p, writetime(v) FROM ring.t"
    rows = local_rows(ours, query)
    assert len(rows) == 4
    # The batch is written, so nothing is left of it.
    kept = "SELECT id FROM system.batches"
    wait_until(lambda: local_rows(ours, kept) == [], what="the end of the batch")
    check_clients(ours)
    check_schema_changes(session, ours, write)

    # After a restart our node is the same member. Cassandra notices a kill and a clean stop.
    ours.restart(kill=True)
    wait_until(lambda: status(cassandra).get(ADDRESS) == "UN", 60, "our node up again")
    assert peers(session)[ADDRESS][3] == host_id
    assert local_rows(ours, query) == rows
    wait_until(lambda: agreed(session), what="agreement on the schema again")
    assert ours.stop() == 0
    wait_until(lambda: status(cassandra).get(ADDRESS) == "DN", 60, "our node down")
    # Without our node, Cassandra answers reads alone, and it has the same rows.
    assert sorted(map(repr, session.execute(query))) == rows
    check_hints_and_truncation(session, ours, cassandra, query)
