"""Connections, frames and memory in flight have bounds. Beyond them the node refuses the request
with an error, closes the new connection, or reads no more until there is memory."""
import os
import struct
import time

import pytest
from cassandra import InvalidRequest

from wire import ERROR, EXECUTE, INVALID, OVERLOADED, RESULT, SEGMENT_PAYLOAD, Closed, Wire, segment

MIB = 1 << 20


def test_too_many_connections(start_node):
    node = start_node(settings={"native_transport_max_concurrent_connections": 8})
    held = [Wire(node) for _ in range(8)]
    with pytest.raises((Closed, AssertionError, ConnectionError)):
        Wire(node)
    assert all(wire.is_alive() for wire in held)
    held.pop().close()
    for _ in range(1200):  # the place is free once the node has noticed the end of the connection
        try:
            held.append(Wire(node))
            break
        except (Closed, AssertionError, ConnectionError):
            time.sleep(0.05)
    assert len(held) == 8 and all(wire.is_alive() for wire in held)
    for wire in held:
        wire.close()


def test_frame_size_is_a_setting(start_node):
    node = start_node(settings={"native_transport_max_frame_size": "1MiB"})
    with Wire(node) as wire:
        wire.send_raw(wire.envelope(EXECUTE, bytes(MIB + 1)))
        answer = wire.receive()
        assert answer.code == INVALID and str(MIB) in answer.message
        assert wire.is_alive()


@pytest.mark.parametrize("version", [4, 5])
def test_a_driver_goes_on_behind_a_request_that_is_too_large(start_node, version):
    """Only the request fails: its connection stays open and takes the next request at once."""
    node = start_node(settings={"native_transport_max_frame_size": "1MiB"})
    session = node.connect(protocol_version=version)
    session.execute(
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    session.execute("CREATE TABLE k.t (k int PRIMARY KEY, v blob)")
    insert = session.prepare("INSERT INTO k.t (k, v) VALUES (?, ?)")
    select = session.prepare("SELECT v FROM k.t WHERE k = ?")
    connections = node.metrics()["scylla_transport_cql_connections"]
    for key in range(20):
        with pytest.raises(InvalidRequest) as refused:
            session.execute(insert, (key, os.urandom(3 * MIB)))
        assert str(MIB) in str(refused.value)
        session.execute(insert, (key, b"small"))
        assert session.execute(select, (key,)).one().v == b"small"
    assert node.metrics()["scylla_transport_cql_connections"] == connections


def test_a_client_that_ends_within_a_request_that_is_too_large_is_gone(start_node):
    node = start_node(settings={"native_transport_max_frame_size": "1MiB"})
    with Wire(node) as other:
        for version in (4, 5):
            wire = Wire(node, version=version)
            data = wire.envelope(EXECUTE, bytes(3 * MIB))
            if version == 5:
                starts = range(0, len(data), SEGMENT_PAYLOAD)
                data = b"".join(
                    segment(data[at : at + SEGMENT_PAYLOAD], self_contained=False) for at in starts
                )
            wire.send_raw(data[:2 * MIB])
            wire.close()
        assert other.is_alive()
        for _ in range(1200):
            if node.metrics()["scylla_transport_current_connections"] == 1:
                break
            time.sleep(0.05)
        assert node.metrics()["scylla_transport_current_connections"] == 1
        assert node.metrics()["scylla_transport_cql_errors_total"] == 0


@pytest.fixture(scope="module")
def slow_node(start_node):
    """Returns a node that allows 1 MiB of requests in flight. Its sync window keeps each write in
    flight for a while, however fast the disk is."""
    return start_node(settings={"native_transport_max_request_data_in_flight": "1MiB",
                                "native_transport_max_request_data_in_flight_per_ip": "1MiB",
                                "commitlog_sync": "group",
                                "commitlog_sync_group_window": "500ms"})


def insert_at_once(wire, table, count, length):
    """Sends `count` INSERTs of values of `length` bytes without waiting. Returns the prepared
    statement, and the answers by stream. The stream of a request is the key of its
    row."""
    insert = wire.prepare(f"INSERT INTO {table} (k, v) VALUES (?, ?)")

    def body(key):
        return wire.execute_body(insert, (struct.pack(">i", key), bytes(length)))

    frames = [wire.envelope(EXECUTE, body(key), stream=key) for key in range(count)]
    wire.send_raw(b"".join(frames))
    answers = {answer.stream: answer for answer in (wire.receive() for _ in frames)}
    assert set(answers) == set(range(count))
    return insert, answers


def test_requests_above_the_memory_limit_get_overloaded(slow_node):
    """With more request data in flight than allowed, the node answers the requests above
    the limit with OVERLOADED, and serves the others."""
    with Wire(slow_node) as wire:
        table = create_table(wire, "overload")
        insert, answers = insert_at_once(wire, table, count=128, length=MIB // 32)
        refused = {stream for stream, answer in answers.items() if answer.opcode == ERROR}
        assert refused and len(refused) < 128, "some requests must be refused, and some must not"
        assert {answers[stream].code for stream in refused} == {OVERLOADED}
        select = wire.prepare(f"SELECT k FROM {table} WHERE k = ?")
        for stream, answer in answers.items():
            if answer.opcode == RESULT:
                assert wire.execute(select, (struct.pack(">i", stream),)).rows() == [
                    [struct.pack(">i", stream)]
                ]
        # Once requests are done there is room again.
        assert wire.execute(insert, (struct.pack(">i", 999), bytes(1000))).opcode == RESULT


def test_large_requests_wait_for_one_another(slow_node):
    """A request that arrives in parts waits for memory instead of being refused: the node stops
    reading from its connection."""
    with Wire(slow_node) as wire:
        table = create_table(wire, "waiting")
        _, answers = insert_at_once(wire, table, count=6, length=MIB // 2)
        assert {answer.opcode for answer in answers.values()} == {RESULT}
        assert len(wire.query(f"SELECT k FROM {table}").rows()) == 6


def create_table(wire, name):
    """Creates the table `name` in a keyspace of its own and returns its qualified name."""
    wire.query(
        f"CREATE KEYSPACE {name} WITH replication = {{'class': 'SimpleStrategy', "
        "'replication_factor': 1}"
    )
    wire.query(f"CREATE TABLE {name}.t (k int PRIMARY KEY, v blob)")
    return f"{name}.t"
