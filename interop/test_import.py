"""`espalier sstable import` moves files between nodes, in version `me`, which ScyllaDB has, too."""
import subprocess

from espalier_node import BINARY

SCHEMA = [
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE ks.t (k int, c text, v map<text, int>, s int static, PRIMARY KEY (k, c))",
]


def import_into(node, directory, *more):
    command = [
        str(BINARY),
        "sstable",
        "import",
        str(directory),
        "--node",
        f"127.0.0.1:{node.api_port}",
        *more,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_a_table_goes_to_another_node(node):
    old = node("old", settings={"sstable_format": "me"})
    session = old.connect()
    for statement in SCHEMA:
        session.execute(statement)
    for number in range(200):
        session.execute(
            f"INSERT INTO ks.t (k, c, v, s) VALUES ({number % 20}, 'c{number}', {{'a': {number}}}, "
            f"{number})"
        )
        if number == 100:
            old.flush("ks")
    session.execute("DELETE FROM ks.t WHERE k = 3 AND c > 'c1'")
    old.flush("ks")
    expected = sorted(map(tuple, session.execute("SELECT k, c, s FROM ks.t")))
    directory = old.table_files("ks", "t")[0].parent
    assert len(expected) > 150

    new = node("new", shards=2)
    session = new.connect()
    refused = import_into(new, directory)
    assert refused.returncode != 0 and "there is no table ks.t" in refused.stderr, refused
    for statement in SCHEMA:
        session.execute(statement)
    done = import_into(new, directory)
    assert done.returncode == 0 and "ks.t: 2 SSTables" in done.stdout, done
    assert sorted(map(tuple, session.execute("SELECT k, c, s FROM ks.t"))) == expected
    new.restart(kill=True)
    session = new.connect()
    assert sorted(map(tuple, session.execute("SELECT k, c, s FROM ks.t"))) == expected

    session.execute("CREATE TABLE ks.other (k text PRIMARY KEY, v int)")
    wrong = import_into(new, directory, "--into", "ks.other")
    assert wrong.returncode != 0 and "expected text, got int" in wrong.stderr, wrong
    nobody = subprocess.run(
        [str(BINARY), "sstable", "import", str(directory), "--node", "127.0.0.1:1"],
        capture_output=True,
        text=True,
    )
    assert nobody.returncode != 0 and "is a node running there" in nobody.stderr, nobody
