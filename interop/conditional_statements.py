"""Draws tables and statements for the differential test of conditional statements.

A statement has at most one fault. Cassandra checks the conditions of a row in no fixed order, so a
condition whose evaluation fails is the only condition on its row.
"""
import re
import struct
from dataclasses import dataclass, field

from conditional_values import (
    EMPTY,
    KEYS,
    NULL,
    POOLS,
    UNSET,
    Value,
    collection,
    draw_type,
    scalar,
)

ANY, ONE, QUORUM, ALL, SERIAL, LOCAL_SERIAL = 0, 1, 4, 5, 8, 9
OPERATORS = ["=", "=", "=", "!=", "<", "<=", ">", ">="]
SLICES = ["<", "<=", ">", ">="]
TTLS = [100_000_000, 200_000_000, 300_000_000]
# Columns that are neither static nor part of the key.
REGULAR_COLUMN = re.compile(r"\bv\d")
NUMBERS = {"int", "bigint", "smallint", "tinyint", "varint"}


@dataclass
class Part:
    """A piece of a statement with the values of its markers, in their order."""

    text: str
    values: list = field(default_factory=list)

    def __add__(self, other):
        other = other if isinstance(other, Part) else Part(other)
        return Part(self.text + other.text, self.values + other.values)

    def __radd__(self, text):
        return Part(text) + self


def join(separator, parts):
    parts = list(parts)
    values = [value for part in parts for value in part.values]
    return Part(separator.join(part.text for part in parts), values)


@dataclass
class Statement:
    """One request: a statement, or several that a BATCH request holds."""

    parts: list
    partition: object
    kind: str
    is_prepared: bool = False
    batch: int | None = None  # the type of a BATCH request
    consistency: int = ONE
    serial: int | None = None
    timestamp: int | None = None
    skips_metadata: bool = False
    writes: dict = field(default_factory=dict)  # what it writes, if it is applied

    def __str__(self):
        lines = []
        for part in self.parts:
            values = [value if value in (None, UNSET) else "0x" + value.hex()
                      for value in part.values]
            lines.append(part.text + (f"  <- {values}" if values else ""))
        notes = ["prepared"] * self.is_prepared + ["skips metadata"] * self.skips_metadata
        notes += [f"BATCH request {self.batch}"] * (self.batch is not None)
        notes += [f"consistency {self.consistency}"] * (self.consistency != ONE)
        notes += [f"serial consistency {self.serial}"] * (self.serial is not None)
        notes += [f"timestamp {self.timestamp}"] * (self.timestamp is not None)
        return "\n    ".join(lines) + (f"  ({', '.join(notes)})" if notes else "")


@dataclass
class Column:
    name: str
    type: object
    is_static: bool = False


class Table:
    """A random table with few keys."""

    def __init__(self, chance, keyspace, name):
        self.chance, self.name, self.keyspace = chance, f"{keyspace}.{name}", keyspace

        def key(prefix, count):
            kinds = ["int", "text"] if chance.random() < 0.6 else KEYS
            return [Column(f"{prefix}{n}", scalar(chance.choice(kinds))) for n in range(count)]

        self.partition_key = key("k", chance.choice([1, 1, 2]))
        self.clustering = key("c", chance.choice([0, 1, 1, 2, 2, 3]))
        self.orders = [chance.choice(["ASC", "DESC"]) for _ in self.clustering]
        statics = chance.choice([0, 1, 2, 3]) if self.clustering else 0
        self.static = [Column(f"s{n}", draw_type(chance, keyspace), True) for n in range(statics)]
        count = chance.choice([1, 3, 5, 8])
        self.regular = [Column(f"v{n}", draw_type(chance, keyspace)) for n in range(count)]
        # The value that the last applied statement wrote, by partition, row and column. Deletions
        # do not change it.
        self.written = {}
        self.partitions = []
        while len(self.partitions) < 5:
            drawn = [self._key_value(column) for column in self.partition_key]
            if drawn not in self.partitions:
                self.partitions.append(drawn)
            elif chance.random() < 0.2:
                break

    @property
    def columns(self):
        return [*self.static, *self.regular]

    def _key_value(self, column):
        # A lone partition key must not be empty.
        pool = POOLS[column.type.name]
        return self.chance.choice([value for value in pool if value.data] or pool)

    def row(self):
        """Draws the clustering of a row."""
        most = 3 if len(self.clustering) < 2 else 2
        return [self.chance.choice(POOLS[column.type.name][:most]) for column in self.clustering]

    def create(self):
        names = [f"{column.name} {column.type.name}{' static' * column.is_static}"
                 for column in [*self.partition_key, *self.clustering, *self.columns]]
        partition = ", ".join(column.name for column in self.partition_key)
        key = ", ".join([f"({partition})", *(column.name for column in self.clustering)])
        order = ", ".join(f"{column.name} {order}"
                          for column, order in zip(self.clustering, self.orders))
        suffix = f" WITH CLUSTERING ORDER BY ({order})" if order else ""
        return f"CREATE TABLE {self.name} ({', '.join(names)}, PRIMARY KEY ({key})){suffix}"


class Writer:
    """Draws the pieces of statements on one partition."""

    def __init__(self, table, partition):
        self.table, self.chance, self.partition = table, table.chance, partition
        self.binds, self.place, self.writes, self.may_fail = 0.0, None, {}, True
        # True if a write may need the stored row.
        self.reads_row = True

    def go_to(self, row):
        """Sets the row that the next pieces are about; None is the static row."""
        names = [value.literal for value in [*self.partition, *(row or [])]]
        self.place = (row is None, *names)

    def write(self, column):
        """Draws a value to write, and records it for later conditions."""
        part = self.value(column.type)
        self.writes[self.place, column.name] = part
        return part

    def likely_condition(self, column):
        """Draws a condition that holds if the row is as the last statements left it; often returns
        None."""
        current, number = self.table.written.get((self.place, column.name)), self.chance.random()
        if number < 0.35 or current and UNSET in current.values:
            return None
        if current is None:
            return Part(f"{column.name} = null") if number < 0.6 else None
        if number < 0.9:
            return f"{column.name} = " + current
        other = self.term(column.type.draw(self.chance))
        return f"{column.name} IN (" + join(", ", [other, current]) + ")"

    def term(self, value):
        """Returns the value as a literal or as a marker."""
        if self.chance.random() < self.binds:
            return Part("?", [value.data])
        return Part(value.literal)

    def value(self, type):
        """Draws a value to write, rarely null, unset or empty."""
        number = self.chance.random()
        if number < 0.1:
            return self.term(NULL)
        if self.binds and number < 0.14:
            return Part("?", [UNSET])
        if self.binds and number < 0.15 and type.kind == "scalar" and type.name not in NUMBERS:
            return Part("?", [EMPTY])
        return self.term(type.draw(self.chance))

    def element(self, type):
        return self.term(self.chance.choice(POOLS[type.parts[0].name]))

    def equal(self, columns, values):
        return join(" AND ", (f"{column.name} = " + self.term(value)
                              for column, value in zip(columns, values)))

    def where(self, row=None):
        """Returns the WHERE of a row or, without a row, of the partition."""
        conditions = [self.equal(self.table.partition_key, self.partition)]
        if row:
            if len(row) > 1 and self.chance.random() < 0.05:
                names = ", ".join(column.name for column in self.table.clustering)
                conditions.append(f"({names}) = (" + join(", ", map(self.term, row)) + ")")
            else:
                conditions.append(self.equal(self.table.clustering, row))
        return " WHERE " + join(" AND ", conditions)

    # Conditions.

    def condition(self, column):
        """Draws a condition that Cassandra evaluates without an error."""
        likely = self.likely_condition(column)
        if likely:
            return likely
        type, name, number = column.type, column.name, self.chance.random()
        if type.kind in ("list", "map") and number < 0.4:
            key = self.index(type) if type.kind == "list" else self.element(type)
            return f"{name}[" + key + "]" + self.of_element(type)
        if type.kind == "udt" and number < 0.4:
            at = self.chance.randrange(len(type.parts))
            return f"{name}.{type.names[at]}" + self.comparison(type.parts[at], True)
        if type.kind in ("list", "set", "map") and number < 0.65:
            is_key = type.kind == "map" and self.chance.random() < 0.5
            part = type.parts[0 if is_key else -1]
            word = "CONTAINS KEY" if is_key else "CONTAINS"
            return f"{name} {word} " + self.term(self.chance.choice(POOLS[part.name]))
        return name + self.comparison(type, self.has_order(type))

    def of_element(self, type):
        """Draws the comparison of an element. By a fault, Cassandra compares values of maps by the
        type of the keys. If the types differ, a value is therefore compared only for equality, and
        only with null unless the keys are text or blob."""
        part = type.parts[-1]
        if type.kind == "list" or part.name == type.parts[0].name:
            return self.comparison(part, self.has_order(part))
        if type.parts[0].name not in ("text", "blob"):
            return f" {self.chance.choice(['=', '!='])} " + self.term(NULL)
        values = [self.term(self.chance.choice(POOLS[part.name])) for _ in range(2)]
        if self.chance.random() < 0.3:
            return " IN (" + join(", ", values) + ")"
        return f" {self.chance.choice(['=', '!='])} " + values[0]

    @staticmethod
    def has_order(type):
        return all(part.name != "duration" for part in [type, *type.parts])

    def index(self, type):
        return self.term(POOLS["int"][self.chance.choice([1, 1, 2, 3])])

    def comparison(self, type, has_order):
        """Draws an operator with its values."""
        if self.chance.random() < 0.2:
            return self.choices(type)
        operator = self.chance.choice(OPERATORS if has_order else ["=", "!="])
        if operator not in SLICES and self.chance.random() < 0.2:
            return f" {operator} " + self.term(NULL)
        may_be_empty = operator not in SLICES or type.is_frozen
        return f" {operator} " + self.term(type.draw(self.chance, may_be_empty))

    def choices(self, type):
        """Draws the values of an IN: terms, or one marker for the list."""
        count = self.chance.choice([0, 1, 2, 2, 3])
        values = [NULL if self.chance.random() < 0.2 else type.draw(self.chance)
                  for _ in range(count)]
        if self.binds and self.chance.random() < 0.4:
            values = [value for value in values if value is not NULL]
            values = collection("list", [type], True).make([[value] for value in values])
            return Part(" IN ?", [values.data])
        terms = [self.term(value) for value in values]
        if self.binds and self.chance.random() < 0.1:
            terms.append(Part("?", [UNSET]))
        return " IN (" + join(", ", terms) + ")"

    def conditions(self, columns):
        """Draws IF with one or several conditions on these columns."""
        if self.may_fail and self.chance.random() < 0.05:
            return " IF " + self.failing_condition(self.chance.choice(columns))
        count = self.chance.choice([1, 1, 1, 1, 1, 2, 2, 3])
        drawn = [self.condition(self.chance.choice(columns)) for _ in range(count)]
        return " IF " + join(" AND ", drawn)

    def failing_condition(self, column):
        """Draws a condition whose values Cassandra mostly refuses on execution."""
        type, name = column.type, column.name
        faults = [name + " " + self.chance.choice(SLICES) + " " + self.term(NULL),
                  name + Part(" = ?", [UNSET]), name + Part(" IN ?", [UNSET]),
                  name + Part(" IN ?", [None]), name + Part(" != ?", [b"\1\2\3"])]
        if type.kind in ("list", "set", "map"):
            empty = "[]" if type.kind == "list" else "{}"
            faults += [name + Part(f" {self.chance.choice(SLICES)} {empty}"),
                       name + " CONTAINS " + self.term(NULL)]
            if type.is_frozen:
                # Cassandra refuses this for a multi-cell column only if that has a cell.
                faults.append(name + Part(" CONTAINS ?", [UNSET]))
        if type.kind == "map":
            faults += [f"{name}[" + self.term(NULL) + "] = " + self.term(NULL),
                       name + " CONTAINS KEY " + self.term(NULL)]
        if type.kind == "list":
            faults += [f"{name}[" + self.term(NULL) + "] = null",
                       f"{name}[" + self.term(POOLS["int"][0]) + "] = null"]
        if type.kind == "udt":
            faults += [f"{name}.a >= " + self.term(NULL), name + Part(".a = ?", [UNSET])]
        return self.chance.choice(faults)

    # Writes.

    def assignment(self, column, is_conditional):
        """Draws one assignment of an UPDATE."""
        type, name = column.type, column.name
        choices = [f"{name} = " + self.write(column)] * 3
        may_add = is_conditional and self.reads_row
        if type.kind == "scalar" and may_add and type.name in NUMBERS | {"text", "ascii"}:
            one = POOLS[type.name][2]
            choices.append(f"{name} = {name} + " + self.term(one))
            choices.append(f"{name} += " + self.term(one))
        if type.is_multi_cell:
            choices += self.cell_assignments(name, type)
        return self.chance.choice(choices)

    def cell_assignments(self, name, type):
        whole = type.draw(self.chance)
        if type.kind == "udt":
            at = self.chance.randrange(len(type.parts))
            return [f"{name}.{type.names[at]} = " + self.value(type.parts[at])] * 3
        if type.kind == "set":
            return [f"{name} = {name} {sign} " + self.term(whole) for sign in "+-"] * 2
        if type.kind == "list":
            added = [f"{name} = {name} + " + self.term(whole), f"{name} += " + self.term(whole),
                     f"{name} = " + self.term(whole) + f" + {name}"]
            if not self.reads_row:
                return added
            return [*added, f"{name} = {name} - " + self.term(whole),
                    f"{name}[" + self.index(type) + "] = " + self.value(type.parts[0])]
        keys = collection("set", type.parts[:1], True).draw(self.chance, False)
        return [f"{name} = {name} + " + self.term(whole), f"{name} = {name} - " + self.term(keys),
                f"{name}[" + self.element(type) + "] = " + self.value(type.parts[1])]

    def ttl(self):
        if self.chance.random() > 0.1:
            return Part("")
        ttl = self.chance.choice(TTLS)
        return " USING TTL " + self.term(Value(str(ttl), struct.pack(">i", ttl)))

    def insert(self, suffix, columns, row):
        """Draws an INSERT with some of these columns."""
        self.go_to(row)
        chosen = self.chance.sample(columns, self.chance.randint(0, min(4, len(columns))))
        names = [*self.table.partition_key, *(self.table.clustering if row else []), *chosen]
        values = [*map(self.term, [*self.partition, *(row or [])])]
        if self.chance.random() < 0.1:
            made = self.json(names, [*self.partition, *(row or [])], chosen)
            if made:
                return f"INSERT INTO {self.table.name} JSON " + made + suffix + self.ttl()
        values += [self.write(column) for column in chosen]
        listed = ", ".join(column.name for column in names)
        return (f"INSERT INTO {self.table.name} ({listed}) VALUES (" + join(", ", values) + ")"
                + suffix + self.ttl())

    def json(self, names, keys, chosen):
        """Returns a row as JSON; None if one of the values has no JSON form."""
        values = [*keys, *(column.type.draw(self.chance) for column in chosen)]
        if any(value.json is None for value in values):
            return None
        pairs = [f'"{column.name}": {value.json}' for column, value in zip(names, values)]
        text = "{" + ", ".join(pairs) + "}"
        suffix = self.chance.choice(["", " DEFAULT UNSET", " DEFAULT NULL"])
        return self.term(Value(f"'{text}'", text.encode())) + suffix

    def update(self, suffix, columns, row, is_conditional):
        self.go_to(row)
        count = self.chance.choice([1, 1, 2, 3])
        chosen = self.chance.sample(columns, min(count, len(columns)))
        assignments = join(", ", (self.assignment(column, is_conditional) for column in chosen))
        return (f"UPDATE {self.table.name}" + self.ttl() + " SET " + assignments
                + self.where(row) + suffix)

    def deleted(self, columns):
        """Draws the columns and elements of a DELETE."""
        names = []
        for column in self.chance.sample(columns, min(len(columns), self.chance.choice([1, 1, 2]))):
            type, name = column.type, Part(column.name)
            is_whole = type.kind == "list" and not self.reads_row
            if type.is_multi_cell and not is_whole and self.chance.random() < 0.6:
                if type.kind == "udt":
                    name += "." + self.chance.choice(type.names)
                else:
                    key = self.index(type) if type.kind == "list" else self.element(type)
                    name += "[" + key + "]"
            names.append(name)
        return join(", ", names)

    def delete(self, suffix, columns, row):
        names = self.deleted(columns) + " " if columns else Part("")
        return "DELETE " + names + f"FROM {self.table.name}" + self.where(row) + suffix

    # Whole statements.

    def plain(self):
        """Draws a write without conditions, rarely of a range or of the partition."""
        table, row, number = self.table, self.table.row(), self.chance.random()
        if number < 0.08:
            return self.delete(Part(""), [], None)
        if number < 0.16 and row:
            return self.range_deletion(row)
        if number < 0.3 and table.static:
            return self.static(None)
        if number < 0.6:
            return self.insert(Part(""), table.columns, row)
        if number < 0.8:
            return self.update(Part(""), table.columns if row else table.regular, row, False)
        columns = table.regular if self.chance.random() < 0.3 else []
        return self.delete(Part(""), columns, row)

    def range_deletion(self, row):
        depth = self.chance.randrange(len(row))
        clustering = self.table.clustering
        where = self.where(None)
        if depth:
            where += " AND " + self.equal(clustering[:depth], row[:depth])
        where += f" AND {clustering[depth].name} {self.chance.choice(SLICES)} "
        return f"DELETE FROM {self.table.name}" + where + self.term(row[depth])

    def static(self, suffix):
        """Draws a write to only static columns; with a suffix of None it has no conditions."""
        is_conditional = suffix is not None
        statics, suffix = self.table.static, suffix or Part("")
        if self.chance.random() < 0.75:
            return self.update(suffix, statics, None, is_conditional)
        return self.delete(suffix, statics, None)

    def suffix(self, columns, kind):
        """Returns IF of this kind: `exists`, `columns`, or None for any."""
        if kind == "exists" or kind is None and self.chance.random() < 0.2:
            return Part(" IF EXISTS")
        return self.conditions(columns)

    def conditional(self, row=None, kind=None):
        """Draws a conditional INSERT, UPDATE or DELETE.

        A `kind` other than None (`exists`, `absent` or `columns`) says which condition the row has.
        """
        table, number = self.table, self.chance.random()
        row = table.row() if row is None else row
        if table.static and kind is None and number < 0.2:
            self.go_to(None)
            if number < 0.04:
                count = self.chance.randint(1, len(table.static))
                return self.static_insert(self.chance.sample(table.static, count))
            return self.static(self.suffix(table.static, None))
        if kind == "absent" or kind is None and number < 0.25:
            return self.insert(Part(" IF NOT EXISTS"), table.columns, row)
        self.go_to(row)
        columns = table.regular
        if self.chance.random() < 0.4:
            columns = table.columns
        suffix = self.suffix(columns, kind)
        # If all conditions are on static columns, Cassandra reads only the first row of the
        # partition. For another row it then adds nothing to a value, and uses the first row's list.
        self.reads_row = "EXISTS" in suffix.text or bool(REGULAR_COLUMN.search(suffix.text))
        if self.chance.random() < 0.65:
            # Cassandra refuses a WHERE with a row if all writes and conditions are on statics.
            columns = table.regular if self.chance.random() < 0.8 else table.columns
            part = self.update(suffix, columns, row, True)
        else:
            columns = table.regular if self.chance.random() < 0.3 else []
            part = self.delete(suffix, columns, row)
        self.reads_row = True
        return part

    def static_insert(self, statics):
        self.go_to(None)
        names = [*self.table.partition_key, *statics]
        values = [*map(self.term, self.partition), *map(self.write, statics)]
        listed = ", ".join(column.name for column in names)
        return (f"INSERT INTO {self.table.name} ({listed}) VALUES (" + join(", ", values)
                + ") IF NOT EXISTS" + self.ttl())
