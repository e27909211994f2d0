"""On a full disk the node refuses writes with a clear error, and still reads.

No acknowledged write is lost, and once there is room the node writes again without a restart."""
import os
import shutil
import struct
import subprocess
import time

import pytest

from espalier_node import Node
from wire import Wire

MIB = 1 << 20
DISK_BYTES = 96 * MIB


@pytest.fixture
def small_disk(tmp_path):
    """Mounts a small file system of its own on a directory."""
    place, image = tmp_path / "disk", tmp_path / "image"
    place.mkdir()
    with open(image, "wb") as file:
        file.truncate(DISK_BYTES)
    ways = ((["mkfs.ext4", "-q", "-F", "-m", "0", image], ["mount", "-o", "loop", image, place]),
            (["true"], ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", place]))
    for prepare, mount in ways:
        if shutil.which(prepare[0]) and all(
            subprocess.run(command, capture_output=True).returncode == 0
            for command in (prepare, mount)
        ):
            break
    else:
        pytest.skip(
            "mounting a small file system is not permitted here: the full disk is not tested"
        )
    yield place
    subprocess.run(["umount", "-l", place], check=True)


@pytest.fixture
def node(small_disk):
    """Returns a node on the small disk, with small segments, so that it soon needs new ones."""
    node = Node(
        small_disk / "node",
        memory="128M",
        settings={"commitlog_segment_size_in_mb": 2, "commitlog_sync": "group"},
    )
    node.log_path = small_disk.parent / "node.log"  # not on the small disk
    yield node.start()
    node.close()
    assert "panicked at" not in node.log(), node.log()[-4000:]


def fill_up(place):
    """Creates a file that takes all remaining room."""
    ballast = place / "ballast"
    with open(ballast, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(MIB))
        except OSError:
            pass
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass
        os.fsync(file.fileno())
    return ballast


def create(wire):
    wire.query(
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    assert wire.query("CREATE TABLE k.t (k int PRIMARY KEY, v blob)").code is None


class Load:
    """Writes numbered rows, and records the acknowledged ones."""

    def __init__(self, wire):
        self.insert = wire.prepare("INSERT INTO k.t (k, v) VALUES (?, ?)")
        self.select = wire.prepare("SELECT v FROM k.t WHERE k = ?")
        self.acknowledged, self.sent = set(), 0

    def one(self, wire, size=4000):
        self.sent += 1
        answer = wire.execute(
            self.insert, (struct.pack(">i", self.sent), self.value(self.sent, size))
        )
        if answer.code is None:
            self.acknowledged.add(self.sent)
        return answer

    @staticmethod
    def value(number, size=4000):
        return struct.pack(">i", number) * (size // 4)

    def check(self, node):
        """Checks that every acknowledged row is there as it was written, and no row that was never
        sent."""
        with Wire(node) as wire:
            found = {
                struct.unpack(">i", key)[0]: value
                for key, value in wire.select("SELECT k, v FROM k.t", page_size=500)
            }
        assert all(value == self.value(number) for number, value in found.items())
        missing = self.acknowledged - set(found)
        assert not missing, f"{len(missing)} acknowledged writes are lost"
        assert set(found) <= set(range(1, self.sent + 1))


def write_until_refused(load, wire, most):
    for _ in range(most):
        answer = load.one(wire)
        if answer.code is not None:
            return answer
    raise AssertionError(f"{most} writes were taken by a disk that is full")


def test_full_disk(node, small_disk):
    with Wire(node, timeout_s=60) as wire, Wire(node, 5, timeout_s=60) as other:
        create(wire)
        load = Load(wire)
        for _ in range(500):
            assert load.one(wire).code is None
        ballast = fill_up(small_disk)

        refusal = write_until_refused(load, wire, most=20_000)
        text = refusal.message.lower()
        assert "commit log" in text or "no space" in text, refusal.message
        # Both clients can read, the writing one too.
        load.select = other.prepare("SELECT v FROM k.t WHERE k = ?")
        for number in (1, 250, 500):
            for connection in (wire, other):
                answer = connection.execute(load.select, (struct.pack(">i", number),))
                assert answer.rows() == [[load.value(number)]]
        # A flush cannot be written either; it fails with an error, and the rows stay readable.
        with pytest.raises(OSError):
            node.flush("k")
        load.check(node)
        assert node.is_running()

        # With room again, the same connections continue.
        ballast.unlink()
        deadline = time.monotonic() + 60
        while load.one(wire).code is not None:
            assert time.monotonic() < deadline, "the node did not come back when there was room"
            time.sleep(0.05)
        for _ in range(500):
            assert load.one(other).code is None
    node.flush("k")
    load.check(node)
    node.restart(kill=True)
    load.check(node)


def test_killed_on_a_full_disk(node, small_disk):
    """A node that dies on a full disk starts once there is room, and has all acknowledged rows."""
    with Wire(node, timeout_s=60) as wire:
        create(wire)
        load = Load(wire)
        for _ in range(300):
            assert load.one(wire).code is None
        ballast = fill_up(small_disk)
        write_until_refused(load, wire, most=20_000)
    node.kill()
    # Without room the node may start, or refuse with the reason; either way it loses no row.
    try:
        node.start()
        load.check(node)
        node.kill()
    except AssertionError as refusal:
        if "did not start" not in str(refusal):
            raise
        assert "No space left" in str(refusal) or "no space" in str(refusal).lower(), str(refusal)
    ballast.unlink()
    node.start()
    load.check(node)
    with Wire(node) as wire:
        load.insert = wire.prepare("INSERT INTO k.t (k, v) VALUES (?, ?)")
        assert load.one(wire).code is None
    load.check(node)
