"""A smaller version of the flights test through drivers of other languages.

The drivers are `scylla` (Rust) and Apache's Java driver. Each program, in interop/rust and
interop/java, compares the rows that it reads with those that it wrote.
"""
import pytest

import flights
from driver_programs import flights_of_java, program, run
from gate import all_or_one

ROWS = 6_000
COLUMNS = ("carrier", "origin", "month", "day", "flight", "dest", "distance")


@pytest.fixture(scope="module")
def csv(tmp_path_factory):
    """Writes every 40th flight of all months, at most one of a flight number for each day and
    partition."""
    indices = [flights.COLUMNS.index(name) for name in COLUMNS]
    rows = {row[:4] + row[5:6]: row for row in flights.Flights().rows[::40]}
    file = tmp_path_factory.mktemp("csv") / "flights.csv"
    file.write_text(
        "".join(
            ",".join(str(row[index]) for index in indices) + "\n"
            for row in list(rows.values())[:ROWS]
        )
    )
    return file


@pytest.mark.parametrize("shards", all_or_one([1, 2, 3]))
def test_rust_driver(node, csv, shards):
    """The driver supports shards, and must find their number by itself."""
    command = program("rust")
    running = node(shards=shards)
    said = run([*command, "flights", running.host, running.port, shards, csv])
    print(said)
    assert said.count(f"ok: {ROWS} rows") == 3
    assert said.count(f"shards: {shards}\n") == 3


def test_java_driver(node, csv):
    command = flights_of_java()
    running = node(shards=2)
    said = run([*command, running.host, running.port, csv])
    print(said)
    assert said.count(f"ok: {ROWS} rows") == 4
