"""Sends plain and conditional updates to one table, and checks every answer.

Three kinds of client: blocks of requests on disjoint rows as fast as the server answers
(`Updates`), clients that contend for the same rows (`contend`), and requests that are due at a
fixed rate (`paced`). A row's value is its version and its number, and each applied update raises
the version by one. So the values in the end show whether each applied update took effect once.
"""
import gc
import multiprocessing
import os
import select
import struct
import time

import numpy

import pipelined_load
from pipelined_load import MAX_WRONG, OPCODE_AT, Rows
from wire import ERROR, EXECUTE, HEADER, ONE, Wire, string

VERSION_SHIFT = 32
NEXT_VERSION = 1 << VERSION_SHIFT
VALUE_BYTES = 8
MAX_STREAMS = 1 << 15
PADS = 4096  # different pads
# Errors of a conditional update that may be applied or not: WRITE_TIMEOUT and CAS_WRITE_UNKNOWN.
UNCERTAIN, UNKNOWN = {0x1100, 0x1700}, object()
VOID_ANSWER = pipelined_load.VOID.tobytes()


class Table:
    """A table of numbered rows, the versions that they must have, and its statements."""

    def __init__(self, name, rows, pad_bytes=0):
        # The memory of the versions is shared with the processes of clients.
        self.versions = numpy.frombuffer(multiprocessing.RawArray("q", rows), numpy.int64)
        self.name, self.pad_bytes = name, pad_bytes
        generator = numpy.random.default_rng(1)
        self.pads = generator.integers(0, 256, (PADS, pad_bytes), numpy.uint8)
        pad = ", pad blob" if pad_bytes else ""
        self.schema = f"CREATE TABLE {name} (k bigint PRIMARY KEY, v bigint{pad})"
        # A statement, and its values in their order.
        self.plain = (f"UPDATE {name} SET v = ? WHERE k = ?", ("new", "key"))
        self.conditional = (f"{self.plain[0]} IF v = ?", ("new", "key", "old"))
        self.insert = (f"INSERT INTO {name} (v, k) VALUES (?, ?)", ("new", "key"))
        if pad_bytes:
            self.insert = (f"INSERT INTO {name} (v, k, pad) VALUES (?, ?, ?)",
                           ("new", "key", "pad"))

    def values(self, numbers, raised=0):
        """Returns the values of rows, as integers, with versions raised by `raised`."""
        return (self.versions[numbers] + raised) << VERSION_SHIFT | numbers

    def different_rows(self, server, uncertain=None):
        """Reads all rows; returns texts about rows that differ from those that were written.
        `uncertain` has the number of updates of unknown outcome, by row."""
        with Wire(server, timeout_s=600) as wire:
            found = {key: value for key, value in wire.select(
                f"SELECT k, v FROM {self.name}", page_size=5000)}
        numbers, faults = numpy.arange(len(self.versions)), []
        keys = Rows.keys(numbers).tobytes()
        for number, expected in enumerate(self.values(numbers).tolist()):
            value = found.pop(keys[8 * number:8 * number + 8], None)
            read = None if value is None else struct.unpack(">q", value)[0]
            excess = 0 if read is None else (read - expected) / NEXT_VERSION
            at_most = (uncertain or {}).get(number, 0)
            if read is None or excess != int(excess) or not 0 <= excess <= at_most:
                faults.append(f"{self.name}, row {number}: {read} was read, not {expected}")
        faults += [f"{self.name} has a row {key.hex()} that was not written" for key in found]
        return faults[:MAX_WRONG]


def big_endian(numbers):
    return numpy.asarray(numbers).astype(">i8").view(numpy.uint8).reshape(-1, VALUE_BYTES)


def request(wire, statement, values, pad_bytes):
    """Prepares a statement. Returns the envelope of its EXECUTE with zeros for values, and the
    places of the values by name."""
    body = string(wire.prepare(statement)[0]) + struct.pack(">HBH", ONE, 0x01, len(values))
    places = {}
    for name in values:
        size = pad_bytes if name == "pad" else VALUE_BYTES
        places[name] = HEADER.size + len(body) + 4
        body += struct.pack(">i", size) + bytes(size)
    return HEADER.pack(4, 0, 0, EXECUTE, len(body)) + body, places


def applied_answer(wire, table, is_applied):
    """Makes a conditional update that is applied, or is not, to the first row. Returns the answer
    from its opcode on. Other answers differ from it only in the value that they contain."""
    old = int(table.values(numpy.array([0]))[0])
    new = old + NEXT_VERSION
    expected = old if is_applied else old - 1
    answer = wire.execute(
        wire.prepare(table.conditional[0]),
        (struct.pack(">q", new), Rows.keys(numpy.array([0])).tobytes(),
         struct.pack(">q", expected)),
    )
    row = {"[applied]": b"\1"} if is_applied else {"[applied]": b"\0",
                                                  "v": struct.pack(">q", old)}
    assert answer.named_rows() == [row], f"{answer.named_rows()} was answered, not {row}"
    table.versions[0] += is_applied
    return struct.pack(">Bi", answer.opcode, len(answer.body)) + answer.body


class Updates(pipelined_load.Connection):
    """A connection that writes its own rows in turn, one block at a time. A block has
    `in_flight` requests, or one for each row if there are fewer rows."""

    def __init__(self, server, table, statement, numbers, in_flight):
        self.wire, self.buffer, self.wrong = Wire(server, timeout_s=600), bytearray(), []
        self.table, self.numbers, self.following, self.under_way = table, numbers, 0, None
        self.block = min(in_flight, len(numbers))
        self.template, self.places = self._template(*statement)
        answer = VOID_ANSWER
        if "old" in self.places:
            answer = applied_answer(self.wire, table, True)
        self.answer = numpy.frombuffer(answer, numpy.uint8)

    def _template(self, text, values):
        envelope, places = request(self.wire, text, values, self.table.pad_bytes)
        block = numpy.tile(numpy.frombuffer(envelope, numpy.uint8), (self.block, 1))
        block[:, 2:4] = numpy.arange(self.block).astype(">u2").view(numpy.uint8).reshape(-1, 2)
        return block, places

    def send(self, raised=1):
        """Sends a block of updates of the rows that follow."""
        at = (self.following + numpy.arange(self.block)) % len(self.numbers)
        numbers = self.numbers[at]
        self.following = (self.following + self.block) % len(self.numbers)
        columns = {"key": Rows.keys(numbers), "new": big_endian(self.table.values(numbers, raised))}
        if "old" in self.places:
            columns["old"] = big_endian(self.table.values(numbers))
        if "pad" in self.places:
            columns["pad"] = self.table.pads[numbers % len(self.table.pads)]
        for name, place in self.places.items():
            self.template[:, place:place + columns[name].shape[1]] = columns[name]
        self.under_way = (numbers, raised)
        self.wire.socket.sendall(self.template.data)

    def receive(self):
        """Receives the answers of the block; returns the number of right answers."""
        numbers, raised = self.under_way
        right = super().receive()
        self.table.versions[numbers] += raised
        return right

    def _right_answers(self, starts, sizes):
        streams = self._envelopes(starts, OPCODE_AT)[:, 2:].copy().view(">u2")[:, 0]
        are_right, is_first = numpy.zeros(len(starts), bool), numpy.zeros(len(starts), bool)
        is_first[numpy.unique(streams, return_index=True)[1]] = True
        same = sizes == OPCODE_AT + len(self.answer)
        answers = self._envelopes(starts[same], OPCODE_AT + len(self.answer))
        are_right[same] = (answers[:, OPCODE_AT:] == self.answer).all(axis=1)
        are_right &= is_first & (streams < self.block)
        for wrong in numpy.flatnonzero(~are_right)[:MAX_WRONG]:
            envelope = bytes(self.buffer[starts[wrong]:starts[wrong] + sizes[wrong]])
            self.wrong.append(f"{self.table.name}, request {streams[wrong]} was answered with "
                              f"opcode {envelope[OPCODE_AT]}: {envelope[HEADER.size:][:200]!r}")
        return int(are_right.sum())


def shares(rows, connections):
    """Returns the numbers of the rows of each connection, apart from row 0, which `applied_answer`
    updates."""
    return numpy.array_split(numpy.arange(1, rows), connections)


def update(server, table, statement, seconds, connections, in_flight):
    """Updates all rows but row 0 in turn for `seconds`. Returns the number of right answers, the
    seconds that they took, and texts about the wrong answers."""
    links = [
        Updates(server, table, statement, numbers, in_flight)
        for numbers in shares(len(table.versions), connections)
    ]
    began, right, turn = time.monotonic(), 0, 0
    while time.monotonic() < began + seconds and not any(link.wrong for link in links):
        link = links[turn % len(links)]
        turn += 1
        if link.under_way:
            right += link.receive()
        link.send()
    for link in links:
        right += link.receive() if link.under_way else 0
        link.wire.close()
    return right, time.monotonic() - began, [text for link in links for text in link.wrong]


def fill(server, table, connections=2, in_flight=250):
    """Inserts all rows with version 0. Returns the wrong answers."""
    links = [
        Updates(server, table, table.insert, numbers, in_flight)
        for numbers in numpy.array_split(numpy.arange(len(table.versions)), connections)
    ]
    blocks = [-(-len(link.numbers) // link.block) for link in links]
    for number in range(max(blocks)):
        for link, count in zip(links, blocks):
            if link.under_way:
                link.receive()
            if number < count:
                link.send(raised=0)
    for link in links:
        if link.under_way:
            link.receive()
        link.wire.close()
    return [text for link in links for text in link.wrong]


class Contender:
    """A client that updates one row again and again, with one request under way. If another client
    was first, it tries again from the value in the answer."""

    def __init__(self, server, table, number, answers):
        self.wire, self.number, self.answers = Wire(server, timeout_s=600), number, answers
        envelope, self.places = request(self.wire, *table.conditional, 0)
        self.envelope, self.received = bytearray(envelope), b""
        self.guess = int(table.values(numpy.array([number]))[0])
        key = self.places["key"]
        self.envelope[key:key + 8] = Rows.keys(numpy.array([number])).tobytes()
        self.wire.socket.setblocking(False)

    def send(self):
        struct.pack_into(">q", self.envelope, self.places["new"], self.guess + NEXT_VERSION)
        struct.pack_into(">q", self.envelope, self.places["old"], self.guess)
        self.wire.socket.send(self.envelope)

    def receive(self):
        """Returns None while the answer is incomplete, then True if the update was applied, False
        if it was refused, UNKNOWN, or a text about a wrong answer."""
        self.received += self.wire.socket.recv(1 << 16)
        data, applied, refused = self.received, *self.answers
        if len(data) < HEADER.size or len(data) < HEADER.size + HEADER.unpack_from(data)[-1]:
            return None
        self.received, answer = b"", data[OPCODE_AT:]
        if answer == applied:
            self.guess += NEXT_VERSION
            return True
        if answer[0] == ERROR and struct.unpack_from(">i", answer, 5)[0] in UNCERTAIN:
            return UNKNOWN
        told = struct.unpack(">q", answer[-8:])[0]
        if answer[:-8] == refused[:-8] and told > self.guess:
            self.guess = told
            return False
        return f"{self.guess} was expected, and the answer is {answer[:200]!r}"


def contend(server, table, clients, keys, seconds):
    """Lets clients update the same few rows for `seconds`. Returns the applied updates, all
    answers, the seconds that they took, the updates of unknown outcome by row, and the wrong
    answers."""
    with Wire(server, timeout_s=600) as wire:
        answers = [applied_answer(wire, table, is_applied) for is_applied in (True, False)]
    contenders = [Contender(server, table, number % keys, answers) for number in range(clients)]
    of_socket, poll = {each.wire.socket.fileno(): each for each in contenders}, select.epoll()
    for descriptor in of_socket:
        poll.register(descriptor, select.EPOLLIN)
    began, applied, told, uncertain, wrong = time.monotonic(), 0, 0, {}, []
    for each in contenders:
        each.send()
    under_way, ends = clients, began + seconds
    while under_way:
        ready = poll.poll(600)
        assert ready, "no answer for 600 s"
        goes_on = time.monotonic() < ends and not wrong
        for descriptor, _ in ready:
            each = of_socket[descriptor]
            outcome = each.receive()
            if outcome is None:
                continue
            told += 1
            if outcome is True:
                applied += 1
                table.versions[each.number] += 1
            elif outcome is UNKNOWN:
                uncertain[each.number] = uncertain.get(each.number, 0) + 1
            elif outcome is not False:
                wrong.append(outcome)
            if goes_on:
                each.send()
            else:
                under_way -= 1
    took = time.monotonic() - began
    for each in contenders:
        each.wire.close()
    return applied, told, took, uncertain, wrong[:MAX_WRONG]


def prefer_me():
    """Raises the priority of this process on its core, so that other clients do not delay it.
    Returns True if the system allows that."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        return True
    except PermissionError:
        return False


def occurrences(numbers):
    """Returns for each number of an array the number of its earlier occurrences."""
    order = numpy.argsort(numbers, kind="stable")
    first = numpy.searchsorted(numbers[order], numbers[order])
    before = numpy.empty(len(numbers), numpy.int64)
    before[order] = numpy.arange(len(numbers)) - first
    return before


def paced(server, table, statement, numbers, begin, rate):
    """Updates one row after another. Each update is due at its time, even if earlier updates have
    no answer yet. The updates of one row must be so far apart that they cannot overtake. Returns
    for each answered update the µs from its due time to its answer, and the wrong answers."""
    gc.disable()
    count, wrong = len(numbers), []
    with Wire(server, timeout_s=60) as wire:
        envelope, places = request(wire, *statement, table.pad_bytes)
        answer = applied_answer(wire, table, True) if "old" in places else VOID_ANSWER
        before = occurrences(numbers)
        columns = {"key": Rows.keys(numbers), "new": big_endian(table.values(numbers, before + 1)),
                   "old": big_endian(table.values(numbers, before))}
        block = numpy.tile(numpy.frombuffer(envelope, numpy.uint8), (count, 1))
        streams = (numpy.arange(count) % MAX_STREAMS).astype(">u2")
        block[:, 2:4] = streams.view(numpy.uint8).reshape(-1, 2)
        for name, place in places.items():
            block[:, place:place + VALUE_BYTES] = columns[name]
        done = Exchange(wire.socket, block, answer).run(begin, rate, wrong)
    numpy.add.at(table.versions, numbers, 1)
    due = begin + numpy.arange(count) / rate
    is_done = ~numpy.isnan(done)
    return (done - due)[is_done] * 1e6, wrong[:MAX_WRONG]


class Exchange:
    """Requests on one socket that are sent at their times, and their answers."""

    def __init__(self, connection, requests, answer):
        self.socket, self.requests, self.answer = connection, requests, answer
        self.done, self.received = numpy.full(len(requests), numpy.nan), b""

    def run(self, begin, rate, wrong):
        """Returns the moments of the answers."""
        count, sent, answered = len(self.requests), 0, 0
        while answered < count and not wrong:
            now = time.monotonic()
            due = min(count, int((now - begin) * rate) + 1 if now >= begin else 0)
            if due > sent:
                assert due - answered < MAX_STREAMS, "the server is too slow for this rate"
                self.socket.sendall(self.requests[sent:due].data)
                sent = due
            wait = begin + sent / rate - time.monotonic() if sent < count else 60
            # `select` waits with a resolution of microseconds, `poll` of milliseconds.
            if select.select([self.socket], [], [], max(wait, 0))[0]:
                answered += self._take(sent, wrong)
            elif sent == count and wait == 60:
                wrong.append(f"{count - answered} answers are missing after 60 s")
        return self.done

    def is_right(self, _, answer):
        """Returns True if an answer, from its opcode on, is right for the request of this index."""
        return answer == self.answer

    def _take(self, sent, wrong):
        """Checks the answers that have arrived; returns their number."""
        self.received += self.socket.recv(1 << 18)
        now, at, answers = time.monotonic(), 0, 0
        while len(self.received) - at >= HEADER.size:
            _, _, stream, _, length = HEADER.unpack_from(self.received, at)
            end = at + HEADER.size + length
            if len(self.received) < end:
                break
            # The newest request of this stream: no older one is still under way.
            index = stream + (sent - 1 - stream) // MAX_STREAMS * MAX_STREAMS
            envelope = self.received[at:end]
            is_first = numpy.isnan(self.done[index])
            if not self.is_right(index, envelope[OPCODE_AT:]) or not is_first:
                wrong.append(f"request {index} was answered with {envelope[:200]!r}")
            self.done[index] = now
            answers, at = answers + 1, end
        self.received = self.received[at:]
        return answers
