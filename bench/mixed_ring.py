#!/usr/bin/env python3
"""Measures a replica of ours beside a replica of Cassandra, in one ring and under one load.

    make deps && cargo build --release
    .deps/venv/bin/python bench/mixed_ring.py [--rows 50000] [--seconds 30] [--warm-up 40]

A run takes ten minutes. The ring has three nodes, each in a data centre of its own:

first    Cassandra, the coordinator of all requests and the third replica; not compared
second   Cassandra, the replica that ours is compared with
ours     our node

write    `INSERT INTO t (k, v) VALUES (?, ?)`, a value of 100 bytes, at ALL with RF 3: each replica
         takes each write. Cassandra's commit log is synced every 10 s, its default; ours before
         each answer, because a member may not do otherwise.
digest   `SELECT v FROM t WHERE k = ?` at ALL with RF 3: `first` reads the row, and asks both
         other replicas for digests. The rows are first in memtables, then in files.
data     the same at ONE, of two keyspaces that only `second` or only ours has.
latency  the same reads, and writes, of these two keyspaces, in turn and at a fixed rate. Meanwhile
         another client writes and reads at ALL with RF 3 at a fixed rate, and `second` and ours
         flush, so that compactions run. The latency is that of the client, so it includes the
         coordinator and the way to it, for both alike.

Processor time is utime and stime of a replica's process during the requests, less those of an idle
ring in the same time, for each request. It includes everything that a replica does then: commit
log, flush, compaction, garbage collection, compilation. Memory is VmRSS at the end.

The script prints a table, and rows for bench/history/mixed_ring.csv. Exit status 1: an answer was
wrong, or ours takes more than a fifth of Cassandra's processor time. Settings by environment:
ESPALIER_BINARY, HEAP=2G (Cassandra's), MEMORY=1G (ours), and MACHINE, the machine's name in the
rows.
"""
import argparse
import datetime
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "interop"))

try:
    from cassandra_node import PLACE, CassandraNode
    from espalier_node import BINARY, Node, free_port, nodetool, wait_until
    from wire import ERROR, EXECUTE, ONE, Wire
except ImportError as error:
    sys.exit(f"{error}: run make deps, and this script with .deps/venv/bin/python")

HEAP, MEMORY, MACHINE = (
    os.environ.get(name, value)
    for name, value in (("HEAP", "2G"), ("MEMORY", "1G"), ("MACHINE", "unknown"))
)
SCRATCH = ROOT / "bench" / "results" / "mixed_ring"
PEER = ROOT / ".deps" / "cassandra" / "mixed_ring"
ALL = 0x0005
VALUE_BYTES, GOAL = 100, 0.2
IN_FLIGHT = 64
KEYSPACES = {"everywhere": "'first': 1, 'second': 1, 'ours': 1", "of_second": "'second': 1",
             "of_ours": "'ours': 1"}
EXTRA_YAML = """
endpoint_snitch: GossipingPropertyFileSnitch
user_defined_functions_enabled: false
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters: [{{seeds: "127.0.0.1:{port}, 127.0.0.2:{port}"}}]
"""


def process_seconds(process):
    """Returns the seconds that a process was on a core."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(process):
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) / 1024


class Cassandra(CassandraNode):
    """A Cassandra node of the ring, with the default collector and a heap of its own."""

    def install(self):
        self.directory.mkdir(parents=True, exist_ok=True)
        self._run("stop.sh", STOP_TIMEOUT=0)
        shutil.rmtree(self.directory / "data", ignore_errors=True)
        self._run("install.sh", ADDRESS=self.host, PORT=self.port, STORAGE_PORT=self.storage_port,
                  JMX=self.jmx_port, HEAP=HEAP, DIRECT="1G", FORMAT="bti", OFFLINE=1,
                  EXTRA_YAML=self.extra_yaml)
        (self.directory / "conf" / PLACE).write_text(f"dc={self.data_center}\nrack=rack1\n")

    @property
    def pid(self):
        return int((self.directory / "pid").read_text())


class Ring:
    """The three nodes."""

    def __init__(self):
        port, self.control = free_port(), None
        option = "-Dcassandra.initial_token={}"
        self.first, self.second = (
            Cassandra(PEER / name, EXTRA_YAML.format(port=port), option.format(token), host, port,
                      data_center=name, is_volatile=False)
            for name, token, host in (("first", -(1 << 62), "127.0.0.1"),
                                      ("second", 0, "127.0.0.2"))
        )
        configuration = SCRATCH / "conf"
        configuration.mkdir(parents=True)
        (configuration / "node.yaml").write_text("endpoint_snitch: GossipingPropertyFileSnitch\n")
        (configuration / PLACE).write_text("dc=ours\nrack=rack1\n")
        seeds = f"127.0.0.1:{port}, 127.0.0.2:{port}"
        self.ours = Node(
            SCRATCH / "ours", ["--config", configuration / "node.yaml"], memory=MEMORY, settings={
                "join_ring": "true", "auto_bootstrap": "false", "cluster_name": "peer",
                "listen_address": "127.0.0.3", "storage_port": port, "initial_token": 1 << 62,
                "storage_compatibility_mode": "NONE", "commitlog_sync": "group",
                "seed_provider":
                    f"[{{class_name: SimpleSeedProvider, parameters: [{{seeds: '{seeds}'}}]}}]",
            })

    def start(self):
        self.first.start()
        self.second.start()
        self.ours.start()
        with Wire(self.first, timeout_s=120) as wire:
            peers = "SELECT data_center FROM system.peers_v2"
            known = lambda: [row for row in wire.select(peers) if row[0]]
            wait_until(lambda: len(known()) == 2, 60, "gossip")
            for keyspace, replicas in KEYSPACES.items():
                run(wire, f"CREATE KEYSPACE {keyspace} WITH replication = "
                          f"{{'class': 'NetworkTopologyStrategy', {replicas}}}")
                run(wire, f"CREATE TABLE {keyspace}.t (k bigint PRIMARY KEY, v blob)")
            versions = ("SELECT schema_version FROM system.local",
                        "SELECT schema_version FROM system.peers_v2")
            wait_until(lambda: len({row[0] for text in versions for row in wire.select(text)}) == 1,
                       60, "agreement on the schema")

    def replicas(self):
        """Returns the ids of the compared processes by the names of their nodes."""
        return {"second": self.second.pid, "ours": self.ours.process.pid}

    def flush(self):
        """Flushes the compared replicas; Cassandra by one process that stays, because each start
        of a JVM takes a core for a second."""
        for keyspace in KEYSPACES:
            self.ours.flush(keyspace)
        if self.control is None:
            command = [self.second.directory / "oracle", "ctl", str(self.second.jmx_port)]
            self.control = subprocess.Popen(command, stdin=subprocess.PIPE,
                                            stdout=subprocess.DEVNULL, text=True)
        self.control.stdin.write("".join(f"flush {keyspace} t\n" for keyspace in KEYSPACES))
        self.control.stdin.flush()

    def stop(self):
        if self.control:
            self.control.stdin.close()
            self.control.wait(60)
        self.ours.close()
        self.first.stop()
        self.second.stop()


def run(wire, text):
    answer = wire.query(text)
    assert answer.code is None, f"{text}: {answer.message}"


def value_of(key):
    return key.to_bytes(8, "big", signed=True) + random.Random(key).randbytes(VALUE_BYTES - 8)


class Client:
    """A connection to the coordinator. `wrong` counts the wrong answers."""

    def __init__(self, ring, keyspace, consistency, options, random_seed=1):
        self.wire = Wire(ring.first, timeout_s=120)
        self.insert = self.wire.prepare(f"INSERT INTO {keyspace}.t (k, v) VALUES (?, ?)")
        self.select = self.wire.prepare(f"SELECT v FROM {keyspace}.t WHERE k = ?")
        self.consistency, self.rows, self.wrong = consistency, options.rows, 0
        self.draw = random.Random(random_seed)

    def envelope(self, is_write, key, stream):
        key_bytes = key.to_bytes(8, "big", signed=True)
        values = (key_bytes, value_of(key)) if is_write else (key_bytes,)
        prepared = self.insert if is_write else self.select
        body = self.wire.execute_body(prepared, values, self.consistency)
        return self.wire.envelope(EXECUTE, body, stream)

    def check(self, answer, is_write, key):
        right = answer.opcode != ERROR and (is_write or answer.body.endswith(value_of(key)))
        if not right:
            self.wrong += 1
            if self.wrong < 5:
                print(f"wrong: {answer.message if answer.opcode == ERROR else answer}")

    def closed_loop(self, is_write, keys):
        """Keeps IN_FLIGHT requests under way, one for each key; returns their number."""
        keys, under_way, count = iter(keys), {}, 0
        for stream in range(IN_FLIGHT):
            self._next(is_write, keys, stream, under_way)
        while under_way:
            answer = self.wire.receive()
            self.check(answer, is_write, under_way.pop(answer.stream))
            count += 1
            self._next(is_write, keys, answer.stream, under_way)
        return count

    def _next(self, is_write, keys, stream, under_way):
        key = next(keys, None)
        if key is not None:
            under_way[stream] = key
            self.wire.send(self.envelope(is_write, key, stream))

    def keys_for(self, seconds):
        """Yields random keys for some time."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            yield self.draw.randrange(self.rows)

    def timed(self, is_write):
        """Sends one request; returns its latency in ms."""
        key = self.draw.randrange(self.rows)
        envelope, began = self.envelope(is_write, key, 1), time.monotonic()
        self.wire.send(envelope)
        answer = self.wire.receive()
        latency = (time.monotonic() - began) * 1000
        self.check(answer, is_write, key)
        return latency


class Measurement:
    """The processor time of the replicas during some work."""

    def __init__(self, ring, idle=None):
        self.ring, self.idle = ring, idle

    def __enter__(self):
        self.before, self.began = self._read(), time.monotonic()
        return self

    def __exit__(self, *_):
        self.seconds = time.monotonic() - self.began
        after = self._read()
        self.spent = {name: after[name] - seconds for name, seconds in self.before.items()}

    def _read(self):
        return {name: process_seconds(pid) for name, pid in self.ring.replicas().items()}

    def of_one(self, count):
        """Returns the processor time of one request in µs, by replica."""
        return {name: (spent - self.idle[name] * self.seconds) / count * 1e6
                for name, spent in self.spent.items()}


class Background(threading.Thread):
    """Writes to and reads from all replicas at a fixed rate, and flushes the compared ones, until
    `ends`."""

    def __init__(self, ring, options, ends):
        super().__init__(daemon=True)
        self.ring, self.options, self.ends, self.count, self.flushes = ring, options, ends, 0, 0
        self.client = Client(ring, "everywhere", ALL, options, 7)

    def run(self):
        flushing = threading.Thread(target=self._flush, daemon=True)
        flushing.start()
        began = time.monotonic()
        while not self.ends.is_set():
            ahead = self.count / self.options.rate - (time.monotonic() - began)
            if ahead > 0:
                time.sleep(ahead)
            block = [self.client.draw.randrange(self.options.rows) for _ in range(10)]
            self.client.closed_loop(self.count // 10 % 2 == 0, block)
            self.count += len(block)
        flushing.join()

    def _flush(self):
        while not self.ends.wait(4):
            self.ring.flush()
            self.flushes += 1


def measure_latency(ring, options, clients):
    """Returns the latencies in ms by (kind, replica), and the ended background load."""
    ends = threading.Event()
    background = Background(ring, options, ends)
    background.start()
    latencies, began, number = {}, time.monotonic(), 0
    while time.monotonic() - began < 3 * options.seconds:
        pause = number / options.probes - (time.monotonic() - began)
        if pause > 0:
            time.sleep(pause)
        number += 1
        name = ("second", "ours")[number % 2]
        is_write = number // 2 % 2 == 0
        latency = clients[name].timed(is_write)
        latencies.setdefault(("write" if is_write else "read", name), []).append(latency)
    ends.set()
    background.join()
    return latencies, background


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--seconds", type=float, default=30, help="of each measurement")
    parser.add_argument("--warm-up", type=float, default=40, help="seconds of writes, and of reads")
    parser.add_argument("--rate", type=float, default=800, help="requests a second beside probes")
    parser.add_argument("--probes", type=float, default=100, help="timed requests a second")
    options = parser.parse_args()
    if not os.access(BINARY, os.X_OK):
        sys.exit(f"there is no {BINARY}: run cargo build --release first")
    shutil.rmtree(SCRATCH, ignore_errors=True)
    ring = Ring()
    try:
        ring.start()
        return report(ring, options)
    finally:
        ring.stop()


def fill(ring, options):
    """Writes all rows, and warms the nodes up. Returns the clients."""
    clients = {"everywhere": Client(ring, "everywhere", ALL, options)}
    for name in ("second", "ours"):
        clients[name] = Client(ring, f"of_{name}", ONE, options)
    for client in clients.values():
        client.closed_loop(True, range(options.rows))
    for is_write in (True, False):
        for name, client in clients.items():
            share = options.warm_up * (1 if name == "everywhere" else 0.5)
            client.closed_loop(is_write, client.keys_for(share))
    return clients


def report(ring, options):
    clients = fill(ring, options)
    time.sleep(5)
    with Measurement(ring) as measured:
        time.sleep(20)
    idle = {name: spent / measured.seconds for name, spent in measured.spent.items()}
    print(f"idle: {', '.join(f'{name} {share:.1%} of a core' for name, share in idle.items())}")
    rows, commit = [], os.popen("git rev-parse --short HEAD").read().strip()

    def add(measure, name, value, unit):
        note = f"bench/mixed_ring.py, heap {HEAP}, memory {MEMORY}"
        who = {"ours": "Espalier", "second": "Cassandra", None: "ratio"}[name]
        rows.append(f"{datetime.date.today()},{commit},{MACHINE},\"{measure}, {who}\","
                    f"{value:.4g},{unit},\"{note}\"")

    ratios = {}

    def measure(kind, is_write, seconds=options.seconds):
        client = clients["everywhere"]
        with Measurement(ring, idle) as measured:
            count = client.closed_loop(is_write, client.keys_for(seconds))
        show(kind, count, measured.of_one(count), measured.seconds)

    def show(kind, count, of_one, seconds):
        ratios[kind] = of_one["ours"] / of_one["second"]
        print(f"{kind:24} {count / seconds:8,.0f} /s: Cassandra {of_one['second']:7.1f} µs, ours "
              f"{of_one['ours']:6.1f} µs, {ratios[kind]:.3f} times", flush=True)
        for name, value in of_one.items():
            add(f"{kind}, processor time", name, value, "us")
        add(f"{kind}, processor time", None, ratios[kind], "times")

    def measure_data(kind):
        of_one, seconds = {}, options.seconds / 2
        for name in ("second", "ours"):
            with Measurement(ring, idle) as measured:
                count = clients[name].closed_loop(False, clients[name].keys_for(seconds))
            of_one[name] = measured.of_one(count)[name]
        show(kind, count, of_one, measured.seconds)

    measure("write", True)
    measure("digest, memtable", False)
    measure_data("data, memtable")
    ring.flush()
    measure("digest, files", False)
    measure_data("data, files")
    latencies, background = measure_latency(ring, options, clients)
    histories = {"second": ring.second.nodetool("compactionhistory"),
                 "ours": nodetool(ring.ours, "compactionhistory")}
    counts = {name: sum(any(keyspace in line for keyspace in KEYSPACES)
                        for line in text.splitlines()) for name, text in histories.items()}
    print(f"{background.count} requests and {background.flushes} flushes beside the probes; "
          f"compactions: {counts}")
    for (kind, name), values in sorted(latencies.items()):
        values.sort()
        at = lambda share: values[min(len(values) - 1, int(len(values) * share))]
        print(f"latency of a {kind}, {name:6}: p50 {at(0.5):6.2f}, p99 {at(0.99):6.2f}, p99.9 "
              f"{at(0.999):6.2f} ms, {len(values)} requests", flush=True)
        add(f"p50 of a {kind} beside compactions", name, at(0.5), "ms")
        add(f"p99 of a {kind} beside compactions", name, at(0.99), "ms")
    for name, pid in ring.replicas().items():
        print(f"memory, {name:6}: {resident_mib(pid):,.0f} MiB")
        add("resident memory", name, resident_mib(pid), "MiB")
    print("\n".join(rows))
    wrong = sum(client.wrong for client in [*clients.values(), background.client])
    print(f"{wrong} wrong answers")
    return 1 if wrong or max(ratios.values()) > GOAL else 0


if __name__ == "__main__":
    sys.exit(main())
