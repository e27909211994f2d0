#!/usr/bin/env python3
"""Measures how much connections that are half open or slow cost a client beside them.

    make deps && cargo build --release
    .deps/venv/bin/python bench/slow_connections.py [--connections 10000] [--seconds 4] [--rounds 8]

One node on one core, with PasswordAuthenticator, has a table in memory. A client that has logged in
reads random rows, three thousand at a time, in turns with and without the connections. A third of
the connections sends nothing, a third sends a byte a second, and a third asks for the options 20
times at once and never reads. The node closes a connection of the last third after 16 requests and
the others after 10 s. A process opens each connection again some seconds later.

That process runs on the client's core, so the client gets less of the core. Therefore the script
compares the reads for each second that the node was on its core, which includes the node's work for
the slow connections; it also prints the rate by the clock. A run takes some minutes, and the
machine must be idle otherwise.
"""
import argparse
import multiprocessing
import os
import resource
import shutil
import socket
import statistics
import sys
import time

from network_reads import CLIENT_CORE, ROOT, Pinned, prepare

import pipelined_load
from measured_server import read
from wire import Wire

SCRATCH = ROOT / "bench" / "results" / "slow_connections"
GOAL = 0.9
ADDRESSES = 8  # the node limits the connections of one address that have not logged in
OPTIONS = b"\x04\0\0\0\x05\0\0\0\0"
STARTUP = b"\x04\0\0\0\x01\0\0\0\x16"
PASSWORD = "the password of the bench"
INSERT = "INSERT INTO bench_slow.t (k, v) VALUES (?, ?)"
SELECT = "SELECT v FROM bench_slow.t WHERE k = ?"
SCHEMA = [
    "CREATE KEYSPACE bench_slow WITH replication = {'class': 'SimpleStrategy', "
    "'replication_factor': 1}",
    "CREATE TABLE bench_slow.t (k blob PRIMARY KEY, v blob)",
]


def raise_limit():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def hold(port, count, open_count, stop):
    """Keeps `count` connections open until `stop` is set."""
    os.sched_setaffinity(0, {int(CLIENT_CORE)})
    held = [None] * count
    while not stop.value:
        for index in range(count):
            if stop.value:
                break
            client = held[index]
            try:
                if client is None:
                    client = socket.socket()
                    client.setblocking(False)
                    client.bind((f"127.0.0.{2 + index % ADDRESSES}", 0))
                    client.connect_ex(("127.0.0.1", port))
                    held[index] = client
                elif index % 3 == 1:
                    client.send(STARTUP[:1])
                elif index % 3 == 2:
                    client.send(OPTIONS * 20)
                elif client.recv(1) == b"":
                    raise ConnectionError
            except BlockingIOError:
                pass
            except OSError:
                if client is not None:
                    client.close()
                held[index] = None
        open_count.value = sum(client is not None for client in held)
        time.sleep(1)
    for client in held:
        if client is not None:
            client.close()
    open_count.value = 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=4, help="seconds of each measurement")
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args()
    prepare(SCRATCH)
    if raise_limit() < options.connections + 1000:
        sys.exit("raise the limit of open files: ulimit -Hn")
    settings = {
        "authenticator": "PasswordAuthenticator",
        "authorizer": "CassandraAuthorizer",
        "auth_superuser_password": PASSWORD,
    }
    rows, rates, wrong = pipelined_load.Rows(8), {False: [], True: []}, []
    node = Pinned(SCRATCH / "node", memory="1G", settings=settings).start()
    node.credentials = "cassandra", PASSWORD
    stop, open_count = multiprocessing.Value("b", 0), multiprocessing.Value("i", 0)
    try:
        with Wire(node) as wire:
            for statement in SCHEMA:
                assert wire.query(statement).code is None, statement
            wire.execute(wire.prepare(INSERT), (rows.key(0), rows.value(0)))
        known = multiprocessing.RawValue("q", 1)
        wrong += pipelined_load.write(
            node, rows, (INSERT, SELECT), options.rows, known, lambda *_: None
        )
        for number in range(1, options.rounds + 1):
            for with_them in (False, True):
                stop.value, holder = 0, None
                if with_them:
                    holder = multiprocessing.Process(
                        target=hold, args=(node.port, options.connections, open_count, stop)
                    )
                    holder.start()
                    while open_count.value < options.connections * 0.9:
                        time.sleep(0.2)
                reads = read(node, rows, (INSERT, SELECT), options)
                wrong += reads.wrong
                rate = reads.right / reads.core_seconds
                rates[with_them].append(rate)
                print(
                    f"round {number}, {open_count.value:6} connections: "
                    f"{reads.right / reads.seconds:10,.0f} reads/s, "
                    f"{rate:10,.0f} a second of the core, "
                    f"{reads.core_seconds / reads.seconds:4.0%} busy, "
                    f"{node.resident_bytes() >> 20} MiB resident",
                    flush=True,
                )
                if holder:
                    stop.value = 1
                    holder.join()
    finally:
        stop.value = 1
        node.close()
        shutil.rmtree(SCRATCH, ignore_errors=True)
    share = statistics.median(rates[True]) / statistics.median(rates[False])
    print(f"the client keeps {share:.1%} of its rate for each second of the core (goal {GOAL:.0%})")
    print("\n".join(wrong))
    sys.exit(0 if share >= GOAL and not wrong else 1)


if __name__ == "__main__":
    main()
