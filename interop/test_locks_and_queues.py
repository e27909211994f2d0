"""Locks with a TTL and a queue of jobs, as applications build them from conditional writes.

The node dies and starts again meanwhile. Cassandra runs the same tests without the kills.
"""
import collections
import random
import struct
import threading
import time

from driver import seed
from gate import part
from wire import ERROR, EXECUTE, SERIAL, Closed, Wire

SEED = seed()
SECONDS = part(30, 6)
KILLS = part(4, 1)
JOBS = part(2000, 400)
WORKERS = 32
TTL_S = 2
# The node counts whole seconds, so a row may live a second less than its TTL.
CERTAIN_S = TTL_S - 1
SCHEMA = (
    "CREATE KEYSPACE apps WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE apps.locks (name int PRIMARY KEY, owner int)",
    "CREATE TABLE apps.fences (name int PRIMARY KEY, number int)",
    "CREATE TABLE apps.jobs (queue int, id int, state text, worker int, PRIMARY KEY (queue, id))",
)
LOCKS = {
    "acquire": "INSERT INTO apps.locks (name, owner) VALUES (?, ?) IF NOT EXISTS "
               f"USING TTL {TTL_S}",
    "renew": f"UPDATE apps.locks USING TTL {TTL_S} SET owner = ? WHERE name = ? IF owner = ?",
    "release": "DELETE FROM apps.locks WHERE name = ? IF owner = ?",
    "token": "SELECT number FROM apps.fences WHERE name = ?",
    "advance": "UPDATE apps.fences SET number = ? WHERE name = ? IF number = ?",
}
QUEUE = {
    "list": "SELECT id, state FROM apps.jobs WHERE queue = ?",
    "look": "SELECT state, worker FROM apps.jobs WHERE queue = ? AND id = ?",
    "claim": "UPDATE apps.jobs SET worker = ?, state = 'taken' WHERE queue = ? AND id = ? "
             "IF state = 'new'",
    "finish": "UPDATE apps.jobs SET state = 'done' WHERE queue = ? AND id = ? "
              "IF state = 'taken' AND worker = ?",
}


def int_(number):
    return struct.pack(">i", number)


def number_of(data):
    return None if data is None else struct.unpack(">i", data)[0]


class Lost(Exception):
    """The answer is lost, or says that the outcome is unknown."""


class Client:
    """A client that connects again when the node died."""

    def __init__(self, node, texts):
        self.node, self.texts, self.wire, self.prepared = node, texts, None, {}

    def ask(self, name, *numbers):
        """Returns the rows of the answer; raises Lost without one."""
        try:
            if self.wire is None:
                self.wire = Wire(self.node, 5)
                self.prepared = {key: self.wire.prepare(text) for key, text in self.texts.items()}
            consistency = {"consistency": SERIAL} if self.texts[name].startswith("SELECT") else {}
            body = self.wire.execute_body(
                self.prepared[name], tuple(map(int_, numbers)), **consistency
            )
            answer = self.wire.ask(EXECUTE, body)
        except (Closed, OSError) as error:
            self.close()
            time.sleep(0.01)
            raise Lost from error
        if answer.opcode == ERROR:
            assert answer.code in (0x1100, 0x1200, 0x1700), answer.message
            raise Lost(answer.message)
        return answer.named_rows()

    def is_applied(self, name, *numbers):
        return self.ask(name, *numbers)[0]["[applied]"] == b"\1"

    def close(self):
        if self.wire is not None:
            self.wire.close()
        self.wire = None


class Worker(threading.Thread):
    """Runs `work(client, number, draw)` until it returns True, and again after a lost answer;
    `trouble` is the error that ended the worker."""

    def __init__(self, node, texts, number, work):
        super().__init__()
        self.client, self.number, self.work, self.trouble = Client(node, texts), number, work, None
        self.draw = random.Random(f"{SEED} {number}")

    def run(self):
        try:
            while not self.is_done():
                pass
        except Exception as error:
            self.trouble = error
        finally:
            self.client.close()

    def is_done(self):
        try:
            return self.work(self.client, self.number, self.draw)
        except Lost:
            return False


def run_workers(node, texts, work, kill):
    """Runs all workers to their end and calls `kill` meanwhile; raises the error of a worker."""
    workers = [Worker(node, texts, number, work) for number in range(1, WORKERS + 1)]
    for worker in workers:
        worker.start()
    kill()
    for worker in workers:
        worker.join()
    trouble = [worker.trouble for worker in workers if worker.trouble]
    if trouble:
        raise trouble[0]


def create_schema(peer):
    with Wire(peer) as wire:
        assert wire.query("DROP KEYSPACE IF EXISTS apps").code is None
        for text in SCHEMA:
            answer = wire.query(text)
            assert answer.code is None, answer.message


def killer(peer, seconds):
    """Returns a function that kills a node of ours KILLS times within these seconds."""

    def kill():
        for _ in range(KILLS if hasattr(peer, "restart") else 0):
            time.sleep(seconds / (KILLS + 1))
            peer.restart(kill=True)

    return kill


class Holds:
    """The times at which locks were certainly held: (lock, from, to, owner, token or None), in
    seconds of the monotonic clock.

    The workers end after `until`, but at most a minute later if a lock was held too rarely."""

    def __init__(self, locks, until):
        self.locks, self.until, self.held, self.abandoned = locks, until, [], set()

    def work(self, client, owner, draw):
        """Acquires a lock, takes a token under it, and renews, releases or abandons the lock.

        The first hold of each lock is abandoned, so that each lock expires in a short run, too."""
        name, began = draw.randrange(self.locks), time.monotonic()
        if began > self.until and (self.is_enough() or began > self.until + 60):
            return True
        if not client.is_applied("acquire", name, owner):
            time.sleep(draw.uniform(0.01, 0.1))
            return False
        hold = [name, time.monotonic(), began + CERTAIN_S, owner, None]
        try:
            hold[4] = self.take_token(client, hold)
            for _ in range(draw.randrange(3)):
                time.sleep(draw.uniform(0, 0.1))
                self.renew(client, hold)
            if name not in self.abandoned or draw.random() < 0.1:
                self.abandoned.add(name)
            else:
                self.release(client, hold)
        finally:
            self.held.append(tuple(hold))
        return False

    def is_enough(self):
        """Returns whether each lock was held often, and abandoned at least once."""
        tokens = collections.Counter(hold[0] for hold in list(self.held) if hold[4] is not None)
        names = range(self.locks)
        return self.abandoned == set(names) and all(tokens[name] > SECONDS // 3 for name in names)

    def take_token(self, client, hold):
        """Returns the next token, None if the lock may have expired meanwhile."""
        name, _, until, _, _ = hold
        token = number_of(client.ask("token", name)[0]["number"])
        if time.monotonic() > until or not client.is_applied("advance", token + 1, name, token):
            return None
        return token + 1 if time.monotonic() < until else None

    def renew(self, client, hold):
        name, _, until, owner, _ = hold
        began = time.monotonic()
        if client.is_applied("renew", owner, name, owner):
            hold[2] = began + CERTAIN_S
        else:
            assert time.monotonic() > until, f"lock {name} was lost before its end: {hold}"

    def release(self, client, hold):
        name, _, until, owner, _ = hold
        hold[2] = min(until, time.monotonic())
        if not client.is_applied("release", name, owner):
            assert time.monotonic() > until, f"lock {name} was lost before its end: {hold}"


def test_a_lock_has_one_owner_at_a_time(peer):
    create_schema(peer)
    locks = 4
    with Wire(peer) as wire:
        for name in range(locks):
            text = f"INSERT INTO apps.fences (name, number) VALUES ({name}, 0)"
            assert wire.query(text).code is None
    holds = Holds(locks, time.monotonic() + SECONDS)
    run_workers(peer, LOCKS, holds.work, killer(peer, SECONDS))
    for name in range(locks):
        held = sorted(hold for hold in holds.held if hold[0] == name)
        for before, after in zip(held, held[1:]):
            assert before[2] <= after[1], f"two owners at one time: {before}, {after}"
        tokens = [hold[4] for hold in held if hold[4] is not None]
        assert tokens == sorted(set(tokens)), f"tokens of lock {name}: {held}"
    assert holds.is_enough(), f"a lock was rarely held, or never abandoned: {holds.held}"


class Jobs:
    """The queues; `done` has the workers that did each job."""

    def __init__(self, queues):
        self.queues, self.done, self.claimed_unknown = queues, collections.defaultdict(list), 0

    def work(self, client, worker, draw):
        """Does one job; returns True if all jobs are taken or done."""
        queues = draw.sample(range(self.queues), self.queues)
        for queue in queues:
            rows = client.ask("list", queue)
            new = [number_of(row["id"]) for row in rows if row["state"] == b"new"]
            if new:
                job = queue, draw.choice(new[:8])
                if self.claim(client, worker, job):
                    self.done[job].append(worker)
                    self.finish(client, worker, job)
                return False
        return True

    def claim(self, client, worker, job):
        """Returns True if this worker has the job; after a lost answer, a read decides."""
        try:
            return client.is_applied("claim", worker, *job)
        except Lost:
            self.claimed_unknown += 1
            return self.look(client, job) == (b"taken", worker)

    def finish(self, client, worker, job):
        try:
            assert client.is_applied("finish", *job, worker), f"another worker took {job}"
        except Lost:
            if self.look(client, job) != (b"done", worker):
                self.finish(client, worker, job)

    def look(self, client, job):
        """Returns the job's state and worker, whatever time the node needs to start."""
        while True:
            try:
                (row,) = client.ask("look", *job)
                return row["state"], number_of(row["worker"])
            except Lost:
                pass


def test_each_job_is_done_once(peer):
    create_schema(peer)
    queues = 4
    jobs = Jobs(queues)
    with Wire(peer) as wire:
        insert = wire.prepare("INSERT INTO apps.jobs (queue, id, state) VALUES (?, ?, 'new')")
        for number in range(JOBS):
            answer = wire.execute(insert, (int_(number % queues), int_(number // queues)))
            assert answer.opcode != ERROR, answer.message
    run_workers(peer, QUEUE, jobs.work, killer(peer, 0.5))
    assert len(jobs.done) == JOBS, "jobs are left"
    repeated = {job: workers for job, workers in jobs.done.items() if len(workers) > 1}
    assert not repeated, f"jobs were done twice: {repeated}"
    client = Client(peer, QUEUE)
    for job, (worker,) in jobs.done.items():
        assert jobs.look(client, job) == (b"done", worker), job
    client.close()
    print(f"claims with a lost answer: {jobs.claimed_unknown}")
