"""Conditional writes through a ring of Cassandra nodes and ours: the history of the clients is
linearizable.

Cassandra coordinates. The keyspace has two replicas, or in a full run also three, of which one is
down for most of the time. Each quorum then has our node: no promise, proposal or commit is decided
without it. In a full run our node is killed in between.
"""
import time

from cassandra import ConsistencyLevel
from cassandra.query import SimpleStatement

import linearizable
from driver import seed
from espalier_node import wait_until
from gate import RUNS_ALL, part
from register_load import KEYSPACE, SCHEMA, Load

TABLES = ("rows", "cells", "pairs")
LOAD_S = part(40, 4)
# Few clients: Cassandra's coordinators give up if many meet at one partition.
CLIENTS, CONNECTIONS = 8, 2


def check(session, cassandra, ours, has_agreed, is_up, local_rows):
    """Runs clients for some seconds and checks what they saw. `is_up` returns True if Cassandra
    sees our node as up."""
    for text in SCHEMA:
        session.execute(text.replace("'replication_factor': 1", "'replication_factor': 2"))
    wait_until(has_agreed, what="agreement on the registers")
    load = Load(cassandra, seed(), connections=CONNECTIONS, clients=CLIENTS)
    with load:
        time.sleep(LOAD_S)
        if RUNS_ALL:
            ours.restart(kill=True)
            wait_until(is_up, 60, "our node up after the kill")
            time.sleep(LOAD_S)
    wait_until(is_up, 60, "our node up")
    load.read_all()
    assert not load.trouble, load.trouble[:3]
    linearizable.check(load.history)
    writes = [one for one in load.history if one.writes and one.end is not None]
    assert len(writes) >= 20, f"{len(writes)} of {len(load.history)} operations were applied"
    # Both nodes have the states and the rows: the reads at SERIAL have finished all writes.
    assert local_rows(ours, "SELECT row_key FROM system.paxos")
    for table in TABLES:
        query = f"SELECT * FROM {KEYSPACE}.{table}"
        assert sorted(map(repr, session.execute(
            SimpleStatement(query, consistency_level=ConsistencyLevel.ALL)
        ))) == local_rows(ours, query), table
    return len(writes)


def check_with_one_down(ring):
    """Runs clients while one Cassandra node of the three replicas is down, first `second`, then
    `first`. Only our node is in both quorums and knows what the first one decided."""
    for text in SCHEMA:
        ring.near.execute(text.replace("'replication_factor': 1", "'replication_factor': 3"))
    wait_until(ring.agrees, what="agreement on the registers")
    load = Load(ring.first, seed(), CONNECTIONS, CLIENTS, [ring.second])
    with load:
        time.sleep(LOAD_S / 2)
        ring.second.kill()
        time.sleep(LOAD_S)
        ring.ours.restart(kill=True)
        time.sleep(LOAD_S)
        ring.second.resume()
        wait_until(ring.is_whole, 120, "all nodes up")
        ring.first.kill()
        time.sleep(LOAD_S)
        ring.ours.restart(kill=True)
        time.sleep(LOAD_S)
        ring.first.resume()
        ring.wait_until_whole()
    load.read_all()
    assert not load.trouble, load.trouble[:3]
    linearizable.check(load.history)
    writes = [one for one in load.history if one.writes and one.end is not None]
    print(f"{len(load.history)} operations, {len(writes)} writes")
    assert len(writes) >= 100, f"{len(writes)} of {len(load.history)} operations were applied"
