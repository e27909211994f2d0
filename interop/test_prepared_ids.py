"""Ids of prepared statements equal Cassandra's: MD5 of keyspace and text.

The keyspace is left out if a read or write names all its keyspaces, as observed with Cassandra
5.0.9."""
import hashlib
import struct

import pytest

from wire import ERROR, EXECUTE, INVALID, PREPARE, ROWS, Wire, long_string

# True if Cassandra includes the session's keyspace, if there is one, in the id; observed.
STATEMENTS = {
    "SELECT * FROM a.t WHERE k = ?": False,
    "SELECT * FROM t WHERE k = ?": True,
    "SELECT * FROM system.local": False,
    "INSERT INTO a.t (k) VALUES (?)": False,
    "UPDATE t SET v = ? WHERE k = ?": True,
    "DELETE FROM a.t WHERE k = ?": False,
    "BEGIN BATCH INSERT INTO a.t (k) VALUES (?); INSERT INTO b.t (k) VALUES (?); APPLY BATCH": False,
    "BEGIN BATCH INSERT INTO a.t (k) VALUES (?); INSERT INTO t (k) VALUES (?); APPLY BATCH": True,
    "BEGIN BATCH APPLY BATCH": False,
    "TRUNCATE a.t": False,
    "TRUNCATE t": True,
    "USE a": True,
    "CREATE TABLE IF NOT EXISTS a.t (k int PRIMARY KEY, v int)": True,
    "ALTER TABLE a.t ADD IF NOT EXISTS v int": True,
    "DESCRIBE KEYSPACE a": True,
}


@pytest.fixture(scope="module")
def node(start_node):
    node = start_node(shards=2)
    with Wire(node) as wire:
        for name in "ab":
            wire.query(
                f"CREATE KEYSPACE {name} WITH replication = {{'class': 'SimpleStrategy', "
                f"'replication_factor': 1}}"
            )
            assert wire.query(f"CREATE TABLE {name}.t (k int PRIMARY KEY, v int)").code is None
            assert wire.query(f"INSERT INTO {name}.t (k, v) VALUES (1, {ord(name)})").code is None
    return node


def statement_id(text, keyspace):
    return hashlib.md5(((keyspace or "") + text).encode()).digest()


def prepare(wire, text, keyspace=None):
    """Prepares a statement; version 5 can name the keyspace."""
    flags = (struct.pack(">I", 0 if keyspace is None else 1)) if wire.version >= 5 else b""
    name = struct.pack(">H", len(keyspace)) + keyspace.encode() if keyspace else b""
    return wire.ask(PREPARE, long_string(text) + flags + name)


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("used", ["a", "b"])
def test_the_id_has_the_keyspace_only_where_it_matters(node, version, used):
    with Wire(node, version) as wire:
        wire.query(f"USE {used}")
        for text, is_bound in STATEMENTS.items():
            found = prepare(wire, text).prepared_id[0]
            assert found == statement_id(text, used if is_bound else None), text
            if version >= 5:
                for named in "ab":
                    found = prepare(wire, text, named).prepared_id[0]
                    assert found == statement_id(text, named if is_bound else None), text


@pytest.mark.parametrize("version", [3, 4, 5])
def test_an_id_without_a_keyspace_does_not_contain_one(node, version):
    with Wire(node, version) as wire:
        for text in STATEMENTS:
            answer = prepare(wire, text)
            if " t " in text or text.endswith(" t"):
                assert answer.code == INVALID and answer.message.startswith(
                    "No keyspace has been specified"
                )
            else:
                assert answer.prepared_id[0] == statement_id(text, None), text


@pytest.mark.parametrize("first", ["a", "b"])
def test_each_keyspace_has_its_own_statement(node, first):
    """One text under two keyspaces reads two tables, whichever was prepared first."""
    text = "SELECT v FROM t WHERE k = 1"
    with Wire(node) as one, Wire(node) as other:
        ids = {}
        for keyspace in sorted("ab", reverse=first == "b"):
            one.query(f"USE {keyspace}")
            ids[keyspace] = one.prepare(text)
        for wire in (one, other):
            for keyspace, prepared in ids.items():
                assert wire.execute(prepared).rows() == [[ord(keyspace).to_bytes(4, "big")]]


def test_a_restart_gives_the_same_id(node):
    """A driver prepares a forgotten statement again and expects the id that it knows."""
    text = "SELECT v FROM a.t WHERE k = 1"
    with Wire(node) as wire:
        wire.query("USE b")
        before = wire.prepare(text)
    node.restart()
    with Wire(node) as wire:
        answer = wire.ask(EXECUTE, wire.execute_body(before, ()))
        assert answer.opcode == ERROR and answer.body.endswith(before[0])
        assert wire.prepare(text)[0] == before[0]
        assert wire.execute(before).kind == ROWS
