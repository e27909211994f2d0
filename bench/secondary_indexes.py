#!/usr/bin/env python3
"""Measures writes with and without a secondary index, and point queries by an index.

    make deps && cargo build --release
    .deps/venv/bin/python bench/secondary_indexes.py [--rows 1000000] [--seconds 10] [--cassandra]

The machine must be idle otherwise. The server runs on one core, the client on the other. With
--cassandra, Cassandra 5.0.9 with a storage-attached index gets the same requests afterwards.

writes   rows of random keys and of values that are all different, into a table without an index and
         into one with an index on the value. One request in ten reads a row by its key.
queries  `SELECT v FROM t WHERE k = ?`, where k is the indexed column and v the primary key: of rows
         in the memtable and, after a flush and a compaction, of rows in files.

Each row that a query returns is compared with the row that was written. The script prints rates by
the clock and for each second of the server's core, and the bytes of the index beside those of the
table. Exit status 1: an answer was wrong, or writes with an index reach less than 60 % of the rate
without.
"""
import argparse
import multiprocessing
import shutil
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "interop"))

try:
    from wire import Wire
except ImportError as error:
    sys.exit(f"{error}: run make deps, and this script with .deps/venv/bin/python")

import pipelined_load  # noqa: E402
from conditional_writes import Cassandra  # noqa: E402
from network_reads import Pinned, prepare  # noqa: E402

SCRATCH = ROOT / "bench" / "results" / "secondary_indexes"
PEER = ROOT / ".deps" / "cassandra" / "secondary_indexes"
VALUE_BYTES = 16
GOAL = 0.6
KEYSPACE = "bench_index"
# Types of 8 and 16 bytes that a storage-attached index of Cassandra supports.
SCHEMA = [
    f"CREATE KEYSPACE {KEYSPACE} WITH replication = "
    "{'class': 'SimpleStrategy', 'replication_factor': 1}",
    f"CREATE TABLE {KEYSPACE}.plain (k bigint PRIMARY KEY, v uuid)",
    f"CREATE TABLE {KEYSPACE}.indexed (k bigint PRIMARY KEY, v uuid)",
    f"CREATE TABLE {KEYSPACE}.queried (v uuid PRIMARY KEY, k bigint)",
    f"CREATE INDEX ON {KEYSPACE}.indexed (v) USING 'sai'",
    f"CREATE INDEX ON {KEYSPACE}.queried (k) USING 'sai'",
]


def statements(table):
    return (
        f"INSERT INTO {KEYSPACE}.{table} (k, v) VALUES (?, ?)",
        f"SELECT v FROM {KEYSPACE}.{table} WHERE k = ?",
    )


class Measurement:
    """Rates of one server."""

    def __init__(self, name, server, options):
        self.name, self.server, self.options = name, server, options
        self.rows, self.wrong = pipelined_load.Rows(VALUE_BYTES), []

    def report(self, what, count, seconds, core):
        print(
            f"{self.name:9} {what:24} {count / seconds:10,.0f}/s, {count / core:10,.0f} a second "
            f"of the core, {core / seconds:4.0%} busy",
            flush=True,
        )
        return count / core

    def write(self, table):
        """Writes all rows of a table, and returns the rate for each second of the core."""
        with Wire(self.server, timeout_s=60) as wire:
            wire.execute(
                wire.prepare(statements(table)[0]), (self.rows.key(0), self.rows.value(0))
            )
        known, done = multiprocessing.RawValue("q", 1), []
        core, began = self.server.core_seconds(), time.monotonic()
        self.wrong += pipelined_load.write(
            self.server, self.rows, statements(table), self.options.rows, known,
            lambda _, operations: done.append(operations),
        )
        seconds, core = time.monotonic() - began, self.server.core_seconds() - core
        return self.report(f"writes, {table}", sum(done), seconds, core)

    def query(self, where):
        core = self.server.core_seconds()
        right, seconds, wrong = pipelined_load.read(
            self.server, self.rows, statements("queried"), self.options.rows, self.options.seconds
        )
        self.wrong += wrong
        return self.report(f"queries, {where}", right, seconds, self.server.core_seconds() - core)

    def run(self, to_files):
        with Wire(self.server, timeout_s=60) as wire:
            for statement in SCHEMA:
                answer = wire.query(statement)
                assert answer.code is None, f"{statement}: {answer.message}"
        rates = {table: self.write(table) for table in ("plain", "indexed", "queried")}
        rates["memory"] = self.query("rows in memory")
        to_files(self.server)
        rates["files"] = self.query("rows in files")
        return rates


def compacted(node):
    node.flush(KEYSPACE)
    node.request("POST", f"/storage_service/keyspace_compaction/{KEYSPACE}")
    data = sum(path.stat().st_size for path in node.table_files(KEYSPACE, "queried"))
    entries = node.table_files(KEYSPACE, "queried", component="SecondaryIndex_queried_k_idx.db")
    index = sum(path.stat().st_size for path in entries)
    print(f"Espalier  bytes: Data.db {data:,}, entries of the index {index:,}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of each table (1000000)")
    parser.add_argument("--seconds", type=float, default=10, help="seconds of queries (10)")
    parser.add_argument("--cassandra", action="store_true", help="measure Cassandra, too")
    options = parser.parse_args()
    prepare(SCRATCH)
    node = Pinned(SCRATCH / "node", memory="2G", settings={"commitlog_sync": "periodic"}).start()
    try:
        ours = Measurement("Espalier", node, options)
        rates = ours.run(compacted)
    finally:
        node.close()
        shutil.rmtree(SCRATCH, ignore_errors=True)
    wrong = ours.wrong
    share = rates["indexed"] / rates["plain"]
    print(f"writes with an index reach {share:.0%} of the rate without (goal {GOAL:.0%})")
    if options.cassandra:
        peer = Cassandra(PEER)
        try:
            theirs = Measurement("Cassandra", peer.start(), options)
            of_peer = theirs.run(lambda server: server.control([f"flush {KEYSPACE} queried"]))
            wrong += theirs.wrong
            for what, rate in of_peer.items():
                print(f"{what}: {rates[what] / rate:.1f} times Cassandra's rate")
        finally:
            peer.stop_and_wipe()
    print("\n".join(wrong))
    sys.exit(0 if share >= GOAL and not wrong else 1)


if __name__ == "__main__":
    main()
