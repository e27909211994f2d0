#!/usr/bin/env python3
"""Measures reads of a table full of tombstones: rows are inserted, then all are deleted.

    make deps && cargo build --release
    .deps/venv/bin/python bench/tombstones.py [--rows 10000000] [--rate 50000] [--shape wide,narrow]

A run takes a quarter of an hour, and the machine must be idle otherwise. A client asks for the
first row all the time.

`wide`: a hundred partitions, deleted row by row from each partition's first row on, as queues are.
`narrow`: one row in each partition, deleted in the order of the writes, which is random by token.
The write rate is below the server's maximum, because behind a full queue every request takes long.

The client asks as drivers do, for pages of 5000 rows; where a page ends among tombstones without a
row (`query_tombstone_page_limit`), it asks for the next one. The script prints how long the machine
takes the core from a process that is alone on it, the longest time of a page of SELECT … LIMIT 1
in each phase, the longest time of all pages of one query, and the time until no file is left. Exit
status 1: all pages of one query together took more than 5 ms, an answer was wrong, or files are
left after ten minutes.

Settings by environment: ESPALIER_BINARY, CORE=1 (the server's), CLIENT_CORE=0.
"""
import argparse
import multiprocessing
import os
import shutil
import struct
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "interop"))

try:
    import numpy

    from espalier_node import BINARY, Node
    from wire import EXECUTE, HEADER, ONE, RESULT, Wire, string
except ImportError as error:
    sys.exit(f"{error}: run make deps, and this script with .deps/venv/bin/python")

CORE, CLIENT_CORE = (
    os.environ.get(name, value) for name, value in (("CORE", "1"), ("CLIENT_CORE", "0"))
)
SCRATCH = ROOT / "bench" / "results" / "tombstones"
BLOCK = 100  # requests under way on a connection
CONNECTIONS = 2
VALUE_BYTES = 92
PAGE_ROWS = 5000  # of a page, the drivers' default
PARTITIONS = 100
MAX_MS = 5
MAX_WAIT_S = 600
ALONE_S = 20  # duration of the measurement of the machine's own pauses
QUIET_S = 45  # without a file for this long, memory holds no data either
PROBE_PAUSE_S = 0.001  # shorter pauses of the server can be missed
VOID = struct.pack(">Bii", RESULT, 4, 1)
KEYSPACE = (
    "CREATE KEYSPACE bench_dead WITH replication = {'class': 'SimpleStrategy', "
    "'replication_factor': 1}"
)
COMPACTION = "{'class': 'UnifiedCompactionStrategy', 'tombstone_compaction_interval': '5'}"
SHAPES = {
    "wide": (
        "k bigint, c bigint, v blob, PRIMARY KEY (k, c)",
        "(k, c, v) VALUES (?, ?, ?)",
        "k = ? AND c = ?",
    ),
    "narrow": ("k bigint PRIMARY KEY, v blob", "(k, v) VALUES (?, ?)", "k = ?"),
}


class Server(Node):
    """Our node, on one core."""

    def command_line(self):
        return ["taskset", "-c", CORE, *super().command_line()]


class Connection:
    """Sends blocks of one statement with numbers as values, followed by a constant value."""

    def __init__(self, server, statement, numbers, value):
        self.wire, self.waiting, self.buffer = Wire(server, timeout_s=600), 0, bytearray()
        count = numbers + (1 if value else 0)
        body = string(self.wire.prepare(statement)[0]) + struct.pack(">HBH", ONE, 0x01, count)
        self.places = [HEADER.size + len(body) + 4 + 12 * number for number in range(numbers)]
        body += struct.pack(">iq", 8, 0) * numbers
        body += struct.pack(">i", len(value)) + value if value else b""
        request = numpy.frombuffer(HEADER.pack(4, 0, 0, EXECUTE, len(body)) + body, numpy.uint8)
        self.block = numpy.tile(request, (BLOCK, 1))

    def send(self, columns):
        for place, column in zip(self.places, columns):
            self.block[:, place:place + 8] = column.astype(">i8").view(numpy.uint8).reshape(-1, 8)
        self.wire.socket.sendall(self.block.tobytes())
        self.waiting = BLOCK

    def receive(self):
        size = 4 + len(VOID)
        while len(self.buffer) < size * self.waiting:
            data = self.wire.socket.recv(1 << 18)
            assert data, "the server closed the connection"
            self.buffer += data
            for at in range(0, min(len(self.buffer), size * self.waiting) - size + 1, size):
                assert (
                    self.buffer[at + 4 : at + size] == VOID
                ), f"a write was answered with {bytes(self.buffer[at:at + 200])!r}"
        del self.buffer[:size * self.waiting]
        self.waiting = 0


def columns_of(shape, rows, first):
    """Returns the key columns of a block of rows."""
    numbers = numpy.arange(first, first + BLOCK)
    if shape == "narrow":
        return [numbers]
    # Partitions alternate, and each begins with its first row.
    return [numbers % PARTITIONS, numbers // PARTITIONS]


def write_all(name, server, statement, shape, rows, rate, value, left):
    """Executes the statement for all rows; `left` is always a number of rows that certainly
    exist."""
    numbers = 1 if shape == "narrow" else 2
    links = [Connection(server, statement, numbers, value) for _ in range(CONNECTIONS)]
    began, told = time.monotonic(), 0
    for turn, first in enumerate(range(0, rows, BLOCK)):
        link = links[turn % CONNECTIONS]
        if link.waiting:
            link.receive()
            if value:
                left.value = 1
        if not value:
            left.value = max(rows - first - BLOCK, 0)
        time.sleep(max(began + first / rate - time.monotonic(), 0))
        link.send(columns_of(shape, rows, first))
        if time.monotonic() - told > 1:
            told = time.monotonic()
            reached = first / max(told - began, 0.1)
            print(
                f"\r{shape}: {name} {first:,} of {rows:,} rows, {reached:,.0f} a second, "
                f"{(rows - first) / max(reached, 1):.0f} s left   ",
                end="",
                flush=True,
            )
    for link in links:
        if link.waiting:
            link.receive()
    print(f"\r{shape}: {name} {rows:,} rows in {time.monotonic() - began:.0f} s{' ' * 40}")


def probe(server, phase, left, results):
    """Asks for the first row until the phase is negative; sends, by phase, the times of the pages
    and of whole queries in ms, and the wrong answers."""
    longest, wrong = {}, []
    with Wire(server, timeout_s=600) as wire:
        select = wire.prepare("SELECT * FROM bench_dead.t LIMIT 1")
        while phase.value >= 0:
            of, were_left = phase.value, left.value
            began, state, rows, pages_ms = time.monotonic(), None, [], []
            while not pages_ms or (state is not None and not rows):
                asked = time.monotonic()
                answer = wire.page(select, PAGE_ROWS, state)
                rows, state = list(answer.rows()), answer.paging_state
                pages_ms.append((time.monotonic() - asked) * 1000)
            pages, whole, walk = longest.setdefault(of, ([], [], {"ms": 0}))
            pages.extend(pages_ms)
            whole.append((time.monotonic() - began) * 1000)
            if whole[-1] > walk["ms"]:
                walk.update(ms=whole[-1], pages_ms=pages_ms, began=began)
            if rows and phase.value == 2 and of == 2:
                wrong.append(f"a row was found after all were deleted: {rows!r}")
            if not rows and were_left and left.value and phase.value == of:
                wrong.append(f"no row was found, and there were {left.value:,}")
            time.sleep(PROBE_PAUSE_S)
    results.send((longest, wrong))


def data_files(server):
    return sum(
        name.endswith("-Data.db")
        for _, _, names in os.walk(server.directory / "data" / "bench_dead")
        for name in names
    )


def pauses_of(core, sending):
    """Measures how long the machine takes the core from a process that is alone on it and only
    reads the clock. Sends the longest pause in ms, and the number of pauses above the limit."""
    os.sched_setaffinity(0, {core})
    longest, above, last = 0, 0, time.perf_counter()
    end = last + ALONE_S
    while last < end:
        now = time.perf_counter()
        pause_ms, last = (now - last) * 1000, now
        longest = max(longest, pause_ms)
        above += pause_ms > MAX_MS
    sending.send((longest, above))


def measure(shape, rows, rate):
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    context.Process(target=pauses_of, args=(int(CORE), sending), daemon=True).start()
    sending.close()
    longest_ms, above = receiving.recv()
    print(
        f"         {shape}: the core by itself, {ALONE_S} s of looking at the clock: taken away "
        f"for at most {longest_ms:.1f} ms, {above} times for more than {MAX_MS}"
    )
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    server = Server(
        SCRATCH / "node",
        memory="4G",
        settings={
            "commitlog_sync": "periodic",
            "memtable_heap_space": "128MiB",
            "memtable_offheap_space": "128MiB",
        },
    )
    server.start()
    try:
        definition, values, place = SHAPES[shape]
        with Wire(server, timeout_s=60) as wire:
            for statement in (
                KEYSPACE,
                f"CREATE TABLE bench_dead.t ({definition}) WITH gc_grace_seconds = 0 AND "
                f"compaction = {COMPACTION}",
            ):
                answer = wire.query(statement)
                assert answer.code is None, f"{statement}: {answer.message}"
        phase, rows_left = context.RawValue("i", 0), context.RawValue("q", 0)
        receiving, sending = context.Pipe(duplex=False)
        prober = context.Process(
            target=probe, args=(server, phase, rows_left, sending), daemon=True
        )
        prober.start()
        # Without this copy of the sending end, `recv` fails if the prober dies.
        sending.close()
        # The writers have a lower priority than the client that measures, because its waits for the
        # core would otherwise count as the server's time.
        os.setpriority(os.PRIO_PROCESS, 0, 19)
        write_all(
            "inserting",
            server,
            f"INSERT INTO bench_dead.t {values}",
            shape,
            rows,
            rate,
            bytes(range(VALUE_BYTES)),
            rows_left,
        )
        phase.value = 1
        write_all(
            "deleting",
            server,
            f"DELETE FROM bench_dead.t WHERE {place}",
            shape,
            rows,
            rate,
            b"",
            rows_left,
        )
        phase.value = 2
        began = time.monotonic()
        emptied, left = began, 0
        while time.monotonic() < min(emptied + QUIET_S, began + MAX_WAIT_S):
            if left := data_files(server):
                emptied = time.monotonic()
            print(
                f"\r{shape}: {left} files left after {time.monotonic() - began:.0f} s   ",
                end="",
                flush=True,
            )
            time.sleep(0.5)
        emptied_s = emptied - began
        print("\r" + " " * 60, end="\r")
        phase.value = -1
        longest, wrong = receiving.recv()
        prober.join()
    finally:
        server.stop()
        server.close()
    shutil.rmtree(SCRATCH, ignore_errors=True)
    is_met = True
    for number, name in enumerate(("inserting", "deleting", "afterwards")):
        if number not in longest:
            print(f"NOT met: {shape}, {name}: no client asked for the first row")
            is_met = False
            continue
        took, whole = (numpy.array(times) for times in longest[number][:2])
        walk = longest[number][2]
        above = int((took > MAX_MS).sum())
        is_quick = whole.max() <= MAX_MS
        is_met &= is_quick
        print(
            f"{'met:    ' if is_quick else 'NOT met:'} {shape}, {name}: SELECT … LIMIT 1 took at "
            f"most {took.max():.1f} ms ({MAX_MS}), the median {numpy.median(took):.2f} ms, "
            f"99th percentile {numpy.percentile(took, 99):.1f} ms; {above} of {len(took)} took "
            f"longer; with all pages at most {whole.max():.1f} ms "
            f"({len(walk['pages_ms']):,} pages with a median of "
            f"{numpy.median(walk['pages_ms']):.2f} ms, asked {began - walk['began']:.1f} s before "
            f"the last deletion was answered), {int((whole > MAX_MS).sum())} of {len(whole)} took "
            "longer"
        )
    for text in wrong[:5]:
        print(f"NOT met: {text}")
    print(
        f"{'met:    ' if not left else 'NOT met:'} {shape}: {left} files left {emptied_s:.0f} s "
        "after the last deletion"
    )
    return is_met and not wrong and not left


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rate", type=int, default=50_000, help="writes a second")
    parser.add_argument("--shape", default=",".join(SHAPES), help="wide, narrow")
    options = parser.parse_args()
    shapes = options.shape.split(",")
    if unknown := set(shapes) - set(SHAPES):
        sys.exit(f"there is no shape {', '.join(unknown)}: --shape wide,narrow")
    if not os.access(BINARY, os.X_OK):
        sys.exit(
            f"there is no {BINARY}: run cargo build --release first, or name it with "
            "ESPALIER_BINARY"
        )
    os.sched_setaffinity(0, {int(CLIENT_CORE)})
    context = multiprocessing.get_context("fork")
    rows = max(options.rows // BLOCK, 1) * BLOCK
    codes = []
    for shape in shapes:
        # Each shape runs in a process of its own, because `measure` lowers the process's priority.
        process = context.Process(
            target=lambda: sys.exit(0 if measure(shape, rows, options.rate) else 1)
        )
        process.start()
        process.join()
        codes.append(process.exitcode)
    sys.exit(max(codes, key=abs))


if __name__ == "__main__":
    main()
