"""A driver creates a table, writes and reads, and finds all rows after each stop of the node. The
admin API answers."""

import urllib.error

import pytest

ROWS = [
    (city, year, float(year * len(city))) for city in ("Köln", "Oslo", "Rom") for year in range(20)
]


def write(session):
    session.execute(
        "CREATE KEYSPACE first WITH replication = {'class': 'SimpleStrategy', "
        "'replication_factor': 1}"
    )
    session.execute(
        "CREATE TABLE first.weather (city text, year int, rain double, PRIMARY KEY (city, year))"
    )
    insert = session.prepare("INSERT INTO first.weather (city, year, rain) VALUES (?, ?, ?)")
    for row in ROWS:
        session.execute(insert, row)


def read(session):
    return sorted(
        tuple(row) for row in session.execute("SELECT city, year, rain FROM first.weather")
    )


@pytest.mark.parametrize("protocol_version", [4, 5])
@pytest.mark.parametrize("shards", [1, 2])
def test_rows_survive_flush_kill_and_stop(node, protocol_version, shards):
    running = node(shards=shards)
    session = running.connect(protocol_version=protocol_version)
    write(session)
    assert read(session) == sorted(ROWS)

    running.flush("first", "weather")
    assert running.table_files("first", "weather")
    assert read(session) == sorted(ROWS)

    select = session.prepare(
        "SELECT rain FROM first.weather WHERE city = ? AND year >= ? ORDER BY year DESC"
    )
    rain = [row.rain for row in session.execute(select, ("Oslo", 17))]
    assert rain == [76.0, 72.0, 68.0]

    session.execute("INSERT INTO first.weather (city, year, rain) VALUES ('Ur', -2000, 1.5)")
    expected = sorted([*ROWS, ("Ur", -2000, 1.5)])
    for kill in (True, False):
        running.restart(kill=kill)
        assert read(running.connect(protocol_version=protocol_version)) == expected


def test_the_admin_api_answers(node):
    running = node()
    session = running.connect()
    write(session)
    assert '"first"' in running.request("GET", "/storage_service/keyspaces")
    metrics = running.metrics()
    assert metrics["process_resident_memory_bytes"] > 1_000_000
    with pytest.raises(urllib.error.HTTPError) as refused:
        running.flush("nowhere")
    assert refused.value.code == 400 and "nowhere" in refused.value.read().decode()
