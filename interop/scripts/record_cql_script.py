"""Records Cassandra's answers in scripts of testdata/cql_scripts, testdata/guardrail_scripts and
testdata/auth_scripts.

    python record_cql_script.py PORT FILE...

The Cassandra node on PORT executes each line that begins with `> `. Comments, empty lines and the
lines described below are kept, and all other lines are replaced by the answers, in the form that
the tests of crates/cql read (`scripts`, `guardrails`, `auth_scripts`). Before a CREATE KEYSPACE or
CREATE ROLE, the recorder drops the keyspace or role of that name.

A script of guardrail_scripts begins with the settings that the node must have (`: NAME = VALUE`).
`@ page_size N` and `@ consistency NAME` apply to the statements below them, and each warning of an
answer is a line of its own before the answer. Cassandra applies guardrails only to users without
superuser status; CQL_USER and CQL_PASSWORD must name such a user.

In a script of auth_scripts, the role of `@ user NAME` executes the statements below it; its
password is its name. `@ user` without a name returns to the first user.
"""
import os
import pathlib
import re
import sys
import time
from types import SimpleNamespace

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import wire  # noqa: E402
from answers import CODES, Reader, rows  # noqa: E402

# Cassandra refuses queries by an index until a background task has built the index.
INDEX_BUILD_S = 1


# The thresholds of timestamps depend on the time.
TIME = re.compile(r"( allowable \w+ threshold )-?\d+")
CONSISTENCIES = ["ANY", "ONE", "TWO", "THREE", "QUORUM", "ALL", "LOCAL_QUORUM", "EACH_QUORUM",
                 "SERIAL", "LOCAL_SERIAL", "LOCAL_ONE"]


def answer(connection, statement, shows_warnings=False, **options):
    """Returns the lines of the answer to a statement."""
    found = connection.query(statement, **options)
    warnings = [f"warning: {line}" for line in found.warnings] if shows_warnings else []
    return [TIME.sub(r"\1TIME", line) for line in warnings + result(found)]


def result(found):
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


def connect(node, user=""):
    """Opens a connection for a role, or for the user that the environment names."""
    known = os.environ.get("CQL_USER", user), os.environ.get("CQL_PASSWORD", user)
    credentials = (user, user) if user else known
    place = SimpleNamespace(host=node.host, port=node.port, credentials=credentials)
    connection = wire.Wire(place, 5)
    connection.node = node
    return connection


def record(connection, path):
    lines = path.read_text().splitlines()
    text, options = [], {"shows_warnings": path.resolve().parent.name == "guardrail_scripts"}
    for line in lines:
        created = re.match(r"> CREATE (KEYSPACE|ROLE) (\w+)", line)
        if created:
            connection.query(f"DROP {created[1]} IF EXISTS {created[2]}")
        if line.startswith("> "):
            # An empty line belongs to the script.
            found = answer(connection, line[2:], **options)
            while any("INDEX_NOT_AVAILABLE" in part for part in found):
                time.sleep(INDEX_BUILD_S)
                found = answer(connection, line[2:], **options)
            text += [line, *(part.replace("\n\n", "\n \n") for part in found)]
            if re.match(r"> CREATE (CUSTOM )?INDEX", line):
                time.sleep(INDEX_BUILD_S)
        elif line.startswith("@ user"):
            connection = connect(connection.node, line.removeprefix("@ user").strip())
            text.append(line)
        elif line.startswith("@ page_size "):
            options["page_size"] = int(line.split()[2])
            text.append(line)
        elif line.startswith("@ consistency "):
            options["consistency"] = CONSISTENCIES.index(line.split()[2])
            text.append(line)
        elif line.startswith(("#", ": ")) or not line:
            text.append(line)
    path.write_text("\n".join(text) + "\n")


def main():
    port, *files = sys.argv[1:]
    for name in files:
        connection = connect(SimpleNamespace(host="127.0.0.1", port=int(port)))
        record(connection, pathlib.Path(name))


if __name__ == "__main__":
    main()
