"""A ring of two stock Cassandra nodes and ours, RF 3: every answer at QUORUM and ALL is Cassandra's,
no digest differs, and after kills of the nodes hints and read repair bring all to the same rows."""
import os
import random
import shutil
import time

import pytest

import mixed_ring
from driver import seed
from gate import FIRST_SEED, RUNS_ALL, one_of, part
from mixed_ring import MixedRing
from ring_reads import made_shapes

# Whether this run replaces a node.
REPLACES = RUNS_ALL or FIRST_SEED % 2 == 0


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


def test_answers_are_cassandras_and_replicas_agree_after_kills(ring):
    tables = made_shapes(random.Random(seed()))
    draw = tables[0].draw
    for_kills = mixed_ring.tables_for_kills(draw)
    ring.create([*tables, *for_kills])
    mixed_ring.write(ring, tables, part(20000, 250))
    ring.ours.flush("mixed")
    mixed_ring.write(ring, tables, part(10000, 100))
    mixed_ring.write_conditionally(ring, draw, part(2000, 30))
    # Short TTLs pass.
    time.sleep(2.1)
    # A write at QUORUM may reach the third replica later.
    assert ring.check_replicas(tables, wait_s=20) > 0
    for _ in range(part(20, 1)):
        assert mixed_ring.check_reads(ring, tables) > 100
    # Nothing was killed, so no replica has lacked a write.
    assert ring.mismatches() == 0

    # The gate kills one node, or replaces one (below).
    victims = [ring.ours, ring.first, ring.second]
    for victim in part(victims * 3, [] if REPLACES else [one_of(victims)]):
        check_kill(ring, for_kills, victim)
    # The reads of partitions repair what those of ranges have left, such as tombstones. A replica
    # of Cassandra may drop one of two equal deletions when its rows are in several files, and its
    # digest differs then.
    reads = mixed_ring.read_partitions(ring, for_kills)
    before = ring.mismatches()
    mixed_ring.read_partitions(ring, for_kills)
    assert (ring.mismatches() - before) * 20 < reads


def files_of(cassandra):
    """Returns the files of a Cassandra node's data with their lengths and times of change."""
    found = {}
    for path in (cassandra.directory / "data").rglob("*"):
        if path.is_file():
            status = path.stat()
            found[path] = status.st_size, status.st_mtime_ns
    return found


@pytest.mark.skipif(not REPLACES, reason="the gate kills a node with this seed")
def test_a_cassandra_node_is_replaced_in_place_and_comes_back(ring):
    tables = mixed_ring.tables_for_kills(random.Random(seed() + 1), "replaced")
    ring.create(tables)
    mixed_ring.write(ring, tables, part(2000, 100))
    time.sleep(2.1)
    ring.check_replicas(tables, wait_s=20)
    host_id = ring.near.execute("SELECT host_id FROM system.local").one()[0]
    expected = ring.local_rows(ring.far, tables, "beside")
    node = ring.replacement_of_first()

    # Without a drain, its last writes are in its commit log alone.
    if RUNS_ALL:
        ring.first.kill()
        with pytest.raises(AssertionError, match="run nodetool drain, and stop it"):
            node.start()
        ring.first.resume()
        ring.wait_until_whole()
    ring.first.nodetool("drain")
    ring.first.halt()
    before = files_of(ring.first)
    # A start that was killed has left a part.
    (node.directory / "data.taken" / "mixed").mkdir(parents=True)
    try:
        node.start()
        replacing = mixed_ring.alone(node)
        # The ring reads on with two nodes of ours and one of Cassandra.
        ring.wait_until_whole([ring.far])
        peer = ring.far.execute("SELECT host_id, tokens FROM system.peers_v2 "
                                "WHERE peer = '127.0.0.1'").one()
        assert (peer[0], list(peer[1])) == (host_id, [str(mixed_ring.TOKENS[0])])
        assert ring.local_rows(replacing, tables) == expected
        assert mixed_ring.check_reads(ring, tables, ["far"]) > 50
        # It goes on as a member, also after a kill.
        mixed_ring.write(ring, tables, part(2000, 50), [ring.far])
        node.restart(kill=True)
        ring.wait_until_whole([ring.far])
        replacing.cluster.shutdown()
        replacing = mixed_ring.alone(node)
        mixed_ring.write(ring, tables, 20, [ring.far])
        time.sleep(2.1)
        ring.check_replicas(tables, 20, {"first": None, "replacing": replacing})
        assert files_of(ring.first) == before

        # Back: Cassandra gets the files that it lacks before it starts. A stop writes all
        # memtables.
        replacing.cluster.shutdown()
        assert node.stop() == 0
        assert copy_new_files(node, ring.first) > 0
        ring.first.resume()
        ring.wait_until_whole()
        ring.check_replicas(tables, 20)
        assert mixed_ring.check_reads(ring, tables) > 50
        with pytest.raises(AssertionError, match="has run since its files were taken"):
            node.start()
    finally:
        node.close()
    assert "panicked at" not in node.log()


def copy_new_files(node, cassandra):
    """Copies the files that the Cassandra node lacks, as `cp -n` does; returns how many."""
    source, target = node.directory / "data", cassandra.directory / "data" / "data"
    count = 0
    for table in [*source.glob("mixed/*-*"), *source.glob("system/paxos-*")]:
        directory = target / table.relative_to(source)
        directory.mkdir(parents=True, exist_ok=True)
        for path in table.glob("*.*"):
            if path.is_file() and not (directory / path.name).exists():
                shutil.copy(path, directory)
                count += 1
    return count


def check_kill(ring, tables, victim):
    """Kills a node under load and starts it again; all replicas get the same rows."""
    with mixed_ring.Load(ring, tables) as load:
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
