"""Measures how much clients that do not read their answers slow down a client that does.

Two nodes of the same binary run side by side, each with a reading client. One node also has clients
that send SELECTs of large answers and never read. The bench measures the two reading clients in
short, alternating turns, so that other load of the machine slows both. It prints JSON.

    bench/clients_that_do_not_read.py --binary target/release/espalier --clients 60 --seconds 30
"""
import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "interop"))

from wire import EXECUTE, QUERY, RESULT, Wire, long_string, parameters  # noqa: E402

MIB = 1 << 20
TURN_S = 0.25
KEYS = 1000
SYSTEM_READ = "SELECT release_version, host_id FROM system.local"


def fill(node, answer_bytes, row_bytes):
    """Makes a table with a partition that is one large answer, and a table of small rows."""
    with Wire(node, timeout_s=120) as wire:
        for text in (
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', "
            "'replication_factor': 1}",
            "CREATE TABLE k.large (p int, c int, v blob, PRIMARY KEY (p, c))",
            "CREATE TABLE k.small (k int PRIMARY KEY, v blob)",
        ):
            assert wire.query(text).code is None
        insert = wire.prepare("INSERT INTO k.large (p, c, v) VALUES (1, ?, ?)")
        for row in range(answer_bytes // row_bytes):
            answer = wire.execute(insert, (row.to_bytes(4, "big"), os.urandom(row_bytes)))
            assert answer.code is None, answer.message
        insert = wire.prepare("INSERT INTO k.small (k, v) VALUES (?, ?)")
        for key in range(KEYS):
            assert wire.execute(insert, (key.to_bytes(4, "big"), bytes(100))).code is None


class Deaf:
    """A client that asks `requests` times for the large answer and reads nothing."""

    def __init__(self, node, requests, prepared):
        self.wire = Wire(node, timeout_s=60)
        if prepared:
            body = self.wire.execute_body(
                self.wire.prepare("SELECT v FROM k.large WHERE p = 1"), ()
            )
            ask = EXECUTE, body
        else:
            ask = QUERY, long_string("SELECT v FROM k.large WHERE p = 1") + parameters(4)
        self.wire.send(
            b"".join(self.wire.envelope(*ask, stream=stream) for stream in range(requests))
        )


class Reader:
    """A client that reads its answers: prepared point reads, writes, and reads by text."""

    def __init__(self, node):
        self.wire = Wire(node, timeout_s=60)
        self.read = self.wire.prepare("SELECT v FROM k.small WHERE k = ?")
        self.write = self.wire.prepare("INSERT INTO k.small (k, v) VALUES (?, ?)")
        self.errors, self.done = [], 0

    def turn(self, seconds):
        """Sends requests for `seconds`; returns the rate."""
        begin, before = time.monotonic(), self.done
        while time.monotonic() - begin < seconds:
            key = (self.done % KEYS).to_bytes(4, "big")
            for answer in (
                self.wire.execute(self.read, (key,)),
                self.wire.execute(self.write, (key, bytes(100))),
                self.wire.query("SELECT v FROM k.small WHERE k = ?", (key,)),
                self.wire.query(SYSTEM_READ),
            ):
                if answer.opcode != RESULT:
                    self.errors.append(answer.message)
                self.done += 1
        return (self.done - before) / (time.monotonic() - begin)


def settle(node, limit_s=120):
    """Waits until the kernel's buffers of the clients that do not read are full (36 MiB for each
    client by Linux' defaults), because until then the node serves these clients as if they read.
    Returns the node's peak resident memory until then, in bytes."""
    end, before, quiet, peak = (
        time.monotonic() + limit_s,
        None,
        0,
        0,
    )
    # 24 intervals are longer than a request waits for memory.
    while quiet < 24 and time.monotonic() < end:
        sent = node.metrics()["espalier_transport_sent_bytes"]
        quiet = quiet + 1 if before is not None and sent - before < MIB else 0
        before = sent
        peak = max(peak, node.resident_bytes())
        time.sleep(0.25)
    return peak


def measure(
    node, quiet, clients, requests, seconds, answer_bytes=12 * MIB, row_bytes=MIB, prepared=False
):
    """Runs the comparison on two started nodes; returns the figures as a dictionary, and the
    clients that do not read."""
    for each in (node, quiet):
        fill(each, answer_bytes, row_bytes)
    disturbed, alone = Reader(node), Reader(quiet)
    for reader in (disturbed, alone):
        reader.turn(TURN_S)
    deaf = [Deaf(node, requests, prepared) for _ in range(clients)]
    peak = settle(node)
    rates, end = {"disturbed": [], "alone": []}, time.monotonic() + seconds
    while time.monotonic() < end:
        rates["disturbed"].append(disturbed.turn(TURN_S))
        rates["alone"].append(alone.turn(TURN_S))
        peak = max(peak, node.resident_bytes())
    figures = {
        "clients": clients,
        "rate": round(statistics.median(rates["disturbed"])),
        "rate_alone": round(statistics.median(rates["alone"])),
        "ratio": round(
            statistics.median(rates["disturbed"]) / statistics.median(rates["alone"]), 3
        ),
        "peak_resident_mib": round(peak / MIB),
        "errors": len(disturbed.errors),
        "first_errors": disturbed.errors[:3],
        "answer_mib_held": round(node.metrics()["espalier_transport_answer_bytes"] / MIB, 1),
    }
    return figures, deaf


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=Path, default=Path("target/release/espalier"))
    parser.add_argument("--clients", type=int, default=60)
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--memory", default="512M")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--row-bytes", type=int, default=MIB)
    parser.add_argument("--prepared", action="store_true")
    options = parser.parse_args()
    os.environ["ESPALIER_BINARY"] = str(options.binary.resolve())
    from espalier_node import Node

    with tempfile.TemporaryDirectory() as directory:
        shape = {"shards": options.shards, "memory": options.memory}
        nodes = [Node(Path(directory) / name, **shape).start() for name in ("node", "quiet")]
        try:
            figures, _ = measure(*nodes, options.clients, options.requests, options.seconds,
                                 row_bytes=options.row_bytes, prepared=options.prepared)
            print(json.dumps(figures, indent=2))
        finally:
            for node in nodes:
                node.close()


if __name__ == "__main__":
    main()
