#!/usr/bin/env python3
"""Measures reads of cached rows over the network, beside the same rows in a memtable.

    make deps && cargo build --release
    .deps/venv/bin/python bench/network_reads.py [--rows 100000] [--seconds 10] [--rounds 3]

Either way the row is in memory, so the difference is the cost of the row cache. A run takes two
minutes, and the machine must be idle otherwise.

One node on one core has two tables with the same rows. One of them is flushed, and reads of 5 s
fill the row cache with its rows. A client on the other core reads random rows of both tables in
turns, three thousand at a time. Each row is compared with the row that was written. The script
prints reads a second, by the clock and of the node's core. Exit status 1: an answer was wrong, or
cached rows are read at less than 90 % of the rate of the others.
"""
import argparse
import multiprocessing
import os
import shutil
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "interop"))

try:
    from espalier_node import BINARY, Node
    from wire import Wire
except ImportError as error:
    sys.exit(f"{error}: run make deps, and this script with .deps/venv/bin/python")

import pipelined_load  # noqa: E402

CORE, CLIENT_CORE = (
    os.environ.get(name, value) for name, value in (("CORE", "1"), ("CLIENT_CORE", "0"))
)
SCRATCH = ROOT / "bench" / "results" / "network_reads"
VALUE_BYTES = 8
GOAL = 0.9
SCHEMA = [
    "CREATE KEYSPACE bench_net WITH replication = {'class': 'SimpleStrategy', "
    "'replication_factor': 1}"
]
SCHEMA += [
    f"CREATE TABLE bench_net.{table} (k blob PRIMARY KEY, v blob)"
    for table in ("memtable", "cache")
]


class Pinned(Node):
    """Our node, on one core."""

    def command_line(self):
        return ["taskset", "-c", CORE, *super().command_line()]

    def core_seconds(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def statements(table):
    return (
        f"INSERT INTO bench_net.{table} (k, v) VALUES (?, ?)",
        f"SELECT v FROM bench_net.{table} WHERE k = ?",
    )


def prepare(scratch):
    """Checks that the binary exists, pins this process to CLIENT_CORE, and empties `scratch`."""
    if not os.access(BINARY, os.X_OK):
        sys.exit(
            f"there is no {BINARY}: run cargo build --release first, or name it with "
            "ESPALIER_BINARY"
        )
    os.sched_setaffinity(0, {int(CLIENT_CORE)})
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000, help="rows of each table (100000)")
    parser.add_argument(
        "--seconds", type=float, default=10, help="seconds of each measurement (10)"
    )
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    prepare(SCRATCH)
    rows, best, wrong = pipelined_load.Rows(VALUE_BYTES), {}, []
    node = Pinned(SCRATCH / "node", memory="1G").start()
    try:
        with Wire(node) as wire:
            for statement in SCHEMA:
                assert wire.query(statement).code is None, statement
            for table in ("memtable", "cache"):
                wire.execute(wire.prepare(statements(table)[0]), (rows.key(0), rows.value(0)))
                known = multiprocessing.RawValue("q", 1)
                wrong += pipelined_load.write(
                    node, rows, statements(table), options.rows, known, lambda *_: None
                )
        node.flush("bench_net", "cache")
        # Reads that miss fill the cache.
        wrong += pipelined_load.read(node, rows, statements("cache"), options.rows, 5)[2]
        before = node.metrics()
        for number in range(1, options.rounds + 1):
            for table in ("memtable", "cache"):
                core = node.core_seconds()
                right, seconds, found = pipelined_load.read(
                    node, rows, statements(table), options.rows, options.seconds
                )
                core, wrong = node.core_seconds() - core, wrong + found
                best[table] = max(best.get(table, (0, 0)), (right / core, right / seconds))
                print(
                    f"round {number}, {table:8} {right / seconds:10,.0f} reads/s, "
                    f"{right / core:10,.0f} a second of the core, {core / seconds:4.0%} busy",
                    flush=True,
                )
        after = node.metrics()
    finally:
        node.close()
        shutil.rmtree(SCRATCH, ignore_errors=True)
    misses = after["scylla_cache_reads_with_misses"] - before["scylla_cache_reads_with_misses"]
    share = best["cache"][0] / best["memtable"][0]
    print(
        f"reads of the cache that missed: {misses:.0f}; a cached row is read at {share:.1%} of the "
        f"rate of a row in a memtable (goal {GOAL:.0%})"
    )
    print("\n".join(wrong))
    sys.exit(0 if share >= GOAL and not wrong else 1)


if __name__ == "__main__":
    main()
