"""Materialized views by way of a driver: on a node of two shards, over rows that existed before, in
the driver's metadata, kept over kills, and in files that Cassandra verifies.
"""
import pytest
from cassandra import InvalidRequest

from espalier_node import nodetool, wait_until

ROWS = [(device, at, (device * 7 + at) % 5, f"text {at}") for device in range(8) for at in range(20)]
VIEW = (
    "CREATE MATERIALIZED VIEW mv.by_kind AS SELECT kind, device, at, note FROM mv.events "
    "WHERE kind IS NOT NULL AND device IS NOT NULL AND at IS NOT NULL "
    "PRIMARY KEY (kind, at, device) WITH CLUSTERING ORDER BY (at DESC, device ASC)"
)


def of_kind(rows, kind):
    found = [row for row in rows if row[2] == kind]
    return sorted(found, key=lambda row: (-row[1], row[0]))


def check(session, rows):
    for kind in range(6):
        found = session.execute("SELECT device, at, kind, note FROM mv.by_kind WHERE kind = %s", (kind,))
        assert [tuple(row) for row in found] == of_kind(rows, kind)
    assert session.execute("SELECT count(*) FROM mv.by_kind").one()[0] == len(rows)


@pytest.fixture(scope="module")
def viewed(start_node):
    """Returns a node with a view; half of the rows are older than the view."""
    node = start_node(shards=2)
    session = node.connect()
    session.execute(
        "CREATE KEYSPACE mv WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    session.execute(
        "CREATE TABLE mv.events (device int, at int, kind int, note text, PRIMARY KEY (device, at))"
    )
    insert = session.prepare("INSERT INTO mv.events (device, at, kind, note) VALUES (?, ?, ?, ?)")
    for row in ROWS[::2]:
        session.execute(insert, row)
    node.flush("mv", "events")
    session.execute(VIEW)
    for row in ROWS[1::2]:
        session.execute(insert, row)
    return node


def test_rows_before_and_after_kills(viewed):
    session = viewed.connect()
    built = "SELECT view_name FROM system.built_views WHERE keyspace_name = 'mv'"
    wait_until(lambda: session.execute(built).one() is not None, what="the build of the view")
    assert nodetool(viewed, "viewbuildstatus", "mv", "by_kind") == (
        "mv.by_kind has finished building\n"
    )
    check(session, ROWS)
    # Every second row moves.
    moved = [(*row[:2], 5 if row[1] % 2 else row[2], row[3]) for row in ROWS]
    update = session.prepare("UPDATE mv.events SET kind = 5 WHERE device = ? AND at = ?")
    for row in ROWS:
        if row[1] % 2:
            session.execute(update, row[:2])
    check(session, moved)
    viewed.restart(kill=True)
    check(viewed.connect(), moved)


def test_metadata_of_the_driver(viewed):
    cluster = viewed.connect().cluster
    view = cluster.metadata.keyspaces["mv"].views["by_kind"]
    assert (view.base_table_name, view.include_all_columns) == ("events", False)
    assert view.where_clause == "kind IS NOT NULL AND device IS NOT NULL AND at IS NOT NULL"
    key = [column.name for column in view.partition_key + view.clustering_key]
    assert key == ["kind", "at", "device"]
    assert set(cluster.metadata.keyspaces["mv"].tables) == {"events"}
    assert list(cluster.metadata.keyspaces["mv"].tables["events"].views) == ["by_kind"]
    with pytest.raises(InvalidRequest, match="Cannot directly modify a materialized view"):
        viewed.connect().execute("DELETE FROM mv.by_kind WHERE kind = 1")


def test_cassandra_verifies_the_files(viewed, oracle):
    viewed.flush("mv", "by_kind")
    files = viewed.table_files("mv", "by_kind")
    assert files
    done = oracle("verify", "--strict", "--thorough", files[0].parent)
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
