"""Conditional statements of Temporal, in the order in which its services send them.

The expected answers are those of Cassandra 5.0.9, which runs the same test in a full run. An answer
that refuses a batch shows the rows that exist; Temporal reads from them which condition failed.
"""
import time
import uuid

import pytest

from applications import (
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
    TEMPORAL,
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

KEY = execution_key("namespace_id")
NAMESPACE, FIRST, SECOND, THIRD = (uuid.UUID(int=number) for number in range(1, 5))
QUEUE_KEY = ["namespace_id", "task_queue_name", "task_queue_type", "type", "task_id"]
STATE = ["execution_state", "execution_state_encoding"]
CURRENT = ["current_run_id", *STATE, "workflow_last_write_version", "workflow_state"]
MUTABLE = ["execution", "execution_encoding", *STATE, "next_event_id", "db_record_version"]
RUNNING, COMPLETED = 2, 3

CREATE_SHARD = insert("executions", [*KEY, "shard", "shard_encoding", "range_id"])
UPDATE_SHARD = update(
    "executions", "shard = ?, shard_encoding = ?, range_id = ?", KEY, "IF range_id = ?"
)
LEASE = update("executions", "range_id = ?", KEY, "IF range_id = ?")
CREATE_CURRENT = insert("executions", [*KEY, *CURRENT], end="IF NOT EXISTS USING TTL 0 ")
UPDATE_CURRENT = update(
    "executions", equalities(CURRENT, ", "), KEY, "IF current_run_id = ? ", "USING TTL 0 "
)
REPLACE_CURRENT = UPDATE_CURRENT + "and workflow_last_write_version = ? and workflow_state = ? "
DELETE_CURRENT = f"DELETE FROM executions WHERE {equalities(KEY)} if current_run_id = ? "
CREATE_EXECUTION = insert("executions", [*KEY, *MUTABLE, "checksum", "checksum_encoding"])
UPDATE_EXECUTION = update(
    "executions",
    equalities([*MUTABLE, "checksum", "checksum_encoding"], " , "),
    KEY,
    "IF db_record_version = ? ",
)
CREATE_TRANSFER = insert("executions", [*KEY, "transfer", "transfer_encoding"], end="")
SELECT_EXECUTION = (
    "SELECT next_event_id, db_record_version, activity_map, timer_map, signal_requested, "
    f"buffered_events_list FROM executions WHERE {equalities(KEY)}"
)
SELECT_CURRENT = (
    "SELECT current_run_id, execution_state, workflow_state FROM executions "
    f"WHERE {equalities(KEY)}"
)
SELECT_TRANSFERS = (
    f"SELECT task_id, transfer FROM executions WHERE {equalities(KEY[:6])} and task_id >= ? "
    "and task_id < ?"
)


@pytest.fixture(params=["memory", "files"])
def store(peer, request):
    store = open_store(peer, request.param, "temporal", TEMPORAL)
    yield store
    store.close()


def shard_key(shard):
    return [shard, SHARD, SHARD_DOMAIN, SHARD_WORKFLOW, SHARD_RUN, EPOCH, SHARD_ID]


def run_key(shard, run, workflow="order"):
    return [shard, EXECUTION, NAMESPACE, workflow, run, EPOCH, EXECUTION_ID]


def named(key, **columns):
    return dict(zip(KEY, key, strict=True)) | columns


def create_shard(store, shard, range_id=1):
    assert store.apply(CREATE_SHARD, *shard_key(shard), b"shard", "Proto3", range_id) is True


def test_a_shard_has_one_owner(store):
    """Two services race to create a shard. The next owner raises the shard's range id, and a later
    update of the first owner fails."""
    create_shard(store, 1)
    assert store.apply(CREATE_SHARD, *shard_key(1), b"other", "Proto3", 7) == [
        named(shard_key(1), shard=b"shard", shard_encoding="Proto3", range_id=1)
    ]
    assert store.apply(UPDATE_SHARD, b"second", "Proto3", 2, *shard_key(1), 1) is True
    assert store.apply(UPDATE_SHARD, b"first", "Proto3", 2, *shard_key(1), 1) == [{"range_id": 2}]
    assert store.apply(UPDATE_SHARD, b"first", "Proto3", 2, *shard_key(9), 1) == [{}]
    text = f"SELECT shard, shard_encoding, range_id FROM executions WHERE {equalities(KEY)}"
    assert store.rows(text, *shard_key(1)) == [(b"second", "Proto3", 2)]
    assert store.rows(text, *shard_key(9)) == []


def change(assignments, *values):
    """Returns an UPDATE of an execution without a condition."""
    return (update("executions", assignments, KEY), *values)


def reset_maps(key):
    """Returns the statements that a new or reset execution adds: whole collections."""
    return [
        change("activity_map = ?, activity_map_encoding = ?", {5: b"a"}, "Proto3", *key),
        change("timer_map = ?, timer_map_encoding = ?", {"t": b"t"}, "Proto3", *key),
        change("signal_requested = ?", {FIRST}, *key),
        change("buffered_events_list = [] ", *key),
    ]


def create_workflow(store, run, shard=1, range_id=1, current=None, tasks=(), db_version=1):
    """Sends the batch that starts an execution; `current` replaces the statement on the row that
    names the current run."""
    key = run_key(shard, run)
    current = current or (
        CREATE_CURRENT, *run_key(shard, CURRENT_RUN), run, b"running", "Proto3", 0, RUNNING
    )
    mutable = [b"info", "Proto3", b"running", "Proto3", 3, db_version, b"sum", "Proto3"]
    transfer = [shard, TRANSFER, TRANSFER_DOMAIN, TRANSFER_WORKFLOW, TRANSFER_RUN, EPOCH]
    return store.batch(
        current,
        (CREATE_EXECUTION, *key, *mutable),
        *reset_maps(key),
        *[(CREATE_TRANSFER, *transfer, task, b"task", "Proto3") for task in tasks],
        (LEASE, range_id, *shard_key(shard), range_id),
    )


def test_a_workflow_starts_once(store):
    create_shard(store, 1)
    assert create_workflow(store, FIRST, tasks=(100, 101)) is True
    assert store.rows(SELECT_EXECUTION, *run_key(1, FIRST)) == [
        (3, 1, {5: b"a"}, {"t": b"t"}, {FIRST}, None)
    ]
    transfer = [1, TRANSFER, TRANSFER_DOMAIN, TRANSFER_WORKFLOW, TRANSFER_RUN, EPOCH]
    tasks = [(100, b"task"), (101, b"task")]
    assert store.rows(SELECT_TRANSFERS, *transfer, 0, 1000) == tasks

    # A second start finds the current run; a row that does not exist is not shown.
    shard = named(shard_key(1), shard=b"shard", shard_encoding="Proto3", range_id=1)
    current = named(
        run_key(1, CURRENT_RUN), current_run_id=FIRST, execution_state=b"running",
        execution_state_encoding="Proto3", workflow_last_write_version=0, workflow_state=RUNNING,
    )
    assert create_workflow(store, SECOND, tasks=(102,)) == [shard, current]
    # The owner of an older range finds the new one, and the current run too.
    assert store.apply(LEASE, 2, *shard_key(1), 1) is True
    assert create_workflow(store, SECOND, tasks=(103,)) == [shard | {"range_id": 2}, current]
    # The rest of a refused batch is not applied.
    assert store.rows(SELECT_TRANSFERS, *transfer, 0, 1000) == tasks
    assert store.rows(SELECT_EXECUTION, *run_key(1, SECOND)) == []
    # None of these rows exists in another shard.
    assert create_workflow(store, FIRST, shard=2) == [{}]


def update_workflow(store, run, version, current_run, range_id=1, extra=()):
    """Sends the batch that advances an execution from one database version to the next."""
    key, mutable = run_key(1, run), [b"later", "Proto3", b"running", "Proto3", 7, version + 1]
    current = [run, b"running", "Proto3", 0, RUNNING, *run_key(1, CURRENT_RUN)]
    return store.batch(
        (UPDATE_CURRENT, *current, current_run),
        (UPDATE_EXECUTION, *mutable, b"sum", "Proto3", *key, version),
        *extra,
        (LEASE, range_id, *shard_key(1), range_id),
    )


def test_a_workflow_advances_by_versions(store):
    create_shard(store, 1)
    assert create_workflow(store, FIRST) is True
    key = run_key(1, FIRST)
    event = ("Proto3", 1, b"event")
    changes = [
        change("activity_map[ ? ] = ?, activity_map_encoding = ?", 6, b"b", "Proto3", *key),
        (f"DELETE activity_map[ ? ] FROM executions WHERE {equalities(KEY)} ", 5, *key),
        change("timer_map[ ? ] = ?, timer_map_encoding = ?", "u", b"u", "Proto3", *key),
        change("signal_requested = signal_requested + ?", {SECOND, THIRD}, *key),
        change("signal_requested = signal_requested - ?", {FIRST}, *key),
        change("buffered_events_list = buffered_events_list + ?", [event], *key),
    ]
    assert update_workflow(store, FIRST, 1, FIRST, extra=changes) is True
    state = (7, 2, {6: b"b"}, {"t": b"t", "u": b"u"}, {SECOND, THIRD}, [event])
    assert store.rows(SELECT_EXECUTION, *key) == [state]

    # Whichever condition fails, the answer shows each row: key columns and columns of conditions.
    shard = named(shard_key(1), range_id=1)
    current = named(run_key(1, CURRENT_RUN), current_run_id=FIRST)
    execution = named(key, db_record_version=2)
    refused = [shard, execution, current]
    assert update_workflow(store, FIRST, 1, FIRST, extra=changes) == refused
    assert update_workflow(store, FIRST, 2, SECOND, extra=changes) == refused
    assert update_workflow(store, FIRST, 2, FIRST, range_id=9, extra=changes) == refused
    assert store.rows(SELECT_EXECUTION, *key) == [state]

    clear = [change("buffered_events_list = [] ", *key)]
    assert update_workflow(store, FIRST, 2, FIRST, extra=clear) is True
    assert store.rows(SELECT_EXECUTION, *key)[0][5] is None


def test_a_run_replaces_the_completed_one(store):
    create_shard(store, 1)
    assert create_workflow(store, FIRST) is True
    current = run_key(1, CURRENT_RUN)

    def replacement(previous, state):
        return (
            REPLACE_CURRENT, SECOND, b"running", "Proto3", 0, RUNNING, *current, previous, 0, state
        )

    # The first run is not complete.
    assert create_workflow(store, SECOND, current=replacement(FIRST, COMPLETED)) == [
        named(shard_key(1), shard=b"shard", shard_encoding="Proto3", range_id=1),
        named(
            current, current_run_id=FIRST, execution_state=b"running",
            execution_state_encoding="Proto3", workflow_last_write_version=0,
            workflow_state=RUNNING,
        ),
    ]
    done = [FIRST, b"completed", "Proto3", 0, COMPLETED, *current]
    assert store.apply(UPDATE_CURRENT, *done, FIRST) is True
    assert store.rows(SELECT_CURRENT, *current) == [(FIRST, b"completed", COMPLETED)]
    assert create_workflow(store, SECOND, current=replacement(FIRST, COMPLETED)) is True
    assert store.apply(UPDATE_CURRENT, *done, FIRST) == [{"current_run_id": SECOND}]
    assert store.rows(SELECT_CURRENT, *current) == [(SECOND, b"running", RUNNING)]

    # Retention deletes the first run. The row of the current run stays, because it names another.
    store.rows(f"DELETE FROM executions WHERE {equalities(KEY)} ", *run_key(1, FIRST))
    assert store.apply(DELETE_CURRENT, *current, FIRST) == [{"current_run_id": SECOND}]
    assert store.apply(DELETE_CURRENT, *current, SECOND) is True
    assert store.apply(DELETE_CURRENT, *current, SECOND) == [{}]
    assert store.rows(SELECT_CURRENT, *current) == []
    # The name is free again.
    assert create_workflow(store, THIRD) is True


QUEUE = ["range_id", "task_queue", "task_queue_encoding"]
CREATE_QUEUE = insert("tasks", [*QUEUE_KEY, *QUEUE])
UPDATE_QUEUE = update("tasks", equalities(QUEUE, ", "), QUEUE_KEY, "IF range_id = ?")
KEEP_ROW = insert("tasks", QUEUE_KEY, end="USING TTL ?")
UPDATE_STICKY = update(
    "tasks", equalities(QUEUE, ", "), QUEUE_KEY, "IF range_id = ?", "USING TTL ? "
)
DELETE_QUEUE = f"DELETE FROM tasks WHERE {equalities(QUEUE_KEY, ' AND ')} IF range_id = ?"
CREATE_TASK = insert("tasks", [*QUEUE_KEY, "task", "task_encoding"], end="")
CREATE_TASK_WITH_TTL = insert("tasks", [*QUEUE_KEY, "task", "task_encoding"], end="USING TTL ?")
SELECT_TASKS = (
    f"SELECT task_id, task FROM tasks WHERE {equalities(QUEUE_KEY[:4])} and task_id >= ? "
    "and task_id < ?"
)


def test_a_task_queue_is_leased(store):
    """Matching leases a queue by its range id, writes tasks under the lease and deletes them."""
    name = [NAMESPACE, "queue", 1]
    key, info = [*name, TASK_QUEUE, TASK_QUEUE_ID], [b"info", "Proto3"]
    assert store.apply(CREATE_QUEUE, *key, 1, *info) is True
    assert store.apply(CREATE_QUEUE, *key, 1, *info) == [
        dict(zip(QUEUE_KEY, key)) | dict(zip(QUEUE, [1, *info]))
    ]
    assert store.apply(UPDATE_QUEUE, 2, *info, *key, 1) is True

    def create_tasks(range_id, *ids):
        task = [b"task", "Proto3"]
        tasks = [(CREATE_TASK, *name, TASK, ids[0], *task)]
        tasks += [(CREATE_TASK_WITH_TTL, *name, TASK, one, *task, 600) for one in ids[1:]]
        return store.batch(*tasks, (UPDATE_QUEUE, range_id, *info, *key, range_id))

    assert create_tasks(2, 10, 11, 12) is True
    assert create_tasks(1, 13, 14) == [dict(zip(QUEUE_KEY, key)) | {"range_id": 2}]
    tasks = [(one, b"task") for one in (10, 11, 12)]
    assert store.rows(SELECT_TASKS, *name, TASK, 0, 100) == tasks
    store.rows(f"DELETE FROM tasks WHERE {equalities(QUEUE_KEY[:4], ' AND ')} AND task_id < ? ",
               *name, TASK, 12)
    assert store.rows(SELECT_TASKS, *name, TASK, 0, 100) == tasks[2:]
    assert store.apply(DELETE_QUEUE, *key, 1) == [{"range_id": 2}]
    assert store.apply(DELETE_QUEUE, *key, 2) is True
    assert store.apply(DELETE_QUEUE, *key, 2) == [{}]


def test_a_sticky_task_queue_expires(store):
    """A batch has an INSERT that gives the row's key a TTL, and an UPDATE with a condition."""
    key, info = [NAMESPACE, "sticky", 0, TASK_QUEUE, TASK_QUEUE_ID], [b"info", "Proto3"]
    assert store.apply(CREATE_QUEUE, *key, 1, *info) is True

    def renew(ttl, range_id, previous):
        sticky = (UPDATE_STICKY, ttl, range_id, *info, *key, previous)
        return store.batch((KEEP_ROW, *key, ttl), sticky)

    assert renew(600, 2, 1) is True
    assert renew(600, 2, 1) == [dict(zip(QUEUE_KEY, key)) | {"range_id": 2}]
    text = f"SELECT TTL(range_id), range_id FROM tasks WHERE {equalities(QUEUE_KEY)}"
    ((ttl, range_id),) = store.rows(text, *key)
    assert 500 < ttl <= 600 and range_id == 2
    assert renew(1, 3, 2) is True
    time.sleep(2.1)
    assert store.rows(text, *key) == []
    assert renew(600, 4, 3) == [{}]
    assert store.apply(CREATE_QUEUE, *key, 1, *info) is True


def test_user_data_of_task_queues_has_versions(store):
    """One batch inserts and updates rows of a partition with conditions, and others without."""
    key = ["namespace_id", "build_id", "task_queue_name"]
    create = insert(
        "task_queue_user_data", [*key, "data", "data_encoding", "version"],
        "?           , ''      , ?              , ?   , ?            , 1      ",
    )
    change = (
        "UPDATE task_queue_user_data SET\n\tdata = ?,\n\tdata_encoding = ?,\n\tversion = ?\n"
        "\tWHERE namespace_id = ?\n\tAND build_id = ''\n\tAND task_queue_name = ?\n"
        "\tIF version = ?"
    )
    add = insert("task_queue_user_data", key, end="")
    remove = f"DELETE FROM task_queue_user_data WHERE {equalities(key, ' AND ')}"
    first = (create, NAMESPACE, "a", b"1", "Proto3")
    assert store.batch(first, (add, NAMESPACE, "v1", "a")) is True
    both = (
        (create, NAMESPACE, "b", b"1", "Proto3"),
        (change, b"2", "Proto3", 2, NAMESPACE, "a", 1),
        (add, NAMESPACE, "v2", "a"),
        (remove, NAMESPACE, "v1", "a"),
    )
    assert store.batch(*both) is True
    row = {"namespace_id": NAMESPACE, "build_id": "", "data_encoding": "Proto3"}
    assert store.batch(*both) == [
        row | {"task_queue_name": "a", "data": b"2", "version": 2},
        row | {"task_queue_name": "b", "data": b"1", "version": 1},
    ]
    text = (
        "SELECT build_id, task_queue_name, version FROM task_queue_user_data "
        "WHERE namespace_id = ?"
    )
    assert store.rows(text, NAMESPACE) == [("", "a", 2), ("", "b", 1), ("v2", "a", None)]


def test_namespaces_share_a_version(store):
    """The first namespace finds no metadata row, so its condition has null as the bound value."""
    columns = ["namespaces_partition", "id", "name", "detail", "detail_encoding",
               "notification_version", "is_global_namespace"]
    create = insert("namespaces", columns)
    version = update("namespaces", "notification_version = ?", ["namespaces_partition", "name"],
                     "IF notification_version = ? ")
    metadata = "temporal-namespace-metadata"

    def register(id, name, known):
        assert store.apply(insert("namespaces_by_id", ["id", "name"]), id, name) is True
        return store.batch(
            (create, 0, id, name, b"detail", "Proto3", known or 0, False),
            (version, (known or 0) + 1, 0, metadata, known),
        )

    assert register(FIRST, "a", None) is True
    assert register(SECOND, "b", 1) is True
    row = {"namespaces_partition": 0, "name": metadata, "notification_version": 2}
    assert register(THIRD, "c", 1) == [row]
    assert register(NAMESPACE, "a", 2) == [
        {"namespaces_partition": 0, "name": "a", "id": FIRST, "detail": b"detail",
         "detail_encoding": "Proto3", "notification_version": 0, "is_global_namespace": False},
        row,
    ]
    assert store.apply(insert("namespaces_by_id", ["id", "name"]), FIRST, "z") == [
        {"id": FIRST, "name": "a"}
    ]


def test_queues_have_numbered_messages(store):
    enqueue = insert("queue", ["queue_type", "message_id", "message_payload", "message_encoding"])
    last = "SELECT message_id FROM queue WHERE queue_type=? ORDER BY message_id DESC LIMIT 1"
    assert store.rows(last, 1) == []
    assert store.apply(enqueue, 1, 0, b"m", "Proto3") is True
    assert store.apply(enqueue, 1, 1, b"n", "Proto3") is True
    assert store.apply(enqueue, 1, 1, b"o", "Proto3") == [
        {"queue_type": 1, "message_id": 1, "message_payload": b"n", "message_encoding": "Proto3"}
    ]
    assert store.rows(last, 1) == [(1,)]
    columns = ["queue_type", "cluster_ack_level", "data", "data_encoding", "version"]
    create = insert("queue_metadata", columns)
    change = update(
        "queue_metadata", equalities(columns[1:], ", "), ["queue_type"], "IF version = ?"
    )
    assert store.apply(create, 1, {}, b"d", "Proto3", 0) is True
    assert store.apply(create, 1, {}, b"d", "Proto3", 0) == [
        {"queue_type": 1, "data": b"d", "data_encoding": "Proto3", "version": 0}
    ]
    assert store.apply(change, {"active": 5}, b"e", "Proto3", 1, 1, 0) is True
    assert store.apply(change, {"active": 6}, b"e", "Proto3", 1, 1, 0) == [{"version": 1}]
    text = "SELECT cluster_ack_level, version FROM queue_metadata WHERE queue_type = ?"
    assert store.rows(text, 1) == [({"active": 5}, 1)]


def test_endpoints_share_the_version_of_their_table(store):
    """Batches have two conditional inserts or updates, or IF EXISTS and a condition on a column."""
    key, data = ["partition", "type", "id"], ["data", "data_encoding", "version"]
    where = "WHERE partition = 0 AND type = ? AND id = ? "
    create = insert("nexus_endpoints", [*key, *data], "0, ?, ?, ?, ?, ?")
    create_version = insert("nexus_endpoints", [*key, "version"], "0, ?, ?, ?")
    change_version = f"UPDATE nexus_endpoints SET version = ? {where}IF version = ?"
    remove = f"DELETE FROM nexus_endpoints {where}IF EXISTS"
    nil = uuid.UUID(int=0)
    first, second = (create, 1, FIRST, b"d", "Proto3", 1), (create, 1, SECOND, b"d", "Proto3", 1)
    version = {"partition": 0, "type": 0, "id": nil, "version": 1}
    assert store.batch(first, (create_version, 0, nil, 1)) is True
    assert store.batch(second, (create_version, 0, nil, 1)) == [version]
    assert store.batch(second, (change_version, 2, 0, nil, 1)) is True
    later = version | {"version": 2}
    assert store.batch((remove, 1, THIRD), (change_version, 3, 0, nil, 2)) == [later]
    endpoint = {"data": b"d", "data_encoding": "Proto3", "version": 1}
    assert store.batch((remove, 1, FIRST), (change_version, 3, 0, nil, 1)) == [
        later,
        {"partition": 0, "type": 1, "id": FIRST} | endpoint,
    ]
    assert store.batch((remove, 1, FIRST), (change_version, 3, 0, nil, 2)) is True
    text = "SELECT id, version FROM nexus_endpoints WHERE partition = 0 ORDER BY type ASC"
    assert store.rows(text) == [(nil, 3), (SECOND, 1)]
