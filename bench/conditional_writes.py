#!/usr/bin/env python3
"""Measures conditional updates: their rate beside Cassandra's, contention, and reads of the disk.

    make deps && cargo build --release
    .deps/venv/bin/python bench/conditional_writes.py [--parts rate,contended,disk] [--seconds 10]

A run takes a quarter of an hour, and the machine must be idle otherwise. Espalier and Cassandra run
on one core, the clients on the other. Both servers get the same requests in alternating rounds.

rate       `UPDATE t SET v = ? WHERE k = ? IF v = ?` of rows in a memtable, and the same without
           IF, of a table of its own. Each connection has rows of its own, and a block of requests
           under way. The goal: 20 times as many applied updates as Cassandra.
contended  64 clients (a connection and one request each) update 8 rows. A client that was not first
           tries again from the value that the answer shows.
disk       only our node, with a table larger than its memory, flushed, without row cache. Plain
           updates are due at a fixed rate: first alone, then beside conditional updates of rows in
           a memtable, then beside conditional updates of rows on the disk, at a fixed rate too.
           Latencies count from when an update was due. The goal: beside updates of rows on the
           disk, the p99 of the plain updates is at most 1.2 times their p99 alone.

Each answer is checked, and all rows are read and compared in the end. The script prints rates by
the clock and for each second of the server's core, and how busy both cores were. Where the server's
core is not busy, the client is the limit. Exit status 1: a goal is missed or an answer was wrong.

Settings by environment: ESPALIER_BINARY, CORE=1 (the servers'), CLIENT_CORE=0, SYNC=periodic or
group (`commitlog_sync` of both), HEAP=2G and PAXOS=v2 (Cassandra's; v1 is its default), and
MACHINE, the machine's name in the rows that the script prints for docs/benchmarks.md.
"""
import argparse
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "interop"))

try:
    import numpy

    from cassandra_node import CassandraNode
    from espalier_node import BINARY, free_port
    from wire import Wire
except ImportError as error:
    sys.exit(f"{error}: run make deps, and this script with .deps/venv/bin/python")

import conditional_load  # noqa: E402
import conditional_report  # noqa: E402
from conditional_load import Table  # noqa: E402
from conditional_report import COLD, MODES, RESIDENT  # noqa: E402
from network_reads import CLIENT_CORE, CORE, Pinned, prepare  # noqa: E402

HEAP, PAXOS, SYNC = (
    os.environ.get(name, value)
    for name, value in (("HEAP", "2G"), ("PAXOS", "v2"), ("SYNC", "periodic"))
)
SCRATCH = ROOT / "bench" / "results" / "conditional_writes"
PEER = ROOT / ".deps" / "cassandra" / "conditional_writes"
MAX_OTHERS = 0.05  # of the servers' core, for other processes; more is reported
KEYSPACE = "bench_cas"
# No update of Cassandra may end with an unknown outcome because the machine is slow.
TIMEOUTS = "\n".join(
    f"{kind}_timeout: 60s"
    for kind in (
        "cas_contention", "write_request", "read_request", "range_request", "native_transport"
    )
)


class Espalier(Pinned):
    """Our node, on one core."""

    name = "Espalier"

    def __init__(self, memory, settings=()):
        super().__init__(SCRATCH / "node", memory=memory,
                         settings={"commitlog_sync": SYNC, **dict(settings)})

    def stop_and_wipe(self):
        self.close()


class Cassandra(CassandraNode):
    """Cassandra, on the same core."""

    name = "Cassandra"

    def start(self):
        """Wipes the node's data and starts it."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._run("stop.sh")
        shutil.rmtree(self.directory / "data", ignore_errors=True)
        self._run(
            "install.sh",
            PORT=self.port,
            STORAGE_PORT=free_port(),
            JMX=self.jmx_port,
            HEAP=HEAP,
            DIRECT="1G",
            CORES=CORE,
            FORMAT="bti",
            EXTRA_YAML=f"paxos_variant: {PAXOS}\n{TIMEOUTS}",
            OFFLINE=1,
        )
        if SYNC == "group":
            # As in compare_cassandra.sh: the default window would delay a write by up to a second.
            path = self.directory / "conf" / "cassandra.yaml"
            path.write_text(re.sub(
                "commitlog_sync: .*\ncommitlog_sync_period: .*",
                "commitlog_sync: group\ncommitlog_sync_group_window: 10ms\nconcurrent_writes: 512",
                path.read_text()))
        self._run("start.sh")
        return self

    def core_seconds(self):
        """Returns the seconds that the process was on a core."""
        process = (self.directory / "pid").read_text().strip()
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop_and_wipe(self):
        self.stop()


def create(server, *tables, suffix=""):
    """Creates the keyspace and tables."""
    with Wire(server, timeout_s=300) as wire:
        for statement in (
            f"CREATE KEYSPACE {KEYSPACE} WITH replication = "
            "{'class': 'SimpleStrategy', 'replication_factor': 1}",
            *(table.schema + suffix for table in tables),
        ):
            answer = wire.query(statement)
            assert answer.code is None, f"{statement}: {answer.message}"


def processes_seconds():
    """Returns the seconds that processes were on the servers' core."""
    lines = Path("/proc/stat").read_text().splitlines()
    fields = next(line.split() for line in lines if line.startswith(f"cpu{CORE} "))
    return sum(int(ticks) for ticks in fields[1:4]) / os.sysconf("SC_CLK_TCK")


class Share:
    """The load of the cores during some work: seconds of the server, of this process and its
    children, and of other processes on the server's core."""

    def __init__(self, server, work):
        before, clock = self._read(server), time.monotonic()
        self.result = work()
        self.seconds = time.monotonic() - clock
        self.server, self.client, self.others = (
            late - early for early, late in zip(before, self._read(server))
        )

    @staticmethod
    def _read(server):
        core, own = server.core_seconds(), os.times()
        return core, sum(own[:4]), processes_seconds() - core

    def __str__(self):
        return (f"core {self.server / self.seconds:4.0%} busy, the client's "
                f"{self.client / self.seconds:4.0%}"
                + (f", OTHER WORK {self.others / self.seconds:.0%}"
                   if self.others > MAX_OTHERS * self.seconds else ""))


class Comparison:
    """Both servers with their tables, and what was measured."""

    def __init__(self, options, servers):
        self.options, self.servers, self.wrong, self.measured = options, servers, [], {}
        self.tables, self.uncertain = {}, {}

    def prepare(self):
        """Creates and fills the tables, and warms the servers up."""
        for server in self.servers:
            tables = self.tables[server.name] = {
                name: Table(f"{KEYSPACE}.{name}", rows)
                for name, rows in (("plain", self.options.rows),
                                   ("conditional", self.options.rows),
                                   ("contended", self.options.keys))
            }
            create(server, *tables.values())
            for table in tables.values():
                self.wrong += conditional_load.fill(server, table)
            if server.name == "Cassandra":
                print(f"warm-up of Cassandra, {self.options.warm_up:g} s", flush=True)
                for kind in ("plain", "conditional"):
                    self.wrong += self.update(server, kind, self.options.warm_up / 2)[2]

    def update(self, server, kind, seconds):
        table = self.tables[server.name][kind]
        return conditional_load.update(
            server, table, getattr(table, kind), seconds, self.options.connections,
            self.options.in_flight[server.name],
        )

    def rate(self, number):
        """Runs a round of plain and conditional updates of disjoint rows."""
        for kind in ("plain", "conditional"):
            for server in self.servers:
                share = Share(server, lambda: self.update(server, kind, self.options.seconds))
                right, seconds, wrong = share.result
                self.wrong += wrong
                self._add(number, server, f"{kind} updates", right, seconds, share)

    def contended(self, number):
        """Runs a round of clients that contend for few rows."""
        for server in self.servers:
            table = self.tables[server.name]["contended"]
            share = Share(server, lambda: conditional_load.contend(
                server, table, self.options.clients, self.options.keys, self.options.seconds))
            applied, answers, seconds, uncertain, wrong = share.result
            self.wrong += wrong
            known = self.uncertain.setdefault(server.name, {})
            for row, count in uncertain.items():
                known[row] = known.get(row, 0) + count
            self._add(number, server, "contended, applied", applied, seconds, share)
            self._add(number, server, "contended, answers", answers, seconds, share)

    def _add(self, number, server, kind, right, seconds, share):
        clock, core = right / seconds, right / max(share.server, 0.01)
        self.measured.setdefault(kind, {}).setdefault(server.name, []).append((clock, core))
        print(f"round {number}, {server.name:9} {kind:20} {clock:11,.0f} /s, {core:11,.0f} a "
              f"second of the core; {share}", flush=True)

    def verify(self):
        """Reads and compares all rows of all tables."""
        for server in self.servers:
            for name, table in self.tables[server.name].items():
                uncertain = self.uncertain.get(server.name) if name == "contended" else None
                self.wrong += table.different_rows(server, uncertain)
                if uncertain:
                    print(f"{server.name}: {sum(uncertain.values())} contended updates ended with "
                          "an unknown outcome")


def compare(options, parts):
    """Measures both servers. Returns True if the goal is met (None if it was not measured), rows of
    the table of results, and the faults."""
    servers, started = [], []
    if "espalier" in options.servers:
        servers.append(Espalier("4G"))
    if "cassandra" in options.servers:
        servers.append(Cassandra(PEER))
    comparison = Comparison(options, servers)
    try:
        for server in servers:
            started.append(server)
            server.start()
        comparison.prepare()
        for number in range(1, options.rounds + 1):
            for part in parts:
                getattr(comparison, part)(number)
        comparison.verify()
    finally:
        for server in started:
            server.stop_and_wipe()
    return *conditional_report.rates(comparison.measured), comparison.wrong


class DiskReads:
    """Our node with a table larger than its memory."""

    def __init__(self, options):
        self.options, self.wrong = options, []
        self.node = Espalier(f"{options.memory_mib}M",
                             {"file_cache_size": f"{options.cache_mib}MiB"})
        self.table = Table(f"{KEYSPACE}.cold", options.disk_rows, pad_bytes=1024)
        self.resident = Table(f"{KEYSPACE}.resident", 10_000)
        # Plain updates are of the last thousand rows, conditional ones of the others, shuffled.
        numbers = numpy.arange(1, options.disk_rows - 1000)
        self.cold = numpy.random.default_rng(3).permutation(numbers)
        self.plain = numpy.arange(options.disk_rows - 1000, options.disk_rows)
        self.latencies = {mode: {"plain": [], "conditional": []} for mode in MODES}
        self.following = {"plain": 0, "resident": 0, "cold": 0}
        self.context = multiprocessing.get_context("fork")

    def prepare(self):
        """Fills and flushes the table, and waits until no compaction is under way."""
        create(self.node, self.table, suffix=" WITH caching = {'keys': 'ALL', "
               "'rows_per_partition': 'NONE'} AND compression = {'enabled': 'false'}")
        with Wire(self.node) as wire:
            assert wire.query(self.resident.schema).code is None
        for table in (self.table, self.resident):
            self.wrong += conditional_load.fill(self.node, table)
        self.node.flush(KEYSPACE, "cold")
        quiet = 0
        while quiet < 10:
            time.sleep(0.1)
            metrics = self.node.metrics()
            busy = (metrics["scylla_compaction_manager_compactions"]
                    + metrics["scylla_compaction_manager_pending_compactions"])
            quiet = 0 if busy else quiet + 1
        size = sum(file.stat().st_size for file in self.node.table_files(KEYSPACE, "cold"))
        files = len(self.node.table_files(KEYSPACE, "cold"))
        print(f"{len(self.table.versions):,} rows, {size >> 20} MiB in {files} files, memory "
              f"{self.options.memory_mib} MiB, page cache {self.options.cache_mib} MiB", flush=True)

    def take(self, name, numbers, count):
        """Returns the next `count` rows of a load; after the last row follows the first."""
        at = self.following[name]
        self.following[name] = at + count
        return numbers[(at + numpy.arange(count)) % len(numbers)]

    def start(self, table, statement, numbers, rate, begin, first):
        """Starts a client in a process of its own; returns the process, and a pipe that receives
        its latencies and faults."""
        receiving, sending = self.context.Pipe(duplex=False)

        def work():
            if first and not conditional_load.prefer_me():
                print("(only root may give the plain updates priority over the other client)")
            try:
                sending.send(conditional_load.paced(
                    self.node, table, statement, numbers, begin, rate))
            except Exception as error:  # pylint: disable=broad-except
                sending.send((numpy.zeros(1), [f"a client ended: {error!r}"]))

        process = self.context.Process(target=work, daemon=True)
        process.start()
        sending.close()
        return process, receiving

    def measure(self, number, mode):
        """Runs the plain updates for a while, alone or beside conditional ones."""
        options, begin = self.options, time.monotonic() + 1
        counts = [int(rate * options.seconds) for rate in (options.plain_rate, options.cold_rate)]
        loads = {"plain": (self.table, self.table.plain,
                           self.take("plain", self.plain, counts[0]), options.plain_rate)}
        if mode == RESIDENT:
            numbers = numpy.arange(1, len(self.resident.versions))
            loads["conditional"] = (self.resident, self.resident.conditional,
                                    self.take("resident", numbers, counts[1]), options.cold_rate)
        if mode == COLD:
            loads["conditional"] = (self.table, self.table.conditional,
                                    self.take("cold", self.cold, counts[1]), options.cold_rate)
        before, line = self.node.metrics(), f"round {number}, {mode:24}"
        share = Share(self.node, lambda: self.run(loads, begin))
        after = self.node.metrics()
        for kind, (latencies, wrong) in share.result.items():
            self.wrong += wrong
            p50, p99 = numpy.percentile(latencies, (50, 99))
            self.latencies[mode][kind].append((p50, p99))
            line += f"{kind} p50 {p50:6.0f}, p99 {p99:6.0f}, most {latencies.max():7.0f} µs; "
        if len(loads) == 2:
            pages, size = (
                (after[name] - before[name]) / counts[1]
                for name in ("espalier_page_cache_misses", "espalier_data_read_bytes")
            )
            line += f"read for each: {pages:.2f} pages, {size:,.0f} bytes of data; "
            if mode == COLD and pages < 0.9:
                self.wrong.append("the rows of the conditional updates were not on the disk")
        print(line + str(share), flush=True)

    def run(self, loads, begin):
        """Runs a process for each load; returns their latencies and faults."""
        clients = {kind: self.start(*load, begin, kind == "plain") for kind, load in loads.items()}
        results = {}
        for kind, (process, pipe) in clients.items():
            try:
                results[kind] = pipe.recv()
            except EOFError:
                results[kind] = numpy.zeros(1), [f"the client of {kind} updates died"]
            process.join()
        return results


def disk(options):
    """Measures plain updates beside conditional updates of rows on the disk. Returns True if the
    goal is met, rows of the table of results, and the faults."""
    reads = DiskReads(options)
    needed = options.rounds * options.seconds * options.cold_rate
    if needed > len(reads.cold):
        sys.exit(f"{needed:,.0f} conditional updates need as many rows: --disk-rows is too small")
    reads.node.start()
    try:
        reads.prepare()
        for number in range(1, options.rounds + 1):
            for mode in MODES:
                reads.measure(number, mode)
        for table in (reads.table, reads.resident):
            reads.wrong += table.different_rows(reads.node)
    finally:
        reads.node.close()
    return *conditional_report.latencies(reads.latencies), reads.wrong


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", default="rate,contended,disk", help="parts to measure (all)")
    parser.add_argument("--servers", default="espalier,cassandra", help="of rate and contended")
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement (10)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm-up", type=float, default=60, help="seconds, of Cassandra (60)")
    parser.add_argument("--rows", type=int, default=100_000, help="of each table in memory")
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--in-flight", default="1000,128", type=lambda text: dict(
        zip(("Espalier", "Cassandra"), map(int, text.split(",")), strict=True)),
        help="requests of a connection, of each server (1000,128)")
    parser.add_argument("--clients", type=int, default=64, help="that contend (64)")
    parser.add_argument("--keys", type=int, default=8, help="for which they contend (8)")
    parser.add_argument("--plain-rate", type=int, default=2000, help="plain updates a second")
    parser.add_argument("--cold-rate", type=int, default=2000, help="conditional updates a second")
    parser.add_argument("--disk-rows", type=int, default=500_000, help="rows of 1 KiB on the disk")
    parser.add_argument("--memory-mib", type=int, default=256, help="of the node of `disk`")
    parser.add_argument("--cache-mib", type=int, default=8, help="page cache of that node")
    options = parser.parse_args()
    options.parts, options.servers = options.parts.split(","), options.servers.split(",")
    if unknown := set(options.parts) - {"rate", "contended", "disk"}:
        parser.error(f"there is no part {', '.join(unknown)}")
    if unknown := set(options.servers) - {"espalier", "cassandra"}:
        parser.error(f"there is no server {', '.join(unknown)}")
    return options


def main():
    options = arguments()
    prepare(SCRATCH)
    version = subprocess.run([BINARY, "--version"], capture_output=True, text=True, check=True)
    print(f"{version.stdout.strip()}; Cassandra 5.0.9, Paxos {PAXOS}; commit log {SYNC}; "
          f"servers on core {CORE}, clients on core {CLIENT_CORE}", flush=True)
    outcomes = []
    parts = [part for part in ("rate", "contended") if part in options.parts]
    if parts:
        outcomes.append(compare(options, parts))
    if "disk" in options.parts:
        shutil.rmtree(SCRATCH / "node", ignore_errors=True)
        outcomes.append(disk(options))
    shutil.rmtree(SCRATCH, ignore_errors=True)
    conditional_report.print_rows([row for _, rows, _ in outcomes for row in rows])
    wrong = [text for _, _, texts in outcomes for text in texts]
    print("\n".join(wrong))
    sys.exit(0 if all(met is not False for met, _, _ in outcomes) and not wrong else 1)


if __name__ == "__main__":
    main()
