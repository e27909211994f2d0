"""Runs a node of the binary under test on free ports in a directory of its own, and stops it.

Time limits are generous, because the machine of the tests may have other work; bench/ measures
times that must be short.
"""

import os
import random
import re
import select
import signal
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path

from cassandra.cluster import Cluster, ExecutionProfile, EXEC_PROFILE_DEFAULT
from cassandra.policies import RoundRobinPolicy

REPOSITORY = Path(__file__).resolve().parent.parent
BINARY = Path(os.environ.get("ESPALIER_BINARY", REPOSITORY / "target" / "release" / "espalier"))
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 120


# The system gives the ports from here on to outgoing connections, of which tests make thousands.
# Such a port may be taken between the check and its use, or while a node restarts.
MIN_EPHEMERAL_PORT = 32768
_given_ports = set()


def free_port():
    """Returns a port without a listener, below the ports of outgoing connections, and not returned
    before."""
    while True:
        port = random.randrange(10000, MIN_EPHEMERAL_PORT)
        if port in _given_ports:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given_ports.add(port)
        return port


class Node:
    """One node; call `start` to run it. Its ports stay the same over restarts, so that drivers find
    the node again."""

    def __init__(self, directory, arguments=(), settings=None, shards=1, memory="256M"):
        self.directory = Path(directory)
        self.host = "127.0.0.1"
        self.port = free_port()
        self.api_port = free_port()
        self.settings = dict(settings or {})
        self.arguments = ["--smp", str(shards), "--memory", memory, *arguments]
        self.process = None
        self.ready_line = None
        self.log_path = self.directory.parent / f"{self.directory.name}.log"
        self.clusters = []

    def command_line(self):
        """Returns the command that `start` runs."""
        settings = {"api_port": self.api_port, **self.settings}
        sets = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        place = ["--workdir", str(self.directory), "--host", self.host, "--port", str(self.port)]
        return [str(BINARY), "serve", *place, *self.arguments, *sets]

    def start(self):
        """Starts the process and waits for its line that begins with `ready`."""
        assert self.process is None, "the node runs already"
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command_line(), stdout=subprocess.PIPE, stderr=log)
        readable, _, _ = select.select([self.process.stdout], [], [], START_TIMEOUT_S)
        line = self.process.stdout.readline().decode() if readable else ""
        self.ready_line = line
        if not line.startswith("ready"):
            self.process.kill()
            self.process.wait()
            self.process = None
            raise AssertionError(f"the node did not start; end of its log:\n{self.log()[-4000:]}")
        return self

    def start_and_kill(self, after_s):
        """Starts the process and kills it after this time, ready or not."""
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command_line(), stdout=subprocess.PIPE, stderr=log)
        time.sleep(after_s)
        self.kill()

    def stop(self):
        """Stops the process with SIGTERM, as a service manager does; returns the exit code, 0 on
        success."""
        return self._end(signal.SIGTERM)

    def kill(self):
        """Kills the process with SIGKILL, so that it cannot clean up."""
        return self._end(signal.SIGKILL)

    def restart(self, kill=False):
        """Stops the process, cleanly or not, and starts it again."""
        code = self.kill() if kill else self.stop()
        assert kill or code == 0, f"the node stopped with code {code}:\n{self.log()[-4000:]}"
        return self.start()

    def _end(self, number):
        process, self.process = self.process, None
        process.send_signal(number)
        code = process.wait(STOP_TIMEOUT_S)
        process.stdout.close()
        return code

    def is_running(self):
        """Returns True if the process is alive."""
        return self.process is not None and self.process.poll() is None

    def log(self):
        """Returns the log since the first start."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def request(self, method, path, **parameters):
        """Sends a request to the admin API; returns the answer's text, and raises HTTPError for any
        status but 2xx."""
        query = urllib.parse.urlencode({k: v for k, v in parameters.items() if v is not None})
        url = f"http://{self.host}:{self.api_port}{path}" + (f"?{query}" if query else "")
        request = urllib.request.Request(url, method=method)
        with urllib.request.urlopen(request, timeout=300) as response:
            return response.read().decode()

    def flush(self, keyspace, table=None):
        """Writes the memtables of a keyspace, or of one table, to files."""
        self.request("POST", f"/storage_service/keyspace_flush/{keyspace}", cf=table)

    def metrics(self):
        """Returns the metrics by name, summed over all labels, such as the shards."""
        sums = {}
        for line in self.request("GET", "/metrics").splitlines():
            match = re.match(r"([a-zA-Z_:][\w:]*)(?:\{[^}]*\})? (\S+)", line)
            if match:
                sums[match[1]] = sums.get(match[1], 0.0) + float(match[2])
        return sums

    def resident_bytes(self):
        """Returns the process's resident memory, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024

    def table_files(self, keyspace, table, component="Data.db"):
        """Returns the files of one component, for the table and for dropped tables of its name."""
        return sorted(self.directory.glob(f"data/{keyspace}/{table}-*/*-{component}"))

    def cluster(self, protocol_version=5, **arguments):
        """Returns a cassandra-driver Cluster of this node, which `close` shuts down."""
        profile = ExecutionProfile(load_balancing_policy=RoundRobinPolicy(), request_timeout=120)
        cluster = Cluster(
            [self.host],
            port=self.port,
            protocol_version=protocol_version,
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
            connect_timeout=30,
            control_connection_timeout=30,
            **arguments,
        )
        self.clusters.append(cluster)
        return cluster

    def connect(self, keyspace=None, **arguments):
        """Opens a session of cassandra-driver."""
        return self.cluster(**arguments).connect(keyspace)

    def close(self):
        """Ends sessions and process, whatever their state, at the end of a test."""
        for cluster in self.clusters:
            cluster.shutdown()
        if self.process is not None:
            if self.process.poll() is None:
                self.process.kill()
            self.process.wait(STOP_TIMEOUT_S)
            self.process.stdout.close()
            self.process = None


def nodetool(node, *arguments):
    """Returns the output of `espalier nodetool`; if it fails, raises with its stderr as the
    message."""
    address = f"{node.host}:{node.api_port}"
    done = subprocess.run(
        [BINARY, "nodetool", "--node", address, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def wait_until(condition, timeout_s=60, what="the condition"):
    """Waits until `condition()` is true, or fails."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true within {timeout_s} s"
        time.sleep(0.02)
