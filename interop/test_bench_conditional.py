"""The client of bench/conditional_writes.py accepts right answers and rows, and no others."""
import itertools
import sys
import time
from pathlib import Path

import numpy
import pytest

from wire import Wire

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "bench"))

import conditional_load  # noqa: E402
from conditional_load import Table  # noqa: E402

ROWS, KEYSPACES = 50, itertools.count()


@pytest.fixture(name="node", scope="module")
def running_node(start_node):
    return start_node()


@pytest.fixture(name="table")
def filled_table(node):
    """Returns a table for one test, with all rows at version 0."""
    keyspace = f"cas_{next(KEYSPACES)}"
    table = Table(f"{keyspace}.t", ROWS)
    with Wire(node) as wire:
        for statement in (
            f"CREATE KEYSPACE {keyspace} WITH replication = "
            "{'class': 'SimpleStrategy', 'replication_factor': 1}",
            table.schema,
        ):
            assert wire.query(statement).code is None
    assert conditional_load.fill(node, table) == []
    yield table
    with Wire(node) as wire:
        wire.query(f"DROP KEYSPACE {keyspace}")


@pytest.mark.parametrize("kind", ("plain", "conditional"))
def test_updates(node, table, kind):
    right, _, wrong = conditional_load.update(node, table, getattr(table, kind), 0.2, 3, 7)
    assert (right % 7, wrong) == (0, [])
    assert table.versions[1:].sum() == right > 0
    assert table.different_rows(node) == []


def test_an_update_that_is_not_applied(node, table):
    table.versions[5] = 3
    wrong = conditional_load.update(node, table, table.conditional, 0.2, 3, 7)[2]
    assert wrong and wrong[0].startswith(f"{table.name}, request 4 was answered with opcode 8")


def test_contention(node, table):
    applied, answers, _, uncertain, wrong = conditional_load.contend(node, table, 16, 4, 0.3)
    assert (uncertain, wrong) == ({}, [])
    assert answers >= applied > 0
    assert table.versions.sum() == applied + 1  # and an update to learn the answer
    assert table.different_rows(node) == []


def test_updates_at_a_rate(node, table):
    for statement in (table.plain, table.conditional):
        numbers = numpy.arange(1, 2 * ROWS) % ROWS
        latencies, wrong = conditional_load.paced(
            node, table, statement, numbers, time.monotonic(), 200
        )
        assert (len(latencies), wrong) == (len(numbers), [])
        assert latencies.min() > 0
    assert table.different_rows(node) == []


@pytest.mark.parametrize("change, unknown, is_accepted", (
    (0, 0, True), (1, 0, False), (1, 1, False), (-1, 0, False), (-1, 1, True), (-2, 1, False)))
def test_different_rows(node, table, change, unknown, is_accepted):
    conditional_load.update(node, table, table.plain, 0.2, 1, ROWS - 1)
    table.versions[7] += change
    faults = table.different_rows(node, {7: unknown})
    assert (faults == []) == is_accepted, faults
    assert is_accepted or faults[0].startswith(f"{table.name}, row 7: ")
