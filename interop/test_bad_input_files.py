"""Damaged files at a start: SSTables and commit log segments, truncated or with flipped bits.

Whatever is damaged, the node never gives a wrong answer: it refuses to start, or it serves, and
then a read returns the right rows or an error. Refusal and error name the file. Other tables are
not affected.
"""
import contextlib
import random
import shutil
import struct
from pathlib import Path

import pytest

from driver import seed
from espalier_node import Node
from wire import ROWS, Wire

SEED = seed()
COMPONENTS = [
    "Data.db",
    "Partitions.db",
    "Rows.db",
    "Filter.db",
    "Statistics.db",
    "CompressionInfo.db",
    "Digest.crc32",
    "TOC.txt",
    "Checksums.db",
]
KEYSPACE = "damage"
PARTITIONS, WIDE = 60, 900
SETTINGS = {"column_index_size_in_kb": 4}


def text_of(partition, row):
    return f"value {partition} {row} " + "abcdefgh"[row % 8] * (row % 50)


def expected():
    """Returns the table's rows by partition: narrow ones and two wide ones, which have a row
    trie."""
    return {
        partition: [
            (row, text_of(partition, row)) for row in range(WIDE if partition % 30 == 7 else 5)
        ]
        for partition in range(PARTITIONS)
    }


def write(wire, table, partitions):
    insert = wire.prepare(f"INSERT INTO {KEYSPACE}.{table} (k, c, v) VALUES (?, ?, ?)")
    for partition, rows in partitions.items():
        for row, text in rows:
            answer = wire.execute(
                insert, (struct.pack(">i", partition), struct.pack(">i", row), text.encode())
            )
            assert answer.code is None, answer.message


def create(wire, table):
    for statement in (
        f"CREATE KEYSPACE IF NOT EXISTS {KEYSPACE} WITH replication = "
        "{'class': 'SimpleStrategy', 'replication_factor': 1}",
        f"CREATE TABLE {KEYSPACE}.{table} (k int, c int, v text, PRIMARY KEY (k, c))",
    ):
        answer = wire.query(statement)
        assert answer.code is None, answer.message


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    """Returns the directory of a cleanly stopped node: a table in one set of files, and another
    table."""
    node = Node(tmp_path_factory.mktemp("pristine") / "node", settings=SETTINGS).start()
    with Wire(node) as wire:
        for table in ("harmed", "beside"):
            create(wire, table)
        write(wire, "harmed", expected())
        write(wire, "beside", {1: [(1, "untouched")]})
    assert node.restart().table_files(KEYSPACE, "harmed"), "a clean stop flushes"
    assert node.stop() == 0
    yield node.directory
    shutil.rmtree(node.directory)


@contextlib.contextmanager
def copy_of(directory, tmp_path):
    """Yields a node, not started, in a copy of a directory."""
    node = Node(tmp_path / "copy", settings=SETTINGS)
    shutil.copytree(directory, node.directory)
    try:
        yield node
    finally:
        node.close()
        log = node.log()
        shutil.rmtree(node.directory)
        node.log_path.unlink(missing_ok=True)
    assert "panicked at" not in log, log[-4000:]


def start(node):
    """Starts the node; returns None, or the end of the log if the node refuses."""
    try:
        node.start()
    except AssertionError as refusal:
        return str(refusal)
    return None


def read(wire, key=None):
    """Returns all rows of the table or of a partition as (k, c, v), or the error's message."""
    query = f"SELECT k, c, v FROM {KEYSPACE}.harmed" + ("" if key is None else f" WHERE k = {key}")
    answer = wire.query(query)
    if answer.code is not None:
        return answer.message
    return [
        (int.from_bytes(k, "big"), int.from_bytes(c, "big"), v.decode())
        for k, c, v in answer.rows()
    ]


def damages(component):
    """Yields the damages to a file: a name, and a function of the file's bytes."""
    draw = random.Random(f"{SEED} {component}")

    def flip(share):
        def flipped(data):
            at = min(int(len(data) * share), len(data) - 1)
            return data[:at] + bytes([data[at] ^ (1 << draw.randrange(8))]) + data[at + 1:]
        return flipped

    yield "empty", lambda data: b""
    yield "halved", lambda data: data[:len(data) // 2]
    yield "one byte short", lambda data: data[:-1]
    for share in [0, *(draw.random() for _ in range(8)), 1]:
        yield f"bit flipped at {share:.3f}", flip(share)
    yield "zeros", lambda data: bytes(len(data))
    yield "noise", lambda data: draw.randbytes(len(data))


def check(node, file, what):
    """Starts the node and reads; returns the outcome: a refusal, errors of reads, or unharmed."""
    refusal = start(node)
    if refusal is not None:
        assert file.name in refusal, f"{what}: the refusal must name the file: {refusal[-1500:]}"
        return "refused"
    errors, right = [], expected()
    with Wire(node, timeout_s=60) as wire:
        for key in [None, *random.Random(SEED).sample(range(PARTITIONS), 12), 7, 37]:
            wanted = {(k, c, v) for k, rows in right.items() for c, v in rows if key in (None, k)}
            got = read(wire, key)
            if isinstance(got, str):
                errors.append(got)
            else:
                assert set(got) == wanted, (
                    f"{what}: a wrong answer for key {key} without an error (seed {SEED}): "
                    f"{len(wanted - set(got))} rows missing, {len(set(got) - wanted)} invented"
                )
        answer = wire.query(f"SELECT v FROM {KEYSPACE}.beside")
        assert answer.kind == ROWS and answer.rows() == [
            [b"untouched"]
        ], "the other table is not affected"
    for error in errors:
        assert file.name.split("-")[-1] in error, f"{what}: the error must name the file: {error}"
    return "errors" if errors else "unharmed"


@pytest.mark.parametrize("component", COMPONENTS)
def test_damaged_sstables(pristine, tmp_path, component):
    outcomes = {}
    for what, damage in damages(component):
        with copy_of(pristine, tmp_path) as node:
            [file] = node.table_files(KEYSPACE, "harmed", component)
            file.write_bytes(damage(file.read_bytes()))
            outcomes[what] = check(node, file, f"{component}, {what}")
    print(component, outcomes)
    noticed = [what for what, outcome in outcomes.items() if outcome != "unharmed"]
    if component in ("Data.db", "Partitions.db", "Statistics.db", "CompressionInfo.db"):
        assert {"empty", "halved", "one byte short", "zeros", "noise"} <= set(noticed), outcomes
    if component == "Data.db":
        assert len(noticed) == len(outcomes), f"every bit of the data is guarded: {outcomes}"


def test_missing_components(pristine, tmp_path):
    for component in COMPONENTS:
        with copy_of(pristine, tmp_path) as node:
            [file] = node.table_files(KEYSPACE, "harmed", component)
            file.unlink()
            outcome = check(node, file, f"{component}, missing")
            assert (
                component in ("Filter.db", "Digest.crc32") or outcome != "unharmed"
            ), f"{component} was not missed"


# ---------------------------------------------------------------- commit log

HEADER, OVERHEAD, MARKER, MUTATION = 32, 8, 1, 3


def records(data):
    """Yields (offset, kind, length with overhead) of the records of a segment, by its layout."""
    at = HEADER
    while at + OVERHEAD <= len(data):
        (length,) = struct.unpack_from("<I", data, at)
        if length == 0 or at + OVERHEAD + length > len(data):
            return
        yield at, data[at + OVERHEAD], OVERHEAD + length
        at += OVERHEAD + length


@pytest.fixture(scope="module")
def unflushed(tmp_path_factory):
    """Returns the directory of a node that was killed with all its writes in the commit log."""
    node = Node(tmp_path_factory.mktemp("unflushed") / "node", settings=SETTINGS).start()
    with Wire(node) as wire:
        create(wire, "harmed")
        create(wire, "beside")
        write(wire, "beside", {1: [(1, "untouched")]})
        write(wire, "harmed", expected())
    node.kill()
    yield node.directory
    shutil.rmtree(node.directory)


def segment_of(node):
    """Returns the segment that holds the writes, found by its content."""
    found = [
        file
        for file in node.directory.rglob("commitlog-*.log")
        if b"value 7 1 " in file.read_bytes()
    ]
    assert len(found) == 1
    return found[0]


def test_commit_log_undamaged(unflushed, tmp_path):
    with copy_of(unflushed, tmp_path) as node:
        assert check(node, segment_of(node), "no damage") == "unharmed"


def test_commit_log_torn_tail(unflushed, tmp_path):
    """The node ignores the remains of bytes that it was writing when it died, because these bytes
    were not acknowledged."""
    draw = random.Random(SEED)
    for remains in (
        b"\x01",
        draw.randbytes(5),
        draw.randbytes(5000),
        struct.pack("<I", 100) + bytes(50),
        struct.pack("<I", 2**32 - 1),
        struct.pack("<II", 30, 7) + b"\x03" * 30,
    ):
        with copy_of(unflushed, tmp_path) as node:
            file = segment_of(node)
            data = file.read_bytes()
            *_, (at, _, length) = records(data)
            end = at + length
            file.write_bytes(data[:end] + remains + data[end + len(remains):])
            assert check(node, file, f"torn tail of {len(remains)} bytes") == "unharmed"


def test_commit_log_cut_inside_of_the_last_write(unflushed, tmp_path):
    """The last record may be torn; no other may be missing."""
    whole = {(k, c, v) for k, rows in expected().items() for c, v in rows}
    with copy_of(unflushed, tmp_path) as node:
        file = segment_of(node)
        data = file.read_bytes()
        last = max(at for at, kind, _ in records(data) if kind == MUTATION)
        file.write_bytes(data[:last + 20] + bytes(len(data) - last - 20))
        assert start(node) is None
        with Wire(node) as wire:
            got = set(read(wire))
        assert got < whole and len(whole - got) == 1


@pytest.mark.parametrize("where", ["first", "middle", "header"])
def test_commit_log_with_a_flipped_bit_before_durable_writes(unflushed, tmp_path, where):
    """Acknowledged writes follow the damage, so the node must not start without these writes."""
    with copy_of(unflushed, tmp_path) as node:
        file = segment_of(node)
        data = bytearray(file.read_bytes())
        mutations = [(at, length) for at, kind, length in records(data) if kind == MUTATION]
        if where == "header":
            at = 9
        else:
            at, length = mutations[3] if where == "first" else mutations[len(mutations) // 2]
            at += length // 2
        data[at] ^= 0x10
        file.write_bytes(data)
        refusal = start(node)
        assert refusal is not None, "the node started without acknowledged writes"
        assert file.name in refusal and "offset" in refusal, refusal[-1500:]
        # The node changed nothing, so with the bit restored everything is back.
        data[at] ^= 0x10
        file.write_bytes(data)
        assert check(node, file, "repaired") == "unharmed"


def test_commit_log_truncated(unflushed, tmp_path):
    """A segment lost its end, with acknowledged writes: the node refuses to start, or at least
    returns no wrong rows."""
    with copy_of(unflushed, tmp_path) as node:
        file = segment_of(node)
        data = file.read_bytes()
        *_, (at, _, length) = records(data)
        file.write_bytes(data[:(at + length) // 2])
        refusal = start(node)
        if refusal is None:
            # Without the marker that follows, a cut looks like the end. Wrong rows may not be
            # served, though.
            with Wire(node) as wire:
                got = set(read(wire))
            assert got < {(k, c, v) for k, rows in expected().items() for c, v in rows}
        else:
            assert Path(file).name in refusal


def test_an_unknown_file_in_a_table_directory_is_left_alone(pristine, tmp_path):
    with copy_of(pristine, tmp_path) as node:
        [file] = node.table_files(KEYSPACE, "harmed", "Data.db")
        strange = [
            file.parent / name
            for name in ("README", "da-x-bti-Data.db", "nb-7-big-Data.db", "da-99-bti-Data.db.tmp")
        ]
        for other in strange:
            other.write_bytes(b"not a table")
        refusal = start(node)
        # The node refuses a set without TOC.txt, by the name of this file, and ignores other files.
        named = [other.name for other in strange] + ["nb-7-big-TOC.txt"]
        assert refusal is None or any(name in refusal for name in named), refusal
        assert all(other.read_bytes() == b"not a table" for other in strange)
