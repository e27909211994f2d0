"""Cassandra's own code reads files that we flush, in every version that we write and it reads (in
the gate, in one of them).

It reads them offline (verify, dump) and in a running node. test_flights covers the flights' files.
The tables here have every shape (see `shapes`), over several flushes: Cassandra must read what our
SELECT returns, byte for byte.
"""
import subprocess
import time

import pytest

import dumped
import shapes
from driver import seed
from gate import all_or_one, part
from wire import Wire

SEED = seed()
FLUSHES = 3
ROWS = part(300, 120)  # of a shape with many columns, in each flush
VERSIONS = ["da", "oa", "nb", "me"]


class Filled:
    """A node with all shapes in files, and its answer for each."""

    def __init__(self, node):
        self.node, self.shapes, self.answers = node, shapes.all_shapes(SEED), {}

    def schema(self):
        return [
            f"CREATE KEYSPACE {shapes.KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', "
            f"'replication_factor': 1}}",
            *(kind.format(shapes.KEYSPACE) for kind in shapes.TYPES),
            *(shape.create() for shape in self.shapes),
        ]

    def fill(self):
        with Wire(self.node) as wire:
            for statement in self.schema():
                must(wire, statement)
            for _ in range(FLUSHES):
                for shape in self.shapes:
                    for _ in range(ROWS if len(shape.types) > 3 else ROWS // 5):
                        must(wire, shape.statement())
                self.node.flush(shapes.KEYSPACE)
            # Cells with a short TTL have expired by then, by any node's clock.
            time.sleep(2.5)
            self.now = int(time.time())
            for shape in self.shapes:
                self.answers[shape.name] = wire.select(shape.select(), page_size=71)


def must(wire, statement):
    answer = wire.query(statement)
    assert answer.code is None, f"{statement}: {answer.message}"


@pytest.fixture(scope="module", params=all_or_one(VERSIONS))
def filled(start_node, request):
    """Returns all shapes in files. The column index is small, so that many partitions have a row
    index."""
    settings = {
        "column_index_size_in_kb": 1,
        "commitlog_sync": "periodic",
        "sstable_format": request.param,
    }
    filled = Filled(start_node(settings=settings))
    filled.fill()
    names = {
        path.name[:2]
        for shape in filled.shapes
        for path in filled.node.table_files(*shape.name.split("."))
    }
    assert names == {request.param}
    yield filled
    filled.node.kill()


def directory(node, name):
    files = node.table_files(*name.split("."))
    assert files, f"{name} has no files"
    return files[0].parent


def test_verify(filled, oracle):
    names = [shape.name for shape in filled.shapes]
    done = oracle(
        "verify", "--strict", "--thorough", *(directory(filled.node, name) for name in names)
    )
    assert done.returncode == 0, (SEED, complaints(done))


def complaints(done):
    lines = (done.stdout + done.stderr).splitlines()
    return "\n".join(
        [line for line in lines if "FAIL" in line or "WARN" in line][:40] or lines[-40:]
    )


def test_dump_equals_our_select(filled, oracle, tmp_path):
    how = ["dump", "--live", filled.now, "--full", "--no-j", "--no-token", "-o"]
    outputs = {shape.name: tmp_path / f"{shape.name}.jsonl" for shape in filled.shapes}
    commands = [
        [*how, outputs[shape.name], directory(filled.node, shape.name)] for shape in filled.shapes
    ]
    done = oracle("batch", commands=commands)
    assert done.stdout.splitlines().count("== 0") == len(commands), (done.stdout + done.stderr)[
        -2000:
    ]
    for shape in filled.shapes:
        with open(outputs[shape.name]) as lines:
            expected = list(dumped.rows(shape.table, lines))
        got = filled.answers[shape.name]
        # With two or three partitions, the last statements may have deleted all rows.
        few = len({tuple(key) for key in shape.keys}) <= 3 and not shape.table.clustering
        assert got or few, f"{shape.name}, seed {SEED}: a shape without rows shows nothing"
        for ours, theirs in zip(got, expected):
            assert ours == theirs, f"{shape.name}, seed {SEED}"
        assert len(got) == len(expected), f"{shape.name}, seed {SEED}"


def test_our_select_after_a_restart(filled):
    """After a restart the node gives the same answers from its files."""
    filled.node.restart()
    with Wire(filled.node) as wire:
        for shape in filled.shapes:
            assert (
                wire.select(shape.select(), page_size=1000) == filled.answers[shape.name]
            ), f"{shape.name}, seed {SEED}"


def test_a_running_cassandra_loads_the_files(filled, cassandra):
    """Cassandra imports the files, and its SELECT returns the rows of our SELECT."""
    # Cassandra's DROP waits up to a minute for compactions to stop.
    with Wire(cassandra, timeout_s=150) as wire:
        must(wire, f"DROP KEYSPACE IF EXISTS {shapes.KEYSPACE}")
        for statement in filled.schema():
            must(wire, statement)
        commands = []
        for shape in filled.shapes:
            keyspace, table = shape.name.split(".")
            commands.append(f"load {keyspace} {table} {directory(filled.node, shape.name)}")
        said = cassandra.control(commands)
        for shape in filled.shapes:
            got = wire.select(shape.select(), page_size=5000)
            assert got == filled.answers[shape.name], (f"{shape.name}, seed {SEED}", said[-1000:])
