"""Sends random values of every type to the node and compares its behaviour with Cassandra's.

The node accepts and refuses the same values, finds them by equal values, returns them in the order
of Cassandra's files, and writes files that Cassandra's verifier accepts.

`VALUES` is the number of values of each type (default 100), `INTEROP_SEED` the seed.
"""
import os
import random
import struct
import subprocess

import pytest

from driver import seed
from espalier_node import BINARY
from wire import EXECUTE, INVALID, ONE, ROWS, SKIP_METADATA, Wire, string, value

COUNT = int(os.environ.get("VALUES", 100))
SEED = seed()
PARTITIONS = max(1, COUNT // 50)


def choice(*values):
    """Draws one of some values, given in hex."""
    return lambda draw: bytes.fromhex(draw.choice(values))


def number(size):
    """Draws from few numbers, so that some occur twice, and from any bytes."""
    def of(draw):
        if draw.random() < 0.3:
            return draw.randbytes(size)
        return draw.randint(-3, 3).to_bytes(size, "big", signed=True)
    return of


def varint(draw):
    plain = draw.choice([draw.randint(-3, 3), draw.randint(-2**70, 2**70)])
    shortest = plain.to_bytes(plain.bit_length() // 8 + 1, "big", signed=True)
    return (b"\xff" if plain < 0 else b"\0") * draw.choice([0, 0, 1, 3]) + shortest


def decimal(draw):
    scale = draw.choice([0, 1, 2, -1, draw.randint(-2**31, 2**31 - 1)])
    return scale.to_bytes(4, "big", signed=True) + draw.choice(
        [varint(draw), b"\1", b"\x0a", b"\x64", b"\0"]
    )


def text(draw):
    return draw.choice(
        [b"", b"a", b"a\0", "é漢🌳".encode(), bytes(draw.choices(range(128), k=draw.randint(0, 5)))]
    )


def timeuuid(draw):
    time = draw.choice([0, 1, draw.getrandbits(60)])
    high = (time & 0xFFFFFFFF) << 32 | (time >> 32 & 0xFFFF) << 16 | 0x1000 | time >> 48
    return struct.pack(">QQ", high, draw.choice([0, 1 << 63, 0x7F << 56, draw.getrandbits(64)]))


def uuid(draw):
    return timeuuid(draw) if draw.random() < 0.4 else draw.choice([bytes(16), draw.randbytes(16)])


FLOATS = choice(
    "7fc00000",
    "ffc00000",
    "7fc00001",
    "fff80001",
    "7f800000",
    "ff800000",
    "00000000",
    "80000000",
    "3f800000",
    "bf800000",
    "00000001",
    "7f7fffff",
)
DOUBLES = choice(
    *(
        high + "00000000"
        for high in (
            "7ff80000",
            "fff80000",
            "7ff80001",
            "fff00001",
            "7ff00000",
            "fff00000",
            "00000000",
            "80000000",
            "3ff00000",
            "bff00000",
        )
    )
)

SCALARS = {
    "ascii": lambda draw: draw.choice([b"a", b"ab", draw.randbytes(2)]),
    "bigint": number(8),
    "blob": lambda draw: draw.randbytes(draw.randint(0, 3)),
    "boolean": choice("00", "01", "02", "ff"),
    "date": number(4),
    "decimal": decimal,
    "double": lambda draw: DOUBLES(draw) if draw.random() < 0.7 else draw.randbytes(8),
    "float": lambda draw: FLOATS(draw) if draw.random() < 0.7 else draw.randbytes(4),
    "inet": lambda draw: draw.choice(
        [
            bytes.fromhex("00000000000000000000ffff7f000001"),
            b"\x7f\0\0\1",
            draw.randbytes(4),
            draw.randbytes(16),
        ]
    ),
    "int": number(4),
    "smallint": number(2),
    "text": text,
    "time": lambda draw: (
        draw.randint(0, 86_399_999_999_999).to_bytes(8, "big") if draw.random() < 0.7 else bytes(8)
    ),
    "timestamp": number(8),
    "timeuuid": timeuuid,
    "tinyint": number(1),
    "uuid": uuid,
    "varint": varint,
}


def scalar(kind, wrong=0.04):
    """Draws values of a scalar type, of which some are empty and some have a wrong length."""
    def of(draw):
        at = draw.random()
        if at < wrong and kind not in ("blob", "text", "ascii", "varint", "decimal"):
            return draw.randbytes(draw.choice([1, 2, 3, 5, 7, 9, 15, 17]))
        return b"" if at < 2 * wrong else SCALARS[kind](draw)
    return of


def part(kind):
    """Draws nested values, of which most are valid. None is empty, because Cassandra stores no list
    with an empty value."""
    def of(draw):
        while True:
            if drawn := scalar(kind, wrong=0.002)(draw):
                return drawn
    return of


def many(element, most=4):
    """Draws a list or set, unsorted and with duplicates, and sometimes with bytes behind it."""
    def of(draw):
        items = [element(draw) for _ in range(draw.randint(0, most))]
        items += [draw.choice(items)] if items and draw.random() < 0.3 else []
        behind = b"\0" if draw.random() < 0.01 else b""
        return struct.pack(">i", len(items)) + b"".join(map(value, items)) + behind
    return of


def entries(key, of_value):
    def of(draw):
        items = [(key(draw), of_value(draw)) for _ in range(draw.randint(0, 4))]
        items += [(draw.choice(items)[0], of_value(draw))] if items and draw.random() < 0.3 else []
        return struct.pack(">i", len(items)) + b"".join(value(k) + value(v) for k, v in items)
    return of


def fields(*kinds):
    """Draws a tuple or user type: nulls, empty values, and fields left out at the end."""
    def of(draw):
        kept = kinds[:draw.randint(0, len(kinds))] if draw.random() < 0.2 else kinds
        return b"".join(
            value(draw.choice([None, b"", kind(draw), kind(draw), kind(draw)])) for kind in kept
        )
    return of


def row(element, count):
    return lambda draw: b"".join(element(draw) for _ in range(count))


def sized(element, count):
    """Draws a vector of values of any length."""
    return row(lambda draw: (lambda item: bytes([len(item)]) + item)(element(draw)), count)


MARSHAL = "org.apache.cassandra.db.marshal."
POINT = (
    f"{MARSHAL}FrozenType({MARSHAL}UserType(kinds,706f696e74,"
    f"78:{MARSHAL}FloatType,79:{MARSHAL}DecimalType))"
)
ELEMENTS = ("int", "float", "decimal", "varint", "boolean", "inet", "text", "uuid")
# For each nested CQL type, a function that draws values.
NESTED = {
    **{f"frozen<list<{kind}>>": many(part(kind)) for kind in ELEMENTS},
    **{f"frozen<set<{kind}>>": many(part(kind)) for kind in SCALARS},
    "frozen<map<int, text>>": entries(part("int"), part("text")),
    "frozen<map<double, boolean>>": entries(part("double"), part("boolean")),
    "frozen<map<frozen<set<int>>, varint>>": entries(many(part("int")), part("varint")),
    "frozen<list<frozen<set<float>>>>": many(many(part("float"), 2)),
    "frozen<set<frozen<set<int>>>>": many(many(part("int"), 2)),
    "frozen<set<frozen<tuple<int, float>>>>": many(fields(part("int"), part("float"))),
    "frozen<tuple<int, int>>": fields(part("int"), part("int")),
    "frozen<tuple<float, decimal, text>>": fields(part("float"), part("decimal"), part("text")),
    "frozen<point>": fields(part("float"), part("decimal")),
    "frozen<list<frozen<point>>>": many(fields(part("float"), part("decimal")), 2),
    "vector<float, 2>": row(part("float"), 2),
    "vector<varint, 2>": sized(part("varint"), 2),
    "vector<frozen<tuple<int, int>>, 1>": sized(fields(part("int"), part("int")), 1),
}
TYPES = {**{kind: scalar(kind) for kind in SCALARS}, **NESTED}
ORACLE_NAMES = {
    "frozen<point>": POINT,
    "frozen<list<frozen<point>>>": f"{MARSHAL}FrozenType({MARSHAL}ListType({POINT}))",
}


class Kind:
    """A type, its values, and Cassandra's verdict on each.

    A verdict is None if Cassandra refuses the value, else the value's rank and stored form.
    """

    def __init__(self, index, name):
        draw = random.Random(f"{SEED} {name}")
        self.name, self.rows, self.keys = name, f"kinds.rows_{index}", f"kinds.keys_{index}"
        self.is_descending = draw.random() < 0.4
        self.sent = [TYPES[name](draw) for _ in range(COUNT)]
        self.said = []

    def line(self):
        return [
            ORACLE_NAMES.get(self.name, self.name),
            " ".join(sent.hex() or "-" for sent in self.sent),
        ]

    def take(self, line):
        for said in line.split(" "):
            rank, _, stored = said.partition(":")
            self.said.append(said if said in "-!" else (int(rank), bytes.fromhex(stored)))
        # Where Cassandra itself fails, no answer is right.
        kept = [
            (sent, None if said == "-" else said)
            for sent, said in zip(self.sent, self.said)
            if said != "!"
        ]
        self.sent, self.said = [sent for sent, _ in kept], [said for _, said in kept]

    def accepted(self):
        return [
            (index, sent, *said)
            for index, (sent, said) in enumerate(zip(self.sent, self.said))
            if said
        ]

    def create(self):
        order = "DESC" if self.is_descending else "ASC"
        return [
            f"CREATE TABLE {self.rows} (p int, c {self.name}, v int, PRIMARY KEY (p, c)) WITH "
            f"CLUSTERING ORDER BY (c {order})",
            f"CREATE TABLE {self.keys} (k {self.name} PRIMARY KEY, v {self.name})",
        ]


def partition(index):
    return struct.pack(">i", index % PARTITIONS)


def ask_all(wire, prepared, executions):
    """Sends all executions, a thousand at a time, and returns their answers."""
    answers = {}

    def envelope(stream, values):
        head = string(prepared[0]) + struct.pack(">HBH", ONE, 0x01 | SKIP_METADATA, len(values))
        return wire.envelope(EXECUTE, head + b"".join(map(value, values)), stream)

    for start in range(0, len(executions), 1000):
        some = executions[start:start + 1000]
        wire.send(b"".join(envelope(stream, values) for stream, values in enumerate(some)))
        for _ in some:
            answer = wire.receive()
            answers[start + answer.stream] = answer
    return [answers[index] for index in range(len(executions))]


@pytest.fixture(scope="module")
def kinds(start_node, oracle):
    """Returns all types with Cassandra's verdicts, and with their values in a node."""
    kinds = [Kind(index, name) for index, name in enumerate(TYPES)]
    done = oracle("values", commands=[kind.line() for kind in kinds])
    lines = done.stdout.splitlines()
    assert len(lines) == len(kinds), done.stderr[-2000:]
    for kind, line in zip(kinds, lines):
        kind.take(line)
    node = start_node(settings={"commitlog_sync": "periodic"})
    with Wire(node, timeout_s=60) as wire:
        for statement in (
            "CREATE KEYSPACE kinds WITH replication = {'class': 'SimpleStrategy', "
            "'replication_factor': 1}",
            "CREATE TYPE kinds.point (x float, y decimal)",
            "USE kinds",
            *(statement for kind in kinds for statement in kind.create()),
        ):
            answer = wire.query(statement)
            assert answer.code is None, f"{statement}: {answer.message}"
        for kind in kinds:
            insert = wire.prepare(f"INSERT INTO {kind.rows} (p, c, v) VALUES (?, ?, ?)")
            kind.rows_said = ask_all(
                wire,
                insert,
                [(partition(i), sent, struct.pack(">i", i)) for i, sent in enumerate(kind.sent)],
            )
            insert = wire.prepare(f"INSERT INTO {kind.keys} (k, v) VALUES (?, ?)")
            kind.keys_said = ask_all(wire, insert, [(sent, sent) for sent in kind.sent])
    return node, kinds


def test_values_are_taken_or_refused_as_in_cassandra(kinds):
    for kind in kinds[1]:
        for sent, said, row_said, key_said in zip(
            kind.sent, kind.said, kind.rows_said, kind.keys_said
        ):
            where = f"{kind.name} {sent.hex()}, seed {SEED}"
            expected = None if said else INVALID
            assert row_said.code == expected, where
            # An empty partition key is refused whatever its type.
            assert key_said.code == (expected if sent else INVALID), where


@pytest.mark.parametrize("place", ["memtable", "files", "restarted"])
def test_values_are_found_and_in_order(kinds, place):
    node, all_kinds = kinds
    if place == "files":
        node.flush("kinds")
    if place == "restarted":
        node.restart()
    with Wire(node, timeout_s=60) as wire:
        for kind in all_kinds:
            check_rows(wire, kind)
            check_keys(wire, kind)


def check_rows(wire, kind):
    draw = random.Random(f"{SEED} look-ups")
    expected, forms = {}, {}
    for index, sent, rank, stored in kind.accepted():
        expected.setdefault(partition(index), {}).setdefault(rank, []).append((index, sent))
        forms[stored] = rank
    for at, ranks in expected.items():
        rows = ask_all(wire, wire.prepare(f"SELECT c, v FROM {kind.rows} WHERE p = ?"), [(at,)])[
            0
        ].rows()
        found = [forms.get(c) for c, _ in rows]
        where = f"{kind.name}, seed {SEED}: {[c.hex() for c, _ in rows]}"
        assert found == sorted(ranks, reverse=kind.is_descending), where
        # The last write of a row wins.
        assert [struct.unpack(">i", v)[0] for _, v in rows] == [
            ranks[rank][-1][0] for rank in found
        ], where
    look_ups = [
        (at, draw.choice(of_rank)[1], of_rank[-1][0])
        for at, ranks in expected.items()
        for of_rank in ranks.values()
    ]
    look_up = wire.prepare(f"SELECT v FROM {kind.rows} WHERE p = ? AND c = ?")
    for (_, sent, index), answer in zip(
        look_ups, ask_all(wire, look_up, [(at, sent) for at, sent, _ in look_ups])
    ):
        assert answer.kind == ROWS
        assert answer.rows() == [
            [struct.pack(">i", index)]
        ], f"{kind.name} {sent.hex()}, seed {SEED}"


def check_keys(wire, kind):
    """Checks that partitions are distinguished by the bytes of their stored keys."""
    accepted = [(sent, stored) for _, sent, _, stored in kind.accepted() if sent]
    rows = wire.select(f"SELECT k, v FROM {kind.keys}") if accepted else []
    stored = {form for _, form in accepted}
    assert {key for key, _ in rows} == stored and len(rows) == len(
        stored
    ), f"{kind.name}, seed {SEED}"
    assert all(key == cell for key, cell in rows), f"{kind.name}, seed {SEED}"
    look_up = wire.prepare(f"SELECT k FROM {kind.keys} WHERE k = ?")
    for (sent, form), answer in zip(
        accepted, ask_all(wire, look_up, [(sent,) for sent, _ in accepted])
    ):
        assert answer.kind == ROWS and answer.body.endswith(
            value(form)
        ), f"{kind.name} {sent.hex()}, seed {SEED}"


def test_files_are_right_for_cassandra_and_for_us(kinds, oracle):
    node, all_kinds = kinds
    node.flush("kinds")
    # Files treat partition keys as bytes, so a few tables of them are enough; Cassandra's verifier
    # is slow.
    tables = [kind.rows for kind in all_kinds] + [kind.keys for kind in all_kinds[::12]]
    directories = [
        files[0].parent for table in tables if (files := node.table_files(*table.split(".")))
    ]
    assert len(directories) > len(all_kinds)
    done = oracle("verify", *directories)
    complaints = [line for line in (done.stdout + done.stderr).splitlines() if "FAIL" in line]
    assert done.returncode == 0 and not complaints, (SEED, complaints[:20] or done.stderr[-1000:])
    ours = subprocess.run(
        [BINARY, "sstable", "verify", *directories], capture_output=True, text=True, timeout=300
    )
    assert ours.returncode == 0 and "warning:" not in ours.stdout, (
        SEED,
        ours.stdout[-2000:],
        ours.stderr[-1000:],
    )
