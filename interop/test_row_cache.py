"""The row cache as a client and an operator see it.

The tests cover the time series of ScyllaDB's article (rows are prepended, the head is read),
deletions, scans, BYPASS CACHE, tables and nodes without caching, evictions, the explanation of a
partition, and metrics by ScyllaDB's names."""
import json
import urllib.error

import pytest

from driver import write_all
from espalier_node import wait_until

KEYSPACE = (
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
)
EVENTS = ("CREATE TABLE ks.events (source int, at int, value text, PRIMARY KEY (source, at))"
          " WITH CLUSTERING ORDER BY (at DESC)")


@pytest.fixture
def series(node):
    """Yields a node and a session; files have ten partitions of 200 rows, and no head is cached."""
    ours = node("ours")
    session = ours.connect()
    session.execute(KEYSPACE)
    session.execute(EVENTS)
    prepend(session, range(200))
    ours.flush("ks", "events")
    yield ours, session


def prepend(session, moments):
    insert = session.prepare("INSERT INTO ks.events (source, at, value) VALUES (?, ?, ?)")
    write_all(session, insert, [(s, at, f"value {at}") for s in range(10) for at in moments])


def heads(session):
    select = session.prepare("SELECT at, value FROM ks.events WHERE source = ? LIMIT 1")
    return [tuple(session.execute(select, (source,)).one()) for source in range(10)]


class Counted:
    """Counts the growth of the row cache's metrics."""

    def __init__(self, node):
        self.node = node
        self.before = node.metrics()

    def __getitem__(self, name):
        name = f"scylla_cache_{name}"
        return self.node.metrics()[name] - self.before[name]


def test_each_head_is_read_from_files_once(series):
    ours, session = series
    counted = Counted(ours)
    for _ in range(5):
        assert heads(session) == [(199, "value 199")] * 10
    assert (counted["reads"], counted["reads_with_misses"]) == (50, 10)


def test_flushes_keep_the_heads_known(series):
    ours, session = series
    heads(session)
    counted = Counted(ours)
    for last in range(210, 300, 10):
        prepend(session, range(last - 10, last))
        assert heads(session) == [(last - 1, f"value {last - 1}")] * 10
        ours.flush("ks", "events")
        assert heads(session) == [(last - 1, f"value {last - 1}")] * 10
    assert counted["reads_with_misses"] == 0
    assert counted["row_insertions"] == 9 * 100


def test_after_invalidation_each_partition_misses_once(series):
    ours, session = series
    heads(session)
    ours.request("POST", "/lsa/compact")
    wait_until(lambda: ours.metrics()["scylla_cache_rows"] == 0, what="an empty cache")
    counted = Counted(ours)
    for _ in range(3):
        assert heads(session) == [(199, "value 199")] * 10
    assert counted["reads_with_misses"] == 10


def test_overwritten_and_deleted_rows_are_not_shown(series):
    ours, session = series
    rows = "SELECT at, value FROM ks.events WHERE source = 3 LIMIT 4"
    session.execute("SELECT * FROM ks.events WHERE source = 3")
    session.execute("UPDATE ks.events SET value = 'new' WHERE source = 3 AND at = 199")
    session.execute("DELETE FROM ks.events WHERE source = 3 AND at = 198")
    session.execute("DELETE FROM ks.events WHERE source = 3 AND at > 150 AND at < 197")
    expected = [(199, "new"), (197, "value 197"), (150, "value 150"), (149, "value 149")]
    assert [tuple(row) for row in session.execute(rows)] == expected
    ours.flush("ks", "events")
    counted = Counted(ours)
    assert [tuple(row) for row in session.execute(rows)] == expected
    assert counted["reads_with_misses"] == 0
    around = "SELECT at, value FROM ks.events WHERE source = 3 LIMIT 4 BYPASS CACHE"
    assert [tuple(row) for row in session.execute(around)] == expected
    session.execute("TRUNCATE ks.events")
    assert list(session.execute(rows)) == []


def test_bypassing_reads_and_uncached_tables_insert_no_row(series):
    ours, session = series
    counted = Counted(ours)
    list(session.execute("SELECT * FROM ks.events WHERE source = 1 BYPASS CACHE"))
    list(session.execute("SELECT * FROM ks.events BYPASS CACHE"))
    session.execute("ALTER TABLE ks.events WITH caching = {'enabled': 'false'}")
    list(session.execute("SELECT * FROM ks.events WHERE source = 1"))
    assert (counted["reads"], counted["row_insertions"]) == (0, 0)
    session.execute("ALTER TABLE ks.events WITH caching = {'enabled': 'true'}")
    assert len(list(session.execute("SELECT * FROM ks.events WHERE source = 1"))) == 200
    assert (counted["reads"], counted["row_insertions"]) == (1, 200)


def test_a_small_table_is_scanned_from_memory_the_second_time(series):
    ours, session = series
    first = list(session.execute("SELECT * FROM ks.events"))
    assert len(first) == 2000
    misses = [ours.metrics()["espalier_page_cache_misses"]]
    # The scan reads from the page cache, and bypasses the row cache. Other work of the node may
    # miss pages meanwhile, so it is enough if one scan of three misses none.
    for _ in range(3):
        counted = Counted(ours)
        assert list(session.execute("SELECT * FROM ks.events")) == first
        assert (counted["reads_with_misses"], counted["row_insertions"]) == (0, 0)
        misses.append(ours.metrics()["espalier_page_cache_misses"])
    assert misses[0] > 0
    assert any(before == after for before, after in zip(misses, misses[1:])), misses


def test_a_scan_of_write_times_is_from_the_row_cache_the_second_time(series):
    ours, session = series
    select = "SELECT source, at, writetime(value) FROM ks.events"
    first = list(session.execute(select))
    counted = Counted(ours)
    assert list(session.execute(select)) == first
    assert (counted["reads_with_misses"], counted["row_insertions"]) == (0, 0)
    assert counted["row_hits"] == len(first) == 2000
    # The cache also knows that no file has this key.
    assert not list(session.execute("SELECT * FROM ks.events WHERE source = 1000000"))
    assert (counted["reads_with_misses"], explained(ours, "1000000")["state"]) == (0, "complete")
    traced = session.execute(select, trace=True)
    list(traced)
    events = [event.description for event in traced.get_query_trace().events]
    assert any("Row cache knows all partitions of the range" in event for event in events), events


def explained(node, key, table="events"):
    text = node.request("GET", "/cache_service/row_cache/explain/ks", cf=table, key=key)
    return json.loads(text)


def test_the_cached_ranges_of_a_partition_are_explained(series):
    ours, session = series
    assert explained(ours, "1")["state"] == "unknown"
    heads(session)
    # The clustering order is descending, so the continuous range goes from the start of the
    # partition to the last row that was read together with the head.
    head = explained(ours, "1")
    [known] = head["ranges"]
    assert head["state"] == "partial" and 1 <= head["rows"] < 100
    assert known["from"] is None and known["to"]["values"] == [200 - head["rows"]]
    list(session.execute("SELECT * FROM ks.events WHERE source = 1 AND at >= 10 AND at < 20"))
    first, second = explained(ours, "1")["ranges"]
    assert first == known
    assert (second["from"]["values"], second["to"]["values"], second["rows"]) == ([20], [10], 10)
    assert (second["from"]["inclusive"], second["to"]["inclusive"]) == (False, True)
    list(session.execute("SELECT * FROM ks.events WHERE source = 1"))
    whole = explained(ours, "1")
    assert (whole["state"], whole["rows"], len(whole["ranges"])) == ("complete", 200, 1)
    session.execute("CREATE TABLE ks.pairs (a int, b text, v int, PRIMARY KEY ((a, b)))")
    session.execute("INSERT INTO ks.pairs (a, b, v) VALUES (1, 'x', 2)")
    ours.flush("ks", "pairs")
    assert explained(ours, "1:x", "pairs")["state"] == "unknown"
    list(session.execute("SELECT * FROM ks.pairs WHERE a = 1 AND b = 'x'"))
    assert explained(ours, "1:x", "pairs")["state"] == "complete"
    for table, key, complaint in [
        ("pairs", "1", "a, b"),
        ("events", "one", "source"),
        ("events", "", "is empty"),
        ("no", "1", "not found"),
    ]:
        with pytest.raises(urllib.error.HTTPError) as raised:
            explained(ours, key, table)
        assert complaint in raised.value.read().decode()


def test_enable_cache_turns_it_off(start_node):
    ours = start_node(settings={"enable_cache": "false"})
    session = ours.connect()
    session.execute(KEYSPACE)
    session.execute(EVENTS)
    prepend(session, range(3))
    ours.flush("ks", "events")
    assert heads(session) == heads(session) == [(2, "value 2")] * 10
    metrics = ours.metrics()
    assert metrics["scylla_cache_reads"] == metrics["scylla_cache_bytes_used"] == 0
    ours.kill()


def test_a_small_cache_evicts_rows_and_answers_rightly(node):
    ours = node(
        "ours", memory="64M", settings={"file_cache_size_in_mb": 1, "commitlog_sync": "periodic"}
    )
    session = ours.connect()
    session.execute(KEYSPACE)
    session.execute(EVENTS)
    insert = session.prepare("INSERT INTO ks.events (source, at, value) VALUES (?, ?, ?)")
    futures = [
        session.execute_async(insert, (source, at, f"{at} " * 100))
        for at in range(300)
        for source in range(10)
    ]
    assert all(future.result() is not None for future in futures)
    ours.flush("ks", "events")
    for _ in range(2):
        for source in range(10):
            rows = session.execute(f"SELECT at, value FROM ks.events WHERE source = {source}")
            assert [tuple(row) for row in rows] == [
                (at, f"{at} " * 100) for at in range(299, -1, -1)
            ]
    metrics = ours.metrics()
    assert metrics["scylla_cache_row_evictions"] > 0
    assert 0 < metrics["scylla_cache_bytes_used"] <= 1 << 20
