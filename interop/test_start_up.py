"""The start of a node: the limits of bench/start_up.sh, and the directory of a replacement."""
import subprocess

from espalier_node import BINARY, REPOSITORY


def test_start_up_and_idle_memory():
    """All settings but the ports are defaults. Other tests run at the same time and slow each start,
    so the limit is for its processor time."""
    done = subprocess.run(
        [REPOSITORY / "bench" / "start_up.sh", "7"],
        capture_output=True,
        text=True,
        timeout=120,
        env={"BINARY": str(BINARY), "LIMIT_OF": "processor",
             "PATH": "/usr/local/bin:/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)


def test_a_replacement_makes_its_own_data_directory(tmp_path):
    """The node claims its data directory after it has imported Cassandra's files, because the
    import creates this directory. Here the start fails, because Cassandra's files are missing."""
    (tmp_path / "commitlog").mkdir()
    configuration = tmp_path / "cassandra.yaml"
    configuration.write_text(
        f"cluster_name: ring\ndata_file_directories: [{tmp_path}/data]\n"
        f"commitlog_directory: {tmp_path}/commitlog\nlisten_address: 127.0.0.1\n"
        "seed_provider: [{class_name: SimpleSeedProvider, parameters: [{seeds: 127.0.0.1}]}]\n"
    )
    done = subprocess.run(
        [BINARY, "serve", "--workdir", tmp_path / "ours", "--config", configuration, "--port", "0",
         "--set", "join_ring=true", "--set", "replace_in_place=true", "--set",
         "commitlog_sync=group"],
        capture_output=True, text=True, timeout=60,
    )
    assert done.returncode != 0
    assert "there is no table system.local in" in done.stderr, done.stderr
    assert not (tmp_path / "ours" / "data").exists()
