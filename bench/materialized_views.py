#!/usr/bin/env python3
"""Measures writes to a table with a materialized view, and queries of the view.

    make deps && cargo build --release
    .deps/venv/bin/python bench/materialized_views.py [--rows 500000] [--seconds 10] [--cassandra]

The machine must be idle otherwise. The server runs on one core, the client on the other. With
--cassandra, Cassandra 5.0.9 gets the same requests afterwards.

writes   rows of random keys and of values that are all different, into a table without a view
         (by_hand), and into one whose view has the key and the value in the opposite order. One
         request in ten reads a row that was written before, in the second case from the view.
queries  `SELECT v FROM t WHERE k = ?` of the view, and of the table by_hand, which has the same
         columns and key. The rows are first in the memtable and then in files, after a flush and,
         in our node, a compaction. The queries take turns, and the best of their rounds counts.
         Queries before the first round fill the caches.

Each row that a query returns is compared with the row that was written. Exit status 1: an answer
was wrong, queries of the view reach less than 90 % of the rate of the table or, with --cassandra,
writes with a view less than 8 times Cassandra's rate.
"""
import argparse
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "interop"))

try:
    from measured_server import MeasuredServer
except ImportError as error:
    sys.exit(f"{error}: run make deps, and this script with .deps/venv/bin/python")

from conditional_writes import Cassandra  # noqa: E402
from network_reads import Pinned, prepare  # noqa: E402

SCRATCH = ROOT / "bench" / "results" / "materialized_views"
PEER = ROOT / ".deps" / "cassandra" / "materialized_views"
GOAL_OF_WRITES, GOAL_OF_QUERIES = 8, 0.9
ROUNDS = 3  # measured rounds of queries, after one that fills the caches
KEYSPACE = "bench_view"
SCHEMA = [
    f"CREATE KEYSPACE {KEYSPACE} WITH replication = "
    "{'class': 'SimpleStrategy', 'replication_factor': 1}",
    f"CREATE TABLE {KEYSPACE}.by_hand (k blob, v blob, PRIMARY KEY (k, v))",
    f"CREATE TABLE {KEYSPACE}.base (v blob PRIMARY KEY, k blob)",
    f"CREATE MATERIALIZED VIEW {KEYSPACE}.by_k AS SELECT k, v FROM {KEYSPACE}.base "
    "WHERE k IS NOT NULL AND v IS NOT NULL PRIMARY KEY (k, v)",
]
TABLES = ("by_hand", "base")


class CassandraWithViews(Cassandra):
    """Cassandra with views, which are off by default."""

    def _run(self, script, **settings):
        if "EXTRA_YAML" in settings:
            settings["EXTRA_YAML"] += "\nmaterialized_views_enabled: true\n"
        return super()._run(script, **settings)


def statements(table):
    queried = "by_k" if table == "base" else table
    return (
        f"INSERT INTO {KEYSPACE}.{table} (k, v) VALUES (?, ?)",
        f"SELECT v FROM {KEYSPACE}.{queried} WHERE k = ?",
    )


def measure(server, to_files):
    """Returns the rates of a server, by name."""
    server.create(SCHEMA)
    rates = {f"writes, {table}": server.write(table) for table in TABLES}
    for where in ("memory", "files"):
        if where == "files":
            to_files(server.server)
        for number in range(ROUNDS + 1):
            for table in TABLES:
                name, what = "view" if table == "base" else "table", f"queries of {table}, {where}"
                rate = server.query(f"queries of the {name}, {where}", table)
                rates[what] = max(rates.get(what, 0), rate if number else 0)
    return rates


def compacted(node):
    node.flush(KEYSPACE)
    node.request("POST", f"/storage_service/keyspace_compaction/{KEYSPACE}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=500_000, help="rows of each table (500000)")
    parser.add_argument("--seconds", type=float, default=10, help="seconds of queries (10)")
    parser.add_argument("--cassandra", action="store_true", help="measure Cassandra, too")
    options = parser.parse_args()
    prepare(SCRATCH)
    node = Pinned(SCRATCH / "node", memory="2G", settings={"commitlog_sync": "periodic"}).start()
    try:
        ours = MeasuredServer("Espalier", node, options, statements)
        rates = measure(ours, compacted)
    finally:
        node.close()
        shutil.rmtree(SCRATCH, ignore_errors=True)
    wrong, reached = ours.wrong, True
    for where in ("memory", "files"):
        share = rates[f"queries of base, {where}"] / rates[f"queries of by_hand, {where}"]
        reached = reached and share >= GOAL_OF_QUERIES
        print(f"queries of the view reach {share:.0%} of those of the table, rows in {where}")
    if options.cassandra:
        peer = CassandraWithViews(PEER)
        try:
            theirs = MeasuredServer("Cassandra", peer.start(), options, statements)
            flush = [f"flush {KEYSPACE} {table}" for table in ("by_hand", "base", "by_k")]
            of_peer = measure(theirs, lambda server: server.control(flush))
            wrong += theirs.wrong
            for what, rate in of_peer.items():
                print(f"{what}: {rates[what] / rate:.1f} times Cassandra's rate")
            what = "writes, base"
            reached = reached and rates[what] >= GOAL_OF_WRITES * of_peer[what]
        finally:
            peer.stop_and_wipe()
    print("\n".join(wrong))
    sys.exit(0 if reached and not wrong else 1)


if __name__ == "__main__":
    main()
