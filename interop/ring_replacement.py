"""Replacement in place: our node takes the place of a Cassandra node of a mixed ring, with its
files, and the Cassandra node comes back. Reads of the ring continue meanwhile."""
import random
import shutil
import time

import pytest

import mixed_ring
from driver import seed
from gate import RUNS_ALL, part


def files_of(cassandra):
    """Returns the files of a Cassandra node's data with their lengths and times of change."""
    found = {}
    for path in (cassandra.directory / "data").rglob("*"):
        if path.is_file():
            status = path.stat()
            found[path] = status.st_size, status.st_mtime_ns
    return found


def versions_of(directory):
    """Returns the versions of the files of the keyspace `mixed`."""
    return {path.name.partition("-")[0] for path in directory.glob("mixed/*-*/*-Data.db")}


def check(ring):
    """Replaces `first` by a node of ours, and goes back."""
    tables = mixed_ring.tables_for_kills(random.Random(seed() + 1), "replaced")
    ring.create(tables)
    mixed_ring.write(ring, tables, part(2000, 100))
    time.sleep(2.1)
    ring.check_replicas(tables, wait_s=60)
    host_id = ring.near.execute("SELECT host_id FROM system.local").one()[0]
    expected = ring.local_rows(ring.far, tables, "beside")
    node = ring.replacement_of_first()
    versions = {"bti": {"da"}, "nb": {"nb"}}[ring.file_format]

    # Without a drain, the last writes of `first` are in no file but its commit log.
    if RUNS_ALL:
        ring.first.kill()
        with pytest.raises(AssertionError, match="run nodetool drain, and stop it"):
            node.start()
        ring.first.resume()
        ring.wait_until_whole()
    ring.first.nodetool("drain")
    ring.first.halt()
    before = files_of(ring.first)
    # A start that was killed leaves this directory.
    (node.directory / "data.taken" / "mixed").mkdir(parents=True)
    try:
        node.start()
        replacing = mixed_ring.alone(node)
        # Reads continue with two nodes of ours and one of Cassandra.
        ring.wait_until_whole([ring.far])
        peer = ring.far.execute("SELECT host_id, tokens FROM system.peers_v2 "
                                "WHERE peer = '127.0.0.1'").one()
        assert (peer[0], list(peer[1])) == (host_id, [str(mixed_ring.TOKENS[0])])
        assert ring.local_rows(replacing, tables) == expected
        assert mixed_ring.check_reads(ring, tables, ["far"]) > 50
        # The node stays a member, also after a kill.
        mixed_ring.write(ring, tables, part(2000, 50), [ring.far])
        node.restart(kill=True)
        ring.wait_until_whole([ring.far])
        replacing.cluster.shutdown()
        replacing = mixed_ring.alone(node)
        mixed_ring.write(ring, tables, 20, [ring.far])
        time.sleep(2.1)
        ring.check_replicas(tables, 20, {"first": None, "replacing": replacing})
        assert files_of(ring.first) == before
        node.flush("mixed")
        assert versions_of(node.directory / "data") == versions

        # Back: Cassandra gets the files that it lacks before it starts. A stop writes all
        # memtables.
        replacing.cluster.shutdown()
        assert node.stop() == 0
        assert copy_new_files(node, ring.first) > 0
        assert versions_of(ring.first.directory / "data" / "data") == versions
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
    """Copies the files that the Cassandra node lacks, as `cp -n` does; returns their number."""
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
