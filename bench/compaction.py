#!/usr/bin/env python3
"""Compacts two files that share half of their partitions: Espalier and Cassandra, on one core.

    make deps && .deps/venv/bin/python bench/compaction.py [ROUNDS]        default 10

In each round, `espalier bench compaction` writes the files and compacts them, and then a Cassandra
on the same core imports the files and compacts them. The first rounds warm Cassandra's JIT up; if
its last round is its best, more rounds might be better still, and the script says so. The script
compares the best round of each side, in core seconds of all threads of the process, so that
neither the disk nor other processes count. It also prints seconds by the clock; Cassandra's are
from its log. Both outputs must have the expected number of rows.

Settings by environment: ROWS=1000000 (of each file), VALUE_BYTES=100, CORE=1, HEAP=2G
(Cassandra's), and CASSANDRA=5.0.9. A Cassandra 6 compacts by its cursors, which write no BTI files,
so both sides use the format `oa` then.
"""
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "interop"))

from cassandra_node import SCRIPTS  # noqa: E402
from espalier_node import BINARY, free_port  # noqa: E402
from wire import Wire  # noqa: E402

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 10
ROWS, CORE, HEAP = (
    int(os.environ.get("ROWS", 1_000_000)),
    os.environ.get("CORE", "1"),
    os.environ.get("HEAP", "2G"),
)
VALUE_BYTES = os.environ.get("VALUE_BYTES", "100")
SCRATCH = ROOT / "bench" / "results" / "compaction"
PEER = ROOT / ".deps" / "cassandra" / "compaction"
DEFAULT_VERSION = "5.0.9"
VERSION = os.environ.pop("CASSANDRA", DEFAULT_VERSION)
HAS_CURSORS = VERSION.startswith("6.")
EXTRA_YAML = "compaction_throughput: 0MiB/s\nconcurrent_compactors: 1"
if HAS_CURSORS:
    # In this mode Cassandra 6 writes `oa`, which our tool reads to check the number of rows.
    EXTRA_YAML += "\nstorage_compatibility_mode: CASSANDRA_5\ncursor_compaction_enabled: true"
# The commands for a node's JMX port are in the tools of the default version.
TOOLS = ROOT / ".deps" / "cassandra" / "compaction_tools" if HAS_CURSORS else PEER
KEYSPACE, TABLE = "bench_compaction", "t"
COMPACTED = re.compile(r"Compacted \(.*?\) (\d+) sstables to .*? in ([\d,]+)ms")


def ours(inputs):
    """Runs our compaction. Returns core seconds, seconds by the clock, MB read before compression,
    and the program's output."""
    shutil.rmtree(inputs, ignore_errors=True)
    command = [
        "taskset",
        "-c",
        CORE,
        BINARY,
        "bench",
        "compaction",
        "--rows",
        str(ROWS),
        "--value-bytes",
        VALUE_BYTES,
        "--inputs",
        inputs,
        "--workdir",
        SCRATCH / "node",
    ]
    if HAS_CURSORS:
        command += ["--sstable-format", "oa"]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    plain = re.search(r"([\d.]+) MB before compression", said).group(1)
    clock, core = re.search(r" in ([\d.]+) s, ([\d.]+) s of a core", said).groups()
    return float(core), float(clock), float(plain), said


class Peer:
    """A Cassandra with one core."""

    host = "127.0.0.1"

    def __init__(self):
        self.port, self.jmx_port = free_port(), free_port()

    def script(self, name, directory=PEER, **settings):
        surroundings = {**os.environ, **{key: str(value) for key, value in settings.items()}}
        subprocess.run(
            [SCRIPTS / name, directory],
            check=True,
            capture_output=True,
            text=True,
            env=surroundings,
        )

    def __enter__(self):
        self.script("stop.sh")
        shutil.rmtree(PEER / "data", ignore_errors=True)
        if HAS_CURSORS:
            self.script("install.sh", TOOLS, CASSANDRA=DEFAULT_VERSION, OFFLINE=1)
        # Without a throttle and with one compaction at a time, the result is the speed of a core.
        self.script(
            "install.sh",
            PORT=self.port,
            STORAGE_PORT=free_port(),
            JMX=self.jmx_port,
            HEAP=HEAP,
            CORES=CORE,
            CASSANDRA=VERSION,
            FORMAT="big" if HAS_CURSORS else "bti",
            EXTRA_YAML=EXTRA_YAML,
            OFFLINE="" if HAS_CURSORS else 1,
        )
        self.script("start.sh")
        self.query(
            f"CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', "
            f"'replication_factor': 1}}"
        )
        self.query(
            f"CREATE TABLE {KEYSPACE}.{TABLE} (k bigint, c bigint, v blob, PRIMARY KEY (k, c)) "
            "WITH compaction = "
            "{'class': 'SizeTieredCompactionStrategy', 'enabled': 'false'} "
            "AND compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 16}"
        )
        return self

    def __exit__(self, *_):
        self.script("stop.sh")
        shutil.rmtree(PEER / "data", ignore_errors=True)

    def query(self, statement):
        with Wire(self, timeout_s=300) as wire:
            answer = wire.query(statement)
            assert answer.code is None, f"{statement}: {answer.message}"
            return answer

    def control(self, *commands):
        done = subprocess.run(
            [TOOLS / "oracle", "ctl", str(self.jmx_port)],
            input="\n".join(commands) + "\n",
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]

    def compact(self, inputs):
        """Imports the files and compacts them. Returns core seconds and seconds by the clock."""
        self.query(f"TRUNCATE {KEYSPACE}.{TABLE}")
        before = len(self.compactions())
        self.control(f"load {KEYSPACE} {TABLE} {inputs}")
        # The rest of the import's work must not count as work of the compaction.
        time.sleep(3)
        started = self.worked()
        self.control(f"compact {KEYSPACE} {TABLE}")
        core = self.worked() - started
        files, milliseconds = self.compactions()[before:][-1]
        assert files == 2, f"it compacted {files} files"
        return core, milliseconds / 1000

    def worked(self):
        """Returns the seconds that the process was on a core."""
        fields = (
            Path(f"/proc/{(PEER / 'pid').read_text().strip()}/stat")
            .read_text()
            .rpartition(")")[2]
            .split()
        )
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def compactions(self):
        """Returns the compactions of the table so far: number of files and milliseconds."""
        lines = (PEER / "log" / "node.log").read_text().splitlines()
        found = [COMPACTED.search(line) for line in lines if f"/{KEYSPACE}/" in line]
        return [
            (int(match.group(1)), int(match.group(2).replace(",", ""))) for match in found if match
        ]

    def rows(self):
        """Returns the number of rows of each file, from the file's statistics, which our tool
        reads."""
        self.control(f"flush {KEYSPACE} {TABLE}")
        table = next((PEER / "data" / "data" / KEYSPACE).iterdir())
        command = [BINARY, "sstable", "stats", "--json", table]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, f"{sorted(table.iterdir())}: {done.stderr}"
        said = done.stdout
        return [int(rows) for rows in re.findall(r'"rows": ?(\d+)', said)]


def main():
    if not os.access(BINARY, os.X_OK):
        sys.exit(f"there is no {BINARY}: run cargo build --release first")
    SCRATCH.mkdir(parents=True, exist_ok=True)
    inputs = SCRATCH / "inputs"
    times, told = {"Espalier": [], "Cassandra": []}, []
    with Peer() as peer:
        for round_number in range(1, ROUNDS + 1):
            core, clock, plain, said = ours(inputs)
            times["Espalier"].append(core)
            told.append(said)
            print(
                f"round {round_number}: Espalier {core:.2f} s of a core ({clock:.2f} s)",
                end="",
                flush=True,
            )
            core, clock = peer.compact(inputs)
            times["Cassandra"].append(core)
            print(f", Cassandra {core:.2f} s of a core ({clock:.2f} s)", flush=True)
        # The row count of the statistics suffices here, because a lost row would change it.
        expected = ROWS + ROWS // 2
        assert peer.rows() == [expected], f"Cassandra's file has {peer.rows()} rows, not {expected}"
    best = {name: min(all_times) for name, all_times in times.items()}
    # The output of our best round gives the speeds of its parts.
    print(told[times["Espalier"].index(best["Espalier"])], end="")
    for name, seconds in best.items():
        print(
            f"{name:<10} {seconds:6.2f} s of a core at best, {plain / seconds:5.0f} MB/s read "
            "before compression"
        )
    print(f"Espalier is {best['Cassandra'] / best['Espalier']:.1f} times as fast")
    if times["Cassandra"][-1] == best["Cassandra"]:
        print("Cassandra's last round is its best: repeat with more rounds")
    shutil.rmtree(SCRATCH, ignore_errors=True)


if __name__ == "__main__":
    main()
