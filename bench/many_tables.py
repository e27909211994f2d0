#!/usr/bin/env python3
"""Measures short work on many tables: CREATE, flush, restart and DROP KEYSPACE.

    make deps && cargo build --release
    .deps/venv/bin/python bench/many_tables.py [--tables 500] [--shards 2] [--rounds 3]

Each table has one row. The node keeps everything that it acknowledges: the commit log is synced
before an answer (`commitlog_sync: batch`), and a flushed or dropped table is durable when the
request returns. After the restart the script reads each row and compares it. The scratch directory
bench/results/many_tables is on the disk that is measured. A round of 500 tables takes a quarter of
a minute.
"""
import argparse
import shutil
import statistics
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

SCRATCH = ROOT / "bench" / "results" / "many_tables"
GOALS_S = {"flush": 2.0, "restart": 0.5, "DROP KEYSPACE": 2.0}
KEYSPACE = ("CREATE KEYSPACE many WITH replication = {'class': 'SimpleStrategy', "
            "'replication_factor': 1}")


def must(answer):
    """Returns the answer; ends the run if it is an error."""
    if answer.code is not None:
        sys.exit(f"the node refused a statement: {answer.message}")
    return answer


def run(node, tables):
    """Runs one round on a node; returns the seconds of each step."""
    times_s = {}

    def step(name, work):
        began = time.monotonic()
        work()
        times_s[name] = time.monotonic() - began

    def create():
        must(wire.query(KEYSPACE))
        for number in range(tables):
            must(wire.query(f"CREATE TABLE many.t{number} (k int PRIMARY KEY, v int)"))

    with Wire(node) as wire:
        step("CREATE TABLE", create)
        for number in range(tables):
            must(wire.query(f"INSERT INTO many.t{number} (k, v) VALUES ({number}, {number})"))
        step("flush", lambda: node.flush("many"))
    files = len(list(node.directory.glob("data/many/t*/*-Data.db")))
    if files != tables:
        sys.exit(f"{files} data files of {tables} tables after the flush")
    step("restart", node.restart)
    with Wire(node, timeout_s=120) as wire:
        for number in range(tables):
            rows = must(wire.query(f"SELECT v FROM many.t{number}")).rows()
            if rows != [[number.to_bytes(4, "big")]]:
                sys.exit(f"table t{number} has the rows {rows} after the restart")
        step("DROP KEYSPACE", lambda: must(wire.query("DROP KEYSPACE many")))
    left = list(node.directory.glob("data/many/*"))
    if left:
        sys.exit(f"{len(left)} directories are left after DROP KEYSPACE")
    return times_s


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tables", type=int, default=500)
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    rounds = []
    for number in range(arguments.rounds):
        shutil.rmtree(SCRATCH, ignore_errors=True)
        SCRATCH.mkdir(parents=True)
        settings = {"commitlog_sync": "batch"}
        node = Node(SCRATCH / "node", settings=settings, shards=arguments.shards, memory="512M")
        try:
            rounds.append(run(node.start(), arguments.tables))
        finally:
            node.close()
    shutil.rmtree(SCRATCH, ignore_errors=True)
    print(f"{arguments.tables} tables of one row, {arguments.shards} shards, {BINARY.name}; "
          f"median of {arguments.rounds}")
    for step in rounds[0]:
        median_s = statistics.median(times[step] for times in rounds)
        goal = f"   goal {GOALS_S[step]} s" if step in GOALS_S else ""
        print(f"{step:14} {median_s:8.2f} s {median_s / arguments.tables * 1000:8.2f} ms a table"
              f"{goal}")


if __name__ == "__main__":
    main()
