"""`espalier nodetool` has Cassandra's commands; its output agrees with the node and its files."""
import json
import re
import threading
import time
import urllib.error

import pytest
from cassandra import InvalidRequest

from driver import write_all
from espalier_node import nodetool, wait_until

KEYSPACE = (
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
)
BY_HAND = "compaction = {'class': 'UnifiedCompactionStrategy', 'enabled': false}"
TOKEN = "-9223372036854775808"


def get(node, path):
    return json.loads(node.request("GET", path))


def bytes_of(text):
    """Returns a printed size in bytes, and its tolerance."""
    number, unit = text.split()
    factor = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[unit]
    return float(number) * factor, factor * 0.0051


def table_bytes(node, keyspace="*", table="*"):
    """Returns the size of all SSTable files, without snapshots."""
    return sum(
        path.stat().st_size
        for path in node.directory.glob(f"data/{keyspace}/{table}-*/*-*.*")
        if path.is_file()
    )


def lines_of(text):
    """Returns names and values of lines `name: value`."""
    return {
        name.strip(): value.strip()
        for name, _, value in (line.partition(":") for line in text.splitlines())
    }


@pytest.fixture(scope="module")
def node(start_node):
    """Returns a node with three tables; `t` has SSTables of three flushes, and rows in memory."""
    node = start_node("node", shards=2)
    node.session = session = node.connect()
    session.execute(KEYSPACE)
    session.execute(f"CREATE TABLE ks.t (k int, c int, v text, PRIMARY KEY (k, c)) WITH {BY_HAND}")
    session.execute(
        "CREATE TABLE ks.plain (k int PRIMARY KEY, v text) WITH compression = {'enabled': false}"
    )
    session.execute(
        "CREATE TABLE ks.levels (k int PRIMARY KEY, v text) WITH compaction = {'class': "
        "'LeveledCompactionStrategy'}"
    )
    insert = session.prepare("INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)")
    for round in range(3):
        write_all(session, insert, [(n % 10, n, "x" * 100) for n in range(200)])
        session.execute("INSERT INTO ks.plain (k, v) VALUES (%s, 'x')", (round,))
        session.execute("INSERT INTO ks.levels (k, v) VALUES (%s, 'x')", (round,))
        node.flush("ks")
    for number in range(7):
        session.execute(insert, (number, -1, "in memory"))
    wait_until(
        lambda: "pending tasks: 0" in nodetool(node, "compactionstats"),
        what="an end of compactions",
    )
    return node


def test_status(node):
    local = node.session.execute("SELECT * FROM system.local").one()
    for arguments in [], ["ks"]:
        title, rule, *legend, head, line, end = nodetool(node, "status", *arguments).split("\n")[
            :-1
        ]
        assert (title, rule, end) == (f"Datacenter: {local.data_center}", "=" * len(title), "")
        assert legend == ["Status=Up/Down", "|/ State=Normal/Leaving/Joining/Moving"]
        assert re.split("  +", head) == [
            "--",
            "Address",
            "Load",
            "Tokens",
            "Owns (effective)",
            "Host ID",
            "Rack",
        ]
        state, address, load, tokens, owns, host_id, rack = re.split("  +", line)
        assert (state, address, tokens, owns) == ("UN", local.rpc_address, "1", "100.0%")
        assert (host_id, rack) == (str(local.host_id), local.rack)
        for name in "Address", "Load", "Host ID", "Rack":
            at = head.index(name)
            assert line[at - 1] == " " and line[at] != " ", name
    load, tolerance = bytes_of(load)
    assert abs(load - table_bytes(node)) <= tolerance
    with pytest.raises(RuntimeError, match="Keyspace no does not exist"):
        nodetool(node, "status", "no")


def test_info(node):
    session = node.session
    local = session.execute("SELECT * FROM system.local").one()
    cache = node.metrics()
    for _ in range(2):
        assert len(list(session.execute("SELECT * FROM ks.t WHERE k = 3"))) == 21
    before = time.time()
    told = lines_of(nodetool(node, "info"))
    after = time.time()
    assert (told["ID"], told["Native Transport active"]) == (str(local.host_id), "true")
    assert (told["Data Center"], told["Rack"], told["Token"]) == (
        local.data_center,
        local.rack,
        TOKEN,
    )
    load, tolerance = bytes_of(told["Load"])
    assert abs(load - table_bytes(node)) <= tolerance
    # The generation in `system.local` may be later, because the node writes it after the start.
    assert 0 <= local.gossip_generation - int(told["Generation No"]) < 60
    now = int(told["Generation No"]) + int(told["Uptime (seconds)"])
    assert before - 3 < now < after + 3
    statistics = get(node, "/column_family/statistics")
    memory = sum(
        table["memtable_off_heap_size"] + table["bloom_filter_off_heap_memory_used"]
        for table in statistics
    )
    assert abs(float(told["Off Heap Memory (MB)"]) - memory / 2**20) < 0.5
    pattern = (
        r"entries (\d+), size (.+), capacity (.+), (\d+) hits, (\d+) requests, "
        r"([\d.]+) recent hit rate, 0 save period in seconds"
    )
    entries, size, capacity, hits, requests, rate = re.fullmatch(
        pattern, told["Row Cache"]
    ).groups()
    metrics = node.metrics()
    assert int(entries) == metrics["scylla_cache_partitions"] >= 1
    assert 0 < bytes_of(size)[0] < bytes_of(capacity)[0] <= 256 * 2**20
    assert int(requests) - cache["scylla_cache_reads"] >= 2
    assert int(requests) == metrics["scylla_cache_reads"]
    assert int(requests) - int(hits) == metrics["scylla_cache_reads_with_misses"]
    assert float(rate) == pytest.approx(int(hits) / int(requests), abs=0.001)
    assert {"Heap Memory (MB)", "Gossip active", "Key Cache", "Exceptions"}.isdisjoint(told)
    assert nodetool(node, "info", "--tokens").splitlines()[-1].endswith(TOKEN)


def table_stats(node, *arguments):
    """Returns names and values by keyspace and table."""
    found = {}
    for part in nodetool(node, "tablestats", *arguments).split("Keyspace : ")[1:]:
        keyspace, _, rest = part.partition("\n")
        tables = re.split(r"\n\t\tTable: ", rest)
        assert tables[0] == "\tPending Flushes: 0"
        for table in tables[1:]:
            name, _, lines = table.partition("\n")
            found[keyspace, name] = lines_of(lines)
    return found


def test_tablestats(node):
    node.request("POST", "/storage_service/snapshots", tag="kept", kn="ks", cf="t")
    told = table_stats(node, "ks.t")
    assert list(told) == [("ks", "t")]
    told = told["ks", "t"]
    row = node.session.execute(
        "SELECT * FROM system_views.table_statistics WHERE keyspace_name = 'ks' AND table_name = "
        "'t'"
    ).one()
    number = {name: int(value) for name, value in told.items() if value.isdigit()}
    # The snapshot has flushed the memtable.
    files = node.table_files("ks", "t")
    assert (
        number["SSTable count"] == len(files) == row.sstables == 8
        and number["Old SSTable count"] == 0
    )
    assert (
        number["Space used (live)"]
        == number["Space used (total)"]
        == table_bytes(node, "ks", "t")
        == row.sstable_bytes
    )
    assert (
        0 < number["Space used by snapshots (total)"] < 5000
    ), "files that only the snapshot has: the schema and a manifest"
    assert number["Number of partitions (estimate)"] == row.partitions_estimate == 3 * 10 + 7
    stored = sum(path.stat().st_size for path in files)
    # Chunks have checksums beside the compressed bytes.
    assert 0 < float(told["SSTable Compression Ratio"]) < 0.5 and stored < 30_000
    filters = sum(path.stat().st_size for path in node.table_files("ks", "t", "Filter.db"))
    assert (
        number["Bloom filter space used"]
        == filters
        > number["Bloom filter off heap memory used"]
        > 0
    )
    assert number["Off heap memory used (total)"] == (
        number["Memtable off heap memory used"] + number["Bloom filter off heap memory used"])
    assert number["Memtable off heap memory used"] == row.memtable_bytes
    least, mean, most = (
        number[f"Compacted partition {which} bytes"] for which in ("minimum", "mean", "maximum")
    )
    assert most == row.max_partition_bytes and 2000 < most < 5000, "20 rows of 100 characters"
    assert 1 <= least < 50 < mean < most, "some have one row of few characters"
    assert number["Pending flushes"] == 0
    assert get(node, "/column_family/metrics/live_disk_space_used/ks:t") == row.sstable_bytes
    for clustering in range(1000, 1005):
        node.session.execute(
            "INSERT INTO ks.t (k, c, v) VALUES (1, %s, %s)", (clustering, "y" * 1000)
        )
    told = table_stats(node, "ks.t")["ks", "t"]
    assert 5000 < int(told["Memtable data size"]) < int(told["Memtable off heap memory used"])
    node.flush("ks", "t")
    nodetool(node, "compact", "ks", "t")
    told = table_stats(node, "ks.t")["ks", "t"]
    assert (
        int(told["Space used by snapshots (total)"]) > stored
    ), "the table has dropped these files, and only the snapshot keeps them"
    node.request("DELETE", "/storage_service/snapshots", tag="kept")


def test_tablestats_of_tables_that_are_chosen(node):
    everything = table_stats(node)
    total = int(lines_of(nodetool(node, "tablestats"))["Total number of tables"])
    assert total == len(everything) == len(get(node, "/column_family/name"))
    assert {table for keyspace, table in everything if keyspace == "ks"} == {"t", "plain", "levels"}
    assert (
        float(everything["ks", "plain"]["SSTable Compression Ratio"]) == -1
    ), "nothing is compressed"
    levels = json.loads(everything["ks", "levels"]["SSTables in each level"])
    assert len(levels) == 9 and sum(levels) == int(everything["ks", "levels"]["SSTable count"]) >= 1
    assert "SSTables in each level" not in everything["ks", "t"]
    assert set(table_stats(node, "ks.plain", "system")) == {
        name for name in everything if name == ("ks", "plain") or name[0] == "system"}
    assert set(table_stats(node, "-i", "ks")) == {name for name in everything if name[0] != "ks"}
    size, tolerance = bytes_of(
        table_stats(node, "-H", "ks.plain")["ks", "plain"]["Space used (live)"]
    )
    assert abs(size - int(everything["ks", "plain"]["Space used (live)"])) <= tolerance
    for wrong, message in [
        ("no", "Unknown keyspace: no"),
        ("ks.no", "Unknown table: no in keyspace: ks"),
    ]:
        with pytest.raises(RuntimeError, match=message):
            nodetool(node, "tablestats", wrong)
    for path in (
        "/column_family/metrics/nothing/ks:t",
        "/column_family/metrics/live_disk_space_used/ks:no",
    ):
        with pytest.raises(urllib.error.HTTPError):
            node.request("GET", path)


def test_compactionhistory(node, start_node):
    title, *rest = nodetool(start_node("fresh"), "compactionhistory").splitlines()
    assert title == "Compaction History: " and rest, "a table, or a note that it is empty"
    session = node.session
    session.execute("INSERT INTO ks.t (k, c) VALUES (1, 1)")
    node.flush("ks", "t")
    nodetool(node, "compact", "ks", "t")
    history = lambda: {
        str(row.id): row for row in session.execute("SELECT * FROM system.compaction_history")
    }
    wait_until(
        lambda: any(row.columnfamily_name == "t" for row in history().values()), what="a history"
    )
    rows = history()
    title, head, *lines = nodetool(node, "compactionhistory").splitlines()
    assert title == "Compaction History: "
    assert head.split() == [
        "id",
        "keyspace_name",
        "columnfamily_name",
        "compacted_at",
        "bytes_in",
        "bytes_out",
        "rows_merged",
        "compaction_properties",
    ]
    told = {}
    for line in lines:
        found = re.fullmatch(
            r"(\S+) +(\S+) +(\S+) +(\S+) +(\d+) +(\d+) +(\{.*?\}) +(\{.*?\})", line
        )
        told[found[1]] = found.groups()[1:]
    assert set(rows) <= set(told) <= set(history())
    rows = history()
    for id, (keyspace, table, at, bytes_in, bytes_out, merged, properties) in told.items():
        row = rows[id]
        assert (keyspace, table, int(bytes_in), int(bytes_out)) == (
            row.keyspace_name, row.columnfamily_name, row.bytes_in, row.bytes_out)
        assert at == row.compacted_at.isoformat(timespec="milliseconds") + "Z"
        assert (
            merged
            == "{" + ", ".join(f"{files}:{count}" for files, count in row.rows_merged.items()) + "}"
        )
        assert properties == "{compaction_type:%s}" % row.compaction_properties["compaction_type"]
    times = [values[2] for values in told.values()]
    assert times == sorted(times, reverse=True)
    assert any(
        values[1] == "t" and values[6] == "{compaction_type:MAJOR_COMPACTION}"
        for values in told.values()
    )


def test_compaction_throughput(start_node):
    node = start_node("throttled", settings={"compaction_throughput": "512KiB/s"})
    shown = (
        lambda: node.connect()
        .execute("SELECT value FROM system_views.settings WHERE name = 'compaction_throughput'")
        .one()
        .value
    )
    assert (
        nodetool(node, "getcompactionthroughput", "-d")
        == "Current compaction throughput: 0.5 MiB/s\n"
    )
    with pytest.raises(RuntimeError, match="Use the -d flag"):
        nodetool(node, "getcompactionthroughput")
    assert nodetool(node, "setcompactionthroughput", "64") == ""
    assert nodetool(node, "getcompactionthroughput") == "Current compaction throughput: 64 MB/s\n"
    assert shown() == "64MiB/s"
    nodetool(node, "setcompactionthroughput", "0")
    assert nodetool(node, "getcompactionthroughput") == "Current compaction throughput: 0 MB/s\n"
    assert shown() == "0MiB/s"
    for wrong in "-1", "1.5", "much":
        with pytest.raises(RuntimeError):
            nodetool(node, "setcompactionthroughput", "--", wrong)
    for value in "", "-1", "64MiB/s":
        with pytest.raises(urllib.error.HTTPError) as refused:
            node.request("POST", "/storage_service/compaction_throughput", value=value)
        reason = refused.value.read().decode()
        assert "whole number of MiB" in reason if value else "is empty" in reason
    node.restart()
    assert (
        nodetool(node, "getcompactionthroughput", "-d")
        == "Current compaction throughput: 0.5 MiB/s\n"
    )


class Asked(threading.Thread):
    """A command under way, and its outcome."""

    def __init__(self, node, *arguments):
        super().__init__()
        self.node, self.arguments, self.error = node, arguments, None
        self.start()

    def run(self):
        try:
            nodetool(self.node, *self.arguments)
        except RuntimeError as error:
            self.error = str(error)

    def result(self):
        self.join(60)
        assert not self.is_alive()
        return self.error


@pytest.fixture(scope="module")
def slow(start_node):
    """Returns a node with two sets of SSTables, whose compaction takes half a minute at 1 MiB/s."""
    node = start_node("slow")
    session = node.connect()
    session.execute(KEYSPACE)
    session.execute(
        f"CREATE TABLE ks.t (k int PRIMARY KEY, v text) WITH {BY_HAND} AND compression = "
        f"{{'enabled': 'false'}}"
    )
    insert = session.prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)")
    for round in range(2):
        rows = [(number * 2 + round, "x" * 10_000) for number in range(1600)]
        write_all(session, insert, rows, rows_per_batch=4)
        node.flush("ks")
    return node


def running(node):
    return [task["task_type"] for task in get(node, "/compaction_manager/compactions")]


def test_a_running_compaction_takes_a_new_limit(slow):
    nodetool(slow, "setcompactionthroughput", "1")
    began = time.monotonic()
    asked = Asked(slow, "upgradesstables", "-a", "ks", "t")
    wait_until(lambda: running(slow), what="a compaction")
    time.sleep(2)
    assert running(slow) == ["UPGRADE_SSTABLES"]
    nodetool(slow, "setcompactionthroughput", "0")
    assert asked.result() is None
    assert time.monotonic() - began < 20, "at 1 MiB/s it takes 30 s"


@pytest.mark.parametrize("command, kind, other, message", [
    (["compact", "ks", "t"], "MAJOR_COMPACTION", "SCRUB", "stopped"),
    (["upgradesstables", "-a", "ks", "t"], "UPGRADE_SSTABLES", "COMPACTION", "stopped"),
    (["scrub", "ks", "t"], "SCRUB", "UPGRADE_SSTABLES", "stopped"),
])
def test_compactions_of_a_type_are_stopped(slow, command, kind, other, message):
    files = slow.table_files("ks", "t")
    nodetool(slow, "setcompactionthroughput", "1")
    asked = Asked(slow, *command)
    wait_until(lambda: running(slow), what="a compaction")
    nodetool(slow, "stop", other)
    nodetool(slow, "stop", "CLEANUP")
    time.sleep(1)
    assert running(slow) == [kind] and asked.is_alive()
    stop = {"MAJOR_COMPACTION": [], "SCRUB": ["scrub"]}.get(kind, [kind])
    nodetool(slow, "stop", *stop)
    assert message in asked.result()
    assert running(slow) == [] and slow.table_files("ks", "t") == files
    nodetool(slow, "setcompactionthroughput", "0")


def test_types_of_compactions(node):
    for name in (
        "COMPACTION",
        "MAJOR_COMPACTION",
        "CLEANUP",
        "SCRUB",
        "UPGRADE_SSTABLES",
        "UPGRADE",
        "RESHARD",
    ):
        assert nodetool(node, "stop", name) == ""
        node.request("POST", "/compaction_manager/stop_compaction", type=name)
        node.request(
            "POST", "/compaction_manager/stop_keyspace_compaction/ks", type=name, tables="t"
        )
    node.request("POST", "/compaction_manager/stop_compaction")
    with pytest.raises(
        RuntimeError,
        match="COMPACTION, MAJOR_COMPACTION, CLEANUP, SCRUB, UPGRADE_SSTABLES, RESHARD",
    ):
        nodetool(node, "stop", "VALIDATION")
    for path in "stop_compaction", "stop_keyspace_compaction/ks":
        with pytest.raises(urllib.error.HTTPError) as refused:
            node.request("POST", f"/compaction_manager/{path}", type="VALIDATION")
        assert refused.value.code == 400
        assert (
            "Unknown type of compactions 'VALIDATION': use one of COMPACTION, MAJOR_COMPACTION"
            in refused.value.read().decode()
        )


def test_compactions_begin_by_themselves_or_do_not(start_node):
    node = start_node("switched", shards=2)
    session = node.connect()
    session.execute(KEYSPACE)
    for table in "busy", "still":
        session.execute(
            f"CREATE TABLE ks.{table} (k int PRIMARY KEY, v text) WITH compaction = {{'class': "
            f"'SizeTieredCompactionStrategy'}}"
        )
    assert nodetool(node, "statusautocompaction", "ks").strip() == "running"
    nodetool(node, "disableautocompaction", "ks", "still")
    assert nodetool(node, "statusautocompaction", "ks").strip() == "partially running"
    assert nodetool(node, "statusautocompaction", "ks", "still").strip() == "not running"
    lines = [
        line.split(maxsplit=2)
        for line in nodetool(node, "statusautocompaction", "-a", "ks").splitlines()
    ]
    assert lines[0] == ["Keyspace", "Table", "Status"]
    assert sorted([cell.strip() for cell in line] for line in lines[1:]) == [
        ["ks", "busy", "running"],
        ["ks", "still", "not running"],
    ]
    assert get(node, "/column_family/autocompaction/ks:busy") is True

    def files(table):
        return len(list(node.directory.glob(f"data/ks/{table}-*/*-Data.db")))

    for _ in range(6):
        for number in range(50):
            session.execute("INSERT INTO ks.busy (k, v) VALUES (%s, 'x')", (number,))
            session.execute("INSERT INTO ks.still (k, v) VALUES (%s, 'x')", (number,))
        node.flush("ks")
    wait_until(lambda: files("busy") < 8, what="a compaction of the other table")
    assert files("still") == 12, "each shard has a file of each flush"
    # An ALTER of another option does not switch compactions on; an ALTER of `compaction` does.
    session.execute("ALTER TABLE ks.still WITH comment = 'not compacted'")
    assert nodetool(node, "statusautocompaction", "ks", "still").strip() == "not running"
    session.execute(
        "ALTER TABLE ks.still WITH compaction = {'class': 'SizeTieredCompactionStrategy', "
        "'max_threshold': 16}"
    )
    assert nodetool(node, "statusautocompaction", "ks", "still").strip() == "running"
    wait_until(lambda: files("still") < 8, what="a compaction")
    nodetool(node, "disableautocompaction")
    assert nodetool(node, "statusautocompaction").strip() == "not running"
    nodetool(node, "enableautocompaction")
    assert nodetool(node, "statusautocompaction").strip() == "running"
    with pytest.raises(RuntimeError, match="missing"):
        nodetool(node, "disableautocompaction", "ks", "missing")
    with pytest.raises(RuntimeError, match="missing"):
        nodetool(node, "statusautocompaction", "ks", "missing")
    # The setting holds until the node stops.
    node.request("DELETE", "/column_family/autocompaction/ks:busy")
    assert get(node, "/column_family/autocompaction/ks:busy") is False
    node.restart()
    assert get(node, "/column_family/autocompaction/ks:busy") is True


def test_guardrails_change_while_the_node_runs(start_node):
    node = start_node("guarded", settings={"page_size_warn_threshold": "50"})
    session = node.connect()
    session.execute(KEYSPACE)
    session.execute("CREATE TABLE ks.t (k int PRIMARY KEY, v text)")

    def answered(statement):
        future = session.execute_async(statement)
        future.result()
        return future.warnings or []

    (warning,) = answered("SELECT * FROM ks.t")
    assert warning.endswith("Query for table t with page size 5000 exceeds warning threshold of 50.")
    nodetool(node, "setguardrailsconfig", "page_size_threshold", "100", "60")
    shown = session.execute(
        "SELECT value FROM system_views.settings WHERE name = 'page_size_fail_threshold' LIMIT 1"
    )
    assert shown.one().value == "100"
    with pytest.raises(InvalidRequest, match="Aborting query for table t, page size 5000"):
        session.execute("SELECT * FROM ks.t")
    nodetool(node, "setguardrailsconfig", "page_size_fail_threshold", "-1")
    nodetool(node, "setguardrailsconfig", "page_size_warn_threshold", "-1")
    write = session.prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)")
    session.execute(write, (1, "123456789"))
    nodetool(node, "setguardrailsconfig", "column_value_size_threshold", "16B", "8B")
    future = session.execute_async(write, (2, "123456789"))
    future.result()
    assert "has size 9, this exceeds the warning threshold of 8." in future.warnings[0]
    with pytest.raises(InvalidRequest, match="has size 17, this exceeds the failure threshold"):
        session.execute(write, (3, "1" * 17))
    nodetool(node, "setguardrailsconfig", "column_value_size_threshold", "null", "null")
    session.execute(write, (3, "1" * 17))
    assert "column_value_size_fail_threshold null" in nodetool(node, "getguardrailsconfig")
    assert nodetool(node, "getguardrailsconfig", "group_by_enabled") == "group_by_enabled true\n"
    for wrong in (
        ("group_by_enabled", "perhaps"),
        ("page_size_threshold", "5", "6"),
        ("nothing", "5"),
        ("column_value_size_warn_threshold", "5"),
    ):
        with pytest.raises(RuntimeError):
            nodetool(node, "setguardrailsconfig", *wrong)
