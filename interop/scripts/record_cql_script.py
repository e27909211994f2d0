"""Records Cassandra's answers in scripts of testdata/cql_scripts.

    python record_cql_script.py PORT FILE...

The Cassandra node on PORT executes each line that begins with `> `. Comments and empty lines are
kept, and all other lines are replaced by the answers, in the form that the test `scripts` of
crates/cql reads. The recorder first drops the keyspaces that a script creates.
"""
import pathlib
import re
import sys
from types import SimpleNamespace

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import wire  # noqa: E402
from answers import CODES, Reader, rows  # noqa: E402


def answer(connection, statement):
    """Returns the lines of the answer to a statement."""
    found = connection.query(statement)
    if found.opcode == wire.ERROR:
        return [f"{CODES[found.code]}: {found.message}"]
    reader = Reader(found.body)
    kind = reader.number()
    if kind == wire.VOID:
        return ["ok"]
    if kind == wire.ROWS:
        return rows(reader)
    if kind == wire.SET_KEYSPACE:
        return [f"use {reader.string()}"]
    change, target, keyspace = (reader.string() for _ in range(3))
    name = "" if target == "KEYSPACE" else reader.string()
    return [f"{change.lower()} {target.lower()} {keyspace} {name}"]


def record(connection, path):
    lines = path.read_text().splitlines()
    text = []
    for line in lines:
        created = re.match(r"> CREATE KEYSPACE (\w+)", line)
        if created:
            connection.query(f"DROP KEYSPACE IF EXISTS {created[1]}")
        if line.startswith("> "):
            text += [line, *answer(connection, line[2:])]
        elif line.startswith("#") or not line:
            text.append(line)
    path.write_text("\n".join(text) + "\n")


def main():
    port, *files = sys.argv[1:]
    for name in files:
        with wire.Wire(SimpleNamespace(host="127.0.0.1", port=int(port)), 5) as connection:
            record(connection, pathlib.Path(name))


if __name__ == "__main__":
    main()
