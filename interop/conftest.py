"""Fixtures that all interop tests share: nodes, a Cassandra, and Cassandra's offline oracle; and
hooks that choose, order and group the tests."""

import os
import shutil
import subprocess

import pytest

from cassandra_node import CassandraNode
from driver import PROTOCOLS
from espalier_node import BINARY, REPOSITORY, Node
from flights import STAGES
from gate import FIRST_SEED, RUNS_ALL

# The groups of pytest-xdist that begin first, because they take longest.
FIRST_GROUPS = ("cassandra", "test_flights.py")
ORACLE = REPOSITORY / ".deps" / "cassandra" / "node" / "oracle"
# Programs of Cassandra run for a short time in tests (see interop/cassandra/install.sh).
os.environ["QUICK"] = "1"


def pytest_report_header():
    return f"espalier: {BINARY}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Orders the longest groups first, so that other processes run the short groups meanwhile; in
    the gate, deselects a part of the tests. The tests of test_flights.py run stage by stage; in
    pytest's own order of two parametrised fixtures, the node would have to return to a stage."""

    def order(item):
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        mark = item.get_closest_marker("xdist_group")
        group = mark.args[0] if mark else item.path.name
        rank = FIRST_GROUPS.index(group) if group in FIRST_GROUPS else len(FIRST_GROUPS)
        return rank, STAGES.index(parameters.get("stage", STAGES[0]))

    def runs(item):
        """Returns True if the test runs. The gate reads each stage with one protocol, and the next
        stage with the next protocol."""
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        if RUNS_ALL or not {"stage", "session"} <= set(parameters):
            return True
        number = STAGES.index(parameters["stage"]) + FIRST_SEED
        return parameters["session"] == list(PROTOCOLS)[number % len(PROTOCOLS)]

    config.hook.pytest_deselected(items=[item for item in items if not runs(item)])
    items[:] = sorted(filter(runs, items), key=order)
    if getattr(config.option, "loadgroup", False) and not all("@" in item.nodeid for item in items):
        raise pytest.UsageError("pytest-xdist does not see the groups: see requirements.txt")


class Groups:
    """Lets one process of pytest-xdist run all tests of a file, because they share fixtures. One
    process runs all files with tests that name the fixture `cassandra`, because a start of
    Cassandra takes as long as many tests. In a full run other processes may also start a Cassandra,
    for `peer`.

    This hook runs before that of pytest-xdist, which reads the marks."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config, items):
        if config.pluginmanager.hasplugin("xdist"):
            group_by_file(items)


def pytest_configure(config):
    config.pluginmanager.register(Groups())


def group_by_file(items):
    """Marks each test with the group of its file."""
    asks_cassandra = {item.path for item in items if "cassandra" in item.fixturenames}
    for item in items:
        name = "cassandra" if item.path in asks_cassandra else item.path.name
        item.add_marker(pytest.mark.xdist_group(name))


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
    commands. oracle("batch", commands=[["dump", path], …]) starts Java once for all commands, and
    prints `== EXITCODE` after the output of each command."""
    if os.environ.get("WITHOUT_CASSANDRA"):
        pytest.skip(f"without Cassandra: {os.environ['WITHOUT_CASSANDRA']}")
    if not ORACLE.exists():
        pytest.skip("Cassandra is not installed: make deps")

    def run(*arguments, commands=(), **environment):
        command = [str(ORACLE), *map(str, arguments)]
        surroundings = {**os.environ, **environment}
        lines = "".join("\t".join(map(str, line)) + "\n" for line in commands)
        # The oracle never runs in a test's working directory, so paths must be absolute.
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


@pytest.fixture(scope="session")
def cassandra(oracle):
    """Runs a Cassandra on free ports, and yields its CassandraNode. All tests of a process share
    the node, so each test creates a keyspace of its own."""
    # Two processes of pytest-xdist may each run a Cassandra at the same time.
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    node = CassandraNode(REPOSITORY / ".deps" / "cassandra" / f"peer-{worker}")
    node.start()
    yield node
    node.stop()


@pytest.fixture(params=["espalier", "cassandra"])
def peer(request, node):
    """Runs a test with a node of ours with two shards, and in a full run also with Cassandra. If
    the test fails with Cassandra, the test is wrong."""
    if request.param == "espalier":
        return node(settings={"commitlog_sync": "group"}, shards=2)
    if not RUNS_ALL:
        pytest.skip("Cassandra validates the test itself (make nightly)")
    return request.getfixturevalue("cassandra")
