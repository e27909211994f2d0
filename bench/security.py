#!/usr/bin/env python3
"""Measures the cost of security for prepared reads: of a log-in with permissions, and of TLS.

    make deps && cargo build --release
    .deps/venv/bin/python bench/security.py [--rows 100000] [--seconds 2] [--rounds 24]

Three nodes on one core, of which one works at a time, have the same table in memory: one without
authentication, one with PasswordAuthenticator and CassandraAuthorizer, where a role with SELECT and
MODIFY reads, and one that also has TLS 1.3. A client on the other core reads random rows, three
thousand at a time, and compares each with the row that was written. The script prints reads for
each second of the node's core, and their ratio to those of the first node. `perf`, if it is
installed, shows the share of the cipher and rustls. The rounds are many and short, because a round
differs from the next by a tenth. Exit status 1: an answer was wrong or a ratio is below its goal. A
run takes three minutes, and the machine must be idle otherwise.
"""
import argparse
import multiprocessing
import shutil
import ssl
import statistics
import subprocess
import sys

from network_reads import ROOT, Pinned, prepare

import pipelined_load
from measured_server import read
from test_tls import Authority
from wire import Wire

SCRATCH = ROOT / "bench" / "results" / "security"
GOALS = {"log-in": 0.99, "TLS": 0.6}
PASSWORD = "the password of the bench"
AUTH = {
    "authenticator": "PasswordAuthenticator",
    "authorizer": "CassandraAuthorizer",
    "auth_superuser_password": PASSWORD,
}
INSERT = "INSERT INTO bench_security.t (k, v) VALUES (?, ?)"
SELECT = "SELECT v FROM bench_security.t WHERE k = ?"
SCHEMA = [
    "CREATE KEYSPACE bench_security WITH replication = {'class': 'SimpleStrategy', "
    "'replication_factor': 1}",
    "CREATE TABLE bench_security.t (k blob PRIMARY KEY, v blob)",
]
ROLE = [
    f"CREATE ROLE reader WITH PASSWORD = '{PASSWORD}' AND LOGIN = true",
    "GRANT SELECT ON KEYSPACE bench_security TO reader",
    "GRANT MODIFY ON KEYSPACE bench_security TO reader",
]


def nodes():
    """Starts the three nodes; returns them by name."""
    authority = Authority(SCRATCH / "authority")
    tls = {
        "client_encryption_options.enabled": "true",
        "client_encryption_options.keystore": authority.sign("node"),
    }
    context = ssl.create_default_context(cafile=authority.certificate)
    context.check_hostname = False
    found = {
        "plain": Pinned(SCRATCH / "plain", memory="512M"),
        "log-in": Pinned(SCRATCH / "login", memory="512M", settings=AUTH),
        "TLS": Pinned(SCRATCH / "tls", memory="512M", settings={**AUTH, **tls}),
    }
    for name, node in found.items():
        node.start()
        if name != "plain":
            node.credentials = "cassandra", PASSWORD
        if name == "TLS":
            node.ssl_context = context
    return found


def fill(node, name, rows, count):
    """Creates the table and the role that reads it, and writes the rows; returns wrong answers."""
    with Wire(node) as wire:
        for statement in SCHEMA + (ROLE if name != "plain" else []):
            assert wire.query(statement).code is None, statement
    if name != "plain":
        node.credentials = "reader", PASSWORD
    with Wire(node) as wire:
        wire.execute(wire.prepare(INSERT), (rows.key(0), rows.value(0)))
    known = multiprocessing.RawValue("q", 1)
    return pipelined_load.write(node, rows, (INSERT, SELECT), count, known, lambda *_: None)


def share_of_cipher(node, read):
    """Returns the share of the node's samples in the cipher, as text; empty without perf."""
    if not shutil.which("perf"):
        return ""
    data = SCRATCH / "perf.data"
    command = ["perf", "record", "-q", "-o", data, "-p", str(node.process.pid)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as perf:
        read()
        perf.terminate()
    report = subprocess.run(
        ["perf", "report", "-i", data, "--no-children", "--stdio", "-F", "overhead,symbol"],
        capture_output=True, text=True,
    ).stdout
    share = 0.0
    for line in report.splitlines():
        words = line.split()
        if words and words[0].endswith("%") and any(
            part in line for part in ("aws_lc", "aes_gcm", "gcm_", "chacha", "rustls")
        ):
            share += float(words[0].rstrip("%"))
    return f"; the cipher and rustls have {share:.0f} % of the samples"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=2, help="seconds of each measurement")
    parser.add_argument("--rounds", type=int, default=24)
    options = parser.parse_args()
    prepare(SCRATCH)
    rows, rates, wrong = pipelined_load.Rows(8), {}, []
    running = nodes()
    try:
        for name, node in running.items():
            wrong += fill(node, name, rows, options.rows)

        for number in range(1, options.rounds + 1):
            for name, node in running.items():
                reads = read(node, rows, (INSERT, SELECT), options)
                wrong += reads.wrong
                rate = reads.right / reads.core_seconds
                rates.setdefault(name, []).append(rate)
                print(
                    f"round {number}, {name:6} {reads.right / reads.seconds:10,.0f} reads/s, "
                    f"{rate:10,.0f} a second of the core, "
                    f"{reads.core_seconds / reads.seconds:4.0%} busy",
                    flush=True,
                )
        cipher = share_of_cipher(
            running["TLS"],
            lambda: pipelined_load.read(running["TLS"], rows, (INSERT, SELECT), options.rows, 5),
        )
    finally:
        for node in running.values():
            node.close()
        shutil.rmtree(SCRATCH, ignore_errors=True)
    plain, failed = statistics.median(rates["plain"]), bool(wrong)
    for name, goal in GOALS.items():
        share = statistics.median(rates[name]) / plain
        failed |= share < goal
        more = cipher if name == "TLS" else ""
        print(f"{name}: {share:.1%} of the rate without (goal {goal:.0%}){more}")
    print("\n".join(wrong))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
