"""A node of ours in the ring of a stock Cassandra 5.0 node: Cassandra shows it as one of its own,
and what our node does not do fails at the coordinator.

The Cassandra node is the test's own, because a ring changes its members for ever.
"""
import os
import subprocess
import urllib.request

import pytest
from cassandra import ConsistencyLevel, ReadFailure, WriteFailure
from cassandra.query import SimpleStatement

from cassandra_node import CassandraNode
from driver import connect
from espalier_node import wait_until

ADDRESS = "127.0.0.2"
TOKEN = -4611686018427387904
SEEDS = "[{{class_name: SimpleSeedProvider, parameters: [{{seeds: '127.0.0.1:{port}'}}]}}]"


@pytest.fixture(scope="module")
def cassandra(tmp_path_factory):
    if os.environ.get("WITHOUT_CASSANDRA"):
        pytest.skip(f"without Cassandra: {os.environ['WITHOUT_CASSANDRA']}")
    cassandra = CassandraNode(tmp_path_factory.mktemp("cassandra"))
    cassandra.start()
    yield cassandra
    cassandra.stop()


def status(cassandra):
    """Returns the state that `nodetool status` shows for each address."""
    done = subprocess.run(
        [cassandra.directory / "run.sh", "org.apache.cassandra.tools.NodeTool", "-p",
         str(cassandra.jmx_port), "status"],
        env={**os.environ, "CONF": "tools.yaml", "HEAP": "128M", "XMS": "32M", "LOGLEVEL": "OFF"},
        capture_output=True, text=True, timeout=120,
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    return {words[1]: words[0] for words in lines if len(words) > 5 and words[1][0].isdigit()}


def peers(session):
    columns = "peer, data_center, rack, release_version, host_id, native_port, tokens"
    rows = session.execute(f"SELECT {columns} FROM system.peers_v2")
    return {row[0]: row[1:] for row in rows}


def counter(node, name):
    text = urllib.request.urlopen(f"http://127.0.0.1:{node.api_port}/metrics").read().decode()
    lines = [line for line in text.splitlines() if line.startswith(f"espalier_ring_{name}{{")]
    return sum(float(line.split()[-1]) for line in lines)


def test_a_member_is_shown_and_refuses_what_it_cannot_do(node, cassandra):
    settings = {
        "join_ring": "true", "auto_bootstrap": "false", "cluster_name": "peer",
        "listen_address": ADDRESS, "storage_port": cassandra.storage_port,
        "initial_token": TOKEN, "storage_compatibility_mode": "NONE",
        "seed_provider": SEEDS.format(port=cassandra.storage_port),
    }
    ours = node(settings=settings)
    session = connect(cassandra)
    wait_until(lambda: ADDRESS in peers(session), what="our node in system.peers_v2")
    center, rack, release, host_id, native_port, tokens = peers(session)[ADDRESS]
    assert (center, rack, release) == ("datacenter1", "rack1", "5.0.9")
    assert (native_port, list(tokens)) == (ours.port, [str(TOKEN)])
    assert status(cassandra) == {"127.0.0.1": "UN", ADDRESS: "UN"}

    # Both nodes are replicas of every row. Ours acknowledges nothing.
    session.execute("CREATE KEYSPACE ring WITH replication = {'class': 'SimpleStrategy', "
                    "'replication_factor': 2}")
    session.execute("CREATE TABLE ring.t (k int PRIMARY KEY, v text)")
    write, read = "INSERT INTO ring.t (k, v) VALUES (1, 'a')", "SELECT v FROM ring.t WHERE k = 1"
    everywhere = ConsistencyLevel.ALL
    session.execute(SimpleStatement(write, consistency_level=ConsistencyLevel.ONE))
    with pytest.raises(WriteFailure):
        session.execute(SimpleStatement(write, consistency_level=everywhere))
    with pytest.raises(ReadFailure):
        session.execute(SimpleStatement(read, consistency_level=everywhere))
    assert counter(ours, "requests_refused") >= 2
    assert counter(ours, "connections_broken") == 0
    assert "refused a request of a peer" in ours.log()

    # A restart is the same node; a kill is noticed, and so is a clean stop.
    ours.restart(kill=True)
    wait_until(lambda: status(cassandra).get(ADDRESS) == "UN", 60, "our node up again")
    assert peers(session)[ADDRESS][3] == host_id
    assert ours.stop() == 0
    wait_until(lambda: status(cassandra).get(ADDRESS) == "DN", 60, "our node down")
