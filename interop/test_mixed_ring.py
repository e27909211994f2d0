"""A ring of two stock Cassandra nodes and ours, RF 3. Every answer at QUORUM and ALL is the one
that Cassandra gives. Without kills no digest differs. After kills, hints and read repair give all
nodes the same rows. Conditional writes are linearizable, and our node can replace a Cassandra node
in place."""
import os
import random
import time

import pytest

import mixed_ring
import ring_conditions
import ring_load
import ring_replacement
from driver import seed
from gate import FIRST_SEED, RUNS_ALL, one_of, part
from mixed_ring import MixedRing
from ring_reads import made_shapes

# The gate kills one node or replaces one.
REPLACES = RUNS_ALL or FIRST_SEED % 2 == 0
KILLS = RUNS_ALL or not REPLACES


@pytest.fixture(scope="module")
def ring(tmp_path_factory, start_node):
    if os.environ.get("WITHOUT_CASSANDRA"):
        pytest.skip(f"without Cassandra: {os.environ['WITHOUT_CASSANDRA']}")
    ring = MixedRing(tmp_path_factory.mktemp("ring"))
    try:
        ring.start(start_node)
        yield ring
    finally:
        ring.stop()


def test_answers_are_cassandras(ring):
    tables = made_shapes(random.Random(seed()))
    draw = tables[0].draw
    ring.create(tables)
    mixed_ring.write(ring, tables, part(20000, 250))
    ring.ours.flush("mixed")
    mixed_ring.write(ring, tables, part(10000, 100))
    mixed_ring.write_conditionally(ring, draw, part(2000, 30))
    # Short TTLs pass.
    time.sleep(2.1)
    # A write at QUORUM may reach the third replica later.
    assert ring.check_replicas(tables, wait_s=60) > 0
    for _ in range(part(20, 1)):
        assert mixed_ring.check_reads(ring, tables) > 100
    # Nothing was killed, so no replica has lacked a write.
    assert ring.mismatches() == 0


@pytest.mark.skipif(not KILLS, reason="the gate replaces a node with this seed")
def test_replicas_agree_after_kills(ring):
    for_kills = mixed_ring.tables_for_kills(random.Random(seed()))
    ring.create(for_kills)
    victims = [ring.ours, ring.first, ring.second]
    for victim in part(victims * 3, [one_of(victims)]):
        check_kill(ring, for_kills, victim)
    # Reads of partitions repair differences that reads of ranges leave, such as tombstones. A
    # replica of Cassandra may drop one of two equal deletions if the replica's rows are in several
    # files, and the digest of this replica differs then.
    reads = mixed_ring.read_partitions(ring, for_kills)
    before = ring.mismatches()
    mixed_ring.read_partitions(ring, for_kills)
    assert (ring.mismatches() - before) * 20 < reads


@pytest.mark.skipif(not RUNS_ALL, reason="make nightly runs it")
def test_no_digest_differs_under_a_long_load(ring):
    writes, reads = ring_load.check(ring, seed(), ring_load.MINUTES)
    print(f"{ring_load.MINUTES:g} minutes: {writes} statements, {reads} reads, no mismatch")
    assert min(writes, reads) > 100 * ring_load.MINUTES


@pytest.mark.skipif(not RUNS_ALL, reason="make nightly runs it")
def test_conditional_writes_are_linearizable_with_our_node_in_each_quorum(ring):
    # Creates the table by which the ring is known to be whole, for a run of this test alone.
    ring.create([])
    ring_conditions.check_with_one_down(ring)


@pytest.mark.skipif(not REPLACES, reason="the gate kills a node with this seed")
def test_a_cassandra_node_is_replaced_in_place_and_comes_back(ring):
    ring_replacement.check(ring)


def check_kill(ring, tables, victim):
    """Kills a node under load and starts it again; all replicas get the same rows."""
    with mixed_ring.Load(ring, tables, far_batches=victim is ring.ours) as load:
        load.wait_for(part(200, 20))
        victim.kill()
        load.wait_for(part(2000, 60))
        if victim is ring.ours:
            victim.start()
        else:
            victim.resume()
        load.wait_for(part(200, 20))
    ring.wait_until_whole()
    mixed_ring.repeat_beside(ring, load)
    time.sleep(2.1)
    mixed_ring.repair(ring, tables)
    ring.check_replicas(tables, wait_s=part(60, 10))
