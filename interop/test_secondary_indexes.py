"""Secondary indexes by way of a driver: on a node of two shards, over rows that existed before,
read in pages, kept over restarts, and not in the way of Cassandra.
"""
import pytest
from cassandra.query import SimpleStatement

from espalier_node import wait_until

TABLE = "CREATE TABLE ix.events (device int, at int, kind text, level int, PRIMARY KEY (device, at))"
ROWS = [
    (device, at, f"kind-{(device * 7 + at) % 13}", (device * at) % 5)
    for device in range(24)
    for at in range(20)
]


def expected(condition):
    return sorted(row for row in ROWS if condition(row))


def rows(session, query):
    """Returns the sorted rows of a query that is read in pages of seven."""
    return sorted(tuple(row) for row in session.execute(SimpleStatement(query, fetch_size=7)))


def check(session):
    of_kind = expected(lambda row: row[2] == "kind-3")
    assert rows(session, "SELECT * FROM ix.events WHERE kind = 'kind-3'") == of_kind
    of_level = expected(lambda row: row[3] > 2)
    assert rows(session, "SELECT * FROM ix.events WHERE level > 2") == of_level
    both = expected(lambda row: row[2] == "kind-3" and row[3] == 4)
    query = "SELECT * FROM ix.events WHERE kind = 'kind-3' AND level = 4 ALLOW FILTERING"
    assert rows(session, query) == both
    count = session.execute("SELECT count(*) FROM ix.events WHERE kind = 'kind-3'").one()[0]
    assert count == len(of_kind)


def built(session):
    listed = session.execute("SELECT index_name FROM system.\"IndexInfo\" WHERE table_name = 'ix'")
    return {row[0] for row in listed}


@pytest.fixture(scope="module")
def indexed(start_node):
    """Returns a node with rows in files with and without entries, and in memtables."""
    node = start_node(shards=2)
    session = node.connect()
    session.execute(
        "CREATE KEYSPACE ix WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    session.execute(TABLE)
    insert = session.prepare("INSERT INTO ix.events (device, at, kind, level) VALUES (?, ?, ?, ?)")

    def write(part):
        for row in ROWS[part::3]:
            # The older value leaves a stale entry.
            session.execute(insert, (*row[:2], "kind-3", 4))
            session.execute(insert, row)

    write(0)
    node.flush("ix", "events")
    session.execute("CREATE INDEX by_kind ON ix.events (kind)")
    session.execute("CREATE INDEX by_level ON ix.events (level) USING 'sai'")
    write(1)
    node.flush("ix", "events")
    write(2)
    return node


def test_queries_before_and_after_the_build_and_restarts(indexed):
    session = indexed.connect()
    check(session)
    wait_until(lambda: built(session) == {"by_kind", "by_level"}, what="the build of the indexes")
    check(session)
    for kill in (True, False):
        indexed.restart(kill=kill)
        session = indexed.connect()
        check(session)
        before = indexed.metrics()["espalier_index_reads"]
        check(session)
        assert indexed.metrics()["espalier_index_reads"] > before
    metadata = session.cluster.metadata.keyspaces["ix"].tables["events"].indexes
    assert {name: index.kind for name, index in metadata.items()} == {
        "by_kind": "COMPOSITES",
        "by_level": "CUSTOM",
    }


def test_cassandra_reads_the_files(indexed, oracle):
    indexed.flush("ix", "events")
    files = indexed.table_files("ix", "events", component="SecondaryIndex_by_kind.db")
    assert files
    done = oracle("verify", "--strict", "--thorough", files[0].parent)
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]


def test_dropped_indexes(indexed):
    session = indexed.connect()
    session.execute("DROP INDEX ix.by_kind")
    assert built(session) == {"by_level"}
    with pytest.raises(Exception, match="ALLOW FILTERING"):
        session.execute("SELECT * FROM ix.events WHERE kind = 'kind-3'")
    query = "SELECT * FROM ix.events WHERE kind = 'kind-3' ALLOW FILTERING"
    assert rows(session, query) == expected(lambda row: row[2] == "kind-3")
