"""A ring of two Cassandra nodes and ours, and what is written to it and read from it.

| node | data centre |
| --- | --- |
| `first`, Cassandra | near |
| `ours` | near |
| `second`, Cassandra | far |

| keyspace | replicas |
| --- | --- |
| `mixed` | all three nodes |
| `beside` | `second` alone, so its answers are Cassandra's |

Both keyspaces have the same tables and get the same statements. The nodes prefer replicas of their
own data centre, so a read at QUORUM by `first` asks `first` and ours.
"""
import concurrent.futures
import logging
import random
import re
import threading
import time

from cassandra import (ConsistencyLevel, OperationTimedOut, ReadFailure, ReadTimeout, Unavailable,
                       WriteFailure, WriteTimeout)
from cassandra.cluster import NoHostAvailable
from cassandra.policies import (ConstantReconnectionPolicy, HostFilterPolicy, RoundRobinPolicy)
from cassandra.query import SimpleStatement

import ring_reads
import shapes
from cassandra_node import CassandraNode
from driver import connect
from espalier_node import Node, free_port, wait_until

KEYSPACES = {"mixed": "'near': 2, 'far': 1", "beside": "'far': 1"}
LEVELS = [ConsistencyLevel.QUORUM, ConsistencyLevel.ALL]
# With these settings, a kill loses no acknowledged write, hints are on disk soon, the order of
# replicas is fixed, and a busy machine does not fail a write.
EXTRA_YAML = """
commitlog_sync: batch
commitlog_sync_period: 0ms
hints_flush_period: 500ms
write_request_timeout: 8s
dynamic_snitch: false
internode_compression: dc
user_defined_functions_enabled: false
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters: [{{seeds: "127.0.0.1:{port}, 127.0.0.2:{port}"}}]
"""
TOKENS = (-6148914691236517206, 0, 6148914691236517206)
# The errors of a request while a node is down or is starting; the client may send the request
# again.
TRANSIENT = (NoHostAvailable, OperationTimedOut, ReadFailure, ReadTimeout, Unavailable,
             WriteFailure, WriteTimeout)


def tables_for_kills(draw, prefix="killed"):
    """Returns tables whose statements may be sent twice: no lists, whose elements get their keys
    from the coordinator. Deletions are kept until each replica has them."""
    kinds = [kind for kind in [*shapes.SCALARS, *shapes.NESTED] if kind != "duration"]
    some = lambda count: draw.sample(kinds, count)
    cells = [kind for kind in shapes.CELLS if kind != "list<text>"]
    return [
        shapes.Shape(f"{prefix}_rows", draw, ["int"], ["text", "int"], ["DESC", "ASC"],
                     ["text", *cells], [*some(3), *cells, "int"], keys=8, spread=20),
        shapes.Shape(f"{prefix}_partitions", draw, ["text"], regular=[*some(3), *cells], keys=40),
    ]


# The driver reports each attempt to connect to a node that was killed.
logging.getLogger("cassandra").setLevel(logging.ERROR)


class MixedRing:
    """The nodes, and a session with each. `file_format` is that of Cassandra's files: with `nb`,
    the ring has `storage_compatibility_mode: CASSANDRA_4`, Cassandra's default."""

    def __init__(self, directory, file_format="bti"):
        self.directory, self.port, self.file_format = directory, free_port(), file_format
        port, self.sessions = self.port, []
        # Reads at NODE_LOCAL show what a node itself has.
        options = "-Dcassandra.enable_nodelocal_queries=true -Dcassandra.initial_token={}"
        self.first, self.second = self.cassandras = [
            CassandraNode(
                directory / name, EXTRA_YAML.format(port=port), options.format(token), host, port,
                data_center, is_small=True, is_volatile=False, file_format=file_format)
            for name, token, host, data_center in [
                ("first", TOKENS[0], "127.0.0.1", "near"),
                ("second", TOKENS[1], "127.0.0.2", "far")]
        ]

    def start(self, node):
        """Starts the nodes, ours with the fixture `node`."""
        configuration, port = self.directory / "espalier", self.port
        configuration.mkdir()
        (configuration / "node.yaml").write_text("endpoint_snitch: GossipingPropertyFileSnitch\n")
        place = "dc=near\nrack=rack1\n"
        (configuration / "cassandra-rackdc.properties").write_text(place)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(CassandraNode.start, self.cassandras))
        seeds = f"127.0.0.1:{port}, 127.0.0.2:{port}"
        self.ours = node("ours", shards=2, arguments=["--config", configuration / "node.yaml"],
                         settings={
            "join_ring": "true", "auto_bootstrap": "false", "cluster_name": "peer",
            "listen_address": "127.0.0.3", "storage_port": port, "initial_token": TOKENS[2],
            "storage_compatibility_mode": "CASSANDRA_4" if self.file_format == "nb" else "NONE",
            "internode_compression": "dc",
            "seed_provider": "[{class_name: SimpleSeedProvider, parameters: [{seeds: '%s'}]}]" % seeds,
        })
        self.near, self.far, self.own = map(alone, [*self.cassandras, self.ours])
        self.sessions = [self.near, self.far]
        query = "SELECT data_center FROM system.peers_v2"
        for session in self.sessions:
            wait_until(lambda: len([row for row in session.execute(query) if row[0]]) == 2,
                       what="gossip of all nodes")

    def stop(self):
        for session in self.sessions and [*self.sessions, self.own]:
            session.cluster.shutdown()
        for cassandra in self.cassandras:
            cassandra.stop()

    def replacement_of_first(self):
        """Returns a node of ours that takes the place of `first` when it is started."""
        configuration = self.first.directory / "conf" / "cassandra.yaml"
        node = Node(self.directory / "replacing", ["--config", configuration], shards=2, settings={
            "join_ring": "true", "replace_in_place": "true", "commitlog_sync": "group",
        })
        node.host, node.port = self.first.host, self.first.port
        return node

    def create(self, tables):
        """Creates the keyspaces with the tables and waits until all nodes have them."""
        def run(text):
            self.near.execute(text)

        self.near.cluster.max_schema_agreement_wait = 0
        for keyspace, replicas in KEYSPACES.items():
            run(f"CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = "
                f"{{'class': 'NetworkTopologyStrategy', {replicas}}}")
            for kind in shapes.TYPES:
                run(kind.format(keyspace).replace("TYPE", "TYPE IF NOT EXISTS"))
            for table in tables:
                run(ring_reads.of_keyspace(table.create(), keyspace))
            run(f"CREATE TABLE IF NOT EXISTS {keyspace}.registers (k int, c int, v int, "
                "PRIMARY KEY (k, c))")
        wait_until(self.agrees, what="agreement on the tables")

    def agrees(self):
        """Returns True if all nodes announce one schema."""
        own = self.near.execute("SELECT schema_version FROM system.local").one()[0]
        others = [row[0] for row in self.near.execute("SELECT schema_version FROM system.peers_v2")]
        return others == [own, own]

    def is_whole(self, sessions=None):
        """Returns True if the Cassandra nodes, or the nodes of `sessions`, see all three nodes as
        up."""
        statement = SimpleStatement("SELECT k FROM mixed.registers WHERE k = 0",
                                    consistency_level=ConsistencyLevel.ALL)
        try:
            for session in sessions or self.sessions:
                session.execute(statement, timeout=5)
            return True
        except TRANSIENT:
            return False

    def wait_until_whole(self, sessions=None):
        """Waits five times, half a second apart, until `is_whole` is true. Once is not enough,
        because Cassandra nodes mark a node as down for a moment when they notice its restart."""
        for _ in range(5):
            wait_until(lambda: self.is_whole(sessions), 120, "all nodes up")
            time.sleep(0.5)

    def mismatches(self, nodes=None):
        """Returns the number of digests that differed since the start of the Cassandra nodes,
        summed over all of them or over `nodes`."""
        with concurrent.futures.ThreadPoolExecutor() as pool:
            nodes = nodes or self.cassandras
            outputs = list(pool.map(lambda node: node.nodetool("netstats"), nodes))
        counts = [re.findall(r"Mismatch \(\w+\): (\d+)", output) for output in outputs]
        assert all(len(of_node) == 2 for of_node in counts), outputs
        return sum(int(count) for of_node in counts for count in of_node)

    def local_rows(self, session, tables, keyspace="mixed"):
        """Returns the rows that a node itself has, by table."""
        level = ring_reads.NODE_LOCAL
        if keyspace == "beside":
            session, level = self.far, ConsistencyLevel.ONE
        return {table.name: ring_reads.read(
            session, ring_reads.of_keyspace(table.select(), keyspace), "", level)
            for table in tables}

    def check_replicas(self, tables, wait_s=0, also=()):
        """Waits for at most `wait_s` seconds until each node has the rows of `beside`; returns
        their number. `also` has further sessions by name; None leaves a node out."""
        deadline = time.monotonic() + wait_s
        while True:
            expected = self.local_rows(self.far, tables, "beside")
            sessions = {"first": self.near, "second": self.far, "ours": self.own, **dict(also)}
            found = {name: self.local_rows(session, tables) for name, session in sessions.items()
                     if session}
            differing = [(name, table) for name, rows in found.items() for table in rows
                         if rows[table] != expected[table]]
            if not differing:
                return sum(map(len, expected.values()))
            if time.monotonic() > deadline:
                name, table = differing[0]
                difference = ring_reads.differences(found[name][table], expected[table])
                raise AssertionError(f"{differing}: {name}, {table}: {difference}")
            time.sleep(0.1)


def alone(node):
    """Opens a session that sends to this node alone."""
    only = HostFilterPolicy(RoundRobinPolicy(), lambda host: host.endpoint.port == node.port)
    session = connect(node, policy=only)
    # A node that was killed is found soon after its start.
    session.cluster.reconnection_policy = ConstantReconnectionPolicy(0.5, None)
    return session


def statements_of(tables, count):
    """Yields random statements; some are batches, logged or not."""
    draw = tables[0].draw
    for _ in range(count):
        table = draw.choice(tables)
        kind = draw.choice(["", "", "", "UNLOGGED ", "LOGGED "])
        parts = [table.statement() for _ in range(3 if kind else 1)]
        if kind:
            # A batch may write to several partitions and tables.
            parts.append(draw.choice(tables).statement())
        if kind == "LOGGED ":
            kind = ""
        yield parts[0] if len(parts) == 1 else \
            f"BEGIN {kind}BATCH {'; '.join(parts)}; APPLY BATCH"


def write(ring, tables, count, sessions=None, levels=LEVELS):
    """Writes random statements to both keyspaces, one after the other."""
    draw, sessions = tables[0].draw, sessions or ring.sessions
    for text in statements_of(tables, count):
        waiting = [
            draw.choice(sessions).execute_async(SimpleStatement(
                ring_reads.of_keyspace(text, keyspace), consistency_level=level))
            for keyspace, level in [("mixed", draw.choice(levels)),
                                    ("beside", ConsistencyLevel.ONE)]
        ]
        for future in waiting:
            future.result()


def write_conditionally(ring, draw, count):
    """Sends conditional writes to both keyspaces; each must be applied in both or in none."""
    # With a commit at ALL, the next read finds equal replicas.
    levels = {"mixed": ConsistencyLevel.ALL, "beside": ConsistencyLevel.ONE}
    for _ in range(count):
        k, c, v, w = (draw.randint(0, bound) for bound in (2, 2, 4, 4))
        text = draw.choice([
            f"INSERT INTO shapes.registers (k, c, v) VALUES ({k}, {c}, {v}) IF NOT EXISTS",
            f"UPDATE shapes.registers SET v = {v} WHERE k = {k} AND c = {c} IF v = {w}",
            f"UPDATE shapes.registers SET v = {v} WHERE k = {k} AND c = {c} IF v != {w}",
            f"DELETE FROM shapes.registers WHERE k = {k} AND c = {c} IF v IN ({v}, {w})",
        ])
        session = draw.choice(ring.sessions)
        answers = [list(session.execute(SimpleStatement(
            ring_reads.of_keyspace(text, keyspace), consistency_level=level)))
            for keyspace, level in levels.items()]
        assert answers[0] == answers[1], f"{text}: {answers}"


def check_reads(ring, tables, coordinators=("near", "far")):
    """Compares answers at QUORUM and ALL with those of `beside`; returns the number of answers."""
    count = failed = 0
    levels = {"QUORUM": ConsistencyLevel.QUORUM, "ALL": ConsistencyLevel.ALL}
    asked = [(coordinators[0], "QUORUM"), (coordinators[-1], "ALL")]
    for table in tables:
        reads, draw = ring_reads.Reads(table), table.draw
        queries = [query for key in draw.sample(table.keys, 2) for query in reads.of_partition(key)]
        for query in [*queries, *reads.of_all()]:
            # Cassandra refuses its own paging states of some reads with GROUP BY.
            size = 5000 if "GROUP BY" in query else draw.choice([5000, 5000, 2, 7])
            try:
                expected = ring_reads.read(ring.far, query, "beside", ConsistencyLevel.ONE)
                answers = {(name, level): ring_reads.read(getattr(ring, name), query, "mixed",
                                                          levels[level], size)
                           for name, level in asked}
            except (NoHostAvailable, ReadFailure) as error:
                # Cassandra fails if a limit of groups ends within a range deletion.
                assert "GROUP BY" in query and is_of_cassandra(error), f"{query}: {error}"
                failed += 1
                continue
            for name, answer in answers.items():
                if "CONTAINS" in query:
                    # Cassandra takes the tombstone of an element for the element.
                    answer = [row for row in answer if row in expected]
                place = f"{query}, fetch size {size}, {' at '.join(name)}"
                assert answer == expected, f"{place}: {ring_reads.differences(answer, expected)}"
                count += 1
    assert failed * 10 < count, f"{failed} of {count} reads failed in Cassandra"
    return count


def is_of_cassandra(error):
    """Returns True if Cassandra nodes have failed, not ours."""
    if isinstance(error, ReadFailure):
        return "127.0.0.3" not in error.error_code_map
    return "open RT bound" in str(error)


class Load:
    """Writes to `mixed` from a thread while nodes are killed. Each statement is sent until it is
    acknowledged; then it belongs to `written`. Without our node, `first` has no other node of its
    data centre for the log of batches and fails each logged batch after 2 s. With `far_batches`,
    `second` gets the logged batches."""

    def __init__(self, ring, tables, far_batches=False):
        self.ring, self.tables, self.far_batches = ring, tables, far_batches
        self.written, self.error, self.ends = [], None, threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.ends.set()
        self.thread.join()
        if self.error and not error[0]:
            raise self.error

    def wait_for(self, count):
        """Waits until this many more statements are acknowledged."""
        goal = len(self.written) + count
        wait_until(lambda: len(self.written) >= goal or self.error, 300, f"{count} writes")

    def _run(self):
        try:
            while not self.ends.is_set():
                for text in statements_of(self.tables, 20):
                    self._send(text)
        except Exception as error:  # the test reports it
            self.error = error

    def _send(self, text):
        statement = SimpleStatement(ring_reads.of_keyspace(text, "mixed"),
                                    consistency_level=ConsistencyLevel.QUORUM)
        is_far = self.far_batches and text.startswith("BEGIN BATCH")
        sessions = [self.ring.far] if is_far else random.sample(self.ring.sessions, 2)
        for attempt in range(1200):
            session = sessions[attempt % len(sessions)]
            try:
                session.execute(statement, timeout=10)
                self.written.append(text)
                return
            except TRANSIENT:
                if session is sessions[-1]:
                    time.sleep(0.1)
        raise AssertionError(f"no node took {text}")


def repeat_beside(ring, load):
    """Writes to `beside` what was written to `mixed`."""
    for text in load.written:
        ring.far.execute(SimpleStatement(ring_reads.of_keyspace(text, "beside"),
                                         consistency_level=ConsistencyLevel.ONE))


def repair(ring, tables):
    """Reads everything at ALL, so that read repair gives each replica what it lacks."""
    for table in tables:
        query = ring_reads.of_keyspace(table.select(), "mixed")
        ring_reads.read(ring.near, query, "", ConsistencyLevel.ALL)


def read_partitions(ring, tables):
    """Reads each partition at ALL, with digests. Returns the number of reads."""
    count = 0
    for table in tables:
        for key in table.keys:
            query = ring_reads.of_keyspace(f"{table.select()} WHERE {table._where(key)}", "mixed")
            for session in ring.sessions:
                ring_reads.read(session, query, "", ConsistencyLevel.ALL)
                count += 1
    return count
