"""Files of compact tables that Cassandra wrote: the node imports them and shows the same rows.

`test_cassandra_reads_our_files` covers the other direction, with the same tables.
"""
import random
import re

import shapes
from driver import seed
from test_import import import_into
from wire import Wire

SEED = seed()


def must(wire, statement):
    answer = wire.query(statement)
    assert answer.code is None, f"{statement}: {answer.message}"


def test_compact_tables_of_cassandra_are_imported(node, cassandra, tmp_path):
    keyspace, tables = "compact", shapes.compact_shapes(random.Random(SEED))
    schema = [
        f"CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', "
        f"'replication_factor': 1}}",
        *(kind.format(keyspace) for kind in shapes.TYPES),
        *(table.create() for table in tables),
    ]
    schema = [statement.replace("shapes.", f"{keyspace}.") for statement in schema]
    answers, flags = {}, "SELECT table_name, flags FROM system_schema.tables"
    hidden = "SELECT column_name, kind, type FROM system_schema.columns"
    where = f" WHERE keyspace_name = '{keyspace}'"
    with Wire(cassandra, timeout_s=150) as wire:
        must(wire, f"DROP KEYSPACE IF EXISTS {keyspace}")
        for statement in schema:
            must(wire, statement)
        for _ in range(2):
            for table in tables:
                for _ in range(60):
                    # No row expires between the answers of the two nodes.
                    statement = re.sub(r" AND TTL 1\b", "", table.statement())
                    must(wire, statement.replace("shapes.", f"{keyspace}."))
            cassandra.control([f"flush {keyspace}"])
        for table in tables:
            select = table.select().replace("shapes.", f"{keyspace}.")
            answers[select] = wire.select(select, page_size=5000)
            assert answers[select], f"{table.name}, seed {SEED}: no rows"
        answers |= {query + where: wire.select(query + where, 5000) for query in (flags, hidden)}
    ours = node(shards=2)
    with Wire(ours) as wire:
        for statement in schema:
            must(wire, statement)
        for table in tables:
            name = table.name.split(".")[1]
            files = cassandra.directory.glob(f"data/**/{keyspace}/{name}-*/*-Data.db")
            done = import_into(ours, next(files).parent, "--into", f"{keyspace}.{name}")
            assert done.returncode == 0, (SEED, done)
        for select, expected in answers.items():
            assert wire.select(select, page_size=71) == expected, (select, SEED)
    # The driver knows compact tables by their flags, and hides the columns that CQL does not show.
    shown = ours.connect().cluster.metadata.keyspaces[keyspace].tables
    for table in tables:
        found = shown[table.name.split(".")[1]]
        assert found.is_compact_storage and set(found.columns) == set(table.types), found
