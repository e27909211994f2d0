"""A smaller version of the flights test through drivers of other languages.

The drivers are `scylla` (Rust) and Apache's Java driver. Each program, in interop/rust and
interop/java, compares the rows that it reads with those that it wrote.
"""
import os
import shutil
import subprocess

import pytest

import flights
from espalier_node import REPOSITORY
from gate import RUNS_ALL

ROWS = 6_000
COLUMNS = ("carrier", "origin", "month", "day", "flight", "dest", "distance")


@pytest.fixture(scope="module")
def csv(tmp_path_factory):
    """Writes every 40th flight of all months, at most one of a flight number for each day and
    partition."""
    indices = [flights.COLUMNS.index(name) for name in COLUMNS]
    rows = {row[:4] + row[5:6]: row for row in flights.Flights().rows[::40]}
    file = tmp_path_factory.mktemp("csv") / "flights.csv"
    file.write_text(
        "".join(
            ",".join(str(row[index]) for index in indices) + "\n"
            for row in list(rows.values())[:ROWS]
        )
    )
    return file


def run(command, **arguments):
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, **arguments)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    return done.stdout


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_rust_driver(node, csv, shards):
    """The driver knows shards: it must find their number by itself."""
    if not shutil.which("cargo"):
        pytest.skip("cargo is missing")
    target = REPOSITORY / ".deps" / "rust"
    if not (RUNS_ALL or target.exists()):
        pytest.skip("the driver is not built, which takes a minute (make nightly builds it)")
    run(
        [
            "cargo",
            "build",
            "--quiet",
            "--locked",
            "--manifest-path",
            REPOSITORY / "interop" / "rust" / "Cargo.toml",
            "--target-dir",
            target,
        ]
    )
    running = node(shards=shards)
    said = run(
        [
            target / "debug" / "espalier-interop-rust",
            f"{running.host}:{running.port}",
            str(shards),
            csv,
        ]
    )
    print(said)
    assert said.count(f"ok: {ROWS} rows") == 3
    assert said.count(f"shards: {shards}\n") == 3


def test_java_driver(node, csv):
    if os.environ.get("WITHOUT_CASSANDRA") or not (shutil.which("mvn") and shutil.which("javac")):
        pytest.skip("the Java driver needs a JDK and Maven")
    place, built = REPOSITORY / "interop" / "java", REPOSITORY / ".deps" / "java"
    if not (built / ".complete").exists() or any(
        file.stat().st_mtime > (built / ".complete").stat().st_mtime
        for file in place.rglob("*")
        if file.is_file()
    ):
        run(["mvn", "-q", "-B", "dependency:copy-dependencies", "compile"], cwd=place)
        (built / ".complete").touch()
    running = node(shards=2)
    said = run(
        [
            "java",
            "-Xmx256m",
            "-cp",
            f"{built}/classes:{built}/lib/*",
            "Flights",
            running.host,
            str(running.port),
            csv,
        ]
    )
    print(said)
    assert said.count(f"ok: {ROWS} rows") == 4
