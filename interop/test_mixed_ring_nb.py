"""A mixed ring whose Cassandra nodes have their default `storage_compatibility_mode`, CASSANDRA_4:
messages of version 12 and files of version `nb`. The tests start nodes of their own, so only
`make nightly` runs them."""
import os
import random
import time

import pytest

import mixed_ring
import ring_replacement
from driver import seed
from gate import RUNS_ALL
from mixed_ring import MixedRing
from ring_reads import made_shapes

pytestmark = pytest.mark.skipif(not RUNS_ALL, reason="make nightly runs it")


@pytest.fixture(scope="module")
def ring(tmp_path_factory, start_node):
    if os.environ.get("WITHOUT_CASSANDRA"):
        pytest.skip(f"without Cassandra: {os.environ['WITHOUT_CASSANDRA']}")
    ring = MixedRing(tmp_path_factory.mktemp("ring"), "nb")
    try:
        ring.start(start_node)
        yield ring
    finally:
        ring.stop()


def test_answers_are_cassandras_with_messages_of_version_12(ring):
    tables = made_shapes(random.Random(seed()))
    ring.create(tables)
    mixed_ring.write(ring, tables, 5000)
    ring.ours.flush("mixed")
    mixed_ring.write(ring, tables, 2000)
    mixed_ring.write_conditionally(ring, tables[0].draw, 300)
    # Short TTLs pass.
    time.sleep(2.1)
    assert ring.check_replicas(tables, wait_s=60) > 0
    for _ in range(5):
        assert mixed_ring.check_reads(ring, tables) > 100
    assert ring.mismatches() == 0


def test_a_node_with_nb_files_is_replaced_in_place_and_comes_back(ring):
    ring_replacement.check(ring)
