"""The Python driver's program of the interop tests; driver_programs.py describes its commands."""
import itertools
import os
import random
import ssl
import sys
import threading
import time

from cassandra import ConsistencyLevel, InvalidRequest, Unauthorized
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable
from cassandra.policies import ConstantReconnectionPolicy, RoundRobinPolicy
from cassandra.protocol import SyntaxException

from linearizable import CAS, READ, Operation, write_history

KEYS = 8
# The statements on a register. The environment may replace them, and the name of the column.
STATEMENTS = {
    "REGISTER_READ": "SELECT v FROM registers.rows WHERE k = ?",
    "REGISTER_INSERT": "INSERT INTO registers.rows (k, v) VALUES (?, ?) IF NOT EXISTS",
    "REGISTER_UPDATE": "UPDATE registers.rows SET v = ? WHERE k = ? IF v = ?",
    "REGISTER_DELETE": "DELETE FROM registers.rows WHERE k = ? IF v = ?",
}
COLUMN = os.environ.get("REGISTER_COLUMN", "v")


def cluster_of(host, port):
    """Returns the cluster that the arguments and the environment ask for."""
    environment, options = os.environ, {}
    if user := environment.get("CQL_USER"):
        options["auth_provider"] = PlainTextAuthProvider(user, environment["CQL_PASSWORD"])
    if authority := environment.get("CQL_AUTHORITY"):
        context = ssl.create_default_context(cafile=authority)
        context.check_hostname = False
        if version := environment.get("CQL_TLS"):
            version = ssl.TLSVersion[f"TLSv{version.replace('.', '_')}"]
            context.minimum_version = context.maximum_version = version
        if own := environment.get("CQL_CERTIFICATE"):
            context.load_cert_chain(own)
        options["ssl_context"] = context
    profile = ExecutionProfile(RoundRobinPolicy(), request_timeout=20)
    return Cluster(
        [host],
        port=int(port),
        protocol_version=5,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        # The driver must connect again soon, because a killed node is back within a second.
        reconnection_policy=ConstantReconnectionPolicy(0.1, max_attempts=None),
        connect_timeout=20,
        **options,
    )


def login(cluster):
    """Connects, and prints the node's version or the driver's error."""
    try:
        session = cluster.connect()
    except NoHostAvailable as error:
        print("error:", str(error).replace("\n", " "))
        return
    print("ok:", session.execute("SELECT release_version FROM system.local").one()[0])


class Registers:
    """Clients that read and conditionally write eight rows, and record what they see."""

    def __init__(self, session):
        self.session = session
        texts = (os.environ.get(name, text) for name, text in STATEMENTS.items())
        self.read, self.insert, self.update, self.delete = map(session.prepare, texts)
        self.read.consistency_level = ConsistencyLevel.SERIAL
        self.values, self.history, self.trouble = itertools.count(1), [], []
        # The last value that a client saw of each register; it may be old.
        self.latest = [None] * KEYS

    def run(self, seconds, clients, file):
        """Runs the clients for some seconds, and writes what they saw to a file."""
        print("connected", flush=True)
        until = time.monotonic() + seconds
        threads = [
            threading.Thread(target=self.run_client, args=(client, until))
            for client in range(clients)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.trouble:
            sys.exit(self.trouble[0])
        write_history(file, self.history)

    def run_client(self, client, until):
        draw = random.Random(client)
        while time.monotonic() < until and not self.trouble:
            try:
                self.operate(client, draw)
            except Exception as error:
                self.trouble.append(repr(error))

    def operate(self, client, draw):
        """Sends one request that suits the latest value of a random register."""
        register, choice = draw.randrange(KEYS), draw.randrange(10)
        expected, new, kind = self.latest[register], None, CAS
        if choice < 3:
            kind, expected, statement = READ, None, self.read.bind((register,))
        elif choice == 3 or expected is None:
            expected, new = None, next(self.values)
            statement = self.insert.bind((register, new))
        elif choice == 4:
            statement = self.delete.bind((register, expected))
        else:
            new = next(self.values)
            statement = self.update.bind((new, register, expected))
        begin = time.monotonic_ns()
        try:
            row = self.session.execute(statement).one()
        except (InvalidRequest, SyntaxException, Unauthorized):
            raise
        except Exception:
            # The write may have happened.
            self.record(register, client, kind, begin, None, expected, new)
            time.sleep(0.02)
            return
        end = time.monotonic_ns()
        applied = None if kind == READ else row[0]
        found = None if applied else getattr(row, COLUMN, None)
        self.record(register, client, kind, begin, end, expected, new, applied, found)
        self.latest[register] = new if applied else found

    def record(self, register, client, *outcome):
        self.history.append(Operation(str(register), client, *outcome))


def main(command, host, port, *rest):
    cluster = cluster_of(host, port)
    try:
        if command == "login":
            login(cluster)
        elif command == "registers":
            seconds, clients, file = rest
            Registers(cluster.connect("registers")).run(int(seconds), int(clients), file)
        else:
            sys.exit(f"there is no command {command}")
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
