#!/usr/bin/env python3
"""Runs the long test of "Trie Memtables in Cassandra" (VLDB 2022) at a small size.

    make deps && cargo build --release
    .deps/venv/bin/python bench/long_test.py [--gigabytes 20] [--servers trie,skiplist,cassandra]
    .deps/venv/bin/python bench/long_test.py --most-minutes 30    stops each server after 30 min,
                                                                  and compares their rows by then
    .deps/venv/bin/python bench/long_test.py --strategies         measures only our node, with each
                                                                  compaction strategy

A run takes hours, and the machine must be idle otherwise.

Clients write new rows of a hundred bytes to one table, and read once for every nine writes. Reads
prefer newer rows (quadratically). The server answers as fast as it can on one core and in 2 GiB;
the clients run on the other core. The servers are ours with a trie and with a skip list as
memtable, and Cassandra. Another client measures latencies: it reads one row at a time, a hundred
times a second. It has one read under way, so a read behind a slow one is late as well. Every row
that is read is compared with the row that was written. Cassandra first has a minute of the same
load on another table. At the end our compactions are stopped for a minute under the same load,
which shows what they cost the reads of a table of that size.

The script prints a table and the goals (exit status 1: one is missed), and writes
bench/results/long_test.json and .svg.

Settings by environment: ESPALIER_BINARY, CORE=1 (the server's), CLIENT_CORE=0, MEMTABLE_MIB=512
(less memory means more flushes, and more work for strategies).
"""
import argparse
import json
import multiprocessing
import os
import platform
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "interop"))

try:
    import numpy

    from cassandra_node import SCRIPTS
    from espalier_node import BINARY, Node, free_port
    from wire import Wire
except ImportError as error:
    sys.exit(f"{error}: run make deps, and this script with .deps/venv/bin/python")

import long_test_report  # noqa: E402
import pipelined_load  # noqa: E402

CORE, CLIENT_CORE = (
    os.environ.get(name, value) for name, value in (("CORE", "1"), ("CLIENT_CORE", "0"))
)
SCRATCH = ROOT / "bench" / "results" / "long_test"
PEER = ROOT / ".deps" / "cassandra" / "long_test"
VALUE_BYTES = 92
ROW_BYTES = pipelined_load.KEY_BYTES + VALUE_BYTES
MEMTABLE_MIB = int(os.environ.get("MEMTABLE_MIB", 512))
PROBES_PER_S = 100
QUIET_S, SETTLING_S = 60, 2  # at the end, without compactions; the first seconds do not count
KEYSPACE = (
    "CREATE KEYSPACE bench_long WITH replication = {'class': 'SimpleStrategy', "
    "'replication_factor': 1}"
)
INSERT, SELECT = (
    "INSERT INTO bench_long.t (k, v) VALUES (?, ?)",
    "SELECT v FROM bench_long.t WHERE k = ?",
)
UNIFIED = "{'class': 'UnifiedCompactionStrategy', 'scaling_parameters': '%s'}"
STRATEGIES = {
    "unified T4": UNIFIED % "T4",
    "unified L10": UNIFIED % "L10",
    "size-tiered": "{'class': 'SizeTieredCompactionStrategy'}",
    "levelled": "{'class': 'LeveledCompactionStrategy'}",
    "time-window": "{'class': 'TimeWindowCompactionStrategy'}",
}
# Our metrics that are sampled each second.
METRICS = {
    "compacting": "scylla_compaction_manager_compactions",
    "flushes": "espalier_flushes",
    "compactions": "scylla_compaction_manager_completed_compactions",
    "slowed": "espalier_writes_slowed",
    "memtable_bytes": "espalier_memtable_bytes",
    "data_read_bytes": "espalier_data_read_bytes",
    "log_pending_bytes": "espalier_commitlog_pending_bytes",
    "asleep_us": "espalier_reactor_asleep_us",
}


class Espalier(Node):
    """Our node, on one core."""

    def __init__(self, memtable="trie", compaction=None):
        self.table = (
            f"CREATE TABLE bench_long.t (k blob PRIMARY KEY, v blob) WITH memtable = '{memtable}'"
        )
        self.table += f" AND compaction = {compaction}" if compaction else ""
        shutil.rmtree(SCRATCH, ignore_errors=True)
        SCRATCH.mkdir(parents=True)
        super().__init__(
            SCRATCH / "node",
            memory="1536M",
            settings={
                "memtable_heap_space": f"{MEMTABLE_MIB // 2}MiB",
                "memtable_offheap_space": f"{MEMTABLE_MIB // 2}MiB",
                "commitlog_sync": "periodic",
            },
        )

    def command_line(self):
        return ["taskset", "-c", CORE, *super().command_line()]

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.close()
        shutil.rmtree(SCRATCH, ignore_errors=True)

    @property
    def pid(self):
        return self.process.pid

    @property
    def data(self):
        return self.directory / "data"

    def sample(self):
        """Returns the current values of METRICS."""
        metrics = self.metrics()
        return {key: int(metrics[name]) for key, name in METRICS.items()}

    def stop_compactions(self):
        """Disables compactions, and stops those that run."""
        self.request("DELETE", "/storage_service/auto_compaction/bench_long", cf="t")
        self.request("POST", "/compaction_manager/stop_compaction", type="COMPACTION")
        while self.sample()["compacting"]:
            time.sleep(0.1)


class Cassandra:
    """Cassandra, on the same core and in the same memory."""

    host = "127.0.0.1"
    warm_up_s = 60
    table = (
        "CREATE TABLE bench_long.t (k blob PRIMARY KEY, v blob) WITH memtable = 'trie' AND "
        f"compaction = {UNIFIED % 'T4'}"
    )

    def __init__(self):
        self.port = free_port()

    def script(self, name, **settings):
        surroundings = {**os.environ, **{key: str(value) for key, value in settings.items()}}
        done = subprocess.run(
            [SCRIPTS / name, PEER], capture_output=True, text=True, env=surroundings
        )
        if done.returncode:
            sys.exit(f"{name} of Cassandra failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")

    def __enter__(self):
        PEER.mkdir(parents=True, exist_ok=True)
        self.script("stop.sh")
        shutil.rmtree(PEER / "data", ignore_errors=True)
        extra = (
            f"memtable_heap_space: {MEMTABLE_MIB // 2}MiB\nmemtable_offheap_space: "
            f"{MEMTABLE_MIB // 2}MiB\nmemtable_allocation_type: offheap_objects\n"
            "compaction_throughput: 0MiB/s\n"
        )
        # Long timeouts, so that the latencies show how late a busy Cassandra answers.
        extra += "write_request_timeout: 60000ms\nread_request_timeout: 60000ms"
        self.script(
            "install.sh",
            PORT=self.port,
            STORAGE_PORT=free_port(),
            JMX=free_port(),
            HEAP="1G",
            DIRECT="768M",
            CORES=CORE,
            FORMAT="bti",
            EXTRA_YAML=extra,
            OFFLINE=1,
        )
        self.script("start.sh")
        self.wire = Wire(self, timeout_s=60)
        return self

    def __exit__(self, *_):
        self.script("stop.sh")
        shutil.rmtree(PEER / "data", ignore_errors=True)

    @property
    def pid(self):
        return int((PEER / "pid").read_text())

    @property
    def data(self):
        return PEER / "data" / "data"

    def sample(self):
        """Returns the number of compactions under way."""
        tasks = self.wire.query("SELECT kind FROM system_views.sstable_tasks").rows()
        return {"compacting": sum(kind.lower() == b"compaction" for kind, in tasks)}


def cores_sample():
    """Returns the seconds so far of the server's core and of the clients': at work, at rest, and
    stolen by the hypervisor."""
    lines = dict(
        line.split(" ", 1)
        for line in Path("/proc/stat").read_text().splitlines()
        if line.startswith("cpu")
    )
    ticks_per_s, seconds = os.sysconf("SC_CLK_TCK"), {}
    for name, core in (("server", CORE), ("client", CLIENT_CORE)):
        # The order of proc(5): user, nice, system, idle, iowait, irq, softirq, steal.
        ticks = [int(field) for field in lines[f"cpu{core}"].split()]
        at_rest, stolen = ticks[3] + ticks[4], ticks[7]
        seconds |= {
            f"{name}_core_rest_s": at_rest / ticks_per_s,
            f"{name}_core_stolen_s": stolen / ticks_per_s,
            f"{name}_core_work_s": (sum(ticks[:8]) - at_rest - stolen) / ticks_per_s,
        }
    return seconds


def machine_sample(server):
    """Returns the bytes of the server's table files, the number of Data.db files among them, the
    bytes that the server's process has written so far, and its memory without mapped files."""
    stored = files = 0
    for place, _, names in os.walk(server.data / "bench_long"):
        for name in names:
            try:
                stored += os.path.getsize(os.path.join(place, name))
                files += name.endswith("-Data.db")
            except FileNotFoundError:
                pass  # compacted away meanwhile
    of = {"io": "write_bytes", "status": "RssAnon"}
    values = {}
    for name, key in of.items():
        line = next(
            line
            for line in Path(f"/proc/{server.pid}/{name}").read_text().splitlines()
            if line.startswith(key + ":")
        )
        values[key] = int(line.split()[1])
    return {
        "stored_bytes": stored,
        "files": files,
        "written_bytes": values["write_bytes"],
        "resident_bytes": values["RssAnon"] * 1024,
    }


def probe(server, rows, known, is_over, results):
    """Reads single rows, each when it is due; sends the due times, the latencies in µs, and the
    wrong answers. One read is under way at a time, so a read behind a slow one is late as well."""
    reads, wrong, number = [], [], 0
    generator = numpy.random.default_rng(11)
    try:
        with Wire(server, timeout_s=600) as wire:
            select, begin = wire.prepare(SELECT), time.monotonic()
            while not is_over.value and len(wrong) < pipelined_load.MAX_WRONG:
                due = begin + number / PROBES_PER_S
                number += 1
                time.sleep(max(due - time.monotonic(), 0))
                wanted = int(pipelined_load.skewed(known.value, generator.random(1))[0])
                answer = wire.execute(select, (rows.key(wanted),))
                reads.append((round(due, 3), round((time.monotonic() - due) * 1e6)))
                if answer.code is not None or [list(row) for row in answer.rows()] != [
                    [rows.value(wanted)]
                ]:
                    wrong.append(f"a probe of row {wanted} gave {answer!r} {answer.message or ''}")
    except (OSError, AssertionError, ValueError) as error:
        wrong.append(f"the probes ended: {error!r}")
    results.send((reads, wrong))


def said(wire, statement):
    """Executes a statement that must succeed."""
    answer = wire.query(statement)
    assert answer.code is None, f"{statement}: {answer.message}"


def warm_up(server, wire, rows):
    """Applies the same load to another table, so that a server with a JIT compiler is warm; then
    truncates and drops that table."""
    print(f"warming up for {server.warm_up_s} s", flush=True)
    keyspace, table, insert, select = (
        text.replace("bench_long", "bench_warm")
        for text in (KEYSPACE, server.table, INSERT, SELECT)
    )
    said(wire, keyspace)
    said(wire, table)
    wire.execute(wire.prepare(insert), (rows.key(0), rows.value(0)))
    known = multiprocessing.get_context("fork").RawValue("q", 1)
    wrong = pipelined_load.write(
        server, rows, (insert, select), sys.maxsize, known, lambda *block: None, server.warm_up_s
    )
    assert not wrong, wrong
    said(wire, "TRUNCATE bench_warm.t")
    said(wire, "DROP KEYSPACE bench_warm")


def measure(name, server, count, most_seconds):
    """Runs one server from its start until all rows are written, or for `most_seconds`; returns all
    figures."""
    context, rows = multiprocessing.get_context("fork"), pipelined_load.Rows(VALUE_BYTES)
    with server:
        # A flush of a cold server can take minutes.
        with Wire(server, timeout_s=600) as wire:
            said(wire, KEYSPACE)
            if getattr(server, "warm_up_s", None):
                warm_up(server, wire, rows)
            said(wire, server.table)
            # The first row exists before the first block, so that there is a row to read.
            wire.execute(wire.prepare(INSERT), (rows.key(0), rows.value(0)))
        known, is_over = context.RawValue("q", 1), context.RawValue("b", 0)
        receiving, sending = context.Pipe(duplex=False)
        prober = context.Process(
            target=probe, args=(server, rows, known, is_over, sending), daemon=True
        )
        prober.start()
        # Without this copy of the sending end, `recv` fails if the prober dies.
        sending.close()
        blocks, samples, failures, began = [], [], [], time.monotonic()

        def watch():
            try:
                watch_all()
            except Exception as error:  # any error leaves the samples incomplete
                failures.append(
                    f"samples ended {time.monotonic() - began:.0f} s after the beginning: {error!r}"
                )

        def watch_all():
            while not is_over.value:
                samples.append(
                    {
                        "at": time.monotonic() - began,
                        "rows": known.value,
                        **machine_sample(server),
                        **cores_sample(),
                        **server.sample(),
                    }
                )
                left = max(count - known.value, 0)
                rate = known.value / max(time.monotonic() - began, 1)
                print(
                    f"\r{name}: {known.value:,} of {count:,} rows, {rate:,.0f} a second, "
                    f"{left / max(rate, 1) / 60:.0f} min left   ",
                    end="",
                    flush=True,
                )
                time.sleep(max(1 - (time.monotonic() - began) % 1, 0.01))

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            wrong = pipelined_load.write(
                server,
                rows,
                (INSERT, SELECT),
                count,
                known,
                lambda *block: blocks.append(block),
                most_seconds,
            )
            took, written, quiet = time.monotonic() - began, known.value, None
            if hasattr(server, "stop_compactions") and not wrong:
                server.stop_compactions()
                quiet = time.monotonic() + SETTLING_S - began
                wrong = pipelined_load.write(
                    server,
                    rows,
                    (INSERT, SELECT),
                    sys.maxsize,
                    known,
                    lambda *block: None,
                    QUIET_S + SETTLING_S,
                )
        finally:
            is_over.value = 1
            watcher.join()
        print()
        reads, wrong_probes = receiving.recv()
        prober.join()
    reads = [(round(due - began, 3), latency) for due, latency in reads]
    per_second = [0] * (int(took) + 1)
    for moment, operations in blocks:
        per_second[min(int(moment - began), len(per_second) - 1)] += operations
    return {
        "seconds": took,
        "rows": written,
        "is_done": written >= count,
        "row_bytes": ROW_BYTES,
        "per_second": per_second,
        "samples": [sample for sample in samples if sample["at"] < took],
        "reads": [read for read in reads if read[0] < took],
        "quiet_reads": [read for read in reads if quiet and read[0] >= quiet],
        "wrong": wrong + wrong_probes + failures,
    }


def main():
    servers = {
        "trie": lambda: Espalier("trie"),
        "skiplist": lambda: Espalier("skiplist"),
        "cassandra": Cassandra,
    }
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--gigabytes",
        type=float,
        default=20,
        help="GB of keys and values to write, before compression (20)",
    )
    parser.add_argument(
        "--servers", default=",".join(servers), help="servers to measure, in this order"
    )
    parser.add_argument(
        "--most-minutes",
        type=float,
        help="stop each server after this time, however much it has written",
    )
    parser.add_argument(
        "--strategies",
        action="store_true",
        help="measure ours with each compaction strategy instead",
    )
    options = parser.parse_args()
    if options.strategies:
        chosen = {
            name: (lambda compaction=compaction: Espalier("trie", compaction))
            for name, compaction in STRATEGIES.items()
        }
    else:
        names = options.servers.split(",")
        if unknown := set(names) - set(servers):
            sys.exit(f"there is no server {', '.join(unknown)}: --servers trie,skiplist,cassandra")
        chosen = {name: servers[name] for name in names}
    if set(chosen) != {"cassandra"} and not os.access(BINARY, os.X_OK):
        sys.exit(
            f"there is no {BINARY}: run cargo build --release first, or name it with "
            "ESPALIER_BINARY"
        )
    if "cassandra" in chosen and not list(PEER.parent.glob("jars-*/.complete")):
        sys.exit(
            f"there is no Cassandra in {PEER.parent}: run make deps first, or leave it out with "
            "--servers trie,skiplist"
        )
    os.sched_setaffinity(0, {int(CLIENT_CORE)})
    count = int(options.gigabytes * 1e9 / ROW_BYTES)
    most_seconds = options.most_minutes and options.most_minutes * 60
    document = {
        "machine": platform.platform(),
        "gigabytes": options.gigabytes,
        "most_minutes": options.most_minutes,
        "memtable_mib": MEMTABLE_MIB,
        "servers": {},
    }
    results = ROOT / "bench" / "results"
    for name, make in chosen.items():
        document["servers"][name] = measure(name, make(), count, most_seconds)
        # The document is written after each server, so that a later failure does not lose it.
        (results / "long_test.json").write_text(json.dumps(document))
        (results / "long_test.svg").write_text(long_test_report.draw(document))
    sys.exit(0 if long_test_report.tell(document) else 1)


if __name__ == "__main__":
    main()
