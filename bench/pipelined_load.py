"""Writes and reads one table in blocks of a thousand requests, as fast as a server answers.

Every answer is checked. Blocks are made by arithmetic on arrays, so that the client costs one to
three microseconds for each request. Rows are numbered; keys and values follow from the number, so
the expected answer of a read does, too. The protocol is version 4, which has no checksums of
envelopes.
"""
import struct
import time

import numpy

from wire import EXECUTE, HEADER, NO_METADATA, ONE, RESULT, ROWS, SKIP_METADATA, Wire, string

BLOCK = 1000  # requests
GROUP = 10  # requests with a fixed proportion of writes and reads
GROUPS = BLOCK // GROUP
KEY_BYTES = 8
VOID = numpy.frombuffer(
    struct.pack(">Bii", RESULT, 4, 1), numpy.uint8
)  # an envelope from its opcode on
VOID_BYTES = 13
OPCODE_AT, LENGTH_AT, LENGTH = 4, 5, struct.Struct(">i")  # in the header of an envelope
FLAGS_AT = 12  # the last byte of a result's flags, from the opcode on
GLOBAL_TABLE = 0x01  # a flag of a result
POOL_ROWS = 4096
MAX_WRONG = 10  # wrong answers of a connection after which `write` gives up
LONG_RUN = 16  # answers of one size after which `receive` looks for a run of them


class Rows:
    """Keys and values of numbered rows."""

    def __init__(self, value_bytes):
        self.value_bytes = value_bytes
        generator = numpy.random.default_rng(1)
        self.pool = generator.integers(0, 256, (POOL_ROWS, value_bytes), numpy.uint8)
        self.pool[:, value_bytes // 2:] = 0  # the half of a value that can be compressed

    @staticmethod
    def keys(numbers):
        """Returns keys that look random, for an array of numbers."""
        scattered = numbers.astype(numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15)
        scattered ^= scattered >> numpy.uint64(32)
        scattered *= numpy.uint64(0xD6E8FEB86659FD93)
        return scattered.astype(">u8").view(numpy.uint8).reshape(-1, KEY_BYTES)

    def values(self, numbers):
        """Returns a value for each number: the number in 8 bytes, then bytes of the pool."""
        values = self.pool[numbers % POOL_ROWS]
        values[:, :8] = numbers.astype(">u8").view(numpy.uint8).reshape(-1, 8)
        return values

    def key(self, number):
        return self.keys(numpy.array([number])).tobytes()

    def value(self, number):
        return self.values(numpy.array([number])).tobytes()


def skewed(count, shares):
    """Returns a number below `count` for each share between 0 and 1: the number that is share² of
    the way from the newest number to the oldest."""
    return (count - 1 - shares * shares * (count - 1)).astype(numpy.int64)


class Connection:
    """A connection with one block under way: `reads` of ten requests are reads, the others
    writes."""

    def __init__(self, server, rows, insert, select, reads=1):
        self.wire, self.rows, self.buffer, self.writes = (
            Wire(server, timeout_s=600),
            rows,
            bytearray(),
            GROUP - reads,
        )
        # The envelope of one row of one column, without metadata: flags, columns, rows, the value's
        # length.
        body = struct.pack(">iiiii", ROWS, NO_METADATA, 1, 1, rows.value_bytes)
        self.row_bytes = HEADER.size + len(body) + rows.value_bytes
        self.row_head = numpy.frombuffer(
            struct.pack(">Bi", RESULT, len(body) + rows.value_bytes) + body, numpy.uint8
        )
        self.template, self.starts = self._template(
            self.wire.prepare(insert)[0], self.wire.prepare(select)[0]
        )
        self.under_way, self.wrong, self.block = None, [], BLOCK

    def _template(self, insert, select):
        """Returns the bytes of a group without keys and values, and the places of these."""
        parts, starts, at = [], [], 0
        for place in range(GROUP):
            is_write = place < self.writes
            body = string(insert if is_write else select)
            body += struct.pack(
                ">HBH", ONE, 0x01 | (0 if is_write else SKIP_METADATA), 2 if is_write else 1
            )
            key_at = HEADER.size + len(body) + 4
            body += struct.pack(">i", KEY_BYTES) + bytes(KEY_BYTES)
            if is_write:
                body += struct.pack(">i", self.rows.value_bytes) + bytes(self.rows.value_bytes)
            parts.append(HEADER.pack(4, 0, 0, EXECUTE, len(body)) + body)
            starts.append((at, at + key_at))
            at += len(parts[-1])
        group = numpy.frombuffer(b"".join(parts), numpy.uint8)
        return numpy.tile(group, (GROUPS, 1)), starts

    def send(self, first, reads):
        """Sends a block: writes of rows from `first` on, and reads of the rows in `reads`, an array
        of GROUPS lines."""
        block = self.template
        numbers = numpy.arange(first, first + GROUPS * self.writes).reshape(GROUPS, self.writes)
        for place, (start, key_at) in enumerate(self.starts):
            streams = numpy.arange(GROUPS) * GROUP + place
            block[:, start + 2:start + 4] = streams.astype(">u2").view(numpy.uint8).reshape(-1, 2)
            of_place = numbers[:, place] if place < self.writes else reads[:, place - self.writes]
            block[:, key_at:key_at + KEY_BYTES] = self.rows.keys(of_place)
            if place < self.writes:
                value_at = key_at + KEY_BYTES + 4
                block[:, value_at:value_at + self.rows.value_bytes] = self.rows.values(of_place)
        self.under_way = (first, self.rows.values(reads.reshape(-1)).reshape(*reads.shape, -1))
        self.wire.socket.sendall(block.tobytes())

    def receive(self):
        """Receives the answers of the block; returns the number of right ones."""
        starts, at, last_size, alike = [], 0, 0, 0
        while len(starts) < self.block:
            data = self.wire.socket.recv(1 << 18)
            if not data:
                raise ConnectionError("the server closed the connection")
            self.buffer += data
            # Where answers of reads and writes alternate, arrays would cost more than a step of
            # plain Python for each.
            ends = len(self.buffer)
            while ends - at >= HEADER.size:
                size = HEADER.size + LENGTH.unpack_from(self.buffer, at + LENGTH_AT)[0]
                if ends - at < size:
                    break
                alike = alike + 1 if size == last_size else 0
                last_size = size
                run = 1 if alike < LONG_RUN else self._alike(at, size)
                starts.extend(range(at, at + run * size, size))
                at += run * size
        right = self._right_answers(numpy.array(starts), numpy.diff(starts, append=at))
        del self.buffer[:at]
        self.under_way = None
        return right

    def _right_answers(self, starts, sizes):
        """Returns the number of right answers among those that begin at `starts`."""
        streams = self._envelopes(starts, OPCODE_AT)[:, 2:].copy().view(">u2")[:, 0].astype(int)
        # A second answer to a stream takes the place of an unanswered one.
        are_asked, is_first = streams < BLOCK, numpy.zeros(len(streams), bool)
        is_first[numpy.unique(streams, return_index=True)[1]] = True
        groups, places = streams % BLOCK // GROUP, streams % GROUP - self.writes
        are_voids, are_rows = sizes == VOID_BYTES, sizes == self.row_bytes
        are_right, is_row = numpy.zeros(len(streams), bool), numpy.zeros(len(streams), bool)
        voids = self._envelopes(starts[are_voids], VOID_BYTES)
        are_right[are_voids] = (voids[:, OPCODE_AT:] == VOID).all(axis=1) & (places[are_voids] < 0)
        rows = self._envelopes(starts[are_rows], self.row_bytes)
        # Cassandra sets this flag without metadata, too.
        rows[:, OPCODE_AT + FLAGS_AT] &= ~numpy.uint8(GLOBAL_TABLE)
        is_row[are_rows] = (
            rows[:, OPCODE_AT : OPCODE_AT + len(self.row_head)] == self.row_head
        ).all(axis=1)
        _, expected = self.under_way
        of_rows = expected[groups[are_rows], numpy.maximum(places[are_rows], 0)]
        are_right[are_rows] = (
            is_row[are_rows]
            & (rows[:, -self.rows.value_bytes :] == of_rows).all(axis=1)
            & (places[are_rows] >= 0)
        )
        are_right &= are_asked & is_first
        for wrong in numpy.flatnonzero(~are_right)[:MAX_WRONG]:
            envelope = bytes(self.buffer[starts[wrong]:starts[wrong] + sizes[wrong]])
            of = (
                "a second answer"
                if not is_first[wrong]
                else (
                    "another row than was asked for"
                    if is_row[wrong]
                    else f"opcode {envelope[OPCODE_AT]}"
                )
            )
            self.wrong.append(
                f"request {streams[wrong]} was answered with {of}: "
                f"{envelope[HEADER.size:HEADER.size + 200]!r}"
            )
        return int(are_right.sum())

    def _alike(self, at, size):
        """Returns the number of complete envelopes from `at` on that have the same size."""
        count = (len(self.buffer) - at) // size
        lengths = numpy.frombuffer(self.buffer, numpy.uint8, count * size, at).reshape(-1, size)[
            :, LENGTH_AT : HEADER.size
        ]
        same = (lengths == lengths[0]).all(axis=1)
        return count if same.all() else int(same.argmin())

    def _envelopes(self, starts, size):
        """Returns a copy of the envelopes of one size that begin at `starts`, one in each line."""
        received = numpy.frombuffer(self.buffer, numpy.uint8)
        return received[starts[:, None] + numpy.arange(size)]


def write(server, rows, statements, count, known, progress, most_seconds=None, connections=3):
    """Writes rows in whole blocks up to `count`, or for `most_seconds`, and reads one row for each
    nine of them. `known` is a shared number below which all rows are acknowledged. Calls
    `progress(moment, right answers)` after each block. Returns the wrong answers."""
    generator = numpy.random.default_rng(7)
    links = [Connection(server, rows, *statements) for _ in range(connections)]
    following, turn = known.value, 0
    ends = time.monotonic() + most_seconds if most_seconds else float("inf")
    while following < count or any(link.under_way for link in links):
        link = links[turn % len(links)]
        turn += 1
        if link.under_way:
            right = link.receive()
            known.value = min(
                [other.under_way[0] for other in links if other.under_way] + [following]
            )
            progress(time.monotonic(), right)
            if len(link.wrong) >= MAX_WRONG:
                break
        if time.monotonic() > ends:
            count = min(count, following)
        if following < count:
            link.send(following, skewed(max(known.value, 1), generator.random((GROUPS, 1))))
            following += GROUPS * link.writes
    return [text for link in links for text in link.wrong]


def read(
    server, rows, statements, count, seconds, connections=3, connected=lambda: None
):
    """Reads random rows below `count` for `seconds`. Returns the right reads, the seconds they
    took, and the wrong answers. Calls `connected` once all connections have logged in."""
    generator = numpy.random.default_rng(5)
    links = [Connection(server, rows, *statements, reads=GROUP) for _ in range(connections)]
    connected()
    began, right, turn = time.monotonic(), 0, 0
    while time.monotonic() < began + seconds:
        link = links[turn % len(links)]
        turn += 1
        if link.under_way:
            right += link.receive()
        link.send(0, generator.integers(0, count, (GROUPS, GROUP)))
    for link in links:
        right += link.receive() if link.under_way else 0
    return right, time.monotonic() - began, [text for link in links for text in link.wrong]
