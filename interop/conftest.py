"""What all interop tests share: nodes, and Cassandra's offline oracle."""

import os
import subprocess

import pytest

from espalier_node import BINARY, Node, REPOSITORY

ORACLE = REPOSITORY / ".deps" / "cassandra" / "node" / "oracle"


def pytest_report_header():
    return f"espalier: {BINARY}"


@pytest.fixture
def node(tmp_path):
    """A function that starts a node: node("name", settings={...}, shards=2). All are gone after the test, and none of them
    may have panicked."""
    nodes = []

    def start(name="node", **arguments):
        started = Node(tmp_path / name, **arguments)
        nodes.append(started)
        return started.start()

    yield start
    for started in nodes:
        started.close()
    for started in nodes:
        assert "panicked at" not in started.log(), started.log()[-4000:]


@pytest.fixture(scope="session")
def oracle():
    """A function that runs Cassandra's own code on files: oracle("verify", path). Gives a CompletedProcess with text.
    interop/cassandra/README.md lists the commands."""
    if os.environ.get("WITHOUT_CASSANDRA"):
        pytest.skip(f"without Cassandra: {os.environ['WITHOUT_CASSANDRA']}")
    if not ORACLE.exists():
        pytest.skip("Cassandra is not installed: make deps")

    def run(*arguments, **environment):
        command = [str(ORACLE), *map(str, arguments)]
        surroundings = {**os.environ, **environment}
        return subprocess.run(command, capture_output=True, text=True, env=surroundings, timeout=600)

    return run
