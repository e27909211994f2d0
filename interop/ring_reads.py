"""Random tables and reads in a ring of a Cassandra node and ours: each answer must be Cassandra's.

Each write goes to two keyspaces, and each read is sent in three forms. The Cassandra node is the
coordinator:

| keyspace | replicas | our node's answers |
| --- | --- | --- |
| `both`, read at ALL | both nodes | digests of reads of one partition, data of scans |
| `both`, read at NODE_LOCAL | both nodes | none: Cassandra's own rows are the expected answer |
| `single`, read at ONE | one node | data, for the partitions that it owns |

The coordinator counts digests that differ (`Mismatch` in nodetool netstats).
"""
import os
import random
import re
import subprocess

from cassandra import ConsistencyLevel, ReadFailure
from cassandra.cluster import NoHostAvailable
from cassandra.query import SimpleStatement

import shapes
from gate import RUNS_ALL
from shapes import CELLS, NESTED, SCALARS, Shape

KEYSPACES = {"both": 2, "single": 1}
# The level at which a node reads only its own rows. The driver has no name for it.
NODE_LOCAL = 11
# Types whose values the filters compare by order.
ORDERED = {"int", "bigint", "text", "timestamp", "uuid", "varint", "decimal", "date"}


def made_shapes(draw):
    """Returns the tables of a run."""
    every = [*SCALARS, *NESTED, *CELLS]
    some = lambda kinds, count: draw.sample(kinds, count)
    options = lambda: draw.choice(["", "gc_grace_seconds = 0", "gc_grace_seconds = 1"])
    clusterable = [kind for kind in SCALARS if kind not in ("duration", "blob")]
    tables = []
    for number in range(12 if RUNS_ALL else 3):
        clustering = some(clusterable, draw.randint(1, 3))
        tables.append(Shape(
            f"t{number}", draw, some(["int", "text", "uuid"], draw.randint(1, 2)), clustering,
            [draw.choice(["ASC", "DESC"]) for _ in clustering],
            some(every, draw.choice([0, 3])), [*some(every, 4), *CELLS, "int"],
            options=options(), keys=6, spread=12,
        ))
    tables.append(Shape("single_rows", draw, ["int"], regular=[*some(every, 4), "int"], keys=12))
    tables.append(Shape("wide", draw, ["text"], ["int", "int"], ["ASC", "DESC"], ["text", "int"],
                        ["text", "int", "map<text, bigint>"], keys=2, spread=60))
    return tables


class Reads:
    """Random reads of a table, each with `{}` for the keyspace."""

    def __init__(self, shape):
        self.shape, self.draw, self.table = shape, shape.draw, shape.table
        self.name = "{}." + shape.name.partition(".")[2]

    def of_partition(self, key):
        table, draw, where = self.table, self.draw, self.shape._where
        clustering = draw.choice(self.shape.clusterings)
        start = f"FROM {self.name} WHERE {where(key)}"
        yield f"SELECT * {start}"
        yield f"SELECT {self.columns()} {start} LIMIT {draw.randint(1, 5)}"
        yield f"SELECT {self.columns()} FROM {self.name} WHERE {where(key, clustering)}"
        if table.static:
            yield f"SELECT DISTINCT {', '.join([*table.partition_key, *table.static])} {start}"
            yield f"SELECT {', '.join(table.static)} {start} LIMIT 2"
        if not table.clustering:
            return
        order = [f"{name} {'ASC' if order == 'DESC' else 'DESC'}"
                 for name, order in zip(table.clustering, self.shape.orders)]
        reverse = f"ORDER BY {', '.join(order)}"
        yield f"SELECT * {start} {reverse}"
        yield f"SELECT * {start} {reverse} LIMIT {draw.randint(1, 6)}"
        depth = draw.randrange(len(clustering))
        prefix = where(key, clustering[:depth])
        name, value = table.clustering[depth], clustering[depth]
        other = draw.choice(self.shape.clusterings)[depth]
        bound = f"{name} {draw.choice(['<', '<=', '>', '>='])} {value}"
        yield f"SELECT * FROM {self.name} WHERE {prefix} AND {bound}"
        yield f"SELECT * FROM {self.name} WHERE {prefix} AND {bound} {reverse} LIMIT 4"
        yield (f"SELECT * FROM {self.name} WHERE {prefix} AND {name} > {value} "
               f"AND {name} <= {other}")
        full = where(key, clustering[:-1])
        values = {row[-1] for row in draw.sample(self.shape.clusterings, 4)}
        yield (f"SELECT {self.columns()} FROM {self.name} WHERE {full} "
               f"AND {table.clustering[-1]} IN ({', '.join(sorted(values))})")
        group = ", ".join([*table.partition_key, *table.clustering[:depth + 1]])
        yield f"SELECT {group}, count(*) {start} GROUP BY {group} LIMIT {draw.randint(1, 5)}"
        for condition in self.conditions(clustering):
            yield f"SELECT * {start} AND {condition} ALLOW FILTERING"

    def of_all(self):
        table, draw = self.table, self.draw
        token = f"token({', '.join(table.partition_key)})"
        start = f"FROM {self.name}"
        bound = draw.randint(-2**63, 2**63 - 1)
        yield f"SELECT * {start}"
        yield f"SELECT {self.columns()} {start} LIMIT {draw.randint(1, 20)}"
        yield f"SELECT * {start} PER PARTITION LIMIT {draw.randint(1, 3)}"
        yield f"SELECT * {start} WHERE {token} > {bound}"
        yield f"SELECT * {start} WHERE {token} <= {bound} PER PARTITION LIMIT 2 LIMIT 7"
        distinct = ", ".join([*table.partition_key, *table.static])
        yield f"SELECT DISTINCT {distinct} {start}"
        yield f"SELECT count(*) {start}"
        key = ", ".join(table.partition_key)
        yield f"SELECT {key}, count(*) {start} GROUP BY {key}"
        if table.clustering:
            yield f"SELECT {key}, {table.clustering[0]}, count(*) {start} " \
                  f"GROUP BY {key}, {table.clustering[0]} LIMIT {draw.randint(1, 9)}"
        for condition in self.conditions(draw.choice(self.shape.clusterings)):
            yield f"SELECT * {start} WHERE {condition} ALLOW FILTERING"

    def columns(self):
        """Draws columns, with an element of a map, a field of a UDT or a writetime for some."""
        draw, types = self.draw, self.shape.types
        names = draw.sample([*self.table.static, *self.table.regular], 1)
        if names[0] in self.table.static and self.table.regular:
            names.append(draw.choice(self.table.regular))
        parts = [*self.table.partition_key, *names]
        # Without a regular column, Cassandra refuses to restrict the clustering.
        if self.table.regular:
            parts += self.table.clustering
        for name in self.table.regular:
            if types[name] == "map<text, bigint>" and draw.random() < 0.5:
                parts.append(f"{name}['k{draw.randint(0, 9)}']")
            elif types[name] == "outer_" and draw.random() < 0.3:
                parts.append(f"{name}.a")
            elif types[name] not in CELLS and draw.random() < 0.2:
                parts.append(f"writetime({name})")
        return ", ".join(parts)

    def conditions(self, clustering):
        draw, types = self.draw, self.shape.types
        for name in draw.sample(self.table.regular, min(3, len(self.table.regular))):
            yield from self.on_column(name)
        for name in self.table.static[:2]:
            yield from self.on_column(name)
        for name, value in list(zip(self.table.clustering, clustering))[1:]:
            yield f"{name} = {value}"
        if {"int"} & {types[name] for name in self.table.regular}:
            ints = [name for name in self.table.regular if types[name] == "int"]
            yield f"{ints[-1]} > {draw.randint(-9, 9)}"

    def on_column(self, name):
        draw, kind = self.draw, self.shape.types[name]
        if kind == "map<text, bigint>":
            yield f"{name} CONTAINS KEY 'k{draw.randint(0, 9)}'"
            yield f"{name}['k{draw.randint(0, 8)}'] = {draw.randint(0, 8)}"
            yield f"{name} CONTAINS {draw.randint(0, 8)}"
        elif kind == "set<int>":
            yield f"{name} CONTAINS {draw.randint(0, 9)}"
        elif kind == "list<text>":
            yield f"{name} CONTAINS '{draw.choice('abcde')}'"
        elif kind in ORDERED:
            yield f"{name} {draw.choice(['<', '<=', '>', '>=', '='])} {self.shape.literal(name)}"


def create(session, tables):
    for keyspace, replicas in KEYSPACES.items():
        session.execute(f"CREATE KEYSPACE {keyspace} WITH replication = "
                        f"{{'class': 'SimpleStrategy', 'replication_factor': {replicas}}}")
        for kind in shapes.TYPES:
            session.execute(kind.format(keyspace))
        for table in tables:
            session.execute(of_keyspace(table.create(), keyspace))


def of_keyspace(statement, keyspace):
    return statement.replace(f"{shapes.KEYSPACE}.", f"{keyspace}.")


def write(session, tables, count):
    """Sends `count` writes to each keyspace: a random statement, or a batch of three."""
    draw = tables[0].draw
    for _ in range(count):
        table = draw.choice(tables)
        statements = [table.statement() for _ in range(draw.choice([1, 1, 1, 3]))]
        text = statements[0]
        if len(statements) > 1:
            # A batch that is not logged may write to several partitions.
            text = f"BEGIN UNLOGGED BATCH {'; '.join(statements)}; APPLY BATCH"
        levels = {"both": ConsistencyLevel.ALL, "single": ConsistencyLevel.ONE}
        waiting = [session.execute_async(SimpleStatement(of_keyspace(text, keyspace),
                                                         consistency_level=level))
                   for keyspace, level in levels.items()]
        for future in waiting:
            future.result()


def read(session, query, keyspace, level, fetch_size=5000):
    statement = SimpleStatement(query.replace("{}", keyspace), consistency_level=level,
                                fetch_size=fetch_size)
    return list(map(repr, session.execute(statement)))


def check(session, tables):
    """Compares the answers; returns the number of reads that it compared."""
    count = failed = 0
    for table in tables:
        reads, draw = Reads(table), table.draw
        queries = [query for key in draw.sample(table.keys, 2) for query in reads.of_partition(key)]
        queries += reads.of_all()
        for query in queries:
            # Cassandra refuses its own paging states of some reads with GROUP BY.
            size = 5000 if "GROUP BY" in query else draw.choice([5000, 5000, 2, 7])
            try:
                expected = read(session, query, "both", NODE_LOCAL)
                of_both = read(session, query, "both", ConsistencyLevel.ALL, size)
                of_single = read(session, query, "single", ConsistencyLevel.ONE, size)
            except (NoHostAvailable, ReadFailure) as error:
                # Cassandra fails if a limit of groups ends within a range deletion.
                assert "GROUP BY" in query and is_of_cassandra(error), f"{query}: {error}"
                failed += 1
                continue
            place = f"{query}, fetch size {size}"
            if "CONTAINS" in query:
                # At ALL, Cassandra mistakes the tombstone of an element for the element.
                of_both = [row for row in of_both if row in expected]
            assert of_both == expected, f"{place}, at ALL: {differences(of_both, expected)}"
            assert of_single == expected, f"{place}, at ONE: {differences(of_single, expected)}"
            count += 1
    assert failed * 10 < count, f"{failed} of {count} reads failed in Cassandra"
    return count


def differences(rows, expected):
    more, less = set(rows) - set(expected), set(expected) - set(rows)
    return f"more {sorted(more)[:3]}, less {sorted(less)[:3]}"


def is_of_cassandra(error):
    """Returns True if the Cassandra node has failed, not ours."""
    if isinstance(error, ReadFailure):
        return set(error.error_code_map) == {"127.0.0.1"}
    return "open RT bound" in str(error)


def mismatches(cassandra):
    """Returns the number of digests that differed since the coordinator's start."""
    done = subprocess.run(
        [cassandra.directory / "run.sh", "org.apache.cassandra.tools.NodeTool", "-p",
         str(cassandra.jmx_port), "netstats"],
        env={**os.environ, "CONF": "tools.yaml", "HEAP": "128M", "XMS": "32M", "LOGLEVEL": "OFF"},
        capture_output=True, text=True, timeout=120,
    )
    counts = re.findall(r"Mismatch \(\w+\): (\d+)", done.stdout)
    assert len(counts) == 2, done.stdout
    return sum(map(int, counts))
