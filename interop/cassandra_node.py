"""A running Cassandra from `interop/cassandra/install.sh`, empty and on free ports."""
import contextlib
import os
import shutil
import signal
import subprocess
import time

from espalier_node import REPOSITORY, free_port

SCRIPTS = REPOSITORY / "interop" / "cassandra"
# Its data is dropped at the end, so a change of the schema need not wait for the disk.
VOLATILE = "-Dcassandra.unsafesystem=true -Dcassandra.test.flush_local_schema_changes=false"
# The file from which the snitch reads the data centre and the rack of a node.
PLACE = "cassandra-rackdc.properties"


class CassandraNode:
    """A node in `directory`, with the jars of the oracle (interop/cassandra/README.md).

    `host` is its address for clients and peers. With `data_center`, the node has the snitch that
    reads the data centre from a file. `is_small` saves memory and shortens the start. A volatile
    node may forget changes of the schema when it is killed."""

    def __init__(self, directory, extra_yaml="", jvm_options="", host="127.0.0.1",
                 storage_port=None, data_center=None, is_small=False, is_volatile=True,
                 file_format="bti"):
        self.directory, self.port, self.jmx_port = directory, free_port(), free_port()
        self.host, self.storage_port = host, storage_port or free_port()
        self.extra_yaml, self.data_center, self.is_small = extra_yaml, data_center, is_small
        self.file_format = file_format
        self.jvm_options = f"{VOLATILE if is_volatile else ''} {jvm_options}"

    def start(self):
        """Wipes the node's data and starts it; this takes about 5 seconds."""
        self.install()
        self.resume()

    def install(self):
        """Wipes the node's data and writes its configuration."""
        self._run("stop.sh")
        shutil.rmtree(self.directory / "data", ignore_errors=True)
        snitch = "\nendpoint_snitch: GossipingPropertyFileSnitch" if self.data_center else ""
        self._run(
            "install.sh",
            ADDRESS=self.host,
            PORT=self.port,
            STORAGE_PORT=self.storage_port,
            JMX=self.jmx_port,
            HEAP="448M" if self.is_small else "768M",
            DIRECT="512M",
            FORMAT=self.file_format,
            OFFLINE=1,
            EXTRA_YAML=self.extra_yaml + snitch,
        )
        if self.data_center:
            place = self.directory / "conf" / PLACE
            place.write_text(f"dc={self.data_center}\nrack=rack1\n")

    def resume(self, options=""):
        """Starts the node with the data that it has."""
        frugal = {"GC": "-XX:+UseSerialGC"} if self.is_small else {}
        if self.data_center:
            options += f" -Dcassandra-rackdc.properties=file://{self.directory}/conf/{PLACE}"
        self._run("start.sh", JVM_OPTS=f"{self.jvm_options} {options}", **frugal)

    def kill(self):
        """Kills the node with SIGKILL."""
        pid_file = self.directory / "pid"
        pid = int(pid_file.read_text())
        with contextlib.suppress(ProcessLookupError):
            while True:
                os.kill(pid, signal.SIGKILL)
                time.sleep(0.05)
        pid_file.unlink()

    def halt(self):
        """Stops the node cleanly and keeps its data."""
        self._run("stop.sh")

    def nodetool(self, *arguments):
        """Returns the output of a command of nodetool, which takes about 2 seconds."""
        surroundings = {"CONF": "tools.yaml", "HEAP": "128M", "XMS": "32M", "LOGLEVEL": "OFF",
                        "GC": "-XX:+UseSerialGC"}
        done = subprocess.run(
            [self.directory / "run.sh", "org.apache.cassandra.tools.NodeTool", "-p",
             str(self.jmx_port), *arguments],
            env={**os.environ, **surroundings}, capture_output=True, text=True, timeout=120,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    def log(self):
        """Returns the log since the last start."""
        return (self.directory / "log" / "node.log").read_text(errors="replace")

    def stop(self):
        """Kills the node, because an orderly end takes 6 s, and wipes its data."""
        self._run("stop.sh", STOP_TIMEOUT=0)
        shutil.rmtree(self.directory / "data", ignore_errors=True)

    def control(self, commands):
        """Sends commands to the node with one JVM for all (see `oracle ctl`); returns
        their output."""
        done = subprocess.run(
            [self.directory / "oracle", "ctl", str(self.jmx_port)],
            input="\n".join(commands) + "\n",
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    def _run(self, script, **settings):
        surroundings = {**os.environ, **{key: str(value) for key, value in settings.items()}}
        done = subprocess.run(
            [SCRIPTS / script, self.directory],
            capture_output=True,
            text=True,
            env=surroundings,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
