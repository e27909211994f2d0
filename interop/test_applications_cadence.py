"""Conditional statements of Cadence, whose rows hold frozen user-defined types.

The expected answers are those of Cassandra 5.0.9, which runs the same test in a full run.
"""
import time
import uuid

import pytest

from applications import (
    CADENCE,
    CURRENT_RUN,
    EPOCH,
    EXECUTION,
    EXECUTION_ID,
    SHARD,
    SHARD_DOMAIN,
    SHARD_ID,
    SHARD_RUN,
    SHARD_WORKFLOW,
    TASK,
    TASK_QUEUE,
    TASK_QUEUE_ID,
    TRANSFER,
    TRANSFER_DOMAIN,
    TRANSFER_RUN,
    TRANSFER_WORKFLOW,
    equalities,
    execution_key,
    insert,
    open_store,
    update,
)

KEY = execution_key("domain_id")
DOMAIN, FIRST, SECOND, REQUEST = (uuid.UUID(int=number) for number in range(1, 5))
RUNNING, OPEN = 1, 0


def literal(*fields):
    """Returns the literal of a user-defined type whose fields are markers."""
    return "{" + ", ".join(f"{name}: ?" for name in fields) + " }"


SHARD_TYPE = literal("shard_id", "owner", "range_id", "updated_at", "cluster_transfer_ack_level")
CREATE_SHARD = insert(
    "executions", [*KEY, "shard", "range_id"], f"?, ?, ?, ?, ?, ?, ?, {SHARD_TYPE}, ?"
)
UPDATE_SHARD = update("executions", f"shard = {SHARD_TYPE}, range_id = ?", KEY, "IF range_id = ?")
LEASE = update("executions", "range_id = ?", KEY, "IF range_id = ?")
CURRENT_TYPE = literal("run_id", "create_request_id", "state", "close_status")
CURRENT = ["current_run_id", "execution", "workflow_last_write_version", "workflow_state"]
CREATE_CURRENT = insert(
    "executions", [*KEY, *CURRENT], f"?, ?, ?, ?, ?, ?, ?, ?, {CURRENT_TYPE}, ?, ?",
    "IF NOT EXISTS USING TTL 0 ",
)
EXECUTION_TYPE = literal(
    "domain_id", "workflow_id", "run_id", "create_request_id", "state", "close_status",
    "next_event_id", "non_retriable_errors", "memo",
)
CHECKSUM_TYPE = literal("version", "flavor", "value")
CREATE_EXECUTION = insert(
    "executions", [*KEY, "execution", "next_event_id", "checksum"],
    f"?, ?, ?, ?, ?, ?, ?, {EXECUTION_TYPE}, ?, {CHECKSUM_TYPE}",
)
UPDATE_EXECUTION = update(
    "executions", f"execution = {EXECUTION_TYPE}, next_event_id = ? , checksum = {CHECKSUM_TYPE}",
    KEY, "IF next_event_id = ? ",
)
TRANSFER_TYPE = literal(
    "domain_id", "workflow_id", "run_id", "task_id", "target_domain_ids", "type"
)
CREATE_TRANSFER = insert(
    "executions", [*KEY, "transfer"], f"?, ?, ?, ?, ?, ?, ?, {TRANSFER_TYPE}", ""
)
TIMER_TYPE = literal("version", "timer_id", "expiry_time")
UPDATE_TIMER = update("executions", f"timer_map[ ? ] = {TIMER_TYPE}", KEY)


@pytest.fixture(params=["memory", "files"])
def store(peer, request):
    store = open_store(peer, request.param, "cadence", CADENCE)
    yield store
    store.close()


def shard_key(shard):
    return [shard, SHARD, SHARD_DOMAIN, SHARD_WORKFLOW, SHARD_RUN, EPOCH, SHARD_ID]


def run_key(shard, run):
    return [shard, EXECUTION, DOMAIN, "order", run, EPOCH, EXECUTION_ID]


def named(key, **columns):
    return dict(zip(KEY, key, strict=True)) | columns


def execution(run, next_event_id):
    """Returns the fields of a workflow_execution."""
    return (DOMAIN, "order", run, REQUEST, RUNNING, OPEN, next_event_id, ["timeout"], {"m": b"m"})


def test_a_shard_is_acquired_by_range(store):
    info = [1, "host-a", 1, EPOCH, {"active": 5}]
    assert store.apply(CREATE_SHARD, *shard_key(1), *info, 1) is True
    assert store.apply(CREATE_SHARD, *shard_key(1), *info, 2) == [
        named(shard_key(1), shard=tuple(info), range_id=1)
    ]
    stolen = [1, "host-b", 2, EPOCH, {"active": 6}]
    assert store.apply(UPDATE_SHARD, *stolen, 2, *shard_key(1), 1) is True
    assert store.apply(UPDATE_SHARD, *info, 2, *shard_key(1), 1) == [{"range_id": 2}]
    assert store.apply(LEASE, 3, *shard_key(1), 2) is True
    text = f"SELECT shard, range_id FROM executions WHERE {equalities(KEY)}"
    assert store.rows(text, *shard_key(1)) == [(tuple(stolen), 3)]


def create_workflow(store, run, range_id=1):
    """Sends the batch that starts an execution."""
    transfer = [1, TRANSFER, TRANSFER_DOMAIN, TRANSFER_WORKFLOW, TRANSFER_RUN, EPOCH, 100]
    return store.batch(
        (CREATE_CURRENT, *run_key(1, CURRENT_RUN), run, run, REQUEST, RUNNING, OPEN, 0, RUNNING),
        (CREATE_EXECUTION, *run_key(1, run), *execution(run, 3), 3, 1, 1, b"sum"),
        (update("executions", "signal_requested = ? ", KEY), {REQUEST}, *run_key(1, run)),
        (UPDATE_TIMER, "t", 0, "t", EPOCH, *run_key(1, run)),
        (CREATE_TRANSFER, *transfer, DOMAIN, "order", run, 100, {FIRST}, 1),
        (LEASE, range_id, *shard_key(1), range_id),
    )


def test_a_workflow_is_created_and_updated(store):
    info = [1, "host-a", 1, EPOCH, {}]
    assert store.apply(CREATE_SHARD, *shard_key(1), *info, 1) is True
    assert create_workflow(store, FIRST) is True
    shard = named(shard_key(1), shard=(1, "host-a", 1, EPOCH, None), range_id=1)
    current = named(
        run_key(1, CURRENT_RUN), current_run_id=FIRST, workflow_last_write_version=0,
        workflow_state=RUNNING,
        execution=(None, None, FIRST, REQUEST, RUNNING, OPEN, None, None, None),
    )
    refused = create_workflow(store, SECOND)
    # An empty map inside a frozen type stays an empty map, which the driver may return as such.
    assert refused[0].pop("shard")[:4] == shard.pop("shard")[:4]
    assert refused == [shard, current]

    def advance(before, after, range_id):
        changes = [*execution(FIRST, after), after, 1, 1, b"new"]
        return store.batch(
            (UPDATE_EXECUTION, *changes, *run_key(1, FIRST), before),
            (UPDATE_TIMER, "u", 0, "u", EPOCH, *run_key(1, FIRST)),
            (LEASE, range_id, *shard_key(1), range_id),
        )

    assert advance(3, 5, 1) is True
    lease, run = named(shard_key(1), range_id=1), named(run_key(1, FIRST), next_event_id=5)
    assert advance(3, 6, 1) == [lease, run]
    assert advance(5, 6, 2) == [lease, run]
    text = (
        "SELECT execution, next_event_id, checksum, timer_map, signal_requested FROM executions "
        f"WHERE {equalities(KEY)}"
    )
    timers = {name: (0, name, EPOCH) for name in ("t", "u")}
    assert store.rows(text, *run_key(1, FIRST)) == [
        (execution(FIRST, 5), 5, (1, 1, b"new"), timers, {REQUEST})
    ]


def test_a_request_is_remembered_for_a_while(store):
    """Until the row of a request expires, a retry of the client finds the first run by this row."""
    request = insert("executions", [*KEY, "current_run_id"], end="IF NOT EXISTS USING TTL ?")
    key = [1, 7, DOMAIN, "order", REQUEST, EPOCH, 5]
    # The expiry counts from the whole second, so that the row may live a second less.
    assert store.apply(request, *key, FIRST, 8) is True
    assert store.apply(request, *key, SECOND, 600) == [named(key, current_run_id=FIRST)]
    time.sleep(8.1)
    assert store.apply(request, *key, SECOND, 600) is True
    assert store.apply(request, *key, FIRST, 600) == [named(key, current_run_id=SECOND)]


def test_a_task_list_is_leased(store):
    columns = ["domain_id", "task_list_name", "task_list_type", "type", "task_id"]
    list_type = literal("domain_id", "name", "type", "ack_level", "kind")
    create = insert("tasks", [*columns, "range_id", "task_list"], f"?, ?, ?, ?, ?, ?, {list_type}")
    change = update("tasks", f"range_id = ?, task_list = {list_type}", columns, "IF range_id = ?")
    task = insert(
        "tasks", [*columns, "task"],
        f"?, ?, ?, ?, ?, {literal('domain_id', 'workflow_id', 'run_id', 'schedule_id')}",
        "USING TTL ?",
    )
    name = [DOMAIN, "list", 0]
    key, info = [*name, TASK_QUEUE, TASK_QUEUE_ID], (DOMAIN, "list", 0, 0, 0)
    assert store.apply(create, *key, 1, *info) is True
    assert store.apply(create, *key, 1, *info) == [
        dict(zip(columns, key)) | {"range_id": 1, "task_list": info}
    ]
    later = (DOMAIN, "list", 0, 9, 0)
    assert store.apply(change, 2, *later, *key, 1) is True

    def add(task_id, range_id):
        value = (DOMAIN, "order", FIRST, 5)
        return store.batch(
            (task, *name, TASK, task_id, *value, 600), (change, range_id, *later, *key, range_id)
        )

    assert add(1, 2) is True
    assert add(2, 1) == [dict(zip(columns, key)) | {"range_id": 2}]
    assert store.rows(
        f"SELECT count(1) as count FROM tasks WHERE {equalities(columns[:4])} and task_id > ? ",
        *name, TASK, 0,
    ) == [(1,)]
    remove = f"DELETE FROM tasks WHERE {equalities(columns, ' AND ')} IF range_id = ?"
    assert store.apply(remove, *key, 1) == [{"range_id": 2}]
    assert store.apply(remove, *key, 2) is True


def test_a_domain_is_registered_once(store):
    """The literal of a type names only one of its fields."""
    create = insert("domains", ["id", "domain"], "?, {name: ?}")
    assert store.apply(create, DOMAIN, "a") is True
    assert store.apply(create, DOMAIN, "b") == [{"id": DOMAIN, "domain": (None, "a", None)}]
    assert store.rows("SELECT domain.name FROM domains WHERE id = ?", DOMAIN) == [("a",)]
