"""Tracing as users of drivers and cqlsh expect it: the steps of a request, in system_traces."""

import datetime
import re
import subprocess
import sys
import time
import urllib.error
import uuid
from pathlib import Path

import pytest
from cassandra import InvalidRequest
from cassandra.query import BatchStatement, BatchType, SimpleStatement

import wire
from driver import PROTOCOLS, connect, write_all
from espalier_node import wait_until

CQLSH = Path(sys.executable).parent / "cqlsh"
KEYSPACE = (
    "CREATE KEYSPACE IF NOT EXISTS t WITH replication = {'class': 'SimpleStrategy', "
    "'replication_factor': 1}"
)
TABLE = "CREATE TABLE IF NOT EXISTS t.{} (p int, c int, v text, PRIMARY KEY (p, c))"


def traced(session, statement, values=None):
    """Returns rows and trace of a statement."""
    result = session.execute(statement, values, trace=True)
    return list(result), result.get_query_trace(max_wait_sec=30)


def write_all_traces(session, statement, values):
    """Waits until the node, of one shard, has written all earlier traces. Adds two traces. The
    shard writes batches of traces in their order, and the second trace comes after the batch of the
    first one."""
    for _ in range(2):
        traced(session, statement, values)


def activities(trace):
    """Returns the activities of a trace."""
    return [event.description for event in trace.events]


def matching(trace, pattern):
    """Returns the matches of a pattern among the activities of a trace."""
    return [match for match in (re.search(pattern, text) for text in activities(trace)) if match]


@pytest.fixture(scope="module")
def running(start_node):
    # One test sends a batch that Cassandra would refuse by default.
    settings = {"batch_size_fail_threshold": "1MiB", "dynamic_data_masking_enabled": "true"}
    node = start_node(shards=1, settings=settings)
    session = node.connect()
    session.execute(KEYSPACE)
    session.execute(TABLE.format("small"))
    return node


@pytest.fixture(scope="module")
def session(running):
    return running.connect()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_query_has_a_session_and_events(running, protocol):
    session = connect(running, protocol)
    before = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
    _, trace = traced(session, "INSERT INTO t.small (p, c, v) VALUES (1, 2, 'three')")
    assert trace.request_type == "Execute CQL3 query"
    assert trace.parameters["query"] == "INSERT INTO t.small (p, c, v) VALUES (1, 2, 'three')"
    assert trace.parameters["consistency_level"] == "LOCAL_ONE"
    assert str(trace.client) == str(trace.coordinator) == "127.0.0.1"
    assert abs((trace.started_at - before).total_seconds()) < 60
    assert datetime.timedelta(0) < trace.duration < datetime.timedelta(seconds=60)
    elapsed = [event.source_elapsed for event in trace.events]
    assert elapsed == sorted(elapsed) and elapsed[-1] <= trace.duration
    assert {event.thread_name for event in trace.events} == {"shard 0"}
    assert {str(event.source) for event in trace.events} == {"127.0.0.1"}
    assert activities(trace)[:2] == [
        "Parsing INSERT INTO t.small (p, c, v) VALUES (1, 2, 'three')",
        "Preparing statement",
    ]
    assert matching(trace, r"^Appending to commitlog: \d+ bytes$")
    assert matching(trace, "^Adding to small memtable: 1 row")
    assert matching(
        trace, r"^Commitlog synced: waited \d+ µs|^Acknowledging the write without waiting"
    )

    rows, trace = traced(session, "SELECT v FROM t.small WHERE p = 1 AND c = 2")
    assert rows == [("three",)]
    assert matching(trace, "^Executing single-partition query on small: token -?\\d+, 0 sstables")
    assert matching(trace, "^Partition found in memtable$")
    assert matching(trace, "^Read 1 live rows of 1 partitions and 0 tombstones")
    assert matching(trace, r"^Answering with 1 rows in \d+ bytes$")
    session.cluster.shutdown()


def test_nothing_is_traced_unasked(running, session):
    written = running.metrics()["espalier_traces_written"]
    for _ in range(5):
        result = session.execute("SELECT * FROM t.small")
        assert result.response_future.get_query_trace() is None
    assert running.metrics()["espalier_traces_written"] == written


def test_traces_of_prepared_statements_show_their_values(session):
    insert = session.prepare("INSERT INTO t.small (p, c, v) VALUES (?, ?, ?)")
    _, trace = traced(session, insert, (7, 8, "it's"))
    assert trace.request_type == "Execute CQL3 prepared query"
    assert trace.parameters["query"] == "INSERT INTO t.small (p, c, v) VALUES (?, ?, ?)"
    values = [trace.parameters[f"bound_var_{index}"] for index in ("0_p", "1_c", "2_v")]
    assert values == ["7", "8", "'it''s'"]
    # The trace hides the values of masked columns, because every role can read traces.
    session.execute("CREATE TABLE t.masked (p int PRIMARY KEY, v text MASKED WITH DEFAULT)")
    insert = session.prepare("INSERT INTO t.masked (p, v) VALUES (?, ?)")
    _, masked = traced(session, insert, (7, "hidden"))
    assert masked.parameters["bound_var_1_v"] == "<masked>", masked.parameters
    assert matching(trace, "^Appending to commitlog") and matching(
        trace, "^Adding to small memtable: 1 row"
    )

    select = session.prepare("SELECT v FROM t.small WHERE p = ? AND c = ?")
    rows, trace = traced(session, select, (7, 8))
    assert [row.v for row in rows] == ["it's"]
    assert matching(trace, "^Looking for one row of small in the memtable alone")
    assert matching(trace, "^Partition found in memtable$")
    assert matching(trace, "^Read 1 live rows of 1 partitions and 0 tombstones")
    rows, trace = traced(session, select, (7, 9))
    assert (
        rows == []
        and matching(trace, "^Partition found in memtable$")
        and matching(trace, "^Read 0 live rows")
    )
    rows, trace = traced(session, select, (12345, 9))
    assert rows == [] and matching(trace, "^Partition not found in memtable$")


def test_long_values_and_statements_are_cut(session):
    insert = session.prepare("INSERT INTO t.small (p, c, v) VALUES (?, ?, ?)")
    _, trace = traced(session, insert, (70, 1, "x" * 100_000))
    assert len(trace.parameters["bound_var_2_v"]) < 1100 and trace.parameters[
        "bound_var_2_v"
    ].endswith("… (100000 bytes)")
    text = f"INSERT INTO t.small (p, c, v) VALUES (70, 2, '{'ä' * 100_000}')"
    _, trace = traced(session, text)
    assert (
        text.startswith(trace.parameters["query"][:-1])
        and 30_000 < len(trace.parameters["query"].encode()) < 33_000
    )
    assert all(len(text.encode()) < 2100 for text in activities(trace))


@pytest.mark.parametrize("version", ["da", "oa", "nb", "me", "mt"])
def test_index_pages_miss_and_then_hit(node, version):
    running = node(settings={"sstable_format": version})
    session = running.connect()
    session.execute(KEYSPACE)
    session.execute(TABLE.format("files") + " WITH caching = {'enabled': 'false'}")
    insert = session.prepare("INSERT INTO t.files (p, c, v) VALUES (?, ?, ?)")
    keys = range(3000)
    futures = [session.execute_async(insert, (key, 0, "v" * 50)) for key in keys]
    assert all(future.result() is not None for future in futures)
    running.flush("t")
    running.restart()
    session = running.connect()
    index = "Partitions.db" if version in ("da", "mt") else "Index.db"

    query = "SELECT v FROM t.files WHERE p = 1234"
    rows, first = traced(session, query)
    assert len(rows) == 1
    assert matching(first, f"^Bloom filter says that sstable {version}-\\S+ may have the partition")
    assert matching(first, f"^Partition not found in memtable")
    if index == "Index.db":
        assert matching(first, rf"^Page cache miss: interval \d+ of {version}-\S+-{index}$")
        assert matching(
            first,
            rf"^Reading an interval: {version}-\S+-{index}, [1-9]\d* bytes wanted at offset \d+, in \d+ µs",
        )
    else:
        misses = matching(
            first,
            rf"^Page cache miss: page (\d+) of {version}-\S+-{index}, read (\d+) bytes in \d+ µs",
        )
        assert misses and all(0 < int(miss[2]) <= 4096 for miss in misses)
    read = matching(
        first,
        rf"^Data cache miss: {version}-\S+-Data.db, read (\d+) bytes at offset (\d+) in \d+ µs",
    )
    (data,) = running.table_files("t", "files")
    assert read and all(int(one[1]) + int(one[2]) <= data.stat().st_size for one in read)
    assert matching(
        first,
        rf"^Partition index lookup complete for sstable {version}-\S+: at offset \d+ of its data",
    )
    assert matching(first, f"^Partition found in sstable {version}-") and matching(
        first, "^Merged data from memtables and 1 sstables"
    )

    rows, second = traced(session, query)
    assert len(rows) == 1
    if index == "Index.db":
        # The cached unit of the legacy index is the entries between two samples of its summary.
        assert matching(second, rf"^Page cache hit: interval \d+ of {version}-\S+-{index}$")
    else:
        hits = matching(second, rf"^Page cache hit: page (\d+) of {version}-\S+-{index}$")
        assert {miss[1] for miss in misses} <= {hit[1] for hit in hits}
    assert matching(second, rf"^Data cache hit: {version}-\S+-Data.db at offset \d+, \d+ bytes$")
    assert not matching(second, "miss")

    # For absent keys the filter has one false positive in a hundred; other keys are outside the
    # range of keys.
    skipped = 0
    for key in range(10_000, 10_030):
        rows, trace = traced(session, f"SELECT v FROM t.files WHERE p = {key}")
        assert rows == []
        if matching(trace, f"^Bloom filter allows skipping sstable {version}-"):
            assert not matching(trace, "cache (hit|miss)")
            skipped += 1
    assert skipped > 20


def test_traces_show_pages_of_the_row_index(node):
    running = node(settings={"column_index_size": "1KiB"})
    session = running.connect()
    session.execute(KEYSPACE)
    session.execute(TABLE.format("wide"))
    insert = session.prepare("INSERT INTO t.wide (p, c, v) VALUES (1, ?, ?)")
    write_all(session, insert, [(row, "v" * 100) for row in range(2000)])
    running.flush("t")
    running.restart()
    session = running.connect()
    rows, trace = traced(session, "SELECT v FROM t.wide WHERE p = 1 AND c = 1500")
    assert len(rows) == 1
    assert matching(trace, r"^Page cache miss: page \d+ of \S+-Rows.db")
    assert matching(trace, "^Partition index lookup complete .* a row index$")
    rows, trace = traced(session, "SELECT count(*) FROM t.wide")
    assert rows[0].count == 2000
    assert matching(trace, "^Executing seq scan on wide") and matching(
        trace, r"^Data cache miss: \S+-Data.db, read \d+ bytes at offset 0"
    )


def test_tombstones_are_counted(running, session):
    session.execute(TABLE.format("graves"))
    for row in range(10):
        session.execute(f"INSERT INTO t.graves (p, c, v) VALUES (1, {row}, 'v')")
    session.execute("DELETE FROM t.graves WHERE p = 1 AND c = 3")
    session.execute("DELETE FROM t.graves WHERE p = 1 AND c = 5")
    session.execute("DELETE v FROM t.graves WHERE p = 1 AND c = 7")
    told = (
        r"^Read (\d+) live rows of (\d+) partitions and (\d+) tombstones "
        r"\((\d+) partition, (\d+) range, (\d+) row, (\d+) cell\)"
    )

    def counts(query):
        rows, trace = traced(session, query)
        (match,) = matching(trace, told)
        numbers = [int(number) for number in match.groups()]
        assert numbers[0] == len(rows)
        return numbers

    for _ in ("memtable", "sstable"):
        assert counts("SELECT * FROM t.graves WHERE p = 1") == [8, 1, 3, 0, 0, 2, 1]
        assert counts("SELECT * FROM t.graves WHERE p = 1 AND c = 5") == [0, 0, 1, 0, 0, 1, 0]
        assert counts("SELECT * FROM t.graves WHERE p = 1 AND c = 6") == [1, 1, 0, 0, 0, 0, 0]
        running.flush("t", "graves")
    session.execute("DELETE FROM t.graves WHERE p = 1 AND c >= 8")
    live, _, _, _, ranges, _, _ = counts("SELECT * FROM t.graves WHERE p = 1")
    assert live == 6 and ranges == 1
    session.execute("DELETE FROM t.graves WHERE p = 1")
    assert counts("SELECT * FROM t.graves WHERE p = 1")[:4] == [0, 0, 1, 1]
    _, trace = traced(session, "SELECT * FROM t.graves WHERE p = 1")
    assert matching(trace, "^Partition found in memtable, with a partition tombstone")
    assert matching(trace, "^Skipping 1 older sstables: the partition was deleted later")


def test_batches(session):
    session.execute(TABLE.format("other"))
    insert = session.prepare("INSERT INTO t.small (p, c, v) VALUES (?, ?, ?)")
    batch = BatchStatement(BatchType.LOGGED)
    batch.add(insert, (100, 1, "a"))
    batch.add(SimpleStatement("INSERT INTO t.other (p, c, v) VALUES (101, 1, 'b')"))
    _, trace = traced(session, batch)
    assert trace.request_type == "Execute batch of CQL3 queries"
    assert trace.parameters["query[0]"].startswith("INSERT INTO t.small")
    assert trace.parameters["query[1]"].startswith("INSERT INTO t.other")
    assert matching(trace, "^Executing a batch of 2 statements") and matching(
        trace, "^Appending to commitlog"
    )
    assert matching(trace, "^Adding to small memtable") and matching(
        trace, "^Adding to other memtable"
    )
    _, trace = traced(
        session,
        "BEGIN BATCH INSERT INTO t.small (p, c, v) VALUES (5, 5, 'x'); DELETE FROM t.other WHERE p "
        "= 5; APPLY BATCH",
    )
    assert matching(trace, "^Adding to small memtable") and matching(
        trace, "^Adding to other memtable"
    )


def test_each_page_has_its_trace(session):
    session.execute(TABLE.format("pages"))
    for row in range(25):
        session.execute(f"INSERT INTO t.pages (p, c, v) VALUES (1, {row}, 'v')")
    statement = SimpleStatement("SELECT * FROM t.pages WHERE p = 1", fetch_size=10)
    result = session.execute(statement, trace=True)
    assert len(list(result)) == 25
    traces = result.get_all_query_traces(max_wait_sec_per=30)
    assert len(traces) == 3 and len({trace.trace_id for trace in traces}) == 3
    told = [matching(trace, r"^Answering with (\d+) rows in \d+ bytes(.*)") for trace in traces]
    assert [(int(match[1]), match[2]) for (match,) in told] == [
        (10, "; there are more pages"),
        (10, "; there are more pages"),
        (5, ""),
    ]
    assert traces[0].parameters["page_size"] == "10"


def test_events_of_other_shards_come_back(node):
    running = node(shards=2)
    session = running.connect()
    session.execute(KEYSPACE)
    session.execute(TABLE.format("spread"))
    insert = session.prepare("INSERT INTO t.spread (p, c, v) VALUES (?, ?, ?)")
    select = session.prepare("SELECT v FROM t.spread WHERE p = ? AND c = ?")
    hops = 0
    for key in range(20):
        _, trace = traced(session, insert, (key, 1, "v"))
        assert matching(trace, "^Adding to spread memtable")
        rows, trace = traced(session, select, (key, 1))
        assert len(rows) == 1
        elapsed = [event.source_elapsed for event in trace.events]
        assert elapsed == sorted(elapsed)
        (owner,) = matching(trace, r"^Shard (\d) owns token") or [None]
        if owner is None:
            assert len({event.thread_name for event in trace.events}) == 1
            continue
        found = [
            event.thread_name
            for event in trace.events
            if event.description == "Partition found in memtable"
        ]
        assert found == [f"shard {owner[1]}"]
        if matching(trace, "^Sending a message to shard"):
            hops += 1
            assert len({event.thread_name for event in trace.events}) == 2
    assert hops > 0
    _, trace = traced(session, "SELECT * FROM t.spread")
    assert {event.thread_name for event in trace.events} == {"shard 0", "shard 1"}


def test_errors_are_traced_too(session):
    future = session.execute_async("SELECT nothing FROM t.small", trace=True)
    with pytest.raises(InvalidRequest):
        future.result()
    trace = future.get_query_trace(max_wait=30)
    assert matching(trace, "^Parsing SELECT nothing") and matching(
        trace, "^Answering with an error: .*Undefined column name nothing"
    )


def test_a_trace_that_is_too_long_reports_the_cut(session):
    insert = session.prepare("INSERT INTO t.small (p, c, v) VALUES (?, ?, ?)")
    batch = BatchStatement(BatchType.UNLOGGED)
    for key in range(3000):
        batch.add(insert, (key, 0, "v"))
    _, trace = traced(session, batch)
    assert len(trace.events) == 2001
    (match,) = matching(trace, r"^Tracing was cut off: (\d+) more events found no room")
    assert activities(trace)[-1] == match[0] and int(match[1]) > 900
    assert "query[0]" in trace.parameters and sum(map(len, trace.parameters.values())) < 200_000


def test_the_tables_are_cassandras(session):
    tables = session.cluster.metadata.keyspaces["system_traces"].tables
    columns = {
        name: {column.name: column.cql_type for column in table.columns.values()}
        for name, table in tables.items()
    }
    assert columns == {
        "sessions": {
            "session_id": "uuid",
            "client": "inet",
            "command": "text",
            "coordinator": "inet",
            "coordinator_port": "int",
            "duration": "int",
            "parameters": "map<text, text>",
            "request": "text",
            "started_at": "timestamp",
        },
        "events": {
            "session_id": "uuid",
            "event_id": "timeuuid",
            "activity": "text",
            "source": "inet",
            "source_elapsed": "int",
            "source_port": "int",
            "thread": "text",
        },
    }
    assert [column.name for column in tables["events"].primary_key] == ["session_id", "event_id"]
    _, trace = traced(session, "SELECT * FROM t.small WHERE p = 1")
    row = session.execute(
        "SELECT command, duration, coordinator_port, TTL(request) AS ttl, TTL(duration) AS other"
        " FROM system_traces.sessions WHERE session_id = %s",
        [trace.trace_id],
    ).one()
    assert (
        row.command == "QUERY" and row.duration > 0 and row.coordinator_port == session.cluster.port
    )
    assert 86_000 < row.ttl <= 86_400 and 86_000 < row.other <= 86_400
    events = list(
        session.execute(
            "SELECT TTL(activity) AS ttl, source_port FROM system_traces.events WHERE session_id = "
            "%s",
            [trace.trace_id],
        )
    )
    assert len(events) == len(trace.events) and all(
        86_000 < event.ttl <= 86_400 for event in events
    )


def test_traces_expire_and_survive_flush_and_restart(node):
    running = node(settings={"trace_type_query_ttl": "12s"})
    session = running.connect()
    began = time.monotonic()
    _, trace = traced(session, "SELECT * FROM system.local")
    query = "SELECT count(*) FROM system_traces.events WHERE session_id = %s"
    count = len(trace.events)
    assert count > 3
    running.flush("system_traces")
    running.restart()
    session = running.connect()
    found = session.execute(query, [trace.trace_id]).one().count
    if time.monotonic() - began < 11:
        assert found == count
    wait_until(
        lambda: session.execute(query, [trace.trace_id]).one().count == 0,
        what="the end of the trace",
    )
    assert time.monotonic() - began > 11


def test_requests_are_traced_by_chance(running, session):
    path = "/storage_service/trace_probability"
    count = "SELECT count(*) FROM system_traces.sessions"
    select = session.prepare("SELECT v FROM t.small WHERE p = ? AND c = ?")
    assert running.request("GET", path) == "0"
    for wrong in ("2", "-0.1", "nan", "much", None):
        with pytest.raises(urllib.error.HTTPError) as refused:
            running.request("POST", path, probability=wrong)
        assert refused.value.code == 400
    write_all_traces(session, select, (0, 0))
    before = session.execute(count).one().count
    running.request("POST", path, probability="1")
    assert running.request("GET", path) == "1"
    for key in range(50):
        assert session.execute(select, (key, 0)).response_future.get_query_trace() is None
    running.request("POST", path, probability="0.2")
    for key in range(200):
        session.execute(select, (key, 0))
    running.request("POST", path, probability="0")
    write_all_traces(session, select, (0, 0))
    now = session.execute(count).one().count
    assert before + 2 + 50 + 10 < now < before + 2 + 50 + 120
    for key in range(20):
        session.execute(select, (key, 0))
    write_all_traces(session, select, (0, 0))
    assert session.execute(count).one().count == now + 2


def test_many_traced_requests_at_once(running, session):
    select = session.prepare("SELECT v FROM t.small WHERE p = ? AND c = ?")
    metrics = running.metrics()
    futures = [session.execute_async(select, (key, 0), trace=True) for key in range(3000)]
    for future in futures:
        future.result()
    done = (
        lambda after: after["espalier_traces_written"] + after["espalier_traces_dropped"]
    )  # noqa: E731
    wait_until(
        lambda: done(running.metrics()) - done(metrics) >= 3000,
        what="all traces written or dropped",
    )
    assert running.metrics()["espalier_traces_written"] - metrics["espalier_traces_written"] > 100


@pytest.mark.parametrize("version", [4, 5])
def test_flags_on_the_wire(running, session, version):
    """The node ignores the tracing flag of requests that cannot be traced, and unknown flags."""
    select = wire.long_string("SELECT key FROM system.local") + wire.parameters(version)
    with wire.Wire(running, version) as client:
        first = client.ask(wire.QUERY, select, flags=0xE0 | wire.TRACING)
        assert first.opcode == wire.RESULT and uuid.UUID(bytes=first.trace_id).version == 1
        answer = client.ask(wire.OPTIONS, flags=wire.TRACING)
        assert answer.opcode == wire.SUPPORTED and answer.trace_id is None
        answer = client.ask(
            wire.PREPARE,
            wire.long_string("SELECT key FROM system.local")
            + (b"\0\0\0\0" if version >= 5 else b""),
            flags=wire.TRACING,
        )
        assert answer.opcode == wire.RESULT and answer.trace_id not in (None, first.trace_id)
        prepared = uuid.UUID(bytes=answer.trace_id)
        answer = client.ask(wire.QUERY, b"\0\0", flags=wire.TRACING)
        assert answer.opcode == wire.ERROR and answer.trace_id is not None
        answer = client.ask(wire.QUERY, select)
        assert answer.opcode == wire.RESULT and answer.trace_id is None

    def session_row():
        return session.execute(
            "SELECT request, parameters FROM system_traces.sessions WHERE session_id = %s",
            [prepared],
        ).one()

    wait_until(lambda: session_row() is not None)
    assert session_row().request == "Preparing CQL3 query" and session_row().parameters == {
        "query": "SELECT key FROM system.local"
    }


def test_cqlsh_prints_the_trace(running):
    statements = [
        "TRACING ON",
        "INSERT INTO t.small (p, c, v) VALUES (31, 1, 'v')",
        "SELECT v FROM t.small WHERE p = 31",
        "TRACING OFF",
    ]
    done = subprocess.run(
        [
            CQLSH,
            running.host,
            str(running.port),
            "--no-color",
            "--request-timeout",
            "60",
            "-e",
            "\n".join(f"{statement};" for statement in statements),
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("Tracing session:") == 2, done.stdout + done.stderr
    lines = [
        [cell.strip() for cell in line.split("|")]
        for line in done.stdout.splitlines()
        if line.count("|") == 4
    ]
    told = [line[0] for line in lines]
    assert told.count("Execute CQL3 query") == told.count("Request complete") == 2
    for text in (
        "Preparing statement",
        "Adding to small memtable: 1 rows",
        "Partition found in memtable",
    ):
        assert f"{text} [shard 0]" in told, done.stdout
    elapsed = [int(line[3]) for line in lines if line[3].isdigit()]
    assert len(elapsed) > 10 and any(elapsed)
    assert {line[2] for line in lines if line[0] == "Request complete"} == {"127.0.0.1"}
