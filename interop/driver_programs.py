"""Programs in five languages, each of which uses a driver of its language.

Each language has one program with the commands `login HOST PORT`, which prints `ok: VERSION` or
`error: …`, and `registers HOST PORT SECONDS CLIENTS FILE`, which prints `connected` and writes a
history for linearizable.py to the file. The environment variables CQL_USER, CQL_PASSWORD,
CQL_AUTHORITY, CQL_CERTIFICATE and CQL_TLS ask for a password, TLS with an authority, a certificate
of the client, and a TLS version. REGISTER_READ, _INSERT, _UPDATE and _DELETE replace the statements
of `registers`, and REGISTER_COLUMN the name of their column.
The programs are built into .deps/.
"""
import fcntl
import os
import shutil
import subprocess
import sys

import pytest

from espalier_node import REPOSITORY
from gate import RUNS_ALL

INTEROP, BUILT = REPOSITORY / "interop", REPOSITORY / ".deps"
LANGUAGES = ("python", "java", "go", "node", "rust")
# The programs run only for seconds, in which the second tier of the compiler does not pay off.
JAVA = ("java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def run(command, timeout_s=900, **arguments):
    """Returns the output of the command; fails with its output and errors if the command fails."""
    done = subprocess.run(
        [str(one) for one in command], capture_output=True, text=True, timeout=timeout_s, **arguments
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    return done.stdout


def program(language):
    """Returns the command that starts the program, after building it. Skips the test if a tool is
    missing, and in the gate if the build takes a minute and has not been made."""
    with lock():
        return PROGRAMS[language]()


def lock():
    """Returns an open file that holds the lock of the builds, because the tests run in several
    processes."""
    BUILT.mkdir(exist_ok=True)
    file = open(BUILT / "drivers.lock", "w")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def python_program():
    return [sys.executable, INTEROP / "python_program.py"]


def java_classes():
    """Builds the Java programs and returns their class path. The caller holds `lock()`."""
    if os.environ.get("WITHOUT_CASSANDRA"):
        pytest.skip("the Java driver needs a JDK and Maven")
    needs("mvn", "javac")
    built = BUILT / "java"
    if is_stale(built / ".complete", INTEROP / "java"):
        run(["mvn", "-q", "-B", "dependency:copy-dependencies", "compile"], cwd=INTEROP / "java")
        (built / ".complete").touch()
    return f"{built}/classes:{built}/lib/*"


def flights_of_java():
    """Returns the command that starts the flights test of the Java driver."""
    with lock():
        return [*JAVA, "-cp", java_classes(), "Flights"]


def java_program():
    return [*JAVA, "-cp", java_classes(), "Clients"]


def go_program():
    needs("go")
    built = BUILT / "go" / "espalier-interop-go"
    only_once(built)
    if is_stale(built, INTEROP / "go"):
        run(["go", "build", "-o", built, "."], cwd=INTEROP / "go")
    return [built]


def node_program():
    needs("node", "npm")
    built = BUILT / "node"
    only_once(built)
    if is_stale(built / ".complete", INTEROP / "node"):
        shutil.copytree(INTEROP / "node", built, dirs_exist_ok=True)
        run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=built)
        (built / ".complete").touch()
    return ["node", built / "main.js"]


def rust_program():
    needs("cargo")
    target = BUILT / "rust"
    only_once(target)
    manifest = INTEROP / "rust" / "Cargo.toml"
    run(["cargo", "build", "--quiet", "--locked", "--manifest-path", manifest, "--target-dir", target])
    return [target / "debug" / "espalier-interop-rust"]


PROGRAMS = {
    "python": python_program,
    "java": java_program,
    "go": go_program,
    "node": node_program,
    "rust": rust_program,
}


def needs(*tools):
    for tool in tools:
        if not shutil.which(tool):
            pytest.skip(f"{tool} is missing")


def only_once(built):
    """Skips the test in the gate if the driver is not built."""
    if not (RUNS_ALL or built.exists()):
        pytest.skip("the driver is not built, which takes a minute (make nightly builds it)")


def is_stale(built, sources):
    return not built.exists() or any(
        file.stat().st_mtime > built.stat().st_mtime for file in sources.rglob("*") if file.is_file()
    )
