#!/usr/bin/env python3
"""Measures statements that read a whole table, over the network, beside Cassandra.

    make deps && cargo build --release
    .deps/venv/bin/python bench/scans.py [--rows 1000000] [--rounds 3] [--cassandra]

The machine must be idle otherwise. The server runs on one core, the client on the other. With
--cassandra, Cassandra 5.0.9 gets the same requests afterwards. `espalier bench scan` measures the
same statements without the network.

count    `SELECT count(*)` of all rows in one request
filter   `SELECT * … WHERE v = ? ALLOW FILTERING`, which keeps one row in a thousand
pages    `SELECT *` in pages of 5,000 rows, the default of drivers

The rows have four columns, a hundred rows in each partition. Each statement reads them from the
memtable, then from one file after a flush and a compaction: once, and again. The first pass of ours
begins without cached pages; that of Cassandra begins with what its compaction left in memory. The
script compares counts, sums and kept rows with those that it wrote. It prints nanoseconds of the
server's core for each row of the table, the least of all rounds. Exit status 1: an answer was
wrong.
"""
import argparse
import shutil
import struct
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "interop"))

try:
    from wire import BATCH, Wire
except ImportError as error:
    sys.exit(f"{error}: run make deps, and this script with .deps/venv/bin/python")

from conditional_writes import Cassandra  # noqa: E402
from network_reads import Pinned, prepare  # noqa: E402

SCRATCH = ROOT / "bench" / "results" / "scans"
PEER = ROOT / ".deps" / "cassandra" / "scans"
KEYSPACE = "bench_scan"
SCHEMA = [
    f"CREATE KEYSPACE {KEYSPACE} WITH replication = "
    "{'class': 'SimpleStrategy', 'replication_factor': 1}",
    f"CREATE TABLE {KEYSPACE}.t (k bigint, c int, v bigint, t text, PRIMARY KEY (k, c))",
]
WIDTH = 100  # rows of a partition
KEPT = 1000  # the filter keeps one row in this many
PAGE_ROWS = 5000
AT_ONCE = 32  # batches under way
FILTERED = 7  # the value of v that the filter keeps


class Scanned:
    """A server with the measured table."""

    def __init__(self, name, server, options):
        self.name, self.server, self.options = name, server, options
        self.wrong = []
        self.statements = {"count": self.count, "filter": self.filter, "pages": self.pages}

    def write(self):
        """Writes row n: partition n / 100, v = n % 1000, a text of 16 bytes."""
        insert = f"INSERT INTO {KEYSPACE}.t (k, c, v, t) VALUES (?, ?, ?, ?)"
        with Wire(self.server, timeout_s=120) as wire:
            for statement in SCHEMA:
                answer = wire.query(statement)
                assert answer.code is None, f"{statement}: {answer.message}"
            prepared = wire.prepare(insert)
            partitions = range(self.options.rows // WIDTH)
            for first in partitions[::AT_ONCE]:
                some = partitions[first:first + AT_ONCE]
                wire.send(b"".join(self.batch(wire, prepared, number) for number in some))
                for _ in some:
                    answer = wire.receive()
                    assert answer.code is None, answer.message

    @staticmethod
    def batch(wire, prepared, partition):
        rows = range(partition * WIDTH, (partition + 1) * WIDTH)
        values = [
            (struct.pack(">q", partition), struct.pack(">i", row % WIDTH),
             struct.pack(">q", row % KEPT), b"%016d" % row)
            for row in rows
        ]
        return wire.envelope(BATCH, wire.batch_body([(prepared, row) for row in values]))

    def expect(self, what, found, expected):
        if found != expected:
            self.wrong.append(f"{self.name}, {what}: {found} instead of {expected}")

    def count(self, wire):
        rows = wire.query(f"SELECT count(*) FROM {KEYSPACE}.t").rows()
        self.expect("count", rows, [[struct.pack(">q", self.options.rows)]])

    def filter(self, wire):
        text = f"SELECT * FROM {KEYSPACE}.t WHERE v = {FILTERED} ALLOW FILTERING"
        found = sorted(row[2] for row in wire.select(text, PAGE_ROWS))
        expected = [b"%016d" % row for row in range(FILTERED, self.options.rows, KEPT)]
        if found != expected:
            self.wrong.append(f"{self.name}, filter: {len(found)} rows of {len(expected)}")

    def pages(self, wire):
        rows, total = 0, 0
        for page in wire.pages(f"SELECT * FROM {KEYSPACE}.t", PAGE_ROWS):
            rows, total = rows + len(page), total + sum(int(row[2]) for row in page)
        count = self.options.rows
        self.expect("pages", (rows, total), (count, count * (count - 1) // 2))

    def measure(self, where, rounds, before=lambda: None):
        """Prints the least cost of a row for each statement, and returns the costs by name."""
        costs = {}
        for name, statement in self.statements.items():
            for _ in range(rounds):
                before()
                with Wire(self.server, timeout_s=600) as wire:
                    began = self.server.core_seconds()
                    statement(wire)
                    spent = self.server.core_seconds() - began
                cost = spent * 1e9 / self.options.rows
                costs[name] = min(costs.get(name, cost), cost)
        line = "  ".join(f"{name} {cost:7.0f}" for name, cost in costs.items())
        print(f"{self.name:9} {where:10} ns of the core for each row:  {line}", flush=True)
        return {f"{name}, {where}": cost for name, cost in costs.items()}

    def run(self, to_file, drop_caches):
        self.write()
        costs = self.measure("memtable", self.options.rounds)
        to_file()
        costs |= self.measure("first pass", 1, drop_caches)
        return costs | self.measure("again", self.options.rounds)


def ours(options):
    node = Pinned(SCRATCH / "node", memory="4G", settings={"commitlog_sync": "periodic"}).start()

    def to_file():
        node.flush(KEYSPACE)
        node.request("POST", f"/storage_service/keyspace_compaction/{KEYSPACE}")

    scanned = Scanned("Espalier", node, options)
    try:
        return scanned.run(to_file, lambda: node.request("POST", "/system/drop_sstable_caches")), \
            scanned.wrong
    finally:
        node.close()
        shutil.rmtree(SCRATCH, ignore_errors=True)


def cassandras(options):
    peer = Cassandra(PEER).start()
    scanned = Scanned("Cassandra", peer, options)
    try:
        to_file = [f"flush {KEYSPACE} t", f"compact {KEYSPACE} t"]
        return scanned.run(lambda: peer.control(to_file), lambda: None), scanned.wrong
    finally:
        peer.stop_and_wipe()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the table (1000000)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cassandra", action="store_true", help="measure Cassandra, too")
    options = parser.parse_args()
    prepare(SCRATCH)
    costs, wrong = ours(options)
    if options.cassandra:
        theirs, found = cassandras(options)
        wrong += found
        for name, cost in theirs.items():
            print(f"{name}: Cassandra takes {cost / costs[name]:.1f} times as long")
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
