"""A running Cassandra from `interop/cassandra/install.sh`, empty and on free ports."""
import os
import shutil
import subprocess

from espalier_node import REPOSITORY, free_port

SCRIPTS = REPOSITORY / "interop" / "cassandra"
# Its data is dropped at the end, so a change of the schema need not wait for the disk.
VOLATILE = "-Dcassandra.unsafesystem=true -Dcassandra.test.flush_local_schema_changes=false"


class CassandraNode:
    """A node in `directory`; the jars are shared with the oracle."""

    host = "127.0.0.1"

    def __init__(self, directory, extra_yaml="", jvm_options=""):
        self.directory, self.port, self.jmx_port = directory, free_port(), free_port()
        self.storage_port = free_port()
        self.extra_yaml, self.jvm_options = extra_yaml, jvm_options

    def start(self):
        """Wipes the node's data and starts it; this takes about 5 seconds."""
        self._run("stop.sh")
        shutil.rmtree(self.directory / "data", ignore_errors=True)
        self._run(
            "install.sh",
            PORT=self.port,
            STORAGE_PORT=self.storage_port,
            JMX=self.jmx_port,
            HEAP="768M",
            DIRECT="512M",
            FORMAT="bti",
            OFFLINE=1,
            EXTRA_YAML=self.extra_yaml,
        )
        self._run("start.sh", JVM_OPTS=f"{VOLATILE} {self.jvm_options}")

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
