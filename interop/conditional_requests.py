"""Draws whole requests for the differential test of conditional statements: single statements,
batches in text and as BATCH requests, reads, and requests that Cassandra refuses."""
import struct

from conditional_statements import (
    ALL,
    ANY,
    LOCAL_SERIAL,
    NULL,
    ONE,
    QUORUM,
    SERIAL,
    SLICES,
    Part,
    Statement,
    Writer,
    join,
)
from conditional_values import UNSET

LOGGED, UNLOGGED, COUNTER = 0, 1, 2
OTHER = "CREATE TABLE {}.other (k int PRIMARY KEY, v int)"
COUNTERS = "CREATE TABLE {}.counters (k int PRIMARY KEY, n counter)"
PLAIN = Part("")


class Requests:
    """Draws requests on one table."""

    def __init__(self, table):
        self.table, self.chance = table, table.chance

    def next(self, partition):
        """Draws a request on this partition."""
        writer = Writer(self.table, partition)
        writer.binds = self.chance.choice([0.0, 0.0, 0.3, 1.0])
        number = self.chance.random()
        for share, draw in ((0.2, self.plain), (0.72, self.conditional), (0.88, self.batch),
                            (0.91, self.read), (1, self.wrong)):
            if number < share:
                drawn = draw(writer)
                break
        statement = drawn if isinstance(drawn, Statement) else Statement([drawn], None, "")
        statement.partition, statement.kind = partition, draw.__name__
        statement.writes = writer.writes
        self.vary(statement)
        return statement

    def applied(self, statement):
        """Records the values that a statement wrote, for later conditions."""
        self.table.written |= statement.writes

    def vary(self, statement):
        """Chooses how the request is sent, which does not change its result."""
        is_plain = statement.kind in ("plain", "read")
        if statement.batch is None:
            statement.is_prepared = self.chance.random() < 0.4
            statement.skips_metadata = self.chance.random() < 0.3
        if statement.consistency == ONE and self.chance.random() < 0.2:
            statement.consistency = self.chance.choice([QUORUM, ALL])
        if statement.serial is None and self.chance.random() < 0.2:
            statement.serial = self.chance.choice([SERIAL, LOCAL_SERIAL])
        # A conditional statement ignores its timestamp.
        if not is_plain and statement.kind != "wrong" and self.chance.random() < 0.1:
            statement.timestamp = self.chance.randint(1, 1000)

    def plain(self, writer):
        return writer.plain()

    def conditional(self, writer):
        return writer.conditional()

    def read(self, writer):
        part = f"SELECT * FROM {self.table.name}" + writer.where()
        consistency = self.chance.choice([SERIAL, LOCAL_SERIAL])
        return Statement([part], None, "", consistency=consistency)

    # Batches.

    def batch(self, writer):
        """Draws a batch on one partition with at least one condition."""
        count = self.chance.choice([1, 2, 2, 3, 3, 4, 6])
        rows = [self.table.row() for _ in range(2)]
        kinds, parts, writer.may_fail = {}, [], count == 1
        for at in range(count):
            row = self.chance.choice([*rows, self.table.row()])
            if at and self.chance.random() < 0.65:
                parts.append(self.unconditional(writer, row))
                continue
            # Cassandra refuses different kinds of conditions on one row, so most are of one kind.
            name = tuple(value.literal for value in row)
            kind = kinds.setdefault(name, self.chance.choice(["exists", "absent", "columns"]))
            parts.append(writer.conditional(row, kind if self.chance.random() < 0.85 else None))
        self.chance.shuffle(parts)
        return self.as_batch(parts)

    def unconditional(self, writer, row):
        """Draws a write without a condition for a batch; half of these writes are to `row`."""
        # Cassandra reads a list only in rows that have a condition; our node reads it in each row.
        writer.reads_row = False
        part = self.unconditional_part(writer, row)
        writer.reads_row = True
        return part

    def unconditional_part(self, writer, row):
        number = self.chance.random()
        if number < 0.25:
            # Repeated appends to a list must keep the order of the statements.
            lists = [column for column in self.table.regular
                     if column.type.kind == "list" and column.type.is_multi_cell]
            return writer.update(PLAIN, lists or self.table.regular, row, False)
        if number < 0.5:
            return writer.update(PLAIN, self.table.regular, row, False)
        return writer.plain()

    def as_batch(self, parts, options=""):
        """Returns a batch as text or, if it has no options, sometimes as a BATCH request."""
        kind = self.chance.choice([LOGGED, LOGGED, UNLOGGED])
        if not options and self.chance.random() < 0.4:
            is_prepared = self.chance.random() < 0.5
            return Statement(parts, None, "", batch=kind, is_prepared=is_prepared)
        word = "UNLOGGED BATCH" if kind == UNLOGGED else "BATCH"
        part = f"BEGIN {word}{options} " + join("; ", parts) + "; APPLY BATCH"
        return Statement([part], None, "")

    # Requests with a fault.

    def wrong(self, writer):
        """Draws a request that Cassandra mostly refuses."""
        writer.may_fail = False
        faults = [self.key_condition, self.unknown_column, self.timestamp, self.many_keys,
                  self.missing_keys, self.range_with_condition, self.null_keys, self.wrong_type,
                  self.wrong_access, self.wrong_consistency, self.wrong_ttl, self.wrong_values,
                  self.not_on_this_table, self.wrong_batch, self.wrong_batch, self.mixed_batch,
                  self.slice_of_durations, self.static_with_row]
        return self.chance.choice(faults)(writer)

    def update(self, writer, suffix, using="", where=None):
        """Returns an UPDATE of one column with this suffix."""
        column = self.chance.choice(self.table.regular)
        where = writer.where(self.table.row()) if where is None else where
        value = writer.term(column.type.draw(self.chance))
        return (f"UPDATE {self.table.name}{using} SET {column.name} = " + value
                + where + " IF " + suffix)

    def key_condition(self, writer):
        column = self.chance.choice([*self.table.partition_key, *self.table.clustering])
        return self.update(writer, f"{column.name} = " + writer.term(column.type.draw(self.chance)))

    def unknown_column(self, writer):
        name = self.chance.choice(["nosuch", "nosuch.a", "nosuch[0]", "V0"])
        return self.update(writer, f"{name} = 1")

    def timestamp(self, writer):
        suffix = self.chance.choice(["EXISTS", self.table.regular[0].name + " = null"])
        return self.update(writer, suffix, using=" USING TIMESTAMP 5")

    def many_keys(self, writer):
        """Draws a statement with an IN of at most two values for one column of the key."""
        table, row = self.table, self.table.row()
        keys = list(zip([*table.partition_key, *table.clustering], [*writer.partition, *row]))
        at = self.chance.randrange(len(keys))
        conditions = []
        for number, (column, value) in enumerate(keys):
            if number == at:
                others = [value, column.type.draw(self.chance)][:self.chance.randint(0, 2)]
                conditions.append(f"{column.name} IN ("
                                  + join(", ", map(writer.term, others)) + ")")
            else:
                conditions.append(f"{column.name} = " + writer.term(value))
        where = " WHERE " + join(" AND ", conditions)
        if self.chance.random() < 0.3:
            return f"DELETE FROM {table.name}" + where + " IF EXISTS"
        return self.update(writer, "EXISTS", where=where)

    def missing_keys(self, writer):
        row = self.table.row()
        kept = row[:self.chance.randrange(len(row))] if row else []
        where = writer.where(kept)
        number = self.chance.random()
        if number < 0.3:
            return self.update(writer, "EXISTS", where=where)
        if number < 0.6:
            return f"DELETE FROM {self.table.name}" + where + " IF EXISTS"
        names = [column.name for column in self.table.clustering[:len(kept)]]
        names = [column.name for column in self.table.partition_key] + names
        values = join(", ", map(writer.term, [*writer.partition, *kept]))
        regular = self.table.regular[0]
        return (f"INSERT INTO {self.table.name} ({', '.join(names)}, {regular.name}) VALUES ("
                + values + ", " + writer.term(regular.type.draw(self.chance)) + ") IF NOT EXISTS")

    def range_with_condition(self, writer):
        if not self.table.clustering:
            return self.update(writer, "EXISTS")
        suffix = self.chance.choice([" IF EXISTS", f" IF {self.table.columns[0].name} = null"])
        if self.chance.random() < 0.3:
            return f"DELETE FROM {self.table.name}" + writer.where() + suffix
        return writer.range_deletion(self.table.row()) + suffix

    def null_keys(self, writer):
        keys = [*self.table.partition_key, *self.table.clustering]
        values = [*map(writer.term, [*writer.partition, *self.table.row()])]
        at = self.chance.randrange(len(values))
        values[at] = writer.term(NULL) if self.chance.random() < 0.7 else Part("?", [UNSET])
        names = ", ".join(column.name for column in keys)
        return (f"INSERT INTO {self.table.name} ({names}) VALUES (" + join(", ", values)
                + ") IF NOT EXISTS")

    def wrong_type(self, writer):
        name = self.chance.choice(self.table.columns).name
        value = self.chance.choice(["'x'", "1", "1.5", "[1]", "{1}", "{'a': 'b'}", "(1, 2)", "0x00",
                                    "true", "{a: 1}", "{nosuch: 1}", "[null]", "nosuch(1)", "1d"])
        operator = self.chance.choice(["=", "<", "IN"])
        return self.update(writer, f"{name} {operator} " + ("(%s)" if operator == "IN" else "%s")
                           % value)

    def wrong_access(self, writer):
        column = self.chance.choice([*self.table.columns, *self.table.partition_key])
        form = self.chance.choice(["{}[0] = 1", "{}['a'] = 1", "{}.nosuch = 1", "{} CONTAINS 1",
                                   "{} CONTAINS KEY 'a'", "{} CONTAINS KEY 1", "{}[-1] = null",
                                   "{} CONTAINS 'a'"])
        return self.update(writer, form.format(column.name))

    def wrong_consistency(self, writer):
        serial, consistency = self.chance.choice(
            [(ONE, ONE), (QUORUM, ONE), (None, SERIAL), (None, LOCAL_SERIAL), (ANY, QUORUM),
             (ONE, SERIAL), (None, ANY)])
        # With ANY, Cassandra answers a conditional statement before its write can be read.
        draws = [writer.plain] if consistency == ANY else [writer.plain, writer.conditional]
        part = self.chance.choice(draws)()
        statement = Statement([part], None, "", consistency=consistency, serial=serial)
        if self.chance.random() < 0.3:
            statement.batch = LOGGED
        return statement

    def wrong_ttl(self, writer):
        using = self.chance.choice([" USING TTL -1", " USING TTL 630720001", " USING TTL null"])
        return self.update(writer, "EXISTS", using=using)

    def wrong_values(self, writer):
        """Draws bound values of a wrong size or number."""
        name = self.chance.choice(self.table.columns).name
        value = self.chance.choice([b"", b"\1", b"\0\0\0\1\2", b"\0" * 8, struct.pack(">i", -1)])
        part = self.update(writer, f"{name} = " + Part("?", [value]))
        if self.chance.random() < 0.3:
            part.values = part.values[:-1] if self.chance.random() < 0.5 else part.values + [b""]
        return part

    def not_on_this_table(self, writer):
        keyspace = self.table.keyspace
        return Part(self.chance.choice([
            f"UPDATE {keyspace}.counters SET n = n + 1 WHERE k = 1 IF EXISTS",
            f"UPDATE {keyspace}.counters SET n = n + 1 WHERE k = 1 IF n = 1",
            f"DELETE FROM {keyspace}.counters WHERE k = 1 IF EXISTS",
            f"UPDATE {keyspace}.nosuch SET v = 1 WHERE k = 1 IF v = 1",
            "UPDATE nosuch.t SET v = 1 WHERE k = 1 IF v = 1",
            "UPDATE system_views.settings SET value = 'x' WHERE name = 'y' IF EXISTS",
        ]))

    def wrong_batch(self, writer):
        """Draws a batch with a statement or an option that Cassandra mostly refuses in it."""
        table, one = self.table, self.update(writer, "EXISTS")
        other = Writer(table, self.chance.choice(table.partitions))
        keyspace = table.keyspace
        options, added = self.chance.choice([
            ("", other.conditional()), ("", other.plain()), (" USING TIMESTAMP 5", writer.plain()),
            (" USING TTL 5", writer.plain()), ("", self.many_keys(writer)),
            ("", self.missing_keys(writer)), ("", self.range_with_condition(writer)),
            ("", Part(f"INSERT INTO {keyspace}.other (k, v) VALUES (1, 1)")),
            ("", Part(f"INSERT INTO {keyspace}.other (k, v) VALUES (1, 1) IF NOT EXISTS")),
            ("", Part(f"UPDATE {keyspace}.counters SET n = n + 1 WHERE k = 1")),
            ("", self.null_keys(writer)), ("", self.timestamp(writer)),
        ])
        parts = [one, added] if self.chance.random() < 0.5 else [added, one]
        return self.as_batch(parts, options)

    def mixed_batch(self, writer):
        """Draws a batch with different kinds of conditions on one row."""
        row = self.table.row()
        suffixes = [" IF EXISTS", writer.conditions(self.table.regular), " IF NOT EXISTS"]
        parts = []
        for suffix in self.chance.sample(suffixes, 2):
            if suffix == " IF NOT EXISTS":
                parts.append(writer.insert(Part(suffix), self.table.columns, row))
            else:
                suffix = suffix if isinstance(suffix, Part) else Part(suffix)
                parts.append(writer.update(suffix, self.table.regular, row, True))
        return self.as_batch(parts)

    def slice_of_durations(self, writer):
        columns = [column for column in self.table.columns if not writer.has_order(column.type)]
        if not columns:
            return self.key_condition(writer)
        column = self.chance.choice(columns)
        value = writer.term(column.type.draw(self.chance, False))
        return self.update(writer, f"{column.name} {self.chance.choice(SLICES)} " + value)

    def static_with_row(self, writer):
        """Draws a write to only static columns whose WHERE names a row."""
        if not self.table.static:
            return self.key_condition(writer)
        suffix = self.chance.choice([Part(" IF EXISTS"), writer.conditions(self.table.static)])
        if self.chance.random() < 0.5:
            return writer.update(suffix, self.table.static, self.table.row(), True)
        return writer.delete(suffix, self.table.static, self.table.row())
