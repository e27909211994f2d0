"""kill -9 at random moments under a write load: acknowledged writes must survive.

Rows that were never sent must not exist.

The load consists of writes that can be told apart afterwards:
- rows: unique keys, with the value derived from the key, so that a wrong row or value is seen;
- registers: one writer each, with values 1, 2, 3, …; afterwards the value lies between the last
  acknowledged and the last sent;
- batches in one partition, and logged batches over several: all rows or none, and all if
  acknowledged;
- deletions: a row is written and then deleted; once the deletion is acknowledged, the row must not
  come back;
- counters: the total lies between the acknowledged and the sent increments.

In some rounds tables are flushed while the load runs, so that the kill interrupts a flush. kill -9
does not touch the page cache; the simulated disk of the runtime's tests checks that synced data is
on the disk.
"""
import hashlib
import http.client
import itertools
import random
import threading
import time
from collections import defaultdict

from cassandra.concurrent import execute_concurrent_with_args
from cassandra.query import BatchStatement, BatchType

from driver import connect, seed
from espalier_node import wait_until
from gate import part

SEED = seed()
ROUNDS = part(30, 8)
CONNECTIONS = 3
IN_FLIGHT = 24
SCHEMA = (
    "CREATE KEYSPACE kills WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE kills.rows (part int, id bigint, value text, PRIMARY KEY (part, id))",
    "CREATE TABLE kills.registers (id int PRIMARY KEY, version bigint)",
    "CREATE TABLE kills.batches (id bigint, part int, value text, PRIMARY KEY (id, part))",
    "CREATE TABLE kills.logged (part int, id bigint, value text, PRIMARY KEY (part, id))",
    "CREATE TABLE kills.deleted (id bigint PRIMARY KEY, value text)",
    "CREATE TABLE kills.counts (id int PRIMARY KEY, total counter)",
)
BATCH = 4


def derived(number):
    """Returns the value that belongs to a key, with a length that depends on the key."""
    digest = hashlib.blake2b(str(number).encode()).hexdigest()
    return digest * (1 + number % 5)


class Ledger:
    """The sent and the acknowledged writes, over all rounds."""

    def __init__(self):
        self.lock = threading.Lock()
        self.ids = itertools.count(1)
        self.sent, self.acknowledged = defaultdict(set), defaultdict(set)
        self.registers_sent, self.registers_acknowledged = defaultdict(int), defaultdict(int)
        self.counts_sent, self.counts_acknowledged = defaultdict(int), defaultdict(int)
        self.errors = []


class Writer:
    """The load of one connection: IN_FLIGHT chains of requests, each started by the answer to the
    one before."""

    def __init__(self, node, ledger, index, draw):
        self.ledger, self.index, self.draw, self.stopped = ledger, index, draw, False
        self.session = connect(node)
        prepare = self.session.prepare
        self.row = prepare("INSERT INTO kills.rows (part, id, value) VALUES (?, ?, ?)")
        self.register = prepare("UPDATE kills.registers SET version = ? WHERE id = ?")
        self.batch = prepare("INSERT INTO kills.batches (id, part, value) VALUES (?, ?, ?)")
        self.logged = prepare("INSERT INTO kills.logged (part, id, value) VALUES (?, ?, ?)")
        self.write = prepare("INSERT INTO kills.deleted (id, value) VALUES (?, ?)")
        self.delete = prepare("DELETE FROM kills.deleted WHERE id = ?")
        self.count = prepare("UPDATE kills.counts SET total = total + ? WHERE id = ?")

    def start(self):
        self.next_register()
        self.next_count()
        for _ in range(IN_FLIGHT):
            self.next()

    def send(self, statement, values, acknowledged, then):
        """Executes a statement; calls `acknowledged` and `then` once the node has acknowledged it.
        An error ends the chain, with an unknown outcome."""
        if self.stopped:
            return
        try:
            future = self.session.execute_async(statement, values)
        except Exception as error:  # the node is gone
            self.failed(error)
            return
        future.add_callbacks(lambda _: (acknowledged(), then()), self.failed)

    def failed(self, error):
        self.ledger.errors.append(error)

    def new_id(self):
        with self.ledger.lock:
            return next(self.ledger.ids)

    def next(self):
        number, ledger = self.new_id(), self.ledger
        kind = self.draw.choice(["rows", "rows", "rows", "batches", "logged", "deleted"])
        ledger.sent[kind].add(number)
        done = lambda: ledger.acknowledged[kind].add(number)
        if kind == "rows":
            self.send(self.row, (number % 97, number, derived(number)), done, self.next)
        elif kind == "batches":
            batch = BatchStatement(batch_type=BatchType.UNLOGGED)
            for part in range(BATCH):
                batch.add(self.batch, (number, part, derived(number)))
            self.send(batch, None, done, self.next)
        elif kind == "logged":
            batch = BatchStatement(batch_type=BatchType.LOGGED)
            for part in range(BATCH):
                batch.add(self.logged, ((number * 7 + part) % 101, number, derived(number)))
            self.send(batch, None, done, self.next)
        else:
            deleted = lambda: ledger.acknowledged["gone"].add(number)
            delete = lambda: (
                ledger.sent["gone"].add(number),
                self.send(self.delete, (number,), deleted, self.next),
            )
            self.send(self.write, (number, derived(number)), done, delete)

    def next_register(self):
        ledger, index = self.ledger, self.index
        ledger.registers_sent[index] += 1
        version = ledger.registers_sent[index]
        done = lambda: ledger.registers_acknowledged.__setitem__(index, version)
        self.send(self.register, (version, index), done, self.next_register)

    def next_count(self):
        ledger, index, by = self.ledger, self.index, self.draw.randint(1, 9)
        ledger.counts_sent[index] += by
        done = lambda: ledger.counts_acknowledged.__setitem__(
            index, ledger.counts_acknowledged[index] + by
        )
        self.send(self.count, (by, index), done, self.next_count)


def read_all(session, query):
    statement = session.prepare(query)
    statement.fetch_size = 10_000
    return list(session.execute(statement))


def check(session, ledger):
    """Compares the tables with the ledger."""
    rows = read_all(session, "SELECT part, id, value FROM kills.rows")
    assert all(
        part == number % 97 and value == derived(number) for part, number, value in rows
    ), "a wrong value"
    found = {number for _, number, _ in rows}
    assert len(found) == len(rows)
    assert not ledger.acknowledged["rows"] - found, "acknowledged rows are lost"
    assert not found - ledger.sent["rows"], "rows that were never sent"

    for table, whole in (
        ("batches", lambda number: set(range(BATCH))),
        ("logged", lambda number: {(number * 7 + part) % 101 for part in range(BATCH)}),
    ):
        parts = defaultdict(set)
        for number, part, value in read_all(session, f"SELECT id, part, value FROM kills.{table}"):
            assert value == derived(number), "a wrong value"
            parts[number].add(part)
        torn = {number: found for number, found in parts.items() if found != whole(number)}
        assert not torn, f"part of a batch in {table}"
        assert not ledger.acknowledged[table] - set(
            parts
        ), f"acknowledged batches are lost from {table}"
        assert not set(parts) - ledger.sent[table], f"batches that were never sent in {table}"

    found = {
        number: value for number, value in read_all(session, "SELECT id, value FROM kills.deleted")
    }
    assert all(value == derived(number) for number, value in found.items())
    assert not set(found) - ledger.sent["deleted"], "rows that were never sent"
    assert not set(found) & ledger.acknowledged["gone"], "deleted rows came back"
    assert (
        not ledger.acknowledged["deleted"] - ledger.sent["gone"] - set(found)
    ), "acknowledged rows are lost"

    for table, column, acknowledged, sent in (
            ("registers", "version", ledger.registers_acknowledged, ledger.registers_sent),
            ("counts", "total", ledger.counts_acknowledged, ledger.counts_sent)):
        found = dict(read_all(session, f"SELECT id, {column} FROM kills.{table}"))
        for index in range(CONNECTIONS):
            assert (
                acknowledged[index] <= (found.get(index) or 0) <= sent[index]
            ), f"{table} of connection {index}"


def flush_until_killed(node):
    """Flushes; the node will probably die before it answers."""
    try:
        node.flush("kills")
    except (OSError, http.client.HTTPException):
        pass


def test_kill_at_random_moments(start_node):
    draw = random.Random(SEED)
    node = start_node(
        settings={"commitlog_sync": "group", "commitlog_segment_size_in_mb": 1}, shards=2
    )
    session = connect(node)
    for statement in SCHEMA:
        session.execute(statement)
    session.cluster.shutdown()

    ledger, growth = Ledger(), []
    acknowledged = lambda: sum(map(len, ledger.acknowledged.copy().values()))
    for number in range(ROUNDS):
        before = acknowledged()
        writers = [
            Writer(node, ledger, index, random.Random(draw.random()))
            for index in range(CONNECTIONS)
        ]
        for writer in writers:
            writer.start()
        if number % 3:
            # Two rounds of three have acknowledged rows, however slow the machine is.
            wait_until(lambda: acknowledged() > before, 120, "an acknowledged write")
        moment = draw.uniform(0.01, 0.6)
        flush_at = draw.uniform(0, moment) if draw.random() < 0.5 else None
        flusher = None
        if flush_at is not None:
            time.sleep(flush_at)
            flusher = threading.Thread(target=flush_until_killed, args=(node,))
            flusher.start()
        time.sleep(max(0, moment - (flush_at or 0)))
        node.kill()
        for writer in writers:
            writer.stopped = True
            writer.session.cluster.shutdown()
        if flusher:
            flusher.join()
        node.start()
        session = connect(node)
        check(session, ledger)
        session.cluster.shutdown()
        growth.append(acknowledged() - before)
    print(f"acknowledged between kills: {growth}")
    assert (
        sum(1 for count in growth if count > 0) >= ROUNDS * 2 // 3
    ), "the load must have written rows"
    unknown = {kind: len(ledger.sent[kind] - ledger.acknowledged[kind]) for kind in ledger.sent}
    assert sum(unknown.values()) > ROUNDS, "kills must have hit requests in flight"
    # After the rounds with kills, a clean stop keeps everything too.
    node.stop()
    node.start()
    session = connect(node)
    check(session, ledger)
    session.cluster.shutdown()


def test_kill_during_replay(start_node):
    """A node that dies while it recovers loses nothing at the next start."""
    draw = random.Random(f"{SEED} replay")
    node = start_node(settings={"commitlog_sync": "group"})
    session = connect(node)
    for statement in SCHEMA[:2]:
        session.execute(statement)
    insert = session.prepare("INSERT INTO kills.rows (part, id, value) VALUES (?, ?, ?)")
    execute_concurrent_with_args(
        session, insert, [(number % 97, number, derived(number)) for number in range(20_000)]
    )
    session.cluster.shutdown()
    node.kill()
    for _ in range(6):
        node.start_and_kill(after_s=draw.uniform(0.005, 0.2))
    node.start()
    session = connect(node)
    rows = read_all(session, "SELECT part, id, value FROM kills.rows")
    assert sorted(rows) == sorted(
        (number % 97, number, derived(number)) for number in range(20_000)
    )
    session.cluster.shutdown()
