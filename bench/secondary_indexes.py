#!/usr/bin/env python3
"""Measures writes with and without a secondary index, and queries by one index and by two.

    make deps && cargo build --release
    .deps/venv/bin/python bench/secondary_indexes.py [--rows 1000000] [--seconds 10] [--cassandra]

The machine must be idle otherwise. The server runs on one core, the client on the other. With
--cassandra, Cassandra 5.0.9 with storage-attached indexes gets the same requests afterwards.

writes   rows of random keys and of values that are all different, into a table without an index and
         into one with an index on the value. One request in ten reads a row by its key.
queries  `SELECT v FROM queried WHERE k = ?`, where k is the indexed column and v the primary key
range    `SELECT v FROM queried WHERE k >= ? AND k < ?`, which has about a thousand rows
two      `SELECT v FROM pair WHERE a = ? AND b = ?`: of a million rows, a thousand have the one
         value, a thousand the other, and one row has both

Queries read rows of the memtable and, after a flush and a compaction, rows of files. The script
compares each row that a query returns with the row that it wrote. It prints rates by the clock and
for each second of the server's core, and the bytes of the indexes beside those of the tables. Exit
status 1: an answer was wrong, or writes with an index reach less than 60 % of the rate without.
"""
import argparse
import random
import shutil
import struct
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "interop"))

try:
    import numpy
    import pipelined_load
    from measured_server import MeasuredServer, VALUE_BYTES
except ImportError as error:
    sys.exit(f"{error}: run make deps, and this script with .deps/venv/bin/python")

from conditional_writes import Cassandra  # noqa: E402
from network_reads import Pinned, prepare  # noqa: E402
from wire import EXECUTE, HEADER, Wire  # noqa: E402

SCRATCH = ROOT / "bench" / "results" / "secondary_indexes"
PEER = ROOT / ".deps" / "cassandra" / "secondary_indexes"
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
    f"CREATE TABLE {KEYSPACE}.pair (v uuid PRIMARY KEY, a bigint, b bigint)",
    f"CREATE INDEX ON {KEYSPACE}.queried (k) USING 'sai'",
    f"CREATE INDEX ON {KEYSPACE}.pair (a) USING 'sai'",
    f"CREATE INDEX ON {KEYSPACE}.pair (b) USING 'sai'",
]
QUERIED = ("queried", "pair")  # tables
RANGE_ROWS = 1000  # about this many rows of a range
PAIR_VALUES = 1000  # different values of each column of `pair`
BLOCK = 1000  # rows of `pair` that are written at once


def statements(table):
    return (
        f"INSERT INTO {KEYSPACE}.{table} (k, v) VALUES (?, ?)",
        f"SELECT v FROM {KEYSPACE}.{table} WHERE k = ?",
    )


def write_pairs(measured):
    """Writes the rows of `pair`: row n has a = n % 1000 and b = n / 1000 % 1000."""
    rows, count = measured.rows, measured.options.rows
    with Wire(measured.server, timeout_s=60) as wire:
        insert = wire.prepare(f"INSERT INTO {KEYSPACE}.pair (v, a, b) VALUES (?, ?, ?)")
        for first in range(0, count, BLOCK):
            numbers = numpy.arange(first, min(first + BLOCK, count))
            requests = []
            for stream, (number, value) in enumerate(zip(numbers.tolist(), rows.values(numbers))):
                body = wire.execute_body(
                    insert,
                    (value.tobytes(), pair_value(number), pair_value(number // PAIR_VALUES)),
                )
                requests.append(HEADER.pack(4, 0, stream, EXECUTE, len(body)) + body)
            wire.send_raw(b"".join(requests))
            for _ in requests:
                answer = wire.receive()
                assert answer.code is None, answer.message
    return count


def pair_value(number):
    return struct.pack(">q", number % PAIR_VALUES)


def written(count):
    """Returns the number of rows that `MeasuredServer.write` wrote: one, and then whole blocks."""
    block = pipelined_load.BLOCK // pipelined_load.GROUP * (pipelined_load.GROUP - 1)
    return 1 + -(-(count - 1) // block) * block


class Ranges:
    """Ranges of the indexed column of `queried`, and the rows of each."""

    select = f"SELECT v FROM {KEYSPACE}.queried WHERE k >= ? AND k < ?"

    def __init__(self, rows, count):
        keys = rows.keys(numpy.arange(count)).copy().view(">i8")[:, 0].astype(numpy.int64)
        self.order = numpy.argsort(keys)
        self.keys, self.rows = keys[self.order], rows

    def any(self, generator):
        """Returns the bound values of a query, and the rows that the query must return."""
        size = min(RANGE_ROWS, len(self.keys) - 1)
        first = generator.randrange(len(self.keys) - size)
        bounds = struct.pack(">q", self.keys[first]), struct.pack(">q", self.keys[first + size])
        expected = self.rows.values(self.order[first:first + size])
        return bounds, sorted(value.tobytes() for value in expected)


class Pairs:
    """Values of both columns of `pair`, and the rows that have them."""

    select = f"SELECT v FROM {KEYSPACE}.pair WHERE a = ? AND b = ?"

    def __init__(self, rows, count):
        self.rows, self.count = rows, count

    def any(self, generator):
        number = generator.randrange(self.count)
        period = PAIR_VALUES * PAIR_VALUES
        same = numpy.arange(number % period, self.count, period)
        expected = self.rows.values(same)
        values = pair_value(number), pair_value(number // PAIR_VALUES)
        return values, sorted(value.tobytes() for value in expected)


def query_rows(measured, what, queries):
    """Sends one query after another, and compares the rows of each."""

    def work():
        generator, done = random.Random(11), 0
        with Wire(measured.server, timeout_s=60) as wire:
            prepared = wire.prepare(queries.select)
            until = time.monotonic() + measured.options.seconds
            while time.monotonic() < until and len(measured.wrong) < 10:
                values, expected = queries.any(generator)
                found = sorted(row[0] for row in wire.execute(prepared, values).rows())
                if found != expected:
                    measured.wrong.append(
                        f"{queries.select}: {len(found)} rows, of {len(expected)} expected ones"
                    )
                done += 1
        return done

    return measured.timed(what, work)


def measure(measured, to_files):
    """Returns the rates of a server, by name."""
    measured.create(SCHEMA)
    rates = {table: measured.write(table) for table in ("plain", "indexed", "queried")}
    rates["pair"] = measured.timed("writes, pair (slow client)", lambda: write_pairs(measured))
    ranges = Ranges(measured.rows, written(measured.options.rows))
    pairs = Pairs(measured.rows, measured.options.rows)
    for where in ("memory", "files"):
        if where == "files":
            to_files(measured.server)
        rates[f"queries, {where}"] = measured.query(f"queries, {where}", "queried")
        rates[f"range, {where}"] = query_rows(measured, f"range, {where}", ranges)
        rates[f"two, {where}"] = query_rows(measured, f"two, {where}", pairs)
    return rates


def compacted(node):
    node.flush(KEYSPACE)
    node.request("POST", f"/storage_service/keyspace_compaction/{KEYSPACE}")
    for table in QUERIED:
        files = node.table_files(KEYSPACE, table, component="*.db")
        report_bytes("Espalier", table, files, "-SecondaryIndex_")


def compacted_by_cassandra(server):
    server.control([f"flush {KEYSPACE} {table}" for table in QUERIED])
    server.control([f"compact {KEYSPACE} {table}" for table in QUERIED])
    for table in QUERIED:
        found = (server.directory / "data").rglob(f"{KEYSPACE}/{table}-*/*.db")
        report_bytes("Cassandra", table, list(found), "-SAI+")


def report_bytes(name, table, files, mark):
    """Prints the bytes of the data and of the indexes, whose files have `mark` in their names."""
    data = sum(path.stat().st_size for path in files if path.name.endswith("-Data.db"))
    index = sum(path.stat().st_size for path in files if mark in path.name)
    print(f"{name:9} bytes of {table}: Data.db {data:,}, indexes {index:,}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of each table (1000000)")
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
    wrong = ours.wrong
    share = rates["indexed"] / rates["plain"]
    print(f"writes with an index reach {share:.0%} of the rate without (goal {GOAL:.0%})")
    if options.cassandra:
        peer = Cassandra(PEER)
        try:
            theirs = MeasuredServer("Cassandra", peer.start(), options, statements)
            of_peer = measure(theirs, compacted_by_cassandra)
            wrong += theirs.wrong
            for what, rate in of_peer.items():
                print(f"{what}: {rates[what] / rate:.1f} times Cassandra's rate")
        finally:
            peer.stop_and_wipe()
    print("\n".join(wrong))
    sys.exit(0 if share >= GOAL and not wrong else 1)


if __name__ == "__main__":
    main()
