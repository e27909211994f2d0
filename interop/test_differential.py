"""Random writes with few keys and timestamps, side by side on Cassandra and on our node.

Most statements have the timestamp of another one, so that deletions, nulls, expiring and live cells
must win as in Cassandra, in the memtable and in files. A failure shows the seed and the statements
on the partition, in their order.
"""

import random

import pytest
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.query import SimpleStatement

from gate import FIRST_SEED, part

GROUPS = part(60, 20)
STATEMENTS_OF_A_GROUP = 22
ROWS = (1, 2, 3)
SETUP = [
    "CREATE KEYSPACE d WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TYPE d.u (a int, b int)",
    "CREATE TABLE d.t (k int, c int, v int, w int, m map<int, int>, s set<int>, u u, st int static,"
    " sm map<int, int> static, PRIMARY KEY (k, c))",
    "CREATE TABLE d.o (k int PRIMARY KEY, v int, m map<int, int>)",
]


class Statements:
    """Draws statements on one partition."""

    def __init__(self, chance, key):
        self.chance, self.key = chance, key

    def value(self):
        return self.chance.choice(["null", "0", "1", "2", "3"])

    def map(self):
        return self.chance.choice(["null", "{}", "{1: 1}", "{1: 2, 2: 0}", "{2: 3}"])

    def set(self):
        return self.chance.choice(["null", "{}", "{1}", "{1, 2}", "{3}"])

    def tuple(self):
        return self.chance.choice(["null", "{a: 1}", "{a: 2, b: 1}", "{b: 0}"])

    def row(self):
        return f"k = {self.key} AND c = {self.chance.choice(ROWS)}"

    def using(self, has_timestamp, may_expire=True):
        if not has_timestamp:
            return ""
        # At equal timestamps the later expiry wins, so TTLs differ by more than the nodes' clocks.
        is_expiring = may_expire and self.chance.random() < 0.3
        ttl = f" AND TTL {100_000 * self.chance.randint(1, 6000)}" if is_expiring else ""
        return f" USING TIMESTAMP {self.chance.randint(1, 5)}{ttl}"

    def assignments(self):
        """Returns assignments for different columns.

        Cassandra refuses most statements that name a column twice.
        """
        number = self.chance.randint(1, 2)
        choices = {
            "v": [f"v = {self.value()}"],
            "w": [f"w = {self.value()}"],
            "m": [f"m = {self.map()}", f"m[{number}] = {self.value()}", f"m = m - {{{number}}}",
                  f"m = m + {{{number}: {self.chance.randint(0, 3)}}}",
                  f"m[1] = {self.value()}, m = m + {{1: 2}}"],
            "s": [f"s = {self.set()}", f"s = s + {{{number}}}", f"s = s - {{{number}}}",
                  f"s = s + {{1}}, s = s - {{{number}}}"],
            "u": [f"u = {self.tuple()}", f"u.a = {self.value()}"],
        }
        names = self.chance.sample(sorted(choices), self.chance.randint(1, 3))
        return ", ".join(self.chance.choice(choices[name]) for name in names)

    def insert(self, timed):
        makers = {"v": self.value, "w": self.value, "m": self.map, "s": self.set, "u": self.tuple,
                  "st": self.value, "sm": self.map}
        names = self.chance.sample(sorted(makers), self.chance.randint(0, 4))
        columns = "".join(f", {name}" for name in names)
        values = "".join(f", {makers[name]()}" for name in names)
        row = f"{self.key}, {self.chance.choice(ROWS)}{values}"
        return f"INSERT INTO d.t (k, c{columns}) VALUES ({row}){self.using(timed)}"

    def static(self, timed):
        changes = [f"st = {self.value()}", f"sm = {self.map()}", f"sm[1] = {self.value()}"]
        change = self.chance.choice(changes)
        return f"UPDATE d.t{self.using(timed)} SET {change} WHERE k = {self.key}"

    def deletion(self, timed):
        using = self.using(timed, may_expire=False)
        names = ["v", "w", "m", "m[1]", "s", "s[2]", "u", "u.a", "v, m", "m[1], m"]
        columns = self.chance.choice(names)
        static = self.chance.choice(["st", "sm", "sm[1]"])
        side = self.chance.choice([">", ">=", "<", "<="])
        return self.chance.choice([
            f"DELETE {columns} FROM d.t{using} WHERE {self.row()}",
            f"DELETE {static} FROM d.t{using} WHERE k = {self.key}",
            f"DELETE FROM d.t{using} WHERE {self.row()}",
            f"DELETE FROM d.t{using} WHERE k = {self.key} AND c {side} {self.chance.choice(ROWS)}",
            f"DELETE FROM d.t{using} WHERE k = {self.key}",
        ])

    def narrow(self, timed):
        using = self.using(timed, may_expire=False)
        values = f"{self.key}, {self.value()}, {self.map()}"
        return self.chance.choice([
            f"INSERT INTO d.o (k, v, m) VALUES ({values}){self.using(timed)}",
            f"UPDATE d.o{self.using(timed)} SET v = {self.value()} WHERE k = {self.key}",
            f"UPDATE d.o{using} SET m[1] = {self.value()} WHERE k = {self.key}",
            f"DELETE FROM d.o{using} WHERE k = {self.key}",
            f"DELETE v FROM d.o{using} WHERE k = {self.key}",
        ])

    def one(self, timed=True):
        update = f"UPDATE d.t{self.using(timed)} SET {self.assignments()} WHERE {self.row()}"
        if self.chance.random() < 0.3:
            return update
        kinds = [self.insert, self.insert, self.static, self.deletion, self.narrow]
        return self.chance.choice(kinds)(timed)

    def next(self):
        if self.chance.random() < 0.8:
            return self.one()
        inside = "; ".join(self.one(timed=False) for _ in range(self.chance.randint(2, 4)))
        timestamp = self.chance.randint(1, 5)
        return f"BEGIN BATCH USING TIMESTAMP {timestamp} {inside}; APPLY BATCH"


def connect(node):
    """Returns a cluster and a session."""
    profile = ExecutionProfile(request_timeout=60)
    profiles = {EXEC_PROFILE_DEFAULT: profile}
    cluster = Cluster([node.host], port=node.port, execution_profiles=profiles)
    return cluster, cluster.connect()


def plain(value):
    """Returns a value without the driver's own types."""
    if hasattr(value, "_asdict"):
        return tuple(value)
    if hasattr(value, "items"):
        return tuple(value.items())
    return tuple(value) if type(value).__name__ == "SortedSet" else value


def shown(session, key):
    """Returns everything that a reader sees of a partition: slices, single rows and times."""
    queries = [f"SELECT * FROM d.t WHERE k = {key}",
               f"SELECT * FROM d.o WHERE k = {key}",
               f"SELECT c, writetime(v), writetime(w), writetime(st) FROM d.t WHERE k = {key}",
               f"SELECT v, writetime(v) FROM d.o WHERE k = {key}"]
    queries += [f"SELECT * FROM d.t WHERE k = {key} AND c = {c}" for c in ROWS]
    rows_of = {query: session.execute(SimpleStatement(query)) for query in queries}
    return {query: [tuple(map(plain, row)) for row in rows] for query, rows in rows_of.items()}


@pytest.mark.parametrize("seed", [part(1, FIRST_SEED)])
def test_equal_timestamps_end_as_in_cassandra(node, cassandra, seed):
    chance = random.Random(seed)
    ours = node()
    (their_cluster, theirs), (our_cluster, mine) = connect(cassandra), connect(ours)
    try:
        for statement in SETUP:
            theirs.execute(statement)
            mine.execute(statement)
        done = {key: [] for key in range(GROUPS)}
        for _ in range(STATEMENTS_OF_A_GROUP):
            for key, statements in done.items():
                statement = Statements(chance, key).next()
                statements.append(statement)
                theirs.execute(SimpleStatement(statement))
                mine.execute(SimpleStatement(statement))
            if chance.random() < 0.1:
                ours.flush("d")
        expected = {key: shown(theirs, key) for key in done}
        for place in ["memtable", "files", "one file", "files after a restart"]:
            if place == "files":
                ours.flush("d")
            elif place == "one file":
                ours.request("POST", "/storage_service/keyspace_compaction/d")
            elif place == "files after a restart":
                our_cluster.shutdown()
                ours.restart()
                our_cluster, mine = connect(ours)
            for key, statements in done.items():
                message = f"seed {seed}, {place}:\n" + "\n".join(statements)
                assert shown(mine, key) == expected[key], message
    finally:
        their_cluster.shutdown()
        our_cluster.shutdown()
