"""Files that we compact, in every version that Cassandra reads too (in the gate, in one of them).

Our SELECT is the same before and after, and Cassandra's own code verifies the files and dumps them
to the same rows. The tests after these cover operators' requests to the admin API, and crashes."""
import contextlib
import http.client
import json
import os
import threading
import time
import urllib.error
from pathlib import Path

import pytest
from cassandra.concurrent import execute_concurrent_with_args

import dumped
from conftest import starter
from espalier_node import nodetool, wait_until
from gate import all_or_one
from test_cassandra_reads_our_files import SEED, VERSIONS, Filled, complaints, directory
from wire import Wire

SIMPLE = [
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE ks.t (k int, c int, v text, PRIMARY KEY (k, c)) WITH gc_grace_seconds = 0",
]


@pytest.fixture(scope="module", params=all_or_one(VERSIONS))
def compacted(start_node, request):
    """Returns all shapes after several flushes, compacted into one file for each table."""
    settings = {
        "column_index_size_in_kb": 1,
        "commitlog_sync": "periodic",
        "sstable_format": request.param,
    }
    filled = Filled(start_node(settings=settings))
    filled.fill()
    keyspace = filled.shapes[0].name.split(".")[0]
    filled.node.request("POST", f"/storage_service/keyspace_compaction/{keyspace}")
    yield filled
    filled.node.kill()


def test_selects_are_the_same(compacted):
    with Wire(compacted.node) as wire:
        for shape in compacted.shapes:
            assert len(compacted.node.table_files(*shape.name.split("."))) == 1, shape.name
            assert (
                wire.select(shape.select(), page_size=71) == compacted.answers[shape.name]
            ), f"{shape.name}, seed {SEED}"


def test_cassandra_verifies(compacted, oracle):
    names = [shape.name for shape in compacted.shapes]
    done = oracle(
        "verify", "--strict", "--thorough", *(directory(compacted.node, name) for name in names)
    )
    assert done.returncode == 0, (SEED, complaints(done))


def test_cassandra_dumps_the_same(compacted, oracle, tmp_path):
    how = ["dump", "--live", compacted.now, "--full", "--no-j", "--no-token", "-o"]
    outputs = {shape.name: tmp_path / f"{shape.name}.jsonl" for shape in compacted.shapes}
    commands = [
        [*how, outputs[shape.name], directory(compacted.node, shape.name)]
        for shape in compacted.shapes
    ]
    done = oracle("batch", commands=commands)
    assert done.stdout.splitlines().count("== 0") == len(commands), (done.stdout + done.stderr)[
        -2000:
    ]
    for shape in compacted.shapes:
        with open(outputs[shape.name]) as lines:
            expected = list(dumped.rows(shape.table, lines))
        assert compacted.answers[shape.name] == expected, f"{shape.name}, seed {SEED}"


def insert(session, rows):
    """Writes rows (k, c, v), many at a time, because each write waits for a sync of the log."""
    statement = session.prepare("INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)")
    execute_concurrent_with_args(session, statement, rows)


def filled(node, rounds=3):
    session = node.connect()
    for statement in SIMPLE:
        session.execute(statement)
    for round in range(rounds):
        insert(session, [(number % 10, number, str(round)) for number in range(100)])
        node.flush("ks")
    return session


def test_deletions_free_space(node):
    ours = node("ours", shards=2)
    session = filled(ours)
    for partition in range(10):
        session.execute(f"DELETE FROM ks.t WHERE k = {partition}")
    time.sleep(1.1)  # gc_grace_seconds is 0, and counts in whole seconds
    ours.request("POST", "/storage_service/keyspace_compaction/ks", cf="t")
    assert ours.table_files("ks", "t") == []
    assert list(session.execute("SELECT * FROM ks.t")) == []
    ours.restart(kill=True)
    assert list(ours.connect().execute("SELECT * FROM ks.t")) == []


def test_auto_compaction(node):
    ours = node("ours")
    session = filled(ours, rounds=12)
    files = lambda: len(ours.table_files("ks", "t", "TOC.txt"))
    wait_until(lambda: files() < 4, what="few files")
    rows = sorted(session.execute("SELECT k, c, v FROM ks.t"))
    assert [tuple(row) for row in rows] == sorted((n % 10, n, "11") for n in range(100))
    # Each flush wrote a file with all ten partitions, so a partition is merged from all files of a
    # compaction. The history therefore accounts for all files that are gone, whatever the number of
    # files that each compaction merged.
    history = lambda: [
        row
        for row in session.execute("SELECT * FROM system.compaction_history")
        if row.columnfamily_name == "t"
    ]
    merged_away = lambda: sum(max(row.rows_merged) - 1 for row in history())
    wait_until(lambda: files() + merged_away() == 12, what="a history of each file")
    history = history()
    completed = ours.metrics()["scylla_compaction_manager_completed_compactions"]
    assert completed >= len(history)
    assert all(
        row.bytes_in > 0 and row.keyspace_name == "ks" and sum(row.rows_merged.values()) > 0
        for row in history
    )
    assert json.loads(ours.request("GET", "/compaction_manager/compactions")) == []
    ours.request("POST", "/compaction_manager/stop_compaction", type="COMPACTION")


def test_strategies_are_changed_on_a_live_table(node):
    ours = node("ours")
    session = filled(ours)
    described = session.execute(
        "SELECT compaction FROM system_schema.tables WHERE keyspace_name = 'ks'"
    ).one()
    assert described.compaction == {
        "class": "org.apache.cassandra.db.compaction.UnifiedCompactionStrategy"
    }
    session.execute(
        "ALTER TABLE ks.t WITH compaction = {'class': 'SizeTieredCompactionStrategy', "
        "'min_threshold': 2}"
    )
    wait_until(lambda: len(ours.table_files("ks", "t", "TOC.txt")) == 1, what="one file")
    for options, message in [
        (
            "{'class': 'LeveledCompactionStrategy', 'foo': 1}",
            "Properties specified [foo] are not understood by LeveledCompactionStrategy",
        ),
        (
            "{'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'WEEKS'}",
            "WEEKS is not valid for compaction_window_unit",
        ),
        ("{'class': 'Nonsense'}", "Unable to find compaction strategy class"),
    ]:
        with pytest.raises(Exception) as refused:
            session.execute(f"ALTER TABLE ks.t WITH compaction = {options}")
        assert message in str(refused.value)


def test_snapshots(node):
    ours = node("ours", shards=2)
    session = filled(ours, rounds=1)
    ours.request("POST", "/storage_service/snapshots", tag="before", kn="ks", cf="t")
    (directory,) = ours.directory.glob("data/ks/t-*/snapshots/before")
    manifest = json.loads((directory / "manifest.json").read_text())
    assert sorted(manifest["files"]) == sorted(path.name for path in directory.glob("*-Data.db"))
    assert "CREATE TABLE IF NOT EXISTS ks.t" in (directory / "schema.cql").read_text()
    session.execute("TRUNCATE ks.t")
    (listed,) = json.loads(ours.request("GET", "/storage_service/snapshots"))
    assert (
        listed["key"] == "before" and listed["value"][0]["live"] == listed["value"][0]["total"] > 0
    )
    ours.request("POST", f"/storage_service/sstables/ks?cf=t&path={directory}")
    assert len(list(session.execute("SELECT * FROM ks.t"))) == 100
    ours.request("DELETE", "/storage_service/snapshots", tag="before")
    assert json.loads(ours.request("GET", "/storage_service/snapshots")) == []


def test_a_table_is_restored_after_it_was_dropped(node):
    ours = node("ours", shards=2)
    session = filled(ours, rounds=1)
    session.execute("CREATE TYPE ks.pair (a int, b text)")
    session.execute("CREATE TABLE ks.typed (k int PRIMARY KEY, p frozen<pair>)")
    session.execute("INSERT INTO ks.typed (k, p) VALUES (1, {a: 2, b: 'three'})")
    ours.request("POST", "/storage_service/snapshots", tag="before", kn="ks")
    session.execute("INSERT INTO ks.t (k, c, v) VALUES (1, 1000, 'later')")
    restored = json.loads(
        ours.request(
            "POST", "/storage_service/restore", keyspace="ks", table="t", snapshot="before"
        )
    )
    assert restored["sstables"] >= 1 and restored["partitions"] == 10
    assert sorted(tuple(row) for row in session.execute("SELECT k, c, v FROM ks.t")) == sorted(
        (n % 10, n, "0") for n in range(100)
    )
    for table in "t", "typed":
        session.execute(f"DROP TABLE ks.{table}")
    session.execute("DROP TYPE ks.pair")
    for table in "t", "typed":
        ours.request(
            "POST", "/storage_service/restore", keyspace="ks", table=table, snapshot="before"
        )
    ours.restart(kill=True)
    session = ours.connect()
    assert len(list(session.execute("SELECT * FROM ks.t"))) == 100
    assert session.execute("SELECT p.b FROM ks.typed WHERE k = 1").one()[0] == "three"
    for parameters, message in [
        (
            {"keyspace": "ks", "table": "t", "snapshot": "after"},
            "There is no snapshot after of table ks.t",
        ),
        ({"keyspace": "no", "table": "t", "snapshot": "before"}, "Keyspace no does not exist"),
        ({"keyspace": "ks", "table": "t"}, "This needs ?keyspace="),
    ]:
        with pytest.raises(urllib.error.HTTPError) as refused:
            ours.request("POST", "/storage_service/restore", **parameters)
        assert message in refused.value.read().decode()


def test_files_of_a_range_and_files_by_name_are_compacted(node):
    ours = node("ours")
    session = ours.connect()
    for statement in SIMPLE:
        session.execute(statement)
    session.execute(
        "ALTER TABLE ks.t WITH compaction = {'class': 'UnifiedCompactionStrategy', 'enabled': "
        "false}"
    )
    tokens = {}
    for number in range(4):
        session.execute(f"INSERT INTO ks.t (k, c) VALUES ({number}, 0)")
        ours.flush("ks")
        tokens[number] = session.execute(f"SELECT token(k) FROM ks.t WHERE k = {number}").one()[0]
    first, second = sorted(tokens.values())[:2]
    ours.request(
        "POST",
        "/storage_service/keyspace_compaction/ks",
        cf="t",
        startToken=str(first - 1),
        endToken=str(second),
    )
    files = ours.table_files("ks", "t", "Data.db")
    assert len(files) == 3
    ours.request(
        "POST",
        "/compaction_manager/force_user_defined_compaction",
        data_files=",".join(str(file) for file in files[:2]),
    )
    assert len(ours.table_files("ks", "t", "Data.db")) == 2
    assert len(list(session.execute("SELECT * FROM ks.t"))) == 4
    for path, parameters, message in [
        (
            "/storage_service/keyspace_compaction/ks",
            {"startToken": "x"},
            "startToken=x is not a token",
        ),
        (
            "/compaction_manager/force_user_defined_compaction",
            {"data_files": "da-77-bti-Data.db"},
            "no SSTable with data file da-77-bti-Data.db",
        ),
        (
            "/compaction_manager/force_user_defined_compaction",
            {},
            "This needs the names of data files",
        ),
    ]:
        with pytest.raises(urllib.error.HTTPError) as refused:
            ours.request("POST", path, **parameters)
        assert message in refused.value.read().decode()


def left_by_cassandra(oracle, table):
    """Completes or undoes the operations in the log of a table's directory, as Cassandra does at a
    start. Returns the remaining sets."""
    assert len(list(table.glob("*_txn_*.log"))) == 1
    done = oracle("finish", table)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(table.glob("*_txn_*.log")), done.stdout + done.stderr
    return {
        file.name.rpartition("-")[0]
        for file in table.iterdir()
        if file.is_file() and file.name.startswith("da-")
    }


def prepared_for_a_crash(ours):
    """Makes two files of incompressible rows, without automatic compactions. Returns the table's
    directory."""
    session = ours.connect()
    for statement in SIMPLE:
        session.execute(statement)
    session.execute(
        "ALTER TABLE ks.t WITH compaction = {'class': 'UnifiedCompactionStrategy', 'enabled': "
        "false}"
    )
    for column in range(2):
        insert(session, [(number, column, os.urandom(5000).hex()) for number in range(600)])
        ours.flush("ks")
    files = ours.table_files("ks", "t", "Data.db")
    assert [file.name for file in files] == ["da-1-bti-Data.db", "da-2-bti-Data.db"]
    return files[0].parent.resolve()


@pytest.fixture
def node_here(tmp_path, monkeypatch):
    """Returns a function as `node` does, but with a relative path to the working directory, as in
    the default configuration."""
    monkeypatch.chdir(tmp_path)
    yield from starter(Path("."))


def test_cassandra_undoes_a_compaction_that_was_killed(node_here, oracle):
    ours = node_here("ours", settings={"compaction_throughput": "1MiB/s"})
    table = prepared_for_a_crash(ours)
    compaction = threading.Thread(
        target=lambda: suppress_request(ours, "POST", "/storage_service/keyspace_compaction/ks")
    )
    compaction.start()
    wait_until(
        lambda: len(list(table.glob("da-3-bti-*"))) > 1, what="an output that is being written"
    )
    ours.kill()
    compaction.join()
    assert left_by_cassandra(oracle, table) == {"da-1-bti", "da-2-bti"}


def test_cassandra_removes_the_inputs_of_a_finished_compaction(node_here, oracle):
    ours = node_here("ours")
    table = prepared_for_a_crash(ours)
    # A removal begins by renaming TOC.txt to this name. These directories prevent that, so the node
    # cannot delete the inputs.
    obstacles = [table / f"da-{number}-bti-TemporaryTOC.txt" for number in (1, 2)]
    for obstacle in obstacles:
        obstacle.mkdir()
        os.utime(obstacle, (0, 0))
    suppress_request(ours, "POST", "/storage_service/keyspace_compaction/ks")
    ours.kill()
    for obstacle in obstacles:
        obstacle.rmdir()
    assert left_by_cassandra(oracle, table) == {"da-3-bti"}


def suppress_request(node, *arguments):
    """Sends a request that may fail."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        node.request(*arguments)


def test_nodetool(node):
    ours = node("ours")
    session = filled(ours, rounds=1)
    assert nodetool(ours, "compactionstats") == "pending tasks: 0\n"
    session.execute("INSERT INTO ks.t (k, c, v) VALUES (1, 1000, 'later')")
    nodetool(ours, "flush", "ks", "t")
    nodetool(ours, "compact", "ks", "t")
    assert len(ours.table_files("ks", "t")) == 1
    nodetool(ours, "compact", "--start-token", "-9223372036854775808", "--end-token", "-5", "ks")
    nodetool(ours, "compact", "--user-defined", str(ours.table_files("ks", "t")[0]))
    nodetool(ours, "upgradesstables", "-a", "ks")
    assert nodetool(ours, "snapshot", "-t", "monday", "ks") == "Snapshot directory: monday\n"
    assert "monday        ks            t" in nodetool(ours, "listsnapshots")
    session.execute("TRUNCATE ks.t")
    assert (
        nodetool(ours, "restore", "ks", "t", "-t", "monday")
        == "ks.t: 1 SSTables with 10 partitions restored\n"
    )
    assert len(list(session.execute("SELECT * FROM ks.t"))) == 101
    nodetool(ours, "clearsnapshot", "-t", "monday")
    assert nodetool(ours, "listsnapshots") == "There are no snapshots\n"
    left = ours.directory / "data/ks" / f"old-{'0a' * 16}"
    left.mkdir()
    (left / "da-1-bti-Data.db").write_bytes(b"12345")
    listed = nodetool(ours, "orphans")
    assert "1 files, 5 bytes" in listed
    nodetool(ours, "orphans", "--remove", listed.split(": ")[0])
    assert nodetool(ours, "orphans") == "There are no orphaned directories\n" and not left.exists()
    nodetool(ours, "settraceprobability", "0.5")
    assert nodetool(ours, "gettraceprobability") == "Current trace probability: 0.5\n"
    nodetool(ours, "settraceprobability", "0")
    nodetool(ours, "cleanup")
    nodetool(ours, "flush")
    for arguments, message in [
        (["compact", "no"], "there is no keyspace no"),
        (["restore", "ks", "t", "-t", "monday"], "There is no snapshot monday of table ks.t"),
        (["clearsnapshot"], "--tag <TAG>\\|--all"),
        (["setcompactionthroughput", "-1"], "-1 is not in 0"),
    ]:
        with pytest.raises(RuntimeError, match=message):
            nodetool(ours, *arguments)
    ours.kill()
    with pytest.raises(RuntimeError, match="is a node running there"):
        nodetool(ours, "version")
