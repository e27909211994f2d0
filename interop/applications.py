"""Tables and statements of the workflow engines Temporal and Cadence, for test_applications.py.

Names of tables, columns and fields are those of the engines' Cassandra stores: temporalio/temporal,
common/persistence/cassandra and schema/cassandra/temporal (versions 1.0 to 1.13); uber/cadence,
common/persistence/nosql/nosqlplugin/cassandra and schema/cassandra/cadence (versions 0.1 to 0.40);
both under the MIT License. The schema here is our own, reduced to the columns that conditional
statements touch, and to Temporal's indexes.
"""
import datetime
import uuid

import pytest
from cassandra import ConsistencyLevel
from cassandra.query import BatchStatement, BatchType

from driver import connect

LEVELED = (
    "WITH COMPACTION = {\n"
    "    'class': 'org.apache.cassandra.db.compaction.LeveledCompactionStrategy'\n  }"
)
KEY = "shard_id int, type int, {0} uuid, workflow_id text, run_id uuid, visibility_ts timestamp,"
EXECUTION_KEY = "PRIMARY KEY  (shard_id, type, {0}, workflow_id, run_id, visibility_ts, task_id)"

TEMPORAL = (
    "CREATE TYPE serialized_event_batch (encoding_type text, version int, data blob)",
    f"CREATE TABLE executions ({KEY.format('namespace_id')} task_id bigint, current_run_id uuid, "
    "shard blob, shard_encoding text, execution blob, execution_encoding text, "
    "execution_state blob, execution_state_encoding text, transfer blob, transfer_encoding text, "
    "timer blob, timer_encoding text, next_event_id bigint, range_id bigint, "
    "activity_map map<bigint, blob>, activity_map_encoding text, timer_map map<text, blob>, "
    "timer_map_encoding text, signal_requested set<uuid>, "
    "buffered_events_list list<frozen<serialized_event_batch>>, "
    "workflow_last_write_version bigint, workflow_state int, checksum blob, "
    "checksum_encoding text, db_record_version bigint, "
    f"{EXECUTION_KEY.format('namespace_id')}) {LEVELED}",
    "CREATE TABLE tasks (namespace_id uuid, task_queue_name text, task_queue_type int, type int, "
    "task_id bigint, range_id bigint, task blob, task_encoding text, task_queue blob, "
    "task_queue_encoding text, PRIMARY KEY ((namespace_id, task_queue_name, task_queue_type), "
    f"type, task_id)) {LEVELED}",
    "CREATE TABLE task_queue_user_data (namespace_id uuid, build_id text, task_queue_name text, "
    "data blob, data_encoding text, version bigint, "
    f"PRIMARY KEY ((namespace_id), build_id, task_queue_name)) {LEVELED}",
    f"CREATE TABLE namespaces_by_id (id uuid, name text, PRIMARY KEY (id)) {LEVELED}",
    "CREATE TABLE namespaces (namespaces_partition int, name text, id uuid, detail blob, "
    "detail_encoding text, is_global_namespace boolean, notification_version bigint, "
    f"PRIMARY KEY (namespaces_partition, name)) {LEVELED}",
    "CREATE TABLE queue_metadata (queue_type int, cluster_ack_level map<text, bigint>, data blob, "
    f"data_encoding text, version bigint, PRIMARY KEY (queue_type)) {LEVELED}",
    "CREATE TABLE queue (queue_type int, message_id bigint, message_payload blob, "
    f"message_encoding text, PRIMARY KEY  (queue_type, message_id)) {LEVELED}",
    "CREATE TABLE nexus_endpoints (partition int, type int, id uuid, data blob, "
    f"data_encoding text, version bigint, PRIMARY KEY ((partition), type, id)) {LEVELED}",
    "CREATE TABLE cluster_membership (membership_partition tinyint, host_id uuid, "
    "rpc_address inet, rpc_port smallint, role tinyint, session_start timestamp, "
    f"last_heartbeat timestamp, PRIMARY KEY (membership_partition, host_id)) {LEVELED}",
    "CREATE INDEX cm_lastheartbeat_idx ON cluster_membership (last_heartbeat)",
    "CREATE INDEX cm_sessionstart_idx ON cluster_membership (session_start)",
)

CADENCE = (
    # Cadence's types end in a comma.
    "CREATE TYPE shard (shard_id int, owner text, range_id bigint, updated_at timestamp, "
    "cluster_transfer_ack_level map<text, bigint>,)",
    "CREATE TYPE workflow_execution (domain_id uuid, workflow_id text, run_id uuid, "
    "create_request_id uuid, state int, close_status int, next_event_id bigint, "
    "non_retriable_errors list<text>, memo map<text, blob>,)",
    "CREATE TYPE transfer_task (domain_id uuid, workflow_id text, run_id uuid, task_id bigint, "
    "target_domain_ids set<uuid>, type int,)",
    "CREATE TYPE timer_info (version bigint, timer_id text, expiry_time timestamp,)",
    "CREATE TYPE checksum (version int, flavor int, value blob,)",
    "CREATE TYPE task (domain_id uuid, workflow_id text, run_id uuid, schedule_id bigint,)",
    "CREATE TYPE task_list (domain_id uuid, name text, type int, ack_level bigint, kind int,)",
    "CREATE TYPE domain (id uuid, name text, data map<text,text>,)",
    f"CREATE TABLE executions ({KEY.format('domain_id')} task_id bigint, current_run_id uuid, "
    "shard frozen<shard>, execution frozen<workflow_execution>, transfer frozen<transfer_task>, "
    "next_event_id bigint, range_id bigint, timer_map map<text, frozen<timer_info>>, "
    "signal_requested set<uuid>, checksum frozen<checksum>, workflow_last_write_version bigint, "
    f"workflow_state int, {EXECUTION_KEY.format('domain_id')}) {LEVELED}",
    "CREATE TABLE tasks (domain_id uuid, task_list_name text, task_list_type int, type int, "
    "task_id bigint, range_id bigint, task frozen<task>, task_list frozen<task_list>, "
    f"PRIMARY KEY ((domain_id, task_list_name, task_list_type), type, task_id)) {LEVELED}",
    f"CREATE TABLE domains (id uuid, domain frozen<domain>, PRIMARY KEY (id)) {LEVELED}",
)

# The fixed parts of keys. The kinds of rows in one table differ in `type`.
SHARD, EXECUTION, TRANSFER, TIMER = 0, 1, 2, 3
TASK, TASK_QUEUE, TASK_QUEUE_ID = 0, 1, -12345
SHARD_DOMAIN, SHARD_WORKFLOW, SHARD_RUN, SHARD_ID = (
    uuid.UUID("10000000-1000-f000-f000-000000000000"),
    "20000000-1000-f000-f000-000000000000",
    uuid.UUID("30000000-1000-f000-f000-000000000000"),
    -11,
)
TRANSFER_DOMAIN, TRANSFER_WORKFLOW, TRANSFER_RUN = (
    SHARD_DOMAIN,
    "20000000-3000-f000-f000-000000000000",
    uuid.UUID("30000000-3000-f000-f000-000000000000"),
)
CURRENT_RUN, EXECUTION_ID = uuid.UUID("30000000-0000-f000-f000-000000000001"), -10
EPOCH = datetime.datetime(2000, 1, 1)


class Store:
    """A session that prepares all statements but those of the schema, with the consistency levels
    that both engines use. The methods call `before` ahead of each request."""

    def __init__(self, node, keyspace, schema, before=lambda: None):
        self.session, self.prepared, self.before = connect(node, "v4"), {}, lambda: None
        run = self.session.execute
        run(f"DROP KEYSPACE IF EXISTS {keyspace}")
        run(
            f"CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = "
            "{ 'class' : 'SimpleStrategy', 'replication_factor' : 1};"
        )
        self.session.set_keyspace(keyspace)
        # The engines' tools record the version of the schema, and end statements with a semicolon.
        run("CREATE TABLE IF NOT EXISTS schema_version(keyspace_name text PRIMARY KEY, "
            "creation_time timestamp, curr_version text, min_compatible_version text);")
        for statement in schema:
            run(f"{statement};")
        self.rows(
            "INSERT into schema_version(keyspace_name, creation_time, curr_version, "
            "min_compatible_version) VALUES (?,?,?,?)", keyspace, EPOCH, "1.0", "1.0",
        )
        self.before = before

    def close(self):
        self.session.cluster.shutdown()

    def statement(self, text):
        if text not in self.prepared:
            self.prepared[text] = self.session.prepare(text)
            self.prepared[text].consistency_level = ConsistencyLevel.LOCAL_QUORUM
            self.prepared[text].serial_consistency_level = ConsistencyLevel.LOCAL_SERIAL
        return self.prepared[text]

    def rows(self, text, *values):
        """Executes a statement; returns its rows as tuples."""
        self.before()
        return list(self.session.execute(self.statement(text), values))

    def apply(self, text, *values):
        """Executes a conditional statement; returns the `outcome` of its answer."""
        self.before()
        return outcome(self.session.execute(self.statement(text), values))

    def batch(self, *statements):
        """Executes a logged batch of (text, value, …); returns the `outcome` of its answer."""
        self.before()
        batch = BatchStatement(
            BatchType.LOGGED,
            consistency_level=ConsistencyLevel.LOCAL_QUORUM,
            serial_consistency_level=ConsistencyLevel.LOCAL_SERIAL,
        )
        for text, *values in statements:
            batch.add(self.statement(text), values)
        return outcome(self.session.execute(batch))


def open_store(peer, place, keyspace, schema):
    """Opens a store whose rows are in memory, or are flushed to files ahead of each request if
    `place` is "files"; skips a test with files on Cassandra, whose flush takes seconds."""
    if place == "memory":
        return Store(peer, keyspace, schema)
    if not hasattr(peer, "flush"):
        pytest.skip("Cassandra runs this test in memory")
    return Store(peer, keyspace, schema, before=lambda: peer.flush(keyspace))


def outcome(result):
    """Returns True if the statement was applied; otherwise the rows that the answer shows, as
    dictionaries without nulls and without `[applied]`."""
    names, rows = result.column_names, list(result)
    assert names[0] == "[applied]", names
    if rows[0][0]:
        assert names == ["[applied]"] and len(rows) == 1, (names, rows)
        return True
    assert not any(row[0] for row in rows), rows
    shown = [dict(zip(names[1:], row[1:], strict=True)) for row in rows]
    return [{name: value for name, value in row.items() if value is not None} for row in shown]


def equalities(names, end=" and "):
    """Returns `a = ? and b = ?`."""
    return end.join(f"{name} = ?" for name in names)


def insert(table, names, values=None, end="IF NOT EXISTS"):
    """Returns the text of an INSERT; `values` replaces the list of markers. As in the engines, no
    blank precedes VALUES."""
    values = values or ", ".join("?" for _ in names)
    return f"INSERT INTO {table} ({', '.join(names)})VALUES({values}) {end}"


def execution_key(domain):
    return ["shard_id", "type", domain, "workflow_id", "run_id", "visibility_ts", "task_id"]


def update(table, assignments, key, condition="", using=""):
    """Returns the text of an UPDATE; `condition` follows the where clause as it is."""
    return f"UPDATE {table} {using}SET {assignments} WHERE {equalities(key)} {condition}"
