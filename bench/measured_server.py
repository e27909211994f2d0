"""Measures the rate of one server: of writes, and of queries for one row.

Every answer is checked. Rates are for each second that the server was on its core, so that neither
the client nor another process counts. The measurement of queries begins after the client's log-ins.
"""
import multiprocessing
import time
from typing import NamedTuple

import pipelined_load
from wire import Wire

VALUE_BYTES = 16


class MeasuredServer:
    """A server with the measured tables. `statements(table)` returns its INSERT and SELECT."""

    def __init__(self, name, server, options, statements):
        self.name, self.server, self.options, self.statements = name, server, options, statements
        self.rows, self.wrong = pipelined_load.Rows(VALUE_BYTES), []

    def create(self, schema):
        with Wire(self.server, timeout_s=60) as wire:
            for statement in schema:
                answer = wire.query(statement)
                assert answer.code is None, f"{statement}: {answer.message}"

    def report(self, what, count, seconds, core):
        """Prints a rate by the clock and by the core, and returns the latter."""
        print(
            f"{self.name:9} {what:28} {count / seconds:10,.0f}/s, {count / core:10,.0f} a second "
            f"of the core, {core / seconds:4.0%} busy",
            flush=True,
        )
        return count / core

    def timed(self, what, work):
        """Reports the rate of `work`, which returns the number of its operations."""
        core, began = self.server.core_seconds(), time.monotonic()
        count = work()
        return self.report(
            what, count, time.monotonic() - began, self.server.core_seconds() - core
        )

    def write(self, table):
        """Writes all rows of a table, and reads one row for each nine that it writes."""
        statements = self.statements(table)
        with Wire(self.server, timeout_s=60) as wire:
            wire.execute(wire.prepare(statements[0]), (self.rows.key(0), self.rows.value(0)))

        def work():
            known, done = multiprocessing.RawValue("q", 1), []
            self.wrong += pipelined_load.write(
                self.server, self.rows, statements, self.options.rows, known,
                lambda _, operations: done.append(operations),
            )
            return sum(done)

        return self.timed(f"writes, {table}", work)

    def query(self, what, table):
        """Reads random rows, each by a query."""
        reads = read(self.server, self.rows, self.statements(table), self.options)
        self.wrong += reads.wrong
        return self.report(what, reads.right, reads.seconds, reads.core_seconds)


class Reads(NamedTuple):
    """The number of right reads of a measurement, their seconds, and the wrong answers."""

    right: int
    seconds: float
    core_seconds: float  # of the server
    wrong: list


def read(server, rows, statements, options):
    """Reads random rows for `options.seconds`."""
    began = []
    right, seconds, wrong = pipelined_load.read(
        server, rows, statements, options.rows, options.seconds,
        connected=lambda: began.append(server.core_seconds()),
    )
    return Reads(right, seconds, server.core_seconds() - began[0], wrong)
