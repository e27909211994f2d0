"""Conditional writes through the drivers of five languages are linearizable.

64 clients read and write 8 rows, while the node is killed and starts again. The gate runs one
language, another each day, for a few seconds and with one kill."""
import random
import subprocess
import time

import pytest

from driver import seed
from driver_programs import LANGUAGES, program
from gate import RUNS_ALL, one_of, part
from linearizable import CAS, READ, Operation, Violation, check, read_history
from wire import EXECUTE, SERIAL, Wire

SECONDS, KILLS, CLIENTS = part(60, 4), part(10, 1), 64
SETTINGS = {"commitlog_sync": "group"}
SCHEMA = (
    "CREATE KEYSPACE registers WITH replication = "
    "{'class': 'SimpleStrategy', 'replication_factor': 1}",
    # Compactions may purge a deletion at once; the value that it hides must not come back.
    "CREATE TABLE registers.rows (k int PRIMARY KEY, v bigint) WITH gc_grace_seconds = 0",
)


@pytest.mark.parametrize("kills", [0, KILLS])
@pytest.mark.parametrize("language", LANGUAGES if RUNS_ALL else [one_of(LANGUAGES)])
def test_conditional_writes_are_linearizable(node, tmp_path, language, kills):
    command, file = program(language), tmp_path / "history.jsonl"
    ours = node(settings=SETTINGS, shards=2)
    with Wire(ours) as wire:
        for statement in SCHEMA:
            answer = wire.query(statement)
            assert answer.code is None, answer.message
    clients = subprocess.Popen(
        [*command, "registers", ours.host, str(ours.port), str(SECONDS), str(CLIENTS), file],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )
    try:
        assert clients.stdout.readline() == "connected\n", clients.communicate()
        kill_at_random(ours, kills)
        said, errors = clients.communicate(timeout=SECONDS + 120)
    finally:
        clients.kill()
    assert clients.returncode == 0, said + errors[-4000:]
    history = read_history(file)
    history += final_reads(ours, 1 + max(one.last_moment for one in history if one.end is not None))
    try:
        check(history)
    except Violation as violation:
        pytest.fail(f"{violation}\nhistory: {file}")
    for kind, applied in ((READ, None), (CAS, True), (CAS, False)):
        count = sum(one.end is not None and (one.kind, one.applied) == (kind, applied) for one in history)
        print(f"{language}, {kind}, applied {applied}: {count}")
        assert count > 5 * SECONDS, f"too few operations of this kind: {kind}, {applied}"
    if kills:
        assert any(one.end is None for one in history), "kills must have hit requests under way"
    file.unlink()


def kill_at_random(ours, kills):
    draw = random.Random(seed())
    began = time.monotonic()
    for moment in sorted(draw.uniform(0.5, SECONDS - 0.5) for _ in range(kills)):
        time.sleep(max(0.1, began + moment - time.monotonic()))
        ours.restart(kill=True)


def final_reads(ours, moment):
    """Returns reads of all registers that follow the history."""
    with Wire(ours) as wire:
        prepared = wire.prepare("SELECT v FROM registers.rows WHERE k = ?")
        for register in range(8):
            body = wire.execute_body(prepared, (register.to_bytes(4, "big"),), SERIAL)
            rows = wire.ask(EXECUTE, body).named_rows()
            value = rows[0].get("v") if rows else None
            found = None if value is None else int.from_bytes(value, "big")
            yield Operation(str(register), -1, READ, moment, moment + 1, found=found)
