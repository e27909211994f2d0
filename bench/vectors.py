#!/usr/bin/env python3
"""Measures searches by an index on vectors: rate, recall, and the time to build the index.

    make deps && cargo build --release
    .deps/venv/bin/python bench/vectors.py --words [--cassandra]
    .deps/venv/bin/python bench/vectors.py [--rows 100000] [--dimensions 100] [--cassandra]

The machine must be idle otherwise. The server runs on one core, the client on the other. With
--cassandra, Cassandra 5.0.9 with storage-attached indexes gets the same requests afterwards.

With --words, the rows are vectors of English words (GloVe; needs npm). A random part of the words
is searched and not inserted. Otherwise the rows and the searched vectors are random, with normally
distributed components.
The rows are in one compacted file when the index is created. The build ends when
`system."IndexInfo"` lists the index. A search is `SELECT k FROM t ORDER BY v ANN OF ? LIMIT 10`.
The client sends one after another, and compares the keys with the ten nearest rows by cosine. Exit
status 1: the recall is below 95 %, or the rate below three times that of Cassandra.
"""
import argparse
import shutil
import struct
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "interop"))

try:
    import numpy
    from measured_server import MeasuredServer
except ImportError as error:
    sys.exit(f"{error}: run make deps, and this script with .deps/venv/bin/python")

from conditional_writes import Cassandra  # noqa: E402
from network_reads import Pinned, prepare  # noqa: E402
from wire import EXECUTE, HEADER, Wire  # noqa: E402
from word_vectors import word_vectors  # noqa: E402

SCRATCH = ROOT / "bench" / "results" / "vectors"
PEER = ROOT / ".deps" / "cassandra" / "vectors"
KEYSPACE = "bench_vectors"
LIMIT = 10
GOAL_RECALL, GOAL_RATE = 0.95, 3.0
BUILT = f"SELECT index_name FROM system.\"IndexInfo\" WHERE table_name = '{KEYSPACE}'"
BLOCK = 500  # rows that are written at once


class Vectors:
    """The vectors of the rows, those that are searched, and the keys of the nearest rows."""

    def __init__(self, options):
        generator = numpy.random.default_rng(7)
        if options.words:
            vectors = word_vectors()
            generator.shuffle(vectors)
        else:
            shape = (options.rows + options.searches, options.dimensions)
            vectors = generator.standard_normal(shape, dtype=numpy.float32)
        self.searched, self.rows = numpy.split(vectors, [options.searches])
        lengths = numpy.linalg.norm(self.rows, axis=1)
        nearest = [numpy.argsort(-(self.rows @ it) / lengths)[:LIMIT] for it in self.searched]
        self.nearest = [set(keys.tolist()) for keys in nearest]


def encoded(vector):
    return vector.astype(">f4").tobytes()


def write(measured, vectors):
    with Wire(measured.server, timeout_s=60) as wire:
        insert = wire.prepare(f"INSERT INTO {KEYSPACE}.t (k, v) VALUES (?, ?)")
        for first in range(0, len(vectors.rows), BLOCK):
            requests = []
            for stream, vector in enumerate(vectors.rows[first:first + BLOCK]):
                key = struct.pack(">i", first + stream)
                body = wire.execute_body(insert, (key, encoded(vector)))
                requests.append(HEADER.pack(4, 0, stream, EXECUTE, len(body)) + body)
            wire.send_raw(b"".join(requests))
            for _ in requests:
                answer = wire.receive()
                assert answer.code is None, answer.message
    return len(vectors.rows)


def search(wire, prepared, vector):
    limit = struct.pack(">i", LIMIT)
    return wire.execute(prepared, (encoded(vector), limit))


def measure(measured, vectors, compact):
    """Returns the rate of the searches of a server, and their recall."""
    measured.create([
        f"CREATE KEYSPACE {KEYSPACE} WITH replication = "
        "{'class': 'SimpleStrategy', 'replication_factor': 1}",
        f"CREATE TABLE {KEYSPACE}.t "
        f"(k int PRIMARY KEY, v vector<float, {vectors.rows.shape[1]}>)",
    ])
    measured.timed("writes", lambda: write(measured, vectors))
    compact(measured.server)
    with Wire(measured.server, timeout_s=600) as wire:
        def build():
            answer = wire.query(
                f"CREATE INDEX by_v ON {KEYSPACE}.t (v) USING 'sai' "
                "WITH OPTIONS = {'similarity_function': 'cosine'}"
            )
            assert answer.code is None, answer.message
            while not wire.query(BUILT).rows():
                time.sleep(0.05)
            return len(vectors.rows)

        measured.timed("rows of the index built", build)
        prepared = wire.prepare(f"SELECT k FROM {KEYSPACE}.t ORDER BY v ANN OF ? LIMIT ?")
        answers = []

        def searches():
            for vector in vectors.searched:
                answers.append(search(wire, prepared, vector).rows())
            return len(answers)

        searches()  # warms up the caches, and Cassandra's compiler
        answers.clear()
        rate = measured.timed("searches", searches)
    found = [{struct.unpack(">i", row[0])[0] for row in rows} for rows in answers]
    hits = sum(len(keys & nearest) for keys, nearest in zip(found, vectors.nearest))
    recall = hits / (LIMIT * len(vectors.nearest))
    print(f"{measured.name:9} recall@{LIMIT} {recall:.3f}", flush=True)
    return rate, recall


def compacted(node):
    node.flush(KEYSPACE)
    node.request("POST", f"/storage_service/keyspace_compaction/{KEYSPACE}")


def compacted_by_cassandra(server):
    server.control([f"flush {KEYSPACE} t"])
    server.control([f"compact {KEYSPACE} t"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--words", action="store_true", help="vectors of words, not random ones")
    parser.add_argument("--rows", type=int, default=100_000, help="random rows (100000)")
    parser.add_argument("--dimensions", type=int, default=100, help="their components (100)")
    parser.add_argument("--searches", type=int, default=1000, help="searches (1000)")
    parser.add_argument("--cassandra", action="store_true", help="measure Cassandra, too")
    options = parser.parse_args()
    prepare(SCRATCH)
    vectors = Vectors(options)
    node = Pinned(SCRATCH / "node", memory="2G", settings={"commitlog_sync": "periodic"}).start()
    try:
        rate, recall = measure(MeasuredServer("Espalier", node, options, None), vectors, compacted)
    finally:
        node.close()
        shutil.rmtree(SCRATCH, ignore_errors=True)
    met = recall >= GOAL_RECALL
    if options.cassandra:
        peer = Cassandra(PEER)
        try:
            theirs = MeasuredServer("Cassandra", peer.start(), options, None)
            their_rate, _ = measure(theirs, vectors, compacted_by_cassandra)
            print(f"searches: {rate / their_rate:.1f} times Cassandra's rate (goal {GOAL_RATE})")
            met = met and rate >= GOAL_RATE * their_rate
        finally:
            peer.stop_and_wipe()
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
