"""Writes and reads of one table in blocks of a thousand requests, as fast as a server answers, each answer looked at.

Blocks are made by arithmetic on arrays: a client in Python that costs some microseconds for each read and less than one for each write.
Rows are numbered; keys and values follow from the number, so that a read knows what it should see. The protocol is version 4, whose
envelopes have no checksums of their own.
"""
import random
import struct
import time

import numpy

from wire import HEADER, ONE, EXECUTE, ROWS, SKIP_METADATA, Wire, string

GROUPS, WRITES, READS = 100, 9, 1  # a block: so many times nine writes and a read
BLOCK = GROUPS * (WRITES + READS)
KEY_BYTES = 8
VOID = numpy.frombuffer(struct.pack(">Bii", 8, 4, 1), numpy.uint8)  # of an envelope from its opcode on
VOID_BYTES = 13
POOL_ROWS = 4096


class Rows:
    """What row a number stands for."""

    def __init__(self, value_bytes):
        self.value_bytes = value_bytes
        generator = numpy.random.default_rng(1)
        self.pool = generator.integers(0, 256, (POOL_ROWS, value_bytes), numpy.uint8)
        self.pool[:, value_bytes // 2:] = 0  # half of it can be compressed

    @staticmethod
    def keys(numbers):
        """Keys that look random, of an array of numbers."""
        scattered = numbers.astype(numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15)
        scattered ^= scattered >> numpy.uint64(32)
        scattered *= numpy.uint64(0xD6E8FEB86659FD93)
        return scattered.astype(">u8").view(numpy.uint8).reshape(-1, KEY_BYTES)

    def values(self, numbers):
        """A number and what is at its place in the pool."""
        values = self.pool[numbers % POOL_ROWS]
        values[:, :8] = numbers.astype(">u8").view(numpy.uint8).reshape(-1, 8)
        return values

    def key(self, number):
        return self.keys(numpy.array([number])).tobytes()

    def value(self, number):
        return self.values(numpy.array([number])).tobytes()


def skewed(count, shares):
    """Numbers below `count` by shares from 0 to 1, quadratically nearer to the newest."""
    return (count - 1 - shares * shares * (count - 1)).astype(numpy.int64)


class Connection:
    """One connection with one block under way at a time."""

    def __init__(self, server, rows, insert, select):
        self.wire, self.rows, self.buffer = Wire(server, timeout_s=600), rows, bytearray()
        self.template, self.starts = self._template(self.wire.prepare(insert)[0], self.wire.prepare(select)[0])
        self.under_way, self.wrong = None, []

    def _template(self, insert, select):
        """The bytes of a group without keys and values, and where these belong."""
        parts, starts, at = [], [], 0
        for place in range(WRITES + READS):
            is_write = place < WRITES
            body = string(insert if is_write else select)
            body += struct.pack(">HBH", ONE, 0x01 | (0 if is_write else SKIP_METADATA), 2 if is_write else 1)
            key_at = HEADER.size + len(body) + 4
            body += struct.pack(">i", KEY_BYTES) + bytes(KEY_BYTES)
            if is_write:
                body += struct.pack(">i", self.rows.value_bytes) + bytes(self.rows.value_bytes)
            parts.append(HEADER.pack(4, 0, 0, EXECUTE, len(body)) + body)
            starts.append((at, at + key_at))
            at += len(parts[-1])
        group = numpy.frombuffer(b"".join(parts), numpy.uint8)
        return numpy.tile(group, (GROUPS, 1)), starts

    def send(self, first, known, shares):
        """Sends a block: writes of rows from `first` on, reads of rows below `known`."""
        block = self.template
        numbers = numpy.arange(first, first + GROUPS * WRITES).reshape(GROUPS, WRITES)
        reads = skewed(known, shares)
        for place, (start, key_at) in enumerate(self.starts):
            streams = numpy.arange(GROUPS, dtype=">u2") * (WRITES + READS) + place
            block[:, start + 2:start + 4] = streams.astype(">u2").view(numpy.uint8).reshape(-1, 2)
            of_place = numbers[:, place] if place < WRITES else reads
            block[:, key_at:key_at + KEY_BYTES] = self.rows.keys(of_place)
            if place < WRITES:
                value_at = key_at + KEY_BYTES + 4
                block[:, value_at:value_at + self.rows.value_bytes] = self.rows.values(of_place)
        self.under_way = (first, self.rows.values(reads))
        self.wire.socket.sendall(block.tobytes())

    def receive(self):
        """Takes the answers of the block; gives how many were as they should be."""
        _, expected = self.under_way
        answered = right = 0
        while answered < BLOCK:
            data = self.wire.socket.recv(1 << 18)
            if not data:
                raise ConnectionError("the server closed the connection")
            self.buffer += data
            at, ends = 0, len(self.buffer)
            while ends - at >= VOID_BYTES:
                count = (ends - at) // VOID_BYTES
                records = numpy.frombuffer(self.buffer, numpy.uint8, count * VOID_BYTES, at).reshape(-1, VOID_BYTES)
                plain = (records[:, 4:] == VOID).all(axis=1)
                del records
                voids = count if plain.all() else int(plain.argmin())
                at, answered, right = at + voids * VOID_BYTES, answered + voids, right + voids
                if voids == count:
                    continue
                _, _, stream, opcode, length = HEADER.unpack_from(self.buffer, at)
                if ends - at < HEADER.size + length:
                    break
                body = bytes(self.buffer[at + HEADER.size:at + HEADER.size + length])
                at, answered = at + HEADER.size + length, answered + 1
                right += self._is_right(opcode, body, expected[stream // (WRITES + READS)].tobytes())
            del self.buffer[:at]
        self.under_way = None
        return right

    def _is_right(self, opcode, body, expected):
        if opcode == 8 and body[:4] == struct.pack(">i", ROWS) and body[12:16] == struct.pack(">i", 1) and body[20:] == expected:
            return True
        if len(self.wrong) < 10:
            self.wrong.append(f"opcode {opcode}: {body[:200]!r} in place of {expected[:20]!r}")
        return False


def run(server, rows, statements, count, known, progress, connections=3):
    """Writes rows up to `count`; `known` is a shared number below which all are acknowledged; `progress(moment, operations)` is told of each block. Gives what was
    wrong."""
    generator = numpy.random.default_rng(random.Random(7).getrandbits(32))
    links = [Connection(server, rows, *statements) for _ in range(connections)]
    following, turn = known.value, 0
    while following < count or any(link.under_way for link in links):
        link = links[turn % len(links)]
        turn += 1
        if link.under_way:
            right = link.receive()
            known.value = min([other.under_way[0] for other in links if other.under_way] + [following])
            progress(time.monotonic(), right)
            if right < BLOCK and len(link.wrong) >= 10:
                break
        if following < count:
            link.send(following, max(known.value, 1), generator.random(GROUPS))
            following += GROUPS * WRITES
    return [text for link in links for text in link.wrong]
