"""A node is ready within 100 ms on an empty directory, and idles within 64 MiB: bench/start_up.sh says so."""
import subprocess

from espalier_node import BINARY, REPOSITORY

ATTEMPTS = 3


def test_start_up_and_idle_memory():
    """With all defaults but the ports. Another program may disturb one run of the script; not every one."""
    said = []
    for _ in range(ATTEMPTS):
        done = subprocess.run([REPOSITORY / "bench" / "start_up.sh", "7"], capture_output=True, text=True, timeout=120,
                              env={"BINARY": str(BINARY), "PATH": "/usr/local/bin:/usr/bin:/bin"})
        said.append(done.stdout + done.stderr)
        if done.returncode == 0:
            print(said[-1])
            return
    raise AssertionError("\n".join(said))
