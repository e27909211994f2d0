"""Protocol version 3, which old drivers pin: its differences from version 4, as in Cassandra."""
import struct
from datetime import date

import pytest

from wire import (
    BATCH,
    ERROR,
    EVENT,
    EXECUTE,
    INVALID,
    ONE,
    OPTIONS,
    PREPARE,
    PROTOCOL,
    QUERY,
    READY,
    REGISTER,
    RESULT,
    STARTUP,
    SUPPORTED,
    VOID,
    Wire,
    long_string,
    string,
    string_map,
    value,
)

CUSTOM_PAYLOAD, WARNING = 0x04, 0x08
MARSHAL = "org.apache.cassandra.db.marshal."


@pytest.fixture(scope="module")
def node(start_node):
    node = start_node()
    with Wire(node) as wire:
        for text in (
            "CREATE KEYSPACE a WITH replication = {'class': 'SimpleStrategy', "
            "'replication_factor': 1}",
            "CREATE TYPE a.u (a smallint, b date)",
            "CREATE TABLE a.types (k int PRIMARY KEY, a tinyint, b smallint, c date, d time, e "
            "duration, f list<smallint>,"
            " g frozen<u>, h tuple<date, time>)",
            "CREATE TABLE a.t (k int PRIMARY KEY, v text)",
            "CREATE TABLE a.p (a int, b int, c int, PRIMARY KEY ((a, b), c))",
        ):
            assert wire.query(text).code is None
    return node


def custom(name):
    return b"\0\0" + string(MARSHAL + name)


def test_supported_lists_version_3(node):
    for version in (3, 4, 5):
        with Wire(node, version, startup=False) as wire:
            answer = wire.ask(OPTIONS)
            assert answer.opcode == SUPPORTED
            versions = b"".join(string(name) for name in ("3/v3", "4/v4", "5/v5"))
            assert string("PROTOCOL_VERSIONS") + struct.pack(">H", 3) + versions in answer.body


@pytest.mark.parametrize("version", [1, 2, 6, 7])
def test_other_versions_are_refused_with_the_list(node, version):
    with Wire(node, startup=False) as wire:
        body = string_map({"CQL_VERSION": "3.0.0"})
        head = struct.pack(">BBBBi", version, 0, 3, STARTUP, len(body)) if version < 3 else None
        wire.send_raw(
            head + body if head else wire.envelope(STARTUP, body, stream=3, version=version)
        )
        received = b""
        text = (
            f"Invalid or unsupported protocol version ({version}); "
            "supported versions are (3/v3, 4/v4, 5/v5)"
        ).encode()
        while not received.endswith(text):
            received += wire.socket.recv(4096)
        # The node answers versions 1 and 2 in their own version, all others in the newest.
        assert received[0] == 0x80 | (version if version < 3 else 5)


def test_new_types_go_by_the_names_of_their_classes(node):
    columns = b"".join(
        string(name) + form
        for name, form in {
            "k": b"\0\x09",
            "a": custom("ByteType"),
            "b": custom("ShortType"),
            "c": custom("SimpleDateType"),
            "d": custom("TimeType"),
            "e": custom("DurationType"),
            "f": b"\0\x20" + custom("ShortType"),
            "g": b"\0\x30"
            + string("a")
            + string("u")
            + b"\0\2"
            + string("a")
            + custom("ShortType")
            + string("b")
            + custom("SimpleDateType"),
            "h": b"\0\x31\0\2" + custom("SimpleDateType") + custom("TimeType"),
        }.items()
    )
    with Wire(node, 3) as wire:
        answer = wire.query("SELECT * FROM a.types")
        assert answer.body[4:] == struct.pack(">ii", 1, 9) + string("a") + string(
            "types"
        ) + columns + bytes(4)
        answer = wire.ask(PREPARE, long_string("SELECT * FROM a.types"))
        assert answer.body.endswith(
            struct.pack(">ii", 1, 9) + string("a") + string("types") + columns
        )


def test_prepared_metadata_of_version_3_has_no_partition_key(node):
    text = "SELECT c FROM a.p WHERE a = ? AND b = ?"
    tail = string("a") + string("p") + string("a") + b"\0\x09" + string("b") + b"\0\x09"
    for version, indices in ((3, b""), (4, struct.pack(">iHH", 2, 0, 1))):
        with Wire(node, version) as wire:
            body = wire.ask(PREPARE, long_string(text)).body
            assert body[22:].startswith(struct.pack(">ii", 1, 2) + indices + tail)


@pytest.mark.parametrize("length", [-1, -2, -3])
def test_a_negative_length_is_null(node, length):
    """In version 4 a length of -2 means "not set" and keeps the stored value."""
    odd = struct.pack(">i", length)
    with Wire(node, 3) as wire:
        insert = wire.prepare("INSERT INTO a.t (k, v) VALUES (?, ?)")
        key = value(struct.pack(">i", 1))
        single = string(insert[0]) + struct.pack(">HBH", ONE, 1, 2) + key + odd
        batch = (
            struct.pack(">BHB", 0, 1, 1)
            + string(insert[0])
            + struct.pack(">H", 2)
            + key
            + odd
            + struct.pack(">HB", ONE, 0)
        )
        for opcode, body in ((EXECUTE, single), (BATCH, batch)):
            assert wire.execute(insert, (struct.pack(">i", 1), b"there")).kind == VOID
            assert wire.ask(opcode, body).kind == VOID
            assert wire.query("SELECT v FROM a.t WHERE k = 1").rows() == [[None]]


def test_a_custom_payload_is_refused(node):
    with Wire(node, 3) as wire:
        body = long_string("SELECT k FROM a.t") + struct.pack(">HB", ONE, 0)
        payload = struct.pack(">H", 1) + string("a") + value(b"b")
        answer = wire.ask(QUERY, payload + body, flags=CUSTOM_PAYLOAD)
        assert (answer.code, answer.message) == (
            PROTOCOL, "Received frame with CUSTOM_PAYLOAD flag for native protocol version < 4")
        assert wire.ask(QUERY, body, flags=WARNING | 0xE0).opcode == RESULT


def test_a_function_that_fails_is_an_invalid_request(node):
    text = "SELECT k / 0 FROM a.t"
    with Wire(node, 3) as wire:
        assert wire.query("INSERT INTO a.t (k) VALUES (2)").kind == VOID
        answer = wire.query(text)
        assert (answer.opcode, answer.code) == (ERROR, INVALID)
        assert (
            answer.message == "ERROR FUNCTION_FAILURE: the operation 'int / int' failed: / by zero"
        )
        assert len(answer.body) == 6 + len(answer.message)
    with Wire(node, 4) as wire:
        assert wire.query(text).code == 0x1400


def test_values_by_name_paging_and_compression(node):
    for compression in (None, "lz4"):
        with Wire(node, 3, compression=compression) as wire:
            body = long_string("INSERT INTO a.t (k, v) VALUES (:x, :y)") + struct.pack(
                ">HBH", ONE, 0x41, 2
            )
            assert (
                wire.ask(
                    QUERY,
                    body
                    + string("y")
                    + value(b"named")
                    + string("x")
                    + value(struct.pack(">i", 7)),
                ).kind
                == VOID
            )
            assert wire.query("SELECT v FROM a.t WHERE k = 7").rows() == [[b"named"]]
            for key in range(50):
                wire.query(f"INSERT INTO a.t (k, v) VALUES ({key}, 'row')")
            assert len(wire.select("SELECT k FROM a.t", page_size=7)) == 50
            assert wire.ask(STARTUP, string_map({"CQL_VERSION": "3.0.0"})).opcode != READY


def test_a_driver_that_pins_version_3(node):
    session = node.connect(protocol_version=3)
    insert = session.prepare(
        "INSERT INTO a.types (k, a, b, c, d, f, h) VALUES (?, ?, ?, ?, ?, ?, ?)"
    )
    row = (1, -7, 3000, date(2015, 5, 3), 12345, [1, -2], (date(1970, 1, 1), 5))
    session.execute(insert, row)
    select = session.prepare("SELECT k, a, b, c, d, f, h FROM a.types WHERE k = ?")
    for found in (
        session.execute(select, (1,)).one(),
        session.execute("SELECT k, a, b, c, d, f, h FROM a.types").one(),
    ):
        assert (found.k, found.a, found.b, found.f) == (1, -7, 3000, [1, -2])
        assert str(found.c) == "2015-05-03" and found.d.nanosecond_time == 12345
    assert "types" in session.cluster.metadata.keyspaces["a"].tables


def test_events_of_the_schema(node):
    with Wire(node, 3) as wire, Wire(node) as other:
        assert wire.ask(REGISTER, struct.pack(">H", 1) + string("SCHEMA_CHANGE")).opcode == READY
        assert other.query("CREATE TABLE a.later (k int PRIMARY KEY)").code is None
        event = wire.receive()
        assert (event.opcode, event.stream) == (EVENT, -1)
        assert event.body == b"".join(
            map(string, ("SCHEMA_CHANGE", "CREATED", "TABLE", "a", "later"))
        )
