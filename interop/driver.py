"""Sessions of cassandra-driver for the tests, and the seed of their random values."""
import os
import random
import time

from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import RoundRobinPolicy
from cassandra.query import BatchStatement, BatchType, tuple_factory

# Protocol version and compression by name.
PROTOCOLS = {"v5": (5, False), "v4": (4, False), "v5-lz4": (5, "lz4"), "v4-lz4": (4, "lz4")}


def connect(
    node, protocol="v5", keyspace=None, row_factory=tuple_factory, timeout_s=60, policy=None
):
    """Opens a session on `node` (any object with `host` and `port`) that speaks exactly this
    protocol; rows are returned as tuples. `policy` chooses among the hosts of a ring."""
    version, compression = PROTOCOLS.get(protocol) or (4, protocol.partition("-")[2])
    profile = ExecutionProfile(
        load_balancing_policy=policy or RoundRobinPolicy(),
        request_timeout=timeout_s,
        row_factory=row_factory,
    )
    # By default the driver's schema queries end after 2 s, which is too short beside other tests on
    # a machine of two cores.
    cluster = Cluster(
        [node.host],
        port=node.port,
        protocol_version=version,
        compression=compression,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        connect_timeout=timeout_s,
        control_connection_timeout=timeout_s,
        schema_metadata_enabled=True,
        allow_beta_protocol_version=False,
    )
    session = cluster.connect(keyspace)
    assert cluster.protocol_version == version
    return session


def write_all(session, statement, values, rows_per_batch=50):
    """Executes a prepared statement for each of `values`, many in one request, because a request
    costs the driver more than a row does."""
    values = list(values)
    for begin in range(0, len(values), rows_per_batch):
        batch = BatchStatement(batch_type=BatchType.UNLOGGED)
        for row in values[begin : begin + rows_per_batch]:
            batch.add(statement, row)
        session.execute(batch)


def seed():
    """Returns INTEROP_SEED, or the gate's TEST_SEED, or a new seed; prints it, so that a failure
    can be repeated."""
    given = os.environ.get("INTEROP_SEED") or os.environ.get("TEST_SEED")
    number = int(given or random.Random(time.time_ns()).getrandbits(32))
    print(f"INTEROP_SEED={number}")
    return number
