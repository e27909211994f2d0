"""Conditional writes and SERIAL reads of concurrent clients are linearizable.

The registers are in memory, in flushed files or in both, and the node dies and starts again
meanwhile. A failure leaves the history in the test's directory; `python3 linearizable.py FILE`
checks it again.
"""
import collections
import http.client
import random
import threading
import time

import pytest

from driver import seed
from espalier_node import wait_until
from gate import RUNS_ALL, part
from linearizable import CAS, READ, Violation, check, write_history
from register_load import KEYSPACE, SCHEMA, Load
from wire import Wire

SEED = seed()
SECONDS = part(60, 5)
KILLS = part(10, 1)
# A write is on the disk, or at least with the system, before its answer leaves.
SETTINGS = {"commitlog_sync": "group", "commitlog_segment_size_in_mb": 1}


def create_schema(node):
    with Wire(node) as wire:
        for statement in SCHEMA:
            answer = wire.query(statement)
            assert answer.code is None, answer.message


class Flushes(threading.Thread):
    """Calls `flush` again and again while its context is open; ignores errors, because the node may
    be dead."""

    def __init__(self, flush, pause_s):
        super().__init__()
        self.flush, self.pause_s, self.stopping, self.count = flush, pause_s, threading.Event(), 0

    def run(self):
        while not self.stopping.wait(self.pause_s):
            try:
                self.flush()
                self.count += 1
            except (OSError, http.client.HTTPException):
                pass

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.join()


def counts_of(load):
    """Returns the number of operations of each kind."""
    return collections.Counter(
        one.kind if one.kind == READ else f"{one.kind} {one.applied}" for one in list(load.history)
    )


def wait_for_operations(load):
    """Waits until the history has many operations of each kind that has an answer, or trouble."""
    kinds = (READ, f"{CAS} True", f"{CAS} False")

    def is_done():
        counts = counts_of(load)
        return load.trouble or all(counts[kind] > 5 * SECONDS for kind in kinds)

    wait_until(is_done, 120, f"{5 * SECONDS} operations of each kind")


def check_history(load, tmp_path):
    """Fails, with the path of the history, if it is not linearizable."""
    assert not load.trouble, load.trouble[:5]
    path = tmp_path / "history.jsonl"
    write_history(path, load.history)
    try:
        check(load.history)
    except Violation as violation:
        pytest.fail(f"{violation}\nhistory: {path}")
    counts = counts_of(load)
    print(f"{len(load.history)} operations: {dict(counts)}")
    path.unlink()
    return counts


def test_conditional_writes_are_linearizable(node, tmp_path):
    """The node is not killed, and flushes its tables."""
    node = node(settings=SETTINGS, shards=2)
    create_schema(node)
    with Load(node, SEED) as load, Flushes(lambda: node.flush(KEYSPACE), 0.2) as flushes:
        time.sleep(SECONDS)
        wait_for_operations(load)
        wait_until(lambda: flushes.count > SECONDS // 4 or load.trouble, 120, "several flushes")
    node.restart()
    load.read_all()
    check_history(load, tmp_path)


def test_conditional_writes_are_linearizable_over_kills(node, tmp_path):
    """The node is killed at random moments, and every third time stopped cleanly; the history
    continues after each restart."""
    draw = random.Random(SEED)
    node = node(settings=SETTINGS, shards=2)
    create_schema(node)
    with Load(node, SEED) as load, Flushes(lambda: node.flush(KEYSPACE), 0.2):
        moments = sorted(draw.uniform(0.2, SECONDS - 0.5) for _ in range(KILLS))
        began = time.monotonic()
        for number, moment in enumerate(moments, 1):
            time.sleep(max(0.1, began + moment - time.monotonic()))
            node.restart(kill=number % 3 != 0)
            load.read_all()
        time.sleep(max(0.5, began + SECONDS - time.monotonic()))
        wait_for_operations(load)
    node.restart(kill=True)
    load.read_all()
    counts = check_history(load, tmp_path)
    assert counts[f"{CAS} None"] > KILLS, "kills must have hit requests under way"


@pytest.mark.skipif(not RUNS_ALL, reason="validates the test itself")
def test_the_history_of_cassandra_is_linearizable(cassandra, tmp_path):
    """Cassandra must pass the same check, or the check is wrong."""
    create_schema(cassandra)
    tables = [f"flush {KEYSPACE} {table}" for table in ("rows", "cells", "pairs")]
    with Load(cassandra, SEED) as load, Flushes(lambda: cassandra.control(tables), 5):
        time.sleep(SECONDS)
        wait_for_operations(load)
    load.read_all()
    check_history(load, tmp_path)
