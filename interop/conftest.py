"""Fixtures that all interop tests share: nodes, and Cassandra's offline oracle."""

import os
import shutil
import subprocess

import pytest

from cassandra_node import CassandraNode
from espalier_node import BINARY, REPOSITORY, Node

ORACLE = REPOSITORY / ".deps" / "cassandra" / "node" / "oracle"


def pytest_report_header():
    return f"espalier: {BINARY}"


def pytest_collection_modifyitems(items):
    """Orders the longest file first: where several processes share the files, the others fill its
    time."""
    items.sort(key=lambda item: item.path.name != "test_flights.py")


@pytest.fixture
def node(tmp_path):
    """Returns a function that starts a node: node("name", settings={...}, shards=2). After the test
    all nodes are closed, and the test fails if one of them panicked."""
    yield from starter(tmp_path)


@pytest.fixture(scope="module")
def start_node(tmp_path_factory):
    """Returns a function as `node` does, for nodes that the tests of a module share."""
    yield from starter(tmp_path_factory.mktemp("nodes"))


def starter(directory):
    nodes = []

    def start(name="node", **arguments):
        name = (
            f"{name}-{len(nodes)}" if any(other.directory.name == name for other in nodes) else name
        )
        started = Node(directory / name, **arguments)
        nodes.append(started)
        return started.start()

    yield start
    for started in nodes:
        started.close()
    for started in nodes:
        log = started.log()
        at = log.find("panicked at")
        assert at < 0, log[max(at - 500, 0):at + 3500]
        # A test's data may be large, and pytest keeps the directories of the last three runs.
        shutil.rmtree(started.directory, ignore_errors=True)


@pytest.fixture(scope="session")
def oracle():
    """Returns a function that runs Cassandra's own code on files: oracle("verify", path).

    The function returns a CompletedProcess with text. interop/cassandra/README.md lists the
    commands. oracle("batch", commands=[["dump", path], …]) starts Java once for all commands; its
    output has `== EXITCODE` behind each one's."""
    if os.environ.get("WITHOUT_CASSANDRA"):
        pytest.skip(f"without Cassandra: {os.environ['WITHOUT_CASSANDRA']}")
    if not ORACLE.exists():
        pytest.skip("Cassandra is not installed: make deps")

    def run(*arguments, commands=(), **environment):
        command = [str(ORACLE), *map(str, arguments)]
        surroundings = {**os.environ, **environment}
        lines = "".join("\t".join(map(str, line)) + "\n" for line in commands)
        # It never runs in a test's working directory, so paths must be absolute.
        return subprocess.run(
            command,
            input=lines,
            capture_output=True,
            text=True,
            env=surroundings,
            cwd=REPOSITORY,
            timeout=600,
        )

    return run


@pytest.fixture(scope="module")
def cassandra(oracle):
    """Runs an empty Cassandra on free ports; it has `host`, `port` and `control`."""
    # Two processes of pytest-xdist may each run one at the same time.
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    node = CassandraNode(REPOSITORY / ".deps" / "cassandra" / f"peer-{worker}")
    node.start()
    yield node
    node.stop()
