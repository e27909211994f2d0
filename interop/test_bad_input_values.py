"""Values with bytes that are wrong for their type are refused with a reason. Arbitrary bytes as a
paging state do no harm."""
import struct

import pytest

from bystander import Bystander
from wire import INVALID, PROTOCOL, VOID, Wire, value

# Bytes that are no value of the type. The empty value, which most types accept, is not listed.
BAD = {
    "ascii": [b"\x80", b"caf\xc3\xa9"],
    "bigint": [b"\0" * 7, b"\0" * 9, b"\0"],
    "boolean": [b"\0\0"],
    "counter": [],
    "date": [b"\0" * 3, b"\0" * 5],
    "decimal": [b"\0", b"\0\0\0"],
    "double": [b"\0" * 4, b"\0" * 9],
    "duration": [b"\0", b"\0\0", b"\x02\x01\0", b"\xff" * 30],
    "float": [b"\0" * 3, b"\0" * 8],
    "inet": [b"\0" * 3, b"\0" * 5, b"\0" * 15, b"\0" * 17],
    "int": [b"\0", b"\0" * 3, b"\0" * 5],
    "smallint": [b"\0", b"\0" * 3],
    "text": [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"ab\xc3", b"\xf4\x90\x80\x80"],
    "time": [b"\0" * 7, b"\0" * 9],  # Cassandra takes any eight bytes
    "timestamp": [b"\0" * 7, b"\0" * 9],
    "timeuuid": [b"\0" * 15, b"\0" * 6 + b"\x40" + b"\0" * 9],
    "tinyint": [b"\0\0"],
    "uuid": [b"\0" * 15, b"\0" * 17],
    "list<int>": [
        b"\0",
        b"\0\0\0\1",
        struct.pack(">i", 1) + value(b"\0\0\0"),
        struct.pack(">i", 2) + value(b"\0" * 4),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", 1) + struct.pack(">i", 2**31 - 1),
        struct.pack(">i", 1) + value(b"\0" * 4) + b"more",
        struct.pack(">i", -1),
    ],
    "set<text>": [
        struct.pack(">i", 1) + value(b"\xff"),
        struct.pack(">i", 3) + value(b"a") + value(b"b"),
    ],
    "map<text, int>": [
        struct.pack(">i", 1) + value(b"a"),
        struct.pack(">i", 1) + value(b"a") + value(b"\0"),
        struct.pack(">i", 2**30) + value(b"a") + value(b"\0" * 4),
    ],
    "frozen<list<frozen<set<int>>>>": [
        struct.pack(">i", 1) + value(struct.pack(">i", 1) + value(b"\0"))
    ],
    "tuple<int, text>": [
        value(b"\0" * 3),
        value(b"\0" * 4) + value(b"\xff"),
        value(b"\0" * 4) + value(b"a") + value(b"b"),
        struct.pack(">i", 100) + b"\0",
    ],
    "frozen<place>": [
        value(b"\0" * 3),
        value(b"\0" * 4) + value(b"\xfe"),
        struct.pack(">i", 2**31 - 1),
        value(b"\0" * 4) + value(b"a") + value(b"b"),
    ],
    "vector<float, 3>": [b"\0" * 8, b"\0" * 16, b"\0"],
}


@pytest.fixture(scope="module")
def node(start_node):
    node = start_node()
    with Wire(node) as wire:
        for statement in (
            "CREATE KEYSPACE bad WITH replication = {'class': 'SimpleStrategy', "
            "'replication_factor': 1}",
            "CREATE TYPE bad.place (number int, street text)",
        ):
            answer = wire.query(statement)
            assert answer.code is None, answer.message
        for index, kind in enumerate(BAD):
            if BAD[kind]:
                key = (
                    kind
                    if kind.startswith(("frozen", "tuple")) or "<" not in kind
                    else f"frozen<{kind}>"
                )
                if kind == "duration":
                    key = "int"  # the type has no order
                for statement in (
                    f"CREATE TABLE bad.cell_{index} (k int PRIMARY KEY, it {kind})",
                    f"CREATE TABLE bad.key_{index} (it {key} PRIMARY KEY)",
                    f"CREATE TABLE bad.clustering_{index} (k int, it {key}, PRIMARY KEY (k, it))",
                ):
                    answer = wire.query(statement)
                    assert answer.code is None, answer.message
    return node


@pytest.mark.parametrize("kind", [kind for kind in BAD if BAD[kind]])
def test_values_that_are_none_of_their_type(node, kind):
    index = list(BAD).index(kind)
    with Bystander(node), Wire(node) as wire:
        one = struct.pack(">i", 1)
        statements = [
            (
                wire.prepare(f"INSERT INTO bad.cell_{index} (k, it) VALUES (?, ?)"),
                lambda bad: (one, bad),
            )
        ]
        if kind != "duration":
            statements += [
                (wire.prepare(f"INSERT INTO bad.key_{index} (it) VALUES (?)"), lambda bad: (bad,)),
                (wire.prepare(f"SELECT * FROM bad.key_{index} WHERE it = ?"), lambda bad: (bad,)),
                (
                    wire.prepare(f"INSERT INTO bad.clustering_{index} (k, it) VALUES (?, ?)"),
                    lambda bad: (one, bad),
                ),
                (
                    wire.prepare(f"SELECT * FROM bad.clustering_{index} WHERE k = ? AND it > ?"),
                    lambda bad: (one, bad),
                ),
                (
                    wire.prepare(f"DELETE FROM bad.clustering_{index} WHERE k = ? AND it = ?"),
                    lambda bad: (one, bad),
                ),
            ]
        for bad in BAD[kind]:
            for prepared, values in statements:
                answer = wire.execute(prepared, values(bad))
                assert answer.code == INVALID, (kind, bad, answer)
                assert len(answer.message) > 10, "the error must give a reason"
            answer = wire.query(f"INSERT INTO bad.cell_{index} (k, it) VALUES (?, ?)", (one, bad))
            assert answer.code == INVALID, (kind, bad, answer)
        assert wire.query(f"SELECT count(*) FROM bad.cell_{index}").rows() == [
            [bytes(8)]
        ], "no part of it was written"


def test_keys_that_are_missing_empty_or_too_long(node):
    with Bystander(node), Wire(node) as wire:
        wire.query(
            "CREATE TABLE IF NOT EXISTS bad.texts (k text, c text, v text, PRIMARY KEY (k, c))"
        )
        insert = wire.prepare("INSERT INTO bad.texts (k, c, v) VALUES (?, ?, ?)")
        assert wire.execute(insert, (None, b"c", b"v")).code == INVALID
        assert wire.execute(insert, (b"", b"c", b"v")).code == INVALID
        assert wire.execute(insert, (b"k", None, b"v")).code == INVALID
        answer = wire.execute(insert, (b"k" * 65536, b"c", b"v"))
        assert answer.code == INVALID and "65535" in answer.message
        assert wire.execute(insert, (b"k", b"c" * 65536, b"v")).code == INVALID
        assert wire.execute(insert, (b"k" * 65535, b"c", b"v")).kind == VOID
        assert wire.execute(insert, (b"k", b"", b"v")).kind == VOID
        select = wire.prepare("SELECT v FROM bad.texts WHERE k = ?")
        for key in (b"k" * 65535, b"k"):
            assert wire.execute(select, (key,)).rows() == [[b"v"]]


def test_paging_states_that_are_not_ours(node):
    """A client can send any bytes as a paging state. The node must refuse them or read from some
    place, without harm."""
    with Bystander(node), Wire(node) as wire:
        wire.query("CREATE TABLE IF NOT EXISTS bad.pages (k int, c int, PRIMARY KEY (k, c))")
        insert, select = wire.prepare("INSERT INTO bad.pages (k, c) VALUES (?, ?)"), wire.prepare(
            "SELECT c FROM bad.pages"
        )
        for number in range(20):
            wire.execute(insert, (struct.pack(">i", number % 3), struct.pack(">i", number)))

        page = lambda state: wire.page(select, 5, state, flags=0)
        first = page(None)
        state = first.paging_state
        good = page(state)
        assert state and good.rows() != first.rows()
        damaged = [b"", b"\0", b"x" * 7, bytes(1000), b"\xff" * 40, state + b"more"]
        damaged += [state[:cut] for cut in range(1, len(state))]
        damaged += [
            state[:at] + bytes([state[at] ^ bit]) + state[at + 1 :]
            for at in range(len(state))
            for bit in (1, 0x80)
        ]
        refused = 0
        for bad in damaged:
            answer = page(bad)
            assert answer.code in (None, PROTOCOL, INVALID), answer.message
            refused += answer.code is not None
        assert refused > len(damaged) // 3
        assert page(state).rows() == good.rows()
