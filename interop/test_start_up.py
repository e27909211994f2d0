"""bench/start_up.sh: a node is ready in 100 ms on an empty directory, and idles within 64 MiB."""
import subprocess

from espalier_node import BINARY, REPOSITORY

ATTEMPTS = 3


def test_start_up_and_idle_memory():
    """All settings but the ports are defaults. Other programs may disturb one run of the script,
    but not every run."""
    said = []
    for _ in range(ATTEMPTS):
        done = subprocess.run(
            [REPOSITORY / "bench" / "start_up.sh", "7"],
            capture_output=True,
            text=True,
            timeout=120,
            env={"BINARY": str(BINARY), "PATH": "/usr/local/bin:/usr/bin:/bin"},
        )
        said.append(done.stdout + done.stderr)
        if done.returncode == 0:
            print(said[-1])
            return
    raise AssertionError("\n".join(said))
