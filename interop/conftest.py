"""What all interop tests share: nodes, and Cassandra's offline oracle."""

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
    """The longest file first: where several processes share the files, the others fill the time that it takes."""
    items.sort(key=lambda item: item.path.name != "test_flights.py")


@pytest.fixture
def node(tmp_path):
    """A function that starts a node: node("name", settings={...}, shards=2). All are gone after the test, and none of them
    may have panicked."""
    yield from starter(tmp_path)


@pytest.fixture(scope="module")
def start_node(tmp_path_factory):
    """As `node`, for nodes that the tests of a module share."""
    yield from starter(tmp_path_factory.mktemp("nodes"))


def starter(directory):
    nodes = []

    def start(name="node", **arguments):
        name = f"{name}-{len(nodes)}" if any(other.directory.name == name for other in nodes) else name
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
        # Data of a test may be large; pytest keeps the directories of the last three runs.
        shutil.rmtree(started.directory, ignore_errors=True)


@pytest.fixture(scope="session")
def oracle():
    """A function that runs Cassandra's own code on files: oracle("verify", path). Gives a CompletedProcess with text.
    interop/cassandra/README.md lists the commands. oracle("batch", commands=[["dump", path], …]) starts Java once for all;
    its output has `== EXITCODE` behind each command's."""
    if os.environ.get("WITHOUT_CASSANDRA"):
        pytest.skip(f"without Cassandra: {os.environ['WITHOUT_CASSANDRA']}")
    if not ORACLE.exists():
        pytest.skip("Cassandra is not installed: make deps")

    def run(*arguments, commands=(), **environment):
        command = [str(ORACLE), *map(str, arguments)]
        surroundings = {**os.environ, **environment}
        lines = "".join("\t".join(map(str, line)) + "\n" for line in commands)
        # Not where a test may be: what it is given must say where it is.
        return subprocess.run(command, input=lines, capture_output=True, text=True, env=surroundings, cwd=REPOSITORY, timeout=600)

    return run


@pytest.fixture(scope="module")
def cassandra(oracle):
    """A running Cassandra on free ports, empty; it has `host`, `port` and `control`."""
    # Two processes of pytest-xdist may each run one at the same time.
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    node = CassandraNode(REPOSITORY / ".deps" / "cassandra" / f"peer-{worker}")
    node.start()
    yield node
    node.stop()
