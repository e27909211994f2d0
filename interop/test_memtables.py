"""Kinds of memtables through a driver: chosen, shown and refused; all give the same rows."""

import pytest
from cassandra.protocol import ConfigurationException

from driver import write_all
from gate import all_or_one

KINDS = ("default", "trie", "skiplist", "many_tries", "many_lists")
SETTINGS = {
    "memtable.configurations.many_tries": "{inherits: trie, parameters: {shards: 4}}",
    "memtable.configurations.many_lists": (
        "{class_name: org.apache.cassandra.db.memtable.ShardedSkipListMemtable,"
        " parameters: {shards: 3, serialize_writes: false}}"
    ),
}
ROWS = {(partition, row): partition * row for partition in range(20) for row in range(30)}


def create(session):
    session.execute(
        "CREATE KEYSPACE kinds WITH replication = {'class': 'SimpleStrategy', "
        "'replication_factor': 1}"
    )
    for kind in KINDS:
        session.execute(
            f"CREATE TABLE kinds.{kind} (p int, c int, v int, PRIMARY KEY (p, c)) WITH memtable = "
            f"'{kind}'"
        )


def write(session, kind):
    insert = session.prepare(f"INSERT INTO kinds.{kind} (p, c, v) VALUES (?, ?, ?)")
    write_all(session, insert, [(*key, value) for key, value in ROWS.items()])
    session.execute(f"DELETE FROM kinds.{kind} WHERE p = 3")
    session.execute(f"DELETE FROM kinds.{kind} WHERE p = 4 AND c > 5 AND c <= 20")
    session.execute(f"DELETE FROM kinds.{kind} WHERE p = 5 AND c = 7")


def expected():
    gone = {(4, row) for row in range(6, 21)} | {(5, 7)} | {(3, row) for row in range(30)}
    return sorted((*key, value) for key, value in ROWS.items() if key not in gone)


def read(session, kind):
    return sorted(tuple(row) for row in session.execute(f"SELECT p, c, v FROM kinds.{kind}"))


def check(session):
    for kind in KINDS:
        assert read(session, kind) == expected(), kind
        select = f"SELECT c FROM kinds.{kind} WHERE p = 4 AND c >= 3 AND c < 24 ORDER BY c DESC"
        assert [row.c for row in session.execute(select)] == [23, 22, 21, 5, 4, 3], kind


@pytest.mark.parametrize("shards", all_or_one([1, 2]))
def test_each_kind_gives_the_same_rows(node, shards):
    running = node(shards=shards, settings=SETTINGS)
    session = running.connect()
    create(session)
    for kind in KINDS:
        write(session, kind)
    check(session)
    running.restart(kill=True)
    check(running.connect())
    running.flush("kinds")
    check(running.connect())


def test_the_kind_is_shown_and_changed(node):
    running = node(settings=SETTINGS)
    session = running.connect()
    create(session)
    shown = "SELECT table_name, memtable FROM system_schema.tables WHERE keyspace_name = 'kinds'"
    assert {row.table_name: row.memtable for row in session.execute(shown)} == {
        kind: kind for kind in KINDS
    }
    described = session.execute("DESCRIBE TABLE kinds.skiplist").one().create_statement
    assert "AND memtable = 'skiplist'" in described
    session.execute("ALTER TABLE kinds.trie WITH memtable = 'skiplist'")
    write(session, "trie")
    running.flush("kinds", "trie")
    write(session, "trie")
    assert read(session, "trie") == expected()


def test_an_unknown_kind_is_refused(node):
    session = node().connect()
    session.execute(
        "CREATE KEYSPACE kinds WITH replication = {'class': 'SimpleStrategy', "
        "'replication_factor': 1}"
    )
    session.execute("CREATE TABLE kinds.t (p int PRIMARY KEY)")
    for statement in (
        "CREATE TABLE kinds.u (p int PRIMARY KEY) WITH memtable = 'x'",
        "ALTER TABLE kinds.t WITH memtable = 'x'",
    ):
        with pytest.raises(ConfigurationException) as refused:
            session.execute(statement)
        assert 'Memtable configuration "x" not found.' in str(refused.value)


def test_a_table_with_a_removed_memtable_kind_uses_the_default(node):
    running = node(settings=SETTINGS)
    session = running.connect()
    create(session)
    write(session, "many_lists")
    running.settings = {"memtable.configurations.default": "{inherits: skiplist}"}
    running.restart()
    session = running.connect()
    assert read(session, "many_lists") == expected()
    write(session, "many_lists")
    assert "memtable configuration not in the settings" in running.log()
    session.execute("ALTER TABLE kinds.many_lists WITH comment = 'still there'")
    assert read(session, "many_lists") == expected()
