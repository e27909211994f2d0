"""Conditional writes through the drivers of five languages are linearizable.

64 clients read and write 8 rows, while the node is killed and starts again. The rows are of a table
of our own, or the shards in the tables of Temporal and Cadence, with the statements by which their
services acquire a shard. The gate runs one language for a few seconds: the table of our own without
a kill, and one table with one kill. The language and the table change from day to day."""
import os
import random
import subprocess
import time

import pytest

from applications import (
    CADENCE,
    SHARD,
    SHARD_DOMAIN,
    SHARD_ID,
    SHARD_RUN,
    SHARD_WORKFLOW,
    TEMPORAL,
)
from driver import seed
from driver_programs import LANGUAGES, program
from gate import RUNS_ALL, all_or_one, one_of, part
from linearizable import CAS, READ, Operation, Violation, check, read_history
from wire import EXECUTE, SERIAL, Wire

SECONDS, KILLS, CLIENTS = part(60, 4), part(10, 1), 64
SETTINGS = {"commitlog_sync": "group"}
KEYSPACE = (
    "CREATE KEYSPACE registers WITH replication = "
    "{'class': 'SimpleStrategy', 'replication_factor': 1}"
)
# Compactions may purge a deletion at once; the deleted value must not come back.
ROWS = ("CREATE TABLE registers.rows (k int PRIMARY KEY, v bigint) WITH gc_grace_seconds = 0",)


def shard_statements(domain):
    """Returns the statements on the row of a shard, by its id, as the programs' environment."""
    key = {
        "shard_id": "?", "type": SHARD, domain: SHARD_DOMAIN, "workflow_id": f"'{SHARD_WORKFLOW}'",
        "run_id": SHARD_RUN, "visibility_ts": "'2000-01-01 00:00:00+0000'", "task_id": SHARD_ID,
    }
    where = " AND ".join(f"{name} = {value}" for name, value in key.items())
    table, values = "registers.executions", ", ".join(map(str, key.values()))
    return {
        "REGISTER_READ": f"SELECT range_id FROM {table} WHERE {where}",
        "REGISTER_INSERT": f"INSERT INTO {table} ({', '.join(key)}, range_id) VALUES ({values}, ?) "
                           "IF NOT EXISTS",
        "REGISTER_UPDATE": f"UPDATE {table} SET range_id = ? WHERE {where} IF range_id = ?",
        "REGISTER_DELETE": f"DELETE FROM {table} WHERE {where} IF range_id = ?",
        "REGISTER_COLUMN": "range_id",
    }


TABLES = {
    "rows": (ROWS, {}),
    "temporal": (TEMPORAL, shard_statements("namespace_id")),
    "cadence": (CADENCE, shard_statements("domain_id")),
}
CASES = (
    [("rows", 0), *((table, KILLS) for table in TABLES)]
    if RUNS_ALL else [("rows", 0), (one_of(list(TABLES)), KILLS)]
)


@pytest.mark.parametrize(("table", "kills"), CASES)
@pytest.mark.parametrize("language", all_or_one(LANGUAGES))
def test_conditional_writes_are_linearizable(node, tmp_path, language, table, kills):
    command, file = program(language), tmp_path / "history.jsonl"
    schema, statements = TABLES[table]
    ours = node(settings=SETTINGS, shards=2)
    with Wire(ours) as wire:
        for statement in (KEYSPACE, "USE registers", *schema):
            answer = wire.query(statement)
            assert answer.code is None, answer.message
    clients = subprocess.Popen(
        [*command, "registers", ours.host, str(ours.port), str(SECONDS), str(CLIENTS), file],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | statements,
    )
    try:
        assert clients.stdout.readline() == "connected\n", clients.communicate()
        kill_at_random(ours, kills)
        said, errors = clients.communicate(timeout=SECONDS + 120)
    finally:
        clients.kill()
    assert clients.returncode == 0, said + errors[-4000:]
    history = read_history(file)
    # Writes without an answer count, too, because the last one may have happened after all answers.
    ended = 1 + max(one.begin if one.end is None else one.end for one in history)
    history += final_reads(ours, ended, statements)
    try:
        check(history)
    except Violation as violation:
        pytest.fail(f"{violation}\nhistory: {file}")
    # A start takes seconds beside forty other processes, and a driver needs some to connect again.
    least = SECONDS if kills else 5 * SECONDS
    for kind, applied in ((READ, None), (CAS, True), (CAS, False)):
        count = sum(one.end is not None and (one.kind, one.applied) == (kind, applied) for one in history)
        print(f"{language}, {table}, {kind}, applied {applied}: {count}")
        assert count > least, f"too few operations of this kind: {kind}, {applied}"
    if kills:
        assert any(one.end is None for one in history), "kills must have hit requests under way"
    file.unlink()


def kill_at_random(ours, kills):
    draw = random.Random(seed())
    began = time.monotonic()
    for moment in sorted(draw.uniform(0.5, SECONDS - 0.5) for _ in range(kills)):
        time.sleep(max(1, began + moment - time.monotonic()))
        ours.restart(kill=True)


def final_reads(ours, moment, statements):
    """Yields reads of all registers that follow the history."""
    text = statements.get("REGISTER_READ", "SELECT v FROM registers.rows WHERE k = ?")
    with Wire(ours) as wire:
        prepared = wire.prepare(text)
        for register in range(8):
            body = wire.execute_body(prepared, (register.to_bytes(4, "big"),), SERIAL)
            rows = wire.ask(EXECUTE, body).named_rows()
            value = rows[0].get(statements.get("REGISTER_COLUMN", "v")) if rows else None
            found = None if value is None else int.from_bytes(value, "big")
            yield Operation(str(register), -1, READ, moment, moment + 1, found=found)
