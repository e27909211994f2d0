"""Statements that Cassandra 5.0.9 refuses on execution, with its codes and texts."""
import struct

import pytest

from wire import (
    BATCH,
    ERROR,
    EXECUTE,
    INVALID,
    PREPARE,
    QUERY,
    ROWS,
    VOID,
    Wire,
    long_string,
    string,
    value,
)

ANY, ONE, QUORUM, SERIAL, LOCAL_SERIAL = 0, 1, 4, 8, 9
ANY_READ = "ANY ConsistencyLevel is only supported for writes"
SERIAL_WRITE = "You must use conditional updates for serializable writes"
MAX_TTL = 630720000
UNSET = struct.pack(">i", -2)
NULL = value(None)


def int_(number):
    return value(struct.pack(">i", number))


def list_(*elements):
    return value(struct.pack(">i", len(elements)) + b"".join(elements))


@pytest.fixture(scope="module")
def wire(start_node):
    node = start_node()
    with Wire(node) as wire:
        for text in (
            "CREATE KEYSPACE a WITH replication = {'class': 'SimpleStrategy', "
            "'replication_factor': 1}",
            "CREATE TABLE a.t (k int PRIMARY KEY, v int)",
            "CREATE TABLE a.c (k int PRIMARY KEY, v counter)",
            "CREATE TABLE a.r (k int, c int, v int, w vector<float, 2>, x list<int>, PRIMARY KEY "
            "(k, c))",
        ):
            assert wire.query(text).code is None
        yield wire


def options(consistency, values):
    counted = struct.pack(">H", len(values)) + b"".join(values) if values else b""
    return struct.pack(">HB", consistency, 0x01 if values else 0) + counted


def both(wire, text, values=(), consistency=ONE):
    """Returns a statement's error as (code, text), None if it succeeds; the same result is required
    of the text and of the prepared statement."""
    answers = [wire.ask(QUERY, long_string(text) + options(consistency, values))]
    prepared = wire.ask(PREPARE, long_string(text))
    if prepared.opcode != ERROR:
        prepared = wire.ask(EXECUTE, string(prepared.prepared_id[0]) + options(consistency, values))
    answers.append(prepared)
    told = {(answer.code, answer.message) if answer.opcode == ERROR else None for answer in answers}
    assert len(told) == 1, told
    return told.pop()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT v FROM a.t WHERE k = 1",
        "SELECT v FROM a.t",
        "SELECT key FROM system.local",
        "SELECT v FROM a.t WHERE k IN ()",
        "SELECT address FROM system_views.clients",
    ],
)
def test_reads_have_no_any(wire, text):
    assert both(wire, text, consistency=ANY) == (INVALID, ANY_READ)
    for consistency in (ONE, QUORUM, SERIAL, LOCAL_SERIAL):
        assert both(wire, text, consistency=consistency) is None


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO a.t (k, v) VALUES (1, 1)",
        "UPDATE a.t SET v = 1 WHERE k = 1",
        "DELETE FROM a.t WHERE k = 1",
        "UPDATE a.t SET v = 1 WHERE k IN ()",
        "UPDATE a.r SET x[0] = 1 WHERE k = 1 AND c = 1",
    ],
)
def test_writes_without_a_condition_are_not_serial(wire, text):
    for consistency in (SERIAL, LOCAL_SERIAL):
        assert both(wire, text, consistency=consistency) == (INVALID, SERIAL_WRITE)
    if "x[0]" not in text:
        assert both(wire, text, consistency=ANY) is None


def test_counters_are_neither(wire):
    text = "UPDATE a.c SET v = v + 1 WHERE k = 1"
    assert both(wire, text, consistency=ANY) == (
        INVALID,
        "Consistency level ANY is not yet supported for counter table c",
    )
    for consistency in (SERIAL, LOCAL_SERIAL):
        assert both(wire, text, consistency=consistency) == (
            INVALID,
            "Counter operations are inherently non-serializable",
        )


def test_the_level_is_judged_before_the_values(wire):
    assert both(wire, "SELECT v FROM a.t WHERE k = ?", [value(b"abc")], ANY) == (INVALID, ANY_READ)
    assert both(wire, "INSERT INTO a.t (k) VALUES (?)", [value(b"abc")], SERIAL) == (
        INVALID,
        SERIAL_WRITE,
    )


@pytest.mark.parametrize("consistency", [ANY, ONE, QUORUM, SERIAL, LOCAL_SERIAL])
def test_batches_and_other_statements_take_each_level(wire, consistency):
    insert = "INSERT INTO a.t (k, v) VALUES (1, 1)"
    for text in (
        f"BEGIN BATCH {insert}; APPLY BATCH",
        "BEGIN BATCH APPLY BATCH",
        "TRUNCATE a.r",
        "USE a",
    ):
        assert both(wire, text, consistency=consistency) is None
    for kind, statement in ((0, insert), (1, insert), (2, "UPDATE a.c SET v = v + 1 WHERE k = 1")):
        body = struct.pack(">BH", kind, 1) + b"\0" + long_string(statement) + struct.pack(">H", 0)
        assert wire.ask(BATCH, body + struct.pack(">HB", consistency, 0)).kind == VOID


@pytest.mark.parametrize(
    "text, column",
    [
        ("SELECT v FROM a.t WHERE k IN ?", "k"),
        ("SELECT v FROM a.r WHERE k = 1 AND c IN ?", "c"),
        ("SELECT v FROM a.r WHERE c IN ? ALLOW FILTERING", "c"),
        ("UPDATE a.r SET v = 1 WHERE k IN ? AND c = 1", "k"),
        ("UPDATE a.r SET v = 1 WHERE k = 1 AND c IN ?", "c"),
        ("DELETE FROM a.r WHERE k = 1 AND c IN ?", "c"),
    ],
)
def test_a_list_for_in_has_no_null_and_is_none(wire, text, column):
    inside = (INVALID, f"Invalid null value in condition for column {column}")
    assert both(wire, text, [list_(int_(1), NULL)]) == inside
    assert both(wire, text, [NULL]) == (INVALID, f"Invalid null value for column {column}")
    assert both(wire, text, [UNSET]) == (INVALID, f"Invalid unset value for column {column}")
    two = text.replace("?", "(?, ?)")
    assert both(wire, two, [int_(1), NULL]) == inside
    assert both(wire, two, [int_(1), UNSET]) == (
        INVALID,
        f"Invalid unset value for column {column}",
    )
    assert both(wire, text.replace("?", "(1, null)")) == inside
    assert both(wire, text, [list_(int_(1), int_(2))]) is None


@pytest.mark.parametrize(
    "write",
    [
        "INSERT INTO a.t (k, v) VALUES (1, 1) USING TTL {}",
        "UPDATE a.t USING TTL {} SET v = 1 WHERE k = 1",
        "INSERT INTO a.t JSON '{{\"k\": 1}}' USING TTL {}",
        "BEGIN BATCH INSERT INTO a.t (k, v) VALUES (1, 1) USING TTL {}; APPLY BATCH",
    ],
)
def test_a_ttl_has_bounds(wire, write):
    errors = {
        MAX_TTL + 1: f"ttl is too large. requested ({MAX_TTL + 1}) maximum ({MAX_TTL})",
        -1: "A TTL must be greater or equal to 0, but was -1",
    }
    for ttl, text in errors.items():
        assert both(wire, write.format(ttl)) == (INVALID, text)
        assert both(wire, write.format("?"), [int_(ttl)]) == (INVALID, text)
    for good in (int_(MAX_TTL), int_(0), NULL, UNSET, value(b"")):
        assert both(wire, write.format("?"), [good]) is None


def test_a_ttl_must_fit_the_version_of_the_files(start_node):
    """SSTable versions before `oa` end in 2038. The text is Cassandra's with
    `storage_compatibility_mode: CASSANDRA_4`."""
    node = start_node(settings={"sstable_format": "nb"})
    with Wire(node) as wire:
        wire.query(
            "CREATE KEYSPACE a WITH replication = {'class': 'SimpleStrategy', "
            "'replication_factor': 1}"
        )
        assert wire.query("CREATE TABLE a.t (k int PRIMARY KEY, v int)").code is None
        text = (
            "Request on table a.t with {}ttl of 630720000 seconds exceeds maximum supported "
            "expiration date of "
            "2038-01-19T03:14:06+00:00. In order to avoid this use a lower TTL, change the "
            "expiration date overflow policy or "
            "upgrade to a version where this limitation is fixed. See CASSANDRA-14092 and "
            "CASSANDRA-14227 for more details."
        )
        insert = "INSERT INTO a.t (k, v) VALUES (1, 1)"
        update = f"UPDATE a.t USING TTL {MAX_TTL} SET v = 1 WHERE k = 1"
        for write in (
            f"{insert} USING TTL {MAX_TTL}",
            update,
            f"BEGIN BATCH {update}; APPLY BATCH",
        ):
            assert both(wire, write) == (INVALID, text.format(""))
        assert wire.query(f"ALTER TABLE a.t WITH default_time_to_live = {MAX_TTL}").code is None
        assert both(wire, insert) == (INVALID, text.format("default "))
        assert both(wire, f"{insert} USING TTL 1000") is None


def test_a_timestamp_has_bounds(wire):
    least = -2**63
    bounds = f"Out of bound timestamp, must be in [{least + 1}, {2**63 - 1}]"
    for write in (
        "INSERT INTO a.t (k, v) VALUES (1, 1) USING TIMESTAMP {}",
        "DELETE FROM a.t USING TIMESTAMP {} WHERE k = 1",
        "BEGIN BATCH USING TIMESTAMP {} INSERT INTO a.t (k, v) VALUES (1, 1); APPLY BATCH",
    ):
        assert both(wire, write.format(least)) == (INVALID, bounds)
        assert both(wire, write.format("?"), [value(struct.pack(">q", least))]) == (INVALID, bounds)
        assert both(wire, write.format("?"), [NULL]) == (INVALID, "Invalid null value of timestamp")
        assert both(wire, write.format("?"), [UNSET]) is None
    answer = wire.ask(
        QUERY, long_string("INSERT INTO a.t (k) VALUES (1)") + struct.pack(">HBq", ONE, 0x20, least)
    )
    assert answer.message == f"{bounds} (got {least})"


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM {}",
        "SELECT JSON * FROM {}",
        "INSERT INTO {} (k) VALUES (1)",
        "INSERT INTO {} JSON '{{}}'",
        "UPDATE {} SET v = 1 WHERE k = 1",
        "DELETE FROM {} WHERE k = 1",
        "TRUNCATE {}",
        "BEGIN BATCH INSERT INTO {} (k) VALUES (1); APPLY BATCH",
    ],
)
def test_missing_tables_and_keyspaces_are_named(wire, statement):
    assert both(wire, statement.format("a.nope")) == (INVALID, "table nope does not exist")
    assert both(wire, statement.format('a."No pe"')) == (INVALID, "table No pe does not exist")
    assert both(wire, statement.format("nope.t")) == (INVALID, "keyspace nope does not exist")


@pytest.mark.parametrize("order, message", [
    ("w ANN OF [1.0, 2.0]", "ANN ordering by vector requires the column to be indexed"),
    ("w ANN OF null", "ANN ordering by vector requires the column to be indexed"),
    ("w ANN OF [1.0, 2.0] DESC", "Descending ANN ordering is not supported"),
    ("v ANN OF 1", "ANN ordering is only supported on float vector indexes"),
])
def test_ann_needs_an_index(wire, order, message):
    for select in (
        "SELECT * FROM a.r ORDER BY {} LIMIT 3",
        "SELECT * FROM a.r WHERE k = 1 ORDER BY {}",
        "SELECT count(*) FROM a.r ORDER BY {} LIMIT 3",
        "SELECT DISTINCT k FROM a.r ORDER BY {} LIMIT 3",
        "SELECT * FROM a.r ORDER BY {} LIMIT 3 ALLOW FILTERING",
    ):
        assert both(wire, select.format(order)) == (INVALID, message)
    # Cassandra adds the order to the conditions of its column before it looks at the type.
    if order.startswith("v "):
        message = "v cannot be restricted by more than one relation if it includes an Equal"
    select = f"SELECT * FROM a.r WHERE v = 3 ORDER BY {order} LIMIT 3"
    assert both(wire, select) == (INVALID, message)
    marker = wire.ask(PREPARE, long_string("SELECT * FROM a.r ORDER BY w ANN OF ? LIMIT ?"))
    assert marker.message == "ANN ordering by vector requires the column to be indexed"


def test_a_limit_is_not_null(wire):
    for limit in ("LIMIT", "PER PARTITION LIMIT"):
        assert both(wire, f"SELECT v FROM a.t {limit} ?", [NULL]) == (
            INVALID,
            "Invalid null value of limit",
        )
    assert wire.query("SELECT v FROM a.t LIMIT ?", (b"\0\0\0\1",)).kind == ROWS
