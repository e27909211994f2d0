"""The long test's client accepts right answers, in any order and in any pieces, and no others."""
import random
import struct
import sys
from pathlib import Path

import numpy
import pytest

from wire import HEADER, NO_METADATA, RESULT, ROWS

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "bench"))

import pipelined_load  # noqa: E402
from pipelined_load import BLOCK, GROUP, GROUPS, KEY_BYTES  # noqa: E402

VALUE_BYTES = 92
VOID = struct.pack(">i", 1)
ROW_HEAD = struct.pack(">iiiii", ROWS, NO_METADATA, 1, 1, VALUE_BYTES)
A_WRITE, A_READ = 3, 19  # streams


class Pieces:
    """A server's end of a socket: it receives the block, and sends bytes in pieces of any size."""

    def __init__(self, seed):
        self.random, self.left, self.sent = random.Random(seed), b"", b""

    def sendall(self, data):
        self.sent += data

    def recv(self, most):
        size = self.random.randrange(1, 9000)
        piece, self.left = self.left[:size], self.left[size:]
        return piece


class Server:
    """A server that only prepares statements."""

    def __init__(self, seed):
        self.socket = Pieces(seed)

    @staticmethod
    def prepare(statement):
        return (statement.encode(), None)


def envelope(stream, body, opcode=RESULT):
    return HEADER.pack(0x84, 0, stream, opcode, len(body)) + body


def answered(monkeypatch, reads=1, change=None, seed=1):
    """Returns the number of right answers of a block, the messages about the others, the bytes that
    were sent, and the rows. `change` receives the answers by stream, and makes some of them wrong.
    """
    monkeypatch.setattr(pipelined_load, "Wire", lambda server, timeout_s: server)
    rows, server = pipelined_load.Rows(VALUE_BYTES), Server(seed)
    connection = pipelined_load.Connection(server, rows, "insert", "select", reads)
    wanted = numpy.random.default_rng(seed).integers(0, 10**6, (GROUPS, reads))
    connection.send(5000, wanted)
    answers = {}
    for stream in range(BLOCK):
        place = stream % GROUP - (GROUP - reads)
        answers[stream] = envelope(
            stream,
            VOID if place < 0 else ROW_HEAD + rows.value(int(wanted[stream // GROUP, place])),
        )
    if change:
        change(answers)
    order = list(answers)
    random.Random(seed).shuffle(order)
    server.socket.left = b"".join(answers[stream] for stream in order)
    return connection.receive(), connection.wrong, server.socket.sent, rows


@pytest.mark.parametrize("reads", (1, 3, GROUP))
def test_right_answers_are_counted(monkeypatch, reads):
    for seed in range(5):
        right, wrong, _, _ = answered(monkeypatch, reads, seed=seed)
        assert (right, wrong) == (BLOCK, [])


def test_inserts_are_sent_in_order_with_their_values(monkeypatch):
    _, _, sent, rows = answered(monkeypatch)
    at, writes = 0, []
    while at < len(sent):
        _, _, stream, _, length = HEADER.unpack_from(sent, at)
        body = sent[at + HEADER.size:at + HEADER.size + length]
        if b"insert" in body:
            writes.append(
                (stream, body[-4 - VALUE_BYTES - KEY_BYTES : -4 - VALUE_BYTES], body[-VALUE_BYTES:])
            )
        at += HEADER.size + length
    numbers = range(5000, 5000 + len(writes))
    assert len(writes) == BLOCK * 9 // 10
    assert [(key, value) for _, key, value in writes] == [
        (rows.key(number), rows.value(number)) for number in numbers
    ]


def another_row(answers):
    answers[A_READ] = answers[29][:2] + answers[A_READ][2:4] + answers[29][4:]


def an_error(answers):
    answers[A_WRITE] = envelope(A_WRITE, struct.pack(">i", 0x1000) + b"\0\4fail", opcode=0)


def no_void(answers):
    answers[A_WRITE] = envelope(A_WRITE, struct.pack(">i", 2))


def a_row_to_a_write(answers):
    answers[A_WRITE] = answers[A_READ][:2] + answers[A_WRITE][2:4] + answers[A_READ][4:]


def void_to_a_read(answers):
    answers[A_READ] = envelope(A_READ, VOID)


def no_rows(answers):
    answers[A_READ] = envelope(A_READ, struct.pack(">iiii", ROWS, NO_METADATA, 1, 0))


def a_second_answer(answers):
    answers[A_WRITE] = answers[A_WRITE + 1]


def an_unknown_stream(answers):
    answers[A_WRITE] = envelope(BLOCK + A_WRITE, VOID)


@pytest.mark.parametrize(
    "change, said",
    (
        (another_row, f"request {A_READ} was answered with another row"),
        (an_error, f"request {A_WRITE} was answered with opcode 0"),
        (no_void, f"request {A_WRITE} was answered with opcode 8"),
        (a_row_to_a_write, f"request {A_WRITE} was answered with another row"),
        (void_to_a_read, f"request {A_READ} was answered with opcode 8"),
        (no_rows, f"request {A_READ} was answered with opcode 8"),
        (a_second_answer, f"request {A_WRITE + 1} was answered with a second answer"),
        (an_unknown_stream, f"request {BLOCK + A_WRITE} was answered with opcode 8"),
    ),
)
def test_a_wrong_answer_is_reported(monkeypatch, change, said):
    right, wrong, _, _ = answered(monkeypatch, change=change)
    assert right == BLOCK - 1
    assert len(wrong) == 1 and wrong[0].startswith(said), wrong


def test_a_server_that_closes(monkeypatch):
    with pytest.raises(ConnectionError):
        answered(monkeypatch, change=lambda answers: answers.pop(A_READ))
