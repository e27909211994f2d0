#!/usr/bin/env python3
"""Records a real Cassandra's answers to the expressions of testdata/cql/functions.txt.

    pip install cassandra-driver
    generate.py FILE [PORT]

Rewrites FILE in place: lines `expression` or `expression | type | result` get new results.
Comments, blank lines and lines that begin with two spaces (deliberate differences) stay. `column :=
term` stands for an INSERT and a SELECT of the column, `column := JSON ...` for an INSERT JSON.
crates/cql/tests/all/functions.rs makes the table with the same statements.
"""
import re
import sys

import cassandra.protocol as protocol
from cassandra.cluster import Cluster
from cassandra.protocol import ResultMessage, _ProtocolHandler

SETUP = [
    "CREATE KEYSPACE IF NOT EXISTS functions WITH replication = {'class': 'SimpleStrategy', "
    "'replication_factor': 1}",
    "CREATE TABLE IF NOT EXISTS functions.one (k int PRIMARY KEY, i int, ti tinyint, bi bigint, d "
    "double, dec decimal, "
    "vi varint, t text, b blob, ts timestamp, l list<int>, s set<int>, m map<text, int>, v "
    "vector<float, 3>, nothing int)",
    "INSERT INTO functions.one (k, i, ti, bi, d, dec, vi, t, b, ts, l, s, m, v) VALUES (0, 1, 1, "
    "2, 1.5, 2.50, 300, "
    "'abc', 0x616263, '2020-01-02T03:04:05.678Z', [3, 1, 2], {1, 2, 3}, {'a': 1, 'b': 2}, [1, 2, "
    "3])",
]


class RawResult(ResultMessage):
    """Keeps values as the bytes that were received."""

    def recv_results_rows(
        self, f, protocol_version, user_type_map, result_metadata, column_encryption_policy
    ):
        self.recv_results_metadata(f, user_type_map)
        metadata = self.column_metadata or result_metadata
        count = protocol.read_int(f)
        self.parsed_rows = [self.recv_row(f, len(metadata)) for _ in range(count)]
        self.column_names = [column[2] for column in metadata]
        self.column_types = [column[3] for column in metadata]


class RawHandler(_ProtocolHandler):
    message_types_by_opcode = dict(_ProtocolHandler.message_types_by_opcode)
    message_types_by_opcode[RawResult.opcode] = RawResult


def type_name(column_type):
    name = column_type.cql_parameterized_type()
    name = name.replace("org.apache.cassandra.db.marshal.VectorType", "vector").replace(
        "varchar", "text"
    )
    name = name.replace("'org.apache.cassandra.db.marshal.LegacyTimeUUIDType'", "timeuuid")
    return re.sub(r"frozen<(.*)>", r"\1", name)


def answer(session, expression):
    try:
        assigned = re.match(r"(\w+) := (.*)", expression)
        if assigned:
            column, term = assigned.groups()
            values = term if term.startswith("JSON ") else f"(k, {column}) VALUES (1, {term})"
            session.execute(f"INSERT INTO functions.one {values}")
            result = session.execute(f"SELECT {column} FROM functions.one WHERE k = 1")
        else:
            result = session.execute(f"SELECT {expression} FROM functions.one WHERE k = 0")
    except Exception as error:  # every error of the server is an answer
        errors = list(getattr(error, "errors", {}).values()) or [error]
        code = re.search(r"code=([0-9a-fA-F]{4})", str(errors[0]))
        if not code and type(error).__name__ == "SyntaxException":
            return "error 0x2000"
        return f"error 0x{code.group(1)}" if code else f"error {error}"
    column_type = result.column_types[0]
    value = list(result)[0][0]
    if value is None:
        return f"{type_name(column_type)} | null"
    try:
        printed = str(column_type.deserialize(value, 5)) if value else "empty"
    except Exception:
        printed = "?"
    return f"{type_name(column_type)} | 0x{value.hex()} | {printed}".replace("\n", " ")


def main():
    path, port = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 9042
    cluster = Cluster(["127.0.0.1"], port=port, protocol_version=5)
    session = cluster.connect()
    session.client_protocol_handler = RawHandler
    session.row_factory = lambda names, rows: rows
    for statement in SETUP:
        session.execute(statement)
    lines = []
    for line in open(path, encoding="utf-8").read().splitlines():
        if line and not line.startswith(("#", "  ")):
            expression = line.split(" | ")[0]
            line = f"{expression} | {answer(session, expression)}"
        lines.append(line)
    with open(path, "w", encoding="utf-8") as out:
        out.write("\n".join(lines) + "\n")
    cluster.shutdown()


main()
