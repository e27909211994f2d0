"""Malformed frames and requests get an error that names the fault; other clients notice nothing."""
import random
import select
import struct

import pytest

from bystander import KEYSPACE, Bystander
from driver import seed
from wire import (
    BATCH,
    ERROR,
    EXECUTE,
    HEADER,
    INVALID,
    ONE,
    OPTIONS,
    PREPARE,
    PROTOCOL,
    QUERY,
    READY,
    REGISTER,
    STARTUP,
    SUPPORTED,
    SYNTAX,
    UNPREPARED,
    Closed,
    Wire,
    crc24,
    long_string,
    parameters,
    segment,
    string,
    string_map,
    value,
)

SEED = seed()
VERSIONS = pytest.mark.parametrize("version", [3, 4, 5])
MIB = 1 << 20


@pytest.fixture(scope="module")
def node(start_node):
    return start_node()


@pytest.fixture(autouse=True)
def bystander(node):
    """Every test here runs beside clients that must not notice it."""
    with Bystander(node) as bystander:
        yield bystander


@VERSIONS
def test_unknown_opcodes_are_refused_and_the_connection_lives(node, version):
    with Wire(node, version) as wire:
        for opcode in (0x04, 0x11, 0x42, 0x7F, 0xFF):
            answer = wire.ask(opcode, b"abc", stream=5)
            assert (answer.code, answer.stream) == (PROTOCOL, 5)
            assert "opcode" in answer.message.lower()
        assert wire.is_alive()


@VERSIONS
def test_opcodes_of_responses_are_refused(node, version):
    with Wire(node, version) as wire:
        for opcode in (0x00, 0x02, 0x06, 0x08, 0x0C):
            assert wire.ask(opcode, b"").code == PROTOCOL
        assert wire.is_alive()


@pytest.mark.parametrize("version", [0, 6, 66, 127])
def test_other_versions_are_refused_by_name(node, version):
    """Drivers find the protocol version to speak by this error."""
    with Wire(node, startup=False) as wire:
        wire.send_raw(
            wire.envelope(STARTUP, string_map({"CQL_VERSION": "3.0.0"}), stream=3, version=version)
        )
        answer = wire.receive()
        assert answer.code == PROTOCOL
        assert f"({version})" in answer.message
        assert all(name in answer.message for name in ("3/v3", "4/v4", "5/v5"))
        assert wire.is_closed()


def test_version_must_not_change(node):
    with Wire(node) as wire:
        wire.send_raw(wire.envelope(OPTIONS, b"", version=5))
        assert wire.receive().code == PROTOCOL
        assert wire.is_closed()


@VERSIONS
def test_requests_marked_as_responses_are_refused(node, version):
    with Wire(node, version) as wire:
        wire.send(wire.envelope(OPTIONS, b"", version=0x80 | version))
        assert wire.receive().code == PROTOCOL
        assert wire.is_closed()


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        bytes(64),
        b"\xff" * 64,
    ],
    ids=["http", "tls", "zeros", "ones"],
)
def test_other_protocols_are_turned_away(node, garbage):
    with Wire(node, startup=False) as wire:
        wire.send_raw(garbage)
        assert wire.is_closed()


def test_requests_before_startup_are_refused(node):
    for opcode in (QUERY, PREPARE, EXECUTE, BATCH, REGISTER):
        with Wire(node, startup=False) as wire:
            answer = wire.ask(opcode, long_string("SELECT * FROM system.local") + parameters(4))
            assert answer.code == PROTOCOL and (opcode != QUERY or "STARTUP" in answer.message)


@VERSIONS
def test_startup_needs_sense(node, version):
    for options, word in (
        ({}, "CQL_VERSION"),
        ({"CQL_VERSION": "3.0.0", "COMPRESSION": "zip"}, "zip"),
        ({"CQL_VERSION": "nonsense"}, "nonsense"),
    ):
        with Wire(node, version, startup=False) as wire:
            answer = wire.ask(STARTUP, string_map(options))
            assert answer.opcode == ERROR and word in answer.message, answer
            wire.startup()
            assert wire.is_alive()


def test_bodies_that_are_too_large(node):
    """The limit is 16 MiB by default; the node skips a larger body, and the connection stays
    open."""
    with Wire(node) as wire:
        size = 16 * MIB + 1
        wire.send_raw(wire.envelope(QUERY, b"", stream=9, length=size))
        for _ in range(16):
            wire.send_raw(bytes(MIB))
        # The node answers only after the whole body, because drivers do not listen while they send.
        assert select.select([wire.socket], [], [], 0.3)[0] == []
        wire.send_raw(bytes(1))
        answer = wire.receive()
        assert (answer.code, answer.stream) == (INVALID, 9)
        assert str(size) in answer.message and str(16 * MIB) in answer.message
        assert wire.is_alive()


def test_bodies_that_are_too_large_in_segments(node):
    with Wire(node, 5) as wire:
        size = 16 * MIB + 1
        wire.send(wire.envelope(QUERY, bytes(size), stream=9))
        answer = wire.receive()
        assert (answer.code, answer.stream) == (INVALID, 9)
        assert str(size) in answer.message
        assert wire.is_alive()


@pytest.mark.parametrize("length", [-1, -2**31])
def test_impossible_lengths(node, length):
    with Wire(node) as wire:
        wire.send_raw(wire.envelope(QUERY, b"", length=length))
        answer = wire.receive()
        assert answer.code == PROTOCOL and str(length) in answer.message


def test_the_greatest_length(node):
    """The node waits for the rest of such a body, and no other client is affected."""
    with Wire(node) as wire, Wire(node) as other:
        wire.send_raw(wire.envelope(QUERY, bytes(MIB), length=2**31 - 1))
        assert select.select([wire.socket], [], [], 0.3)[0] == []
        assert other.is_alive()


@VERSIONS
def test_text_that_is_not_utf8(node, version):
    bad = b"SELECT * FROM system.local -- \xff\xfe"
    with Wire(node, version) as wire:
        answer = wire.ask(QUERY, long_string(bad) + parameters(version))
        assert answer.code == PROTOCOL and "UTF-8" in answer.message
        answer = wire.ask(
            PREPARE, long_string(bad) + (struct.pack(">I", 0) if version >= 5 else b"")
        )
        assert answer.code == PROTOCOL and "UTF-8" in answer.message
        answer = wire.ask(REGISTER, struct.pack(">H", 1) + string(b"\xc3\x28"))
        assert answer.code == PROTOCOL
        assert wire.is_alive()


def requests(wire):
    """Returns a correct request of every kind: opcode and body."""
    version, empty = wire.version, struct.pack(">I", 0) if wire.version >= 5 else b""
    select = f"SELECT v FROM {KEYSPACE}.notes WHERE k = ?"
    insert = f"INSERT INTO {KEYSPACE}.notes (k, v) VALUES (?, ?)"
    one, text = (1).to_bytes(4, "big"), b"text"
    batch = struct.pack(">BH", 1, 2)
    batch += b"\0" + long_string(insert) + struct.pack(">H", 2) + value(one) + value(text)
    batch += (
        b"\1" + string(wire.prepare(insert)[0]) + struct.pack(">H", 2) + value(one) + value(text)
    )
    batch += struct.pack(">H", ONE) + struct.pack(">I" if version >= 5 else ">B", 0)
    return {
        "QUERY": (QUERY, long_string(select) + parameters(version, (one,))),
        "PREPARE": (PREPARE, long_string(select) + empty),
        "EXECUTE": (EXECUTE, wire.execute_body(wire.prepare(select), (one,))),
        "BATCH": (BATCH, batch),
        "REGISTER": (
            REGISTER,
            struct.pack(">H", 2) + string("SCHEMA_CHANGE") + string("STATUS_CHANGE"),
        ),
    }


@VERSIONS
def test_requests_cut_at_every_byte(node, version):
    with Wire(node, version) as wire:
        for name, (opcode, body) in requests(wire).items():
            assert wire.ask(opcode, body).opcode in (
                READY,
                0x08,
            ), f"{name} must be right as a whole"
            for cut in range(len(body)):
                answer = wire.ask(opcode, body[:cut], stream=cut)
                assert answer.opcode == ERROR, f"{name} cut at {cut} of {len(body)}"
                assert (answer.code, answer.stream) == (PROTOCOL, cut), (name, cut, answer.message)
        assert wire.is_alive()


@VERSIONS
def test_requests_with_flipped_bits(node, version):
    """The node may refuse or understand a request; it answers on its stream and keeps running."""
    draw = random.Random(f"{SEED} {version}")
    wire = Wire(node, version)
    correct = requests(wire)
    answers = 0
    for count in range(1500):
        opcode, body = draw.choice(list(correct.values()))
        bits = bytearray(body)
        for _ in range(draw.choice([1, 1, 1, 2, 8])):
            at = draw.randrange(len(bits))
            bits[at] ^= 1 << draw.randrange(8)
        try:
            answer = wire.ask(opcode, bytes(bits), stream=count)
        except Closed:
            pytest.fail(f"closed after {opcode:#x} {bits.hex()}, seed {SEED}")
        if answer.opcode == 0x0C:
            answer = wire.receive()  # a REGISTER may be followed by an event
        assert answer.stream == count
        answers += answer.opcode == ERROR
    assert 0 < answers < 1500
    wire.close()


@VERSIONS
def test_random_bytes_after_startup(node, version):
    draw = random.Random(f"{SEED} {version}")
    for _ in range(40):
        with Wire(node, version) as wire:
            try:
                wire.send_raw(draw.randbytes(draw.randint(1, 3000)))
                wire.socket.shutdown(1)
            except (Closed, OSError):
                pass
            assert wire.is_closed()


@VERSIONS
def test_errors_of_statements_leave_the_connection_alone(node, version):
    with Wire(node, version) as wire:
        prepared = wire.prepare(f"SELECT v FROM {KEYSPACE}.notes WHERE k = ?")
        answer = wire.execute((b"\x01" * 16, b"\x02" * 16), ())
        assert answer.code == UNPREPARED
        assert answer.body.endswith(string(b"\x01" * 16)), "it names the unknown id"
        for values in ((), (b"\0" * 4, b"\0" * 4)):
            assert wire.execute(prepared, values).code in (INVALID, PROTOCOL)
        answer = wire.query("SELEC 1")
        assert answer.code == SYNTAX and "SELEC" in answer.message and "1:" in answer.message
        assert wire.query("SELECT * FROM nowhere.nothing").code == INVALID
        assert wire.is_alive()


def test_bodies_compressed_without_agreement(node):
    with Wire(node) as wire:
        wire.send_raw(wire.envelope(OPTIONS, b"\0\0\0\0", flags=1))
        answer = wire.receive()
        assert answer.code == PROTOCOL and "compress" in answer.message
        assert wire.is_alive()


def test_compressed_bodies_that_are_not(node):
    with Wire(node, 4, "lz4") as wire:
        for body in (b"", b"\0", b"\0\0\0\x10garbage", struct.pack(">i", 2**31 - 1) + b"\xff" * 40,
                     struct.pack(">i", -1) + b"abc"):
            wire.send_raw(wire.envelope(QUERY, body, flags=1, stream=4))
            answer = wire.receive()
            assert answer.opcode == ERROR and answer.stream == 4
        assert wire.is_alive()


SEGMENTS = {
    "header checksum": lambda good: good[:3] + bytes([good[3] ^ 1]) + good[4:],
    "header": lambda good: bytes([good[0] ^ 4]) + good[1:],
    "payload checksum": lambda good: good[:-1] + bytes([good[-1] ^ 0x80]),
    "payload": lambda good: good[:9] + bytes([good[9] ^ 1]) + good[10:],
}


@pytest.mark.parametrize("compression", [None, "lz4"])
@pytest.mark.parametrize("damage", SEGMENTS)
def test_segments_with_a_flipped_bit(node, damage, compression):
    """The node cannot find the next frame, so it sends an error and closes the connection."""
    with Wire(node, 5, compression) as wire:
        good = segment(
            wire.envelope(QUERY, long_string("SELECT key FROM system.local") + parameters(5)),
            compressing=compression == "lz4",
        )
        wire.send_raw(good)
        assert wire.receive().rows() == [[b"local"]]
        wire.send_raw(SEGMENTS[damage](good))
        answer = wire.receive()
        assert (
            answer.code == PROTOCOL and "checksum" in answer.message and "segment" in answer.message
        )
        assert wire.is_closed()


def test_segments_that_end_inside_of_a_frame(node):
    options = HEADER.pack(5, 0, 1, OPTIONS, 0)
    for payload in (
        options[:5],
        options + options[:5],
        HEADER.pack(5, 0, 1, QUERY, 100) + b"short",
    ):
        with Wire(node, 5) as wire:
            wire.send_raw(segment(payload))
            answer = wire.receive()
            if answer.opcode == SUPPORTED:
                answer = wire.receive()
            assert answer.code == PROTOCOL
            assert wire.is_closed()


def test_compressed_segments_that_lie_about_their_length(node):
    good = (
        HEADER.pack(5, 0, 1, QUERY, 600)
        + long_string("SELECT key FROM system.local" + " " * 559)
        + parameters(5)
    )
    for lie in (len(good) - 1, len(good) + 1, 1, (1 << 17) - 1):
        with Wire(node, 5, "lz4") as wire:
            whole = segment(good, compressing=True)
            bits = int.from_bytes(whole[:5], "little")
            bits = bits & ~(((1 << 17) - 1) << 17) | lie << 17
            head = bits.to_bytes(5, "little")
            wire.send_raw(head + crc24(head).to_bytes(3, "little") + whole[8:])
            assert wire.receive().code == PROTOCOL
            assert wire.is_closed()


def test_clients_that_stop_in_the_middle(node):
    """A client sends half a frame and then nothing, or closes its socket. No other client has to
    wait."""
    half = [Wire(node, version) for version in (4, 5) for _ in range(20)]
    for index, wire in enumerate(half):
        frame = wire.envelope(
            QUERY, long_string("SELECT * FROM system.local") + parameters(wire.version)
        )
        frame = segment(frame) if wire.segmented else frame
        wire.send_raw(frame[:1 + index % (len(frame) - 1)])
    with Wire(node) as other:
        assert other.is_alive()
    for wire in half[::2]:
        wire.close()
    with Wire(node) as other:
        assert other.is_alive()
    for wire in half[1::2]:
        wire.close()


def test_clients_that_do_not_read_their_answers(node):
    """Answers that a client does not read must not pile up in the node."""
    with Wire(node) as wire:
        wire.query(f"CREATE TABLE IF NOT EXISTS {KEYSPACE}.large (k int PRIMARY KEY, v blob)")
        insert = wire.prepare(f"INSERT INTO {KEYSPACE}.large (k, v) VALUES (?, ?)")
        wire.execute(insert, (bytes(4), bytes(MIB)))
    before = node.resident_bytes()
    lazy = Wire(node, timeout_s=2)
    request = lazy.envelope(
        EXECUTE,
        lazy.execute_body(lazy.prepare(f"SELECT v FROM {KEYSPACE}.large WHERE k = ?"), (bytes(4),)),
    )
    try:
        for _ in range(3000):  # answers of 3 GiB
            lazy.send_raw(request)
    except (TimeoutError, Closed):
        pass
    with Wire(node) as other:
        assert other.is_alive()
    assert node.resident_bytes() - before < 200 * MIB
    lazy.close()
