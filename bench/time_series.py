#!/usr/bin/env python3
"""Measures a time series that exceeds memory: reads of the head while rows are prepended.

    make deps && cargo build --release
    .deps/venv/bin/python bench/time_series.py [--seconds 300] [--servers espalier,cassandra]

A run takes 23 minutes, and the machine must be idle otherwise.

This is the experiment of ScyllaDB's article on its cache: ten writers prepend rows to ten
partitions, and a reader asks ten times a second for the head of one of them, in turn. Espalier and
Cassandra each run alone on one core, with the clients on another. A warm-up writes and reads rows
and ends with a flush. Then come reads alone: "touch" for 2 s, then "idle". The last phase, "load",
writes and reads. Memtables are flushed every few seconds, and the row cache has room for a few
seconds of rows. Halfway through the load the row cache is emptied. Each head is compared with the
rows that the server has acknowledged.

The script prints a table and the goals (exit status 1: one is missed), and writes
bench/results/time_series.json and .svg.

Settings by environment: ESPALIER_BINARY, CORE=1 (the server's), CLIENT_CORE=0, HEAP=1G
(Cassandra's).
"""
import argparse
import gc
import multiprocessing
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
import threading
import time
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "interop"))

try:
    from cassandra_node import SCRIPTS
    from espalier_node import BINARY, Node, free_port
    from wire import VOID, Wire
except ImportError as error:
    sys.exit(f"{error}: run make deps, and this script with .deps/venv/bin/python")

import time_series_report  # noqa: E402

CORE, CLIENT_CORE, HEAP = (
    os.environ.get(name, value)
    for name, value in (("CORE", "1"), ("CLIENT_CORE", "0"), ("HEAP", "1G"))
)
SCRATCH = ROOT / "bench" / "results" / "time_series"
PEER = ROOT / ".deps" / "cassandra" / "time_series"
WRITERS, HEAD, VALUE_BYTES = 10, 100, 1024
# Both servers have these limits, except that FILE_CACHE_MIB is ours alone. A memtable is flushed at
# about half of its limit. Rows may use three quarters of FILE_CACHE_MIB.
MEMTABLE_MIB, FILE_CACHE_MIB, ROW_CACHE_MIB, CLEANUP = 16, 32, 24, 0.5
SCHEMA = (
    "CREATE KEYSPACE bench_series WITH replication = {'class': 'SimpleStrategy', "
    "'replication_factor': 1}",
    "CREATE TABLE bench_series.ts (p int, t bigint, v blob, PRIMARY KEY (p, t)) WITH CLUSTERING "
    "ORDER BY (t DESC)"
    f" AND caching = {{'keys': 'ALL', 'rows_per_partition': '{HEAD}'}} AND compaction = {{'class': "
    f"'SizeTieredCompactionStrategy'}}",
)
INSERT = "INSERT INTO bench_series.ts (p, t, v) VALUES (?, ?, ?)"
SELECT = f"SELECT t, v FROM bench_series.ts WHERE p = ? LIMIT {HEAD}"
FLUSHED = re.compile(
    r"(\d{4}-\d\d-\d\d.\d\d:\d\d:\d\d,\d{3}) .*Completed flushing .*/bench_series/"
)


class Espalier(Node):
    """Our node, on one core."""

    name = "Espalier"

    def __init__(self):
        shutil.rmtree(SCRATCH, ignore_errors=True)
        SCRATCH.mkdir(parents=True)
        super().__init__(
            SCRATCH / "node",
            memory="128M",
            settings={
                "memtable_heap_space": f"{MEMTABLE_MIB // 2}MiB",
                "memtable_offheap_space": f"{MEMTABLE_MIB // 2}MiB",
                "memtable_cleanup_threshold": CLEANUP,
                "file_cache_size": f"{FILE_CACHE_MIB}MiB",
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

    def settle(self):
        """Flushes the table, and waits until no compaction is under way."""
        self.flush("bench_series", "ts")
        while self.metrics()["scylla_compaction_manager_compactions"]:
            time.sleep(0.1)

    def invalidate(self):
        self.request("POST", "/lsa/compact")

    def sample(self):
        """Returns the current values of its metrics."""
        metrics = self.metrics()
        return {
            name: int(metrics[key])
            for name, key in (
                ("misses", "scylla_cache_reads_with_misses"),
                ("reads", "scylla_cache_reads"),
                ("cached_rows", "scylla_cache_rows"),
                ("rows_evicted", "scylla_cache_row_evictions"),
                ("partitions_evicted", "scylla_cache_partition_evictions"),
                ("refused", "espalier_cache_refusals"),
                ("flushes", "espalier_flushes"),
                ("compactions", "scylla_compaction_manager_completed_compactions"),
            )
        }

    def flush_times(self, samples, _):
        """Returns the seconds, to one second, at which the number of flushes had grown."""
        return [
            late["at"]
            for early, late in zip(samples, samples[1:])
            if late["flushes"] > early["flushes"]
        ]


class Cassandra:
    """Cassandra, on the same core."""

    name, host = "Cassandra", "127.0.0.1"

    def __init__(self):
        self.port, self.jmx_port = free_port(), free_port()

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
            f"memtable_heap_space: {MEMTABLE_MIB}MiB\nmemtable_offheap_space: {MEMTABLE_MIB}MiB\n"
            f"memtable_cleanup_threshold: {CLEANUP}\nrow_cache_size: "
            f"{ROW_CACHE_MIB}MiB\nrow_cache_save_period: 0s"
        )
        self.script(
            "install.sh",
            PORT=self.port,
            STORAGE_PORT=free_port(),
            JMX=self.jmx_port,
            HEAP=HEAP,
            DIRECT="512M",
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

    def control(self, *command):
        """Runs nodetool on the clients' core with low priority, because its JVM takes seconds to
        start."""
        surroundings = {
            **os.environ,
            "CONF": "tools.yaml",
            "HEAP": "256M",
            "XMS": "64M",
            "CORES": CLIENT_CORE,
            "GC": "-XX:+UseSerialGC",
            "LOGLEVEL": "OFF",
        }
        tool = [
            "nice",
            "-n",
            "19",
            PEER / "run.sh",
            "org.apache.cassandra.tools.NodeTool",
            "-p",
            str(self.jmx_port),
        ]
        subprocess.run([*tool, *command], check=True, capture_output=True, env=surroundings)

    def settle(self):
        self.control("flush", "bench_series")
        while self.wire.query("SELECT task_id FROM system_views.sstable_tasks").rows():
            time.sleep(0.1)

    def invalidate(self):
        self.control("invalidaterowcache")

    def sample(self):
        """Returns the current values of Cassandra's view of the row cache, which does not count
        evictions, and the number of flushes."""
        entries, hits, requests = (
            struct.unpack(">q", data.rjust(8, b"\0"))[0]
            for data in self.wire.query(
                "SELECT entry_count, hit_count, request_count FROM system_views.caches WHERE name "
                "= 'rows'"
            ).rows()[0]
        )
        return {
            "misses": requests - hits,
            "reads": requests,
            "cached_partitions": entries,
            "flushes": len(self.flushes()),
        }

    def flushes(self):
        """Returns the times of finished flushes from its log, in seconds since 1970."""
        lines = (PEER / "log" / "node.log").read_text(errors="replace").splitlines()
        found = filter(None, (FLUSHED.search(line) for line in lines))
        return [
            datetime.strptime(match[1].replace("T", " "), "%Y-%m-%d %H:%M:%S,%f").timestamp()
            for match in found
        ]

    def flush_times(self, _, started):
        """Returns flush times from its log, in seconds since `started` of the monotonic clock."""
        offset = time.time() - time.monotonic() + started
        return [at - offset for at in self.flushes()]


def wait_for(moment, spin_s=0.0):
    """Waits until this moment of the monotonic clock; polls the clock for the last `spin_s`."""
    left = moment - time.monotonic()
    if left > spin_s:
        time.sleep(left - spin_s)
    while time.monotonic() < moment:
        pass


class Clients:
    """Processes of the writers and the reader, and their shared memory."""

    def __init__(self, server):
        self.server, self.context = server, multiprocessing.get_context("fork")
        # The newest row of each partition that was sent, and that was acknowledged. One thread
        # writes each.
        self.sent = self.context.RawArray("q", [-1] * WRITERS)
        self.acknowledged = self.context.RawArray("q", [-1] * WRITERS)

    def write(self, begin, seconds, rate):
        """Starts the writers: each has a row due `rate` times a second, one under way at a time."""
        return self._start(self._write_all, begin, seconds, rate)

    def read(self, begin, seconds, rate):
        """Starts the reader, which has a head due `rate` times a second."""
        return self._start(self._read_all, begin, seconds, rate)

    def _start(self, work, *arguments):
        receiving, sending = self.context.Pipe(duplex=False)
        process = self.context.Process(target=lambda: sending.send(work(*arguments)), daemon=True)
        process.start()
        sending.close()
        return receiving

    def _write_all(self, begin, seconds, rate):
        """Writes rows; returns the errors, as a list of texts."""
        pool, trouble = os.urandom(1 << 20), []

        def work(partition):
            try:
                with Wire(self.server, timeout_s=60) as wire:
                    insert = wire.prepare(INSERT)
                    for number in range(int(seconds * rate)):
                        wait_for(begin + (number + partition / WRITERS) / rate)
                        at = self.acknowledged[partition] + 1
                        offset = at * 1009 % (len(pool) - VALUE_BYTES)
                        mark = struct.pack(">iq", partition, at)
                        self.sent[partition] = at
                        answer = wire.execute(
                            insert,
                            (
                                mark[:4],
                                mark[4:],
                                mark + pool[offset : offset + VALUE_BYTES - len(mark)],
                            ),
                        )
                        assert answer.kind == VOID
                        self.acknowledged[partition] = at
                        if time.monotonic() > begin + seconds:
                            break
            except Exception as error:  # pylint: disable=broad-except
                trouble.append(f"writer {partition}: {error!r}")

        threads = [threading.Thread(target=work, args=(partition,)) for partition in range(WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return trouble

    def _read_all(self, begin, seconds, rate):
        """Reads heads; returns for each read its due time, µs since then and µs since it was sent,
        and the errors."""
        prefer_me()
        gc.disable()
        reads, wrong = [], []
        try:
            with Wire(self.server, timeout_s=60) as wire:
                select = wire.prepare(SELECT)
                for number in range(int(seconds * rate)):
                    due, partition = begin + number / rate, number % WRITERS
                    wait_for(due, spin_s=0.001)
                    at_least, sent = self.acknowledged[partition], time.monotonic()
                    answer = wire.execute(select, (struct.pack(">i", partition),))
                    done = time.monotonic()
                    reads.append((due, round((done - due) * 1e6), round((done - sent) * 1e6)))
                    fault = misread(answer.rows(), partition, at_least, self.sent[partition])
                    if fault:
                        wrong.append(f"read {number} of partition {partition}: {fault}")
        except Exception as error:  # pylint: disable=broad-except
            wrong.append(f"the reader ended: {error!r}")
        return reads, wrong


def prefer_me():
    """Raises the reader's priority on the clients' core as far as the system allows, so that the
    writers do not delay it."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        print("(the reader has no priority over the writers on its core: only root may raise it)")


def misread(rows, partition, at_least, at_most):
    """Returns the fault of these rows as a partition's head; None if there is none."""
    numbers = [struct.unpack(">q", at)[0] for at, _ in rows]
    newest = numbers[0] if numbers else -1
    if not at_least <= newest <= at_most:
        return f"the newest row is {newest}, acknowledged were {at_least} before, sent {at_most}"
    if numbers != list(range(newest, max(newest - HEAD, -1), -1)):
        return f"rows with gaps or out of order: {numbers}"
    if any(
        len(value) != VALUE_BYTES or value[:12] != struct.pack(">i", partition) + at
        for at, value in rows
    ):
        return "values of other rows"
    return None


def measure(server, options):
    """Runs one server from its start to its end; returns all figures."""
    with server:
        with Wire(server, timeout_s=60) as wire:
            for statement in SCHEMA:
                answer = wire.query(statement)
                assert answer.code is None, f"{statement}: {answer.message}"
        clients = Clients(server)
        started = time.monotonic()
        wrong, samples, phases = [], [], {}

        def phase(name, seconds, reads_per_s, rows_per_s, at_half=None):
            print(f"{server.name}: {name}, {seconds:g} s", flush=True)
            written, begin = sum(clients.acknowledged), time.monotonic() + 0.5
            reading = clients.read(begin, seconds, reads_per_s)
            writing = clients.write(begin, seconds, rows_per_s) if rows_per_s else None
            before, halves = server.sample(), None
            for second in range(1, int(seconds) + 1):
                wait_for(begin + second - 0.95)
                samples.append({"at": time.monotonic() - started, **server.sample()})
                if at_half and second == seconds // 2:
                    # Reads are due at tenths of seconds; `at_half` begins between two of them.
                    halves = {"before": server.sample(), "from": time.monotonic() - started}
                    at_half()
                    halves["to"] = time.monotonic() - started
            reads, read_wrongly = reading.recv()
            wrong.extend(read_wrongly + (writing.recv() if writing else []))
            phases[name] = {
                "from": begin - started,
                "to": begin - started + seconds,
                "before": before,
                "after": server.sample(),
                "rows": sum(clients.acknowledged) - written,
                "invalidated": halves,
                "reads": [
                    (round(due - started, 3), latency, service) for due, latency, service in reads
                ],
            }

        phase("warm-up", options.warm_up, 100, options.rate)
        server.settle()
        phase("touch", 2, 10, 0)
        phase("idle", options.seconds, options.reads, 0)
        phase("load", options.seconds, options.reads, options.rate, server.invalidate)
        flushes = server.flush_times(samples, started)
    return {
        "phases": phases,
        "samples": samples,
        "flushes": [round(at, 2) for at in flushes],
        "wrong": wrong,
    }


def main():
    servers = {"espalier": Espalier, "cassandra": Cassandra}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--seconds",
        type=int,
        default=300,
        help="seconds of the idle phase and of the load (300): 3000 reads each, enough for p99.9",
    )
    parser.add_argument(
        "--warm-up", type=int, default=60, help="seconds of the warm-up (60): a JIT needs a minute"
    )
    parser.add_argument(
        "--rate", type=int, default=300, help="rows of 1 KiB a second of each writer (300)"
    )
    parser.add_argument("--reads", type=int, default=10, help="reads a second (10)")
    parser.add_argument(
        "--servers", default=",".join(servers), help="servers to measure, in this order"
    )
    options = parser.parse_args()
    chosen = options.servers.split(",")
    if unknown := set(chosen) - set(servers):
        sys.exit(f"there is no server {', '.join(unknown)}: --servers espalier,cassandra")
    if "espalier" in chosen and not os.access(BINARY, os.X_OK):
        sys.exit(
            f"there is no {BINARY}: run cargo build --release first, or name it with "
            "ESPALIER_BINARY"
        )
    if "cassandra" in chosen and not list(PEER.parent.glob("jars-*/.complete")):
        sys.exit(
            f"there is no Cassandra in {PEER.parent}: run make deps first, or leave it out with "
            "--servers espalier"
        )
    os.sched_setaffinity(0, {int(CLIENT_CORE)})
    measured = {}
    for name in chosen:
        measured[name] = measure(servers[name](), options)
    machine = {
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "time": datetime.now().isoformat(timespec="seconds"),
    }
    results = ROOT / "bench" / "results"
    results.mkdir(parents=True, exist_ok=True)
    return time_series_report.report(
        results, {"machine": machine, "arguments": vars(options), "servers": measured}
    )


if __name__ == "__main__":
    sys.exit(main())
