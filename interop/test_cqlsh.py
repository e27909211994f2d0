"""The common uses of cqlsh: COPY FROM, SELECT, EXPAND, COPY TO, DESCRIBE, errors."""
import csv
import subprocess
import sys
from pathlib import Path

import pytest

import flights
from driver import connect

ROWS = 20_000
CQLSH = Path(sys.executable).parent / "cqlsh"


@pytest.fixture(scope="module")
def node(start_node):
    return start_node(shards=2)


@pytest.fixture(scope="module")
def model():
    """Returns the first flights in the table's order; some of them lack values."""
    return flights.Flights(rows=flights.Flights().rows[:ROWS])


def cqlsh(node, *statements, status=0):
    """Returns the output of cqlsh, with its errors if a `status` other than 0 is expected."""
    done = subprocess.run(
        [
            CQLSH,
            node.host,
            str(node.port),
            "--no-color",
            "--request-timeout",
            "60",
            "--connect-timeout",
            "20",
            "-e",
            "\n".join(f"{statement};" for statement in statements),
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout if status == 0 else done.stdout + done.stderr


@pytest.fixture(scope="module")
def copied(node, model, tmp_path_factory):
    """Fills the table by COPY FROM; returns the path of the CSV file."""
    cqlsh(node, flights.CREATE_KEYSPACE, flights.create_table(f"{flights.KEYSPACE}.flights"))
    file = tmp_path_factory.mktemp("csv") / "flights.csv"
    with open(file, "w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(flights.COLUMNS)
        for row in model.rows:
            writer.writerow(
                (
                    ""
                    if value is None
                    else f"{value:%Y-%m-%d %H:%M:%S}+0000" if hasattr(value, "hour") else value
                )
                for value in row
            )
    said = cqlsh(
        node,
        f"COPY {flights.KEYSPACE}.flights ({', '.join(flights.COLUMNS)}) FROM '{file}' WITH HEADER "
        "= true"
        " AND NUMPROCESSES = 1 AND DATETIMEFORMAT = '%Y-%m-%d %H:%M:%S%z'",
    )
    assert f"{ROWS} rows imported" in said.replace(",", ""), said
    return file


def test_copy_from(node, model, copied):
    session = connect(node, keyspace=flights.KEYSPACE)
    assert list(session.execute("SELECT * FROM flights")) == model.rows
    session.cluster.shutdown()


def test_select(node, model, copied):
    row = model.rows[0]
    said = cqlsh(
        node,
        f"SELECT carrier, flight, dest FROM {flights.KEYSPACE}.flights WHERE carrier = '{row[0]}' "
        "AND"
        f" origin = '{row[1]}' AND month = {row[2]} LIMIT 1",
        f"SELECT count(*) FROM {flights.KEYSPACE}.flights",
    )
    lines = [line.split() for line in said.splitlines()]
    assert ["carrier", "|", "flight", "|", "dest"] in lines
    assert [row[0], "|", str(row[5]), "|", row[11]] in lines
    assert [str(ROWS)] in lines
    assert "(1 rows)" in said


def test_pages_are_fetched_to_the_end(node, copied):
    said = cqlsh(node, "PAGING 100", f"SELECT flight FROM {flights.KEYSPACE}.flights LIMIT 1234")
    assert "(1234 rows)" in said


def test_tracing_and_expand_do_not_break_it(node, copied):
    said = cqlsh(node, "EXPAND ON", f"SELECT * FROM {flights.KEYSPACE}.flights LIMIT 1")
    assert "@ Row 1" in said and "sched_dep_time" in said


def test_copy_to(node, copied, tmp_path):
    out = tmp_path / "out.csv"
    said = cqlsh(
        node,
        f"COPY {flights.KEYSPACE}.flights ({', '.join(flights.COLUMNS)}) TO '{out}' WITH HEADER = "
        "true"
        " AND NUMPROCESSES = 1 AND DATETIMEFORMAT = '%Y-%m-%d %H:%M:%S%z'",
    )
    assert f"{ROWS} rows exported" in said.replace(",", ""), said
    with open(out, newline="") as ours, open(copied, newline="") as theirs:
        written, wanted = list(csv.reader(ours)), list(csv.reader(theirs))
    assert written[0] == wanted[0]
    assert sorted(map(normal, written[1:])) == sorted(map(normal, wanted[1:]))


def normal(row):
    """Returns the row with numbers in one form, because cqlsh prints 5.0 as 5."""
    return [
        str(float(text)) if name in flights.FLOATING and text else text
        for name, text in zip(flights.COLUMNS, row)
    ]


def test_describe(node, copied):
    """The output of DESCRIBE can be executed, and makes the same schema again."""
    cqlsh(
        node,
        f"CREATE TYPE {flights.KEYSPACE}.plane (tail text, seats int)",
        f'CREATE TABLE {flights.KEYSPACE}.planes (id uuid, "Year Built" int, kind frozen<plane> '
        'static, PRIMARY KEY (id, "Year Built"))'
        " WITH comment = 'it''s a plane' AND CLUSTERING ORDER BY (\"Year Built\" DESC)",
    )
    assert flights.KEYSPACE in cqlsh(node, "DESCRIBE KEYSPACES").split()
    assert {"flights", "planes"} <= set(
        cqlsh(node, f"USE {flights.KEYSPACE}", "DESCRIBE TABLES").split()
    )
    assert "Murmur3Partitioner" in cqlsh(node, "DESCRIBE CLUSTER")
    assert f"CREATE KEYSPACE {flights.KEYSPACE}" in cqlsh(node, "DESCRIBE SCHEMA")
    table = cqlsh(node, f"DESCRIBE TABLE {flights.KEYSPACE}.flights")
    assert "PRIMARY KEY ((carrier, origin, month), day, time_hour, flight)" in table
    assert "CLUSTERING ORDER BY (day ASC, time_hour DESC, flight ASC)" in table
    whole = cqlsh(node, f"DESCRIBE KEYSPACE {flights.KEYSPACE}")
    cqlsh(node, f"DROP KEYSPACE {flights.KEYSPACE}")
    assert flights.KEYSPACE not in cqlsh(node, "DESCRIBE KEYSPACES").split()
    # The output begins with a warning that the server is newer than cqlsh.
    cqlsh(node, whole[whole.index("CREATE KEYSPACE"):].rstrip(" ;\n"))
    assert cqlsh(node, f"DESCRIBE KEYSPACE {flights.KEYSPACE}") == whole


def test_errors_are_shown(node):
    said = cqlsh(node, "SELECT * FROM nowhere.nothing", status=2)
    assert "nowhere" in said
    said = cqlsh(node, "SELEC 1", status=2)
    assert "SyntaxException" in said and "SELEC" in said
