"""Clients that write to a mixed ring and read it for minutes: each answer is Cassandra's, and no
digest differs.

Each client has tables of its own and reads them when its writes, all at ALL, are acknowledged. So
no read meets a write under way, and each digest that differs is a fault.
"""
import os
import random
import threading
import time

from cassandra import ConsistencyLevel

import mixed_ring
import shapes

CLIENTS = 6
STATEMENTS = 120  # of a client before it reads
FLUSH_INTERVAL_S = 60
# Minutes of the load in a full run; RING_LOAD_MINUTES says another number.
MINUTES = float(os.environ.get("RING_LOAD_MINUTES") or 60)
REGULAR = [*shapes.SCALARS, *shapes.NESTED, *shapes.CELLS]


class LoadShape(shapes.Shape):
    """A table whose statements all have different timestamps, some older than those before. No two
    deletions are equal, because a Cassandra node chooses between equal deletions by the files in
    which they are."""

    def _using(self, ttl=True):
        self.clock += 1000
        delay = 20_500 if self.draw.random() < 0.1 else 0
        choice = self.draw.random() if ttl else 1
        lifetime = " AND TTL 1" if choice < 0.03 else " AND TTL 300000000" if choice < 0.1 else ""
        return f"USING TIMESTAMP {self.clock - delay}{lifetime}"


def tables_of(number, draw):
    """Returns the tables of a client."""
    clusterable = [kind for kind in shapes.SCALARS if kind not in ("duration", "blob")]
    some = lambda kinds, count: draw.sample(kinds, count)
    return [
        LoadShape(f"load{number}_rows", draw, some(["int", "text", "uuid"], 2),
                  some(clusterable, 2), ["ASC", "DESC"], some(REGULAR, 3),
                  [*some(REGULAR, 4), *shapes.CELLS, "int"], keys=6, spread=20),
        LoadShape(f"load{number}_partitions", draw, ["int"], regular=[*some(REGULAR, 4), "int"],
                  keys=30),
    ]


class Client(threading.Thread):
    """A client: it writes, waits until short TTLs have passed, reads, and begins again."""

    def __init__(self, ring, number, tables, ends):
        super().__init__(name=f"client {number}", daemon=True)
        self.ring, self.tables, self.ends = ring, tables, ends
        self.writes, self.reads, self.error = 0, 0, None

    def run(self):
        try:
            while not self.ends.is_set():
                mixed_ring.write(self.ring, self.tables, STATEMENTS, levels=[ConsistencyLevel.ALL])
                self.writes += STATEMENTS
                time.sleep(2.1)
                self.reads += mixed_ring.check_reads(self.ring, self.tables)
        except BaseException as error:  # the test reports it
            self.error = error
            self.ends.set()


def check(ring, random_seed, minutes):
    """Runs the clients for some minutes; returns the numbers of writes and reads. During the load,
    our node flushes its memtables and compacts its files. Cassandra's nodes do neither, because
    their digests of some deletions depend on the files in which the deletions are."""
    clients, ends = [], threading.Event()
    for number in range(CLIENTS):
        tables = tables_of(number, random.Random(f"{random_seed} load {number}"))
        clients.append(Client(ring, number, tables, ends))
    ring.create([table for client in clients for table in client.tables])
    before, until = ring.mismatches(), time.monotonic() + minutes * 60
    for client in clients:
        client.start()
    while time.monotonic() < until and not ends.wait(min(FLUSH_INTERVAL_S, minutes * 20)):
        ring.ours.flush("mixed")
        counts = sum(client.writes for client in clients), sum(client.reads for client in clients)
        left = until - time.monotonic()
        print(f"{left:.0f} s left: {counts}, {ring.mismatches() - before}", flush=True)
    ends.set()
    for client in clients:
        client.join()
    failed = [client.error for client in clients if client.error]
    if failed:
        raise failed[0]
    ring.check_replicas([table for client in clients for table in client.tables], wait_s=60)
    assert ring.mismatches() == before
    return sum(client.writes for client in clients), sum(client.reads for client in clients)
