"""Secondary indexes by way of a driver: on a node of two shards, over rows that existed before,
read in pages, kept over restarts, dropped, on vectors, and in files that Cassandra verifies.
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


def test_nearest_rows_over_two_shards(indexed):
    session = indexed.connect()
    session.execute("CREATE TABLE ix.points (k int PRIMARY KEY, v vector<float, 2>, even boolean)")
    index = "CREATE CUSTOM INDEX ON ix.points (v) USING 'StorageAttachedIndex'"
    options = "{'similarity_function': 'euclidean'}"
    session.execute(f"{index} WITH OPTIONS = {options}")
    session.execute("CREATE INDEX ON ix.points (even) USING 'sai'")
    insert = session.prepare("INSERT INTO ix.points (k, v, even) VALUES (?, ?, ?)")

    def write(part):
        for k in range(part, 60, 2):
            session.execute(insert, (k, [k / 2, -k], k % 2 == 0))

    def nearest(where=""):
        query = f"SELECT k, v FROM ix.points {where} ORDER BY v ANN OF ? LIMIT 5"
        query = session.prepare(query)
        marker = query.column_metadata[-1]
        assert (marker.name, marker.type.cql_parameterized_type()) == (
            "v",
            "org.apache.cassandra.db.marshal.VectorType<float, 2>",
        )
        query.fetch_size = 2
        found = session.execute(query, ([10.0, -20.0],))
        rows = list(found)
        assert all(list(row.v) == [row.k / 2, -row.k] for row in rows)
        return [row.k for row in rows], found.response_future.warnings

    write(0)
    indexed.flush("ix", "points")
    write(1)
    for kill in (True, None):
        keys, warnings = nearest()
        assert keys[0] == 20 and sorted(keys) == [18, 19, 20, 21, 22]
        assert len(warnings) == 1 and "do not support paging" in warnings[0]
        keys, _ = nearest("WHERE even = true")
        assert keys[0] == 20 and sorted(keys) == [16, 18, 20, 22, 24]
        if kill:
            indexed.restart(kill=kill)
            session = indexed.connect()
    index = session.cluster.metadata.keyspaces["ix"].tables["points"].indexes["points_v_idx"]
    assert index.index_options["similarity_function"] == "euclidean"
    assert options in index.export_as_string()
