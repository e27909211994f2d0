"""Tables of every shape, with random statements that fill them: all types, statics, deletions."""
import random
import uuid

from dumped import Table

KEYSPACE = "shapes"
TYPES = (
    "CREATE TYPE {}.inner (x int, y text)",
    "CREATE TYPE {}.outer_ (a bigint, b frozen<inner>, c frozen<list<int>>)",
)


def _hex(draw, most):
    return "0x" + draw.randbytes(draw.choice([0, 1, draw.randint(0, most)])).hex()


def _text(draw, most=40):
    alphabet = "abcdefghij  éüß漢字🌳'\t%"
    return (
        "'"
        + "".join(draw.choices(alphabet, k=draw.choice([0, 1, draw.randint(0, most)]))).replace(
            "'", "''"
        )
        + "'"
    )


def _decimal(draw):
    return f"{draw.choice(['', '-'])}{draw.randrange(10 ** draw.randint(1, 25))}.{draw.randrange(10 ** draw.randint(1, 9)):03d}"


def _inner(draw):
    return (
        f"{{x: {draw.randint(-9, 9)}, y: {_text(draw)}}}"
        if draw.random() < 0.7
        else f"{{y: {_text(draw)}}}"
    )


def _ints(draw, most=6):
    return [draw.randint(-2**31, 2**31 - 1) for _ in range(draw.randint(0, most))]


def _joined(values, left, right):
    return left + ", ".join(map(str, values)) + right


# For each scalar type, a function that draws a literal.
SCALARS = {
    "ascii": lambda draw: "'" + "".join(draw.choices("abc xyz~", k=draw.randint(0, 20))) + "'",
    "bigint": lambda draw: draw.choice(
        [draw.randint(-(2**63), 2**63 - 1), 0, -1, -(2**63), 2**63 - 1]
    ),
    "blob": lambda draw: _hex(draw, 100),
    "boolean": lambda draw: draw.choice(["true", "false"]),
    "date": lambda draw: f"'{draw.randint(1, 4000):04d}-{draw.randint(1, 12):02d}-{draw.randint(1, 28):02d}'",
    "decimal": _decimal,
    "double": lambda draw: draw.choice(
        [repr(draw.uniform(-1e300, 1e300)), "NaN", "-Infinity", "0.0", "-0.0", "1e-320"]
    ),
    "duration": lambda draw: draw.choice(["", "-"])
    + f"{draw.randint(0, 99)}mo{draw.randint(1, 99)}d{draw.randint(0, 10**12)}ns",
    "float": lambda draw: draw.choice(
        [repr(draw.uniform(-1e30, 1e30)), "NaN", "Infinity", "0.0", "-0.0"]
    ),
    "inet": lambda draw: draw.choice(
        [
            "'127.0.0.1'",
            "'::1'",
            f"'10.{draw.randint(0, 255)}.0.{draw.randint(0, 255)}'",
            f"'2001:db8::{draw.randint(0, 65535):x}'",
        ]
    ),
    "int": lambda draw: draw.choice([draw.randint(-(2**31), 2**31 - 1), draw.randint(-5, 5)]),
    "smallint": lambda draw: draw.randint(-(2**15), 2**15 - 1),
    "text": _text,
    "time": lambda draw: f"'{draw.randint(0, 23):02d}:{draw.randint(0, 59):02d}:07.{draw.randrange(10**9):09d}'",
    "timestamp": lambda draw: draw.randint(-(2**45), 2**45),
    "timeuuid": lambda draw: uuid.UUID(
        fields=(
            draw.getrandbits(32),
            draw.getrandbits(16),
            0x1000 | draw.getrandbits(12),
            0x80 | draw.getrandbits(6),
            draw.getrandbits(8),
            draw.getrandbits(48),
        )
    ),
    "tinyint": lambda draw: draw.randint(-128, 127),
    "uuid": lambda draw: uuid.UUID(int=draw.getrandbits(128), version=4),
    "varint": lambda draw: draw.choice(["", "-"])
    + str(draw.getrandbits(draw.choice([1, 7, 8, 63, 64, 200]))),
}
NESTED = {
    "frozen<list<int>>": lambda draw: _ints(draw),
    "frozen<set<text>>": lambda draw: _joined(
        {_text(draw) for _ in range(draw.randint(0, 4))}, "{", "}"
    ),
    "frozen<map<int, text>>": lambda draw: _joined(
        [f"{key}: {_text(draw)}" for key in sorted({draw.randint(-9, 9), *_ints(draw, 4)})],
        "{",
        "}",
    ),
    "frozen<tuple<int, text, frozen<list<int>>>>": lambda draw: f"({draw.choice(['null', 7, -7])}, {_text(draw)}, {_ints(draw)})",
    "frozen<outer_>": lambda draw: f"{{a: {draw.randint(-99, 99)}, b: {_inner(draw)}, c: {_ints(draw)}}}",
    "vector<float, 3>": lambda draw: _joined(
        [repr(draw.uniform(-9, 9)) for _ in range(3)], "[", "]"
    ),
    "vector<text, 2>": lambda draw: _joined([_text(draw), _text(draw)], "[", "]"),
}
# For each type of many cells: the kind for `dumped`, a function that draws a literal, and functions
# that draw further assignments, in which `{0}` stands for the column.
CELLS = {
    "list<text>": (
        "list",
        lambda draw: _joined([_text(draw) for _ in range(draw.randint(0, 4))], "[", "]"),
        [
            lambda draw: f"{{0}} = {{0}} + [{_text(draw)}]",
            lambda draw: f"{{0}} = [{_text(draw)}] + {{0}}",
        ],
    ),
    "set<int>": (
        "set",
        lambda draw: _joined(set(_ints(draw)), "{", "}"),
        [
            lambda draw: f"{{0}} = {{0}} + {{{{{draw.randint(0, 9)}, {draw.randint(10, 19)}}}}}",
            lambda draw: f"{{0}} = {{0}} - {{{{{draw.randint(0, 9)}}}}}",
        ],
    ),
    "map<text, bigint>": (
        "map",
        lambda draw: _joined([f"'k{n}': {n}" for n in draw.sample(range(9), 3)], "{", "}"),
        [
            lambda draw: f"{{0}}['k{draw.randint(0, 9)}'] = {draw.randint(0, 10**15)}",
            lambda draw: f"{{0}} = {{0}} - {{{{'k{draw.randint(0, 9)}'}}}}",
            lambda draw: f"{{0}}['k{draw.randint(0, 9)}'] = null",
        ],
    ),
    "outer_": (
        3,
        lambda draw: NESTED["frozen<outer_>"](draw),
        [
            lambda draw: f"{{0}}.a = {draw.randint(0, 99)}",
            lambda draw: f"{{0}}.b = {_inner(draw).replace('{', '{{').replace('}', '}}')}",
            lambda draw: "{0}.c = null",
        ],
    ),
}


class Shape:
    """One table: its columns and types, and statements that write to it.

    Every statement has a timestamp, which mostly rises, so that all nodes end with the same
    content. A TTL is either one second or years.
    """

    def __init__(
        self,
        name,
        draw,
        key,
        clustering=(),
        orders=(),
        static=(),
        regular=(),
        options="",
        keys=12,
        spread=20,
    ):
        self.name, self.draw, self.options, self.clock = (
            f"{KEYSPACE}.{name}",
            draw,
            options,
            1_700_000_000_000_000,
        )
        self.types, self.ranges_at = {}, set()
        groups = []
        for prefix, kinds in (("p", key), ("c", clustering), ("s", static), ("r", regular)):
            names = [f"{prefix}{number:02d}" for number in range(len(kinds))]
            self.types |= dict(zip(names, kinds))
            groups.append(names)
        self.orders = orders or ["ASC"] * len(clustering)
        self.table = Table(
            *groups, {name: CELLS[kind][0] for name, kind in self.types.items() if kind in CELLS}
        )
        self.keys = [[self.literal(name) for name in groups[0]] for _ in range(keys)]
        self.clusterings = (
            [[self.literal(name) for name in groups[1]] for _ in range(spread)]
            if clustering
            else [[]]
        )
        # Clusterings share prefixes, so that deletions of prefixes find rows.
        for row in self.clusterings[1:]:
            if draw.random() < 0.6:
                other, upto = draw.choice(self.clusterings), (
                    draw.randint(0, len(row) - 1) if row else 0
                )
                row[:upto] = other[:upto]
        self.is_compact = "COMPACT STORAGE" in options
        if self.is_compact and len(clustering) > 1:
            # The last values of a clustering are null in some rows.
            for row in self.clusterings[1::3]:
                del row[draw.randint(1, len(row) - 1):]

    def literal(self, name):
        kind = self.types[name]
        made = CELLS[kind][1] if kind in CELLS else (SCALARS | NESTED)[kind]
        literal = str(made(self.draw))
        # A lone partition key must not be empty, nor a lone clustering of a compact table.
        alone = name == "p00" and "p01" not in self.types
        alone |= "COMPACT STORAGE" in self.options and name == "c00" and "c01" not in self.types
        return {"''": "'k'", "0x": "0x00"}.get(literal, literal) if alone else literal

    def create(self):
        # The columns of a compact table without clustering columns are static without `static`.
        statics = [] if self.is_compact else self.table.static
        columns = [
            f"{name} {kind}{' static' if name in statics else ''}"
            for name, kind in self.types.items()
        ]
        key = f"({', '.join(self.table.partition_key)})"
        primary = ", ".join([key, *self.table.clustering])
        options = [self.options] if self.options else []
        if self.table.clustering:
            order = ", ".join(
                f"{name} {order}" for name, order in zip(self.table.clustering, self.orders)
            )
            options.append(f"CLUSTERING ORDER BY ({order})")
        return (f"CREATE TABLE {self.name} ({', '.join(columns)}, PRIMARY KEY ({primary}))"
                + (f" WITH {' AND '.join(options)}" if options else ""))

    def select(self):
        return f"SELECT {', '.join(self.table.columns)} FROM {self.name}"

    def _where(self, key, clustering=()):
        names = [*self.table.partition_key, *self.table.clustering[:len(clustering)]]
        return " AND ".join(f"{name} = {value}" for name, value in zip(names, [*key, *clustering]))

    def _using(self, ttl=True):
        # Some timestamps are in the past, because the order of arrival must not decide which write
        # wins.
        self.clock += 1
        moment = self.clock - (self.draw.randint(1, 200) if self.draw.random() < 0.1 else 0)
        choice = self.draw.random() if ttl else 1
        return f"USING TIMESTAMP {moment}" + (
            " AND TTL 1" if choice < 0.03 else " AND TTL 300000000" if choice < 0.1 else ""
        )

    def _using_once(self):
        """Returns a timestamp that no range deletion has yet.

        If two overlapping ones had the same timestamp and different seconds, the digests of
        Cassandra's own nodes would depend on their flushes.
        """
        using = self._using(False)
        if using in self.ranges_at:
            using = f"USING TIMESTAMP {self.clock}"
        self.ranges_at.add(using)
        return using

    def _assignments(self, names):
        some = self.draw.sample(names, self.draw.randint(1, min(6, len(names))))
        for name in some:
            kind = self.types[name]
            if kind in CELLS and self.draw.random() < 0.7:
                yield self.draw.choice(CELLS[kind][2])(self.draw).format(name)
            else:
                yield f"{name} = {'null' if self.draw.random() < 0.15 else self.literal(name)}"

    def statement(self):
        """Returns a random write."""
        draw, table = self.draw, self.table
        key, clustering = draw.choice(self.keys), draw.choice(self.clusterings)
        choice = draw.random()
        if choice < 0.45 or not (table.regular or table.static):
            names = [name for name in table.regular if draw.random() < 0.8]
            names += [name for name in table.static if draw.random() < 0.3]
            values = [*table.static, *table.regular]
            if self.is_compact and values and not names:
                names = draw.sample(values, 1)
            columns = [*table.partition_key, *table.clustering[:len(clustering)], *names]
            values = [
                *key,
                *clustering,
                *("null" if draw.random() < 0.1 else self.literal(name) for name in names),
            ]
            return (
                f"INSERT INTO {self.name} ({', '.join(columns)}) VALUES ({', '.join(values)}) "
                f"{self._using()}"
            )
        if choice < 0.75:
            on_static = table.static and (not table.regular or draw.random() < 0.25)
            names = table.static if on_static else table.regular
            where = self._where(key, () if on_static and table.clustering else clustering)
            return (
                f"UPDATE {self.name} {self._using()} SET {', '.join(self._assignments(names))} "
                f"WHERE {where}"
            )
        if choice < 0.83:
            on_static = table.static and draw.random() < 0.2
            names = (
                draw.sample(table.static if on_static else table.regular, 1)
                if table.regular
                else []
            )
            where = self._where(key, () if on_static and table.clustering else clustering)
            if len(clustering) < len(table.clustering):
                names = []
            return f"DELETE {', '.join(names)} FROM {self.name} {self._using(False)} WHERE {where}"
        if choice < 0.9 or not table.clustering:
            return (
                f"DELETE FROM {self.name} {self._using(False)} WHERE {self._where(key, clustering)}"
            )
        if choice < 0.91:
            return f"DELETE FROM {self.name} {self._using(False)} WHERE {self._where(key)}"
        # Deletes a range under a prefix of the clustering.
        depth = draw.randrange(len(clustering))
        name, ends = table.clustering[depth], [f"{draw.choice(['>', '>='])} {clustering[depth]}"]
        if draw.random() < 0.6:
            other = draw.choice([row for row in self.clusterings if len(row) > depth])[depth]
            ends.append(f"{draw.choice(['<', '<='])} {other}")
        ranges = " AND ".join(f"{name} {end}" for end in ends)
        return (
            f"DELETE FROM {self.name} {self._using_once()} WHERE "
            f"{self._where(key, clustering[:depth])} AND {ranges}"
        )


def compact_shapes(draw):
    """Returns a compact table of each layout."""
    compact = "COMPACT STORAGE"
    return [
        Shape(
            "compact_static", draw, ["int", "text"], static=[*SCALARS, *NESTED], options=compact
        ),
        Shape("compact_dense", draw, ["int"], ["text"], ["DESC"], regular=["blob"], options=compact),
        Shape(
            "compact_composite",
            draw,
            ["text"],
            ["int", "text", "decimal"],
            ["ASC", "DESC", "ASC"],
            regular=["frozen<outer_>"],
            keys=4,
            spread=60,
            options=compact,
        ),
        Shape("compact_key", draw, ["uuid"], ["blob"], options=compact),
        Shape("compact_keys", draw, ["uuid"], ["text", "bigint"], options=compact),
    ]


def all_shapes(seed):
    """Returns the tables; their contents follow from the seed."""
    draw = random.Random(seed)
    scalars, every = list(SCALARS), [*SCALARS, *NESTED, *CELLS]
    ordered = [kind for kind in scalars if kind != "duration"]
    shapes = [
        Shape(
            "everything",
            draw,
            ["int", "text"],
            ["text", "decimal"],
            ["ASC", "DESC"],
            static=["int", *CELLS, "text"],
            regular=every,
        ),
        Shape(
            "no_clustering",
            draw,
            ["blob"],
            regular=every,
            keys=200,
            options="compression = {'enabled': false}",
        ),
        Shape(
            "deletions",
            draw,
            ["int"],
            ["int", "text", "int"],
            ["ASC", "DESC", "ASC"],
            static=["int"],
            regular=["int", "text"],
            keys=8,
            spread=120,
        ),
        Shape(
            "only_static",
            draw,
            ["uuid"],
            ["timeuuid"],
            ["DESC"],
            static=["text", "set<int>"],
            keys=30,
        ),
        Shape("only_key", draw, ["timestamp", "inet", "boolean"], ["date", "time"], keys=30),
        Shape(
            "small_chunks",
            draw,
            ["ascii"],
            ["bigint"],
            regular=["blob", "list<text>", "map<text, bigint>"],
            options="compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 4}",
            keys=40,
        ),
        Shape(
            "no_filter",
            draw,
            ["bigint"],
            regular=["text"],
            options="bloom_filter_fp_chance = 1.0",
            keys=50,
        ),
    ]
    shapes += compact_shapes(draw)
    for number, kind in enumerate([*ordered, *NESTED]):
        shapes.append(
            Shape(
                f"clustered_by_{number}",
                draw,
                ["int"],
                [kind, "int"],
                [draw.choice(["ASC", "DESC"]), "ASC"],
                regular=["int"],
                keys=3,
                spread=60,
            )
        )
        shapes.append(Shape(f"keyed_by_{number}", draw, [kind], regular=["int"], keys=40))
    return shapes
