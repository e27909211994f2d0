"""A node of ours in a ring whose connections between nodes have TLS, with keystores of keytool. The
test starts a Cassandra node of its own, so only `make nightly` runs it."""
import os
import shutil
import subprocess

import pytest
from cassandra import ConsistencyLevel
from cassandra.policies import HostFilterPolicy, RoundRobinPolicy
from cassandra.query import SimpleStatement

from cassandra_node import CassandraNode
from driver import connect
from espalier_node import nodetool, wait_until
from gate import RUNS_ALL
from test_ring import ADDRESS, SEEDS, TOKEN, agreed, counter, status

pytestmark = [
    pytest.mark.skipif(not RUNS_ALL, reason="make nightly runs it"),
    pytest.mark.skipif(not shutil.which("keytool"), reason="keytool is missing"),
]
SECRET = "a secret"
YAML = """
server_encryption_options:
  internode_encryption: all
  keystore: {directory}/theirs.p12
  keystore_password: {secret}
  truststore: {directory}/trusted.p12
  truststore_password: {secret}
  store_type: PKCS12
  require_client_auth: true
"""


def keytool(directory, store, *arguments):
    command = ["keytool", *arguments, "-keystore", f"{store}.p12", "-storetype", "PKCS12",
               "-storepass", SECRET, "-noprompt"]
    subprocess.run(command, cwd=directory, check=True, capture_output=True)


@pytest.fixture
def keystores(tmp_path):
    """Makes a self-signed certificate for each node, which the other one trusts. Our node has PEM
    files of the same keystores, as docs/ring.md says."""
    for name in ("theirs", "ours"):
        keytool(tmp_path, name, "-genkeypair", "-alias", name, "-keyalg", "RSA", "-dname",
                f"CN={name}", "-validity", "30")
        keytool(tmp_path, name, "-exportcert", "-rfc", "-alias", name, "-file", f"{name}.crt")
        keytool(tmp_path, "trusted", "-importcert", "-alias", name, "-file", f"{name}.crt")
    subprocess.run(["openssl", "pkcs12", "-in", "ours.p12", "-nodes", "-passin", f"pass:{SECRET}",
                    "-out", "ours.pem"], cwd=tmp_path, check=True, capture_output=True)
    trusted = [(tmp_path / f"{name}.crt").read_text() for name in ("theirs", "ours")]
    (tmp_path / "authority.pem").write_text("".join(trusted))
    return tmp_path


def test_a_member_of_a_ring_with_tls(node, keystores):
    if os.environ.get("WITHOUT_CASSANDRA"):
        pytest.skip(f"without Cassandra: {os.environ['WITHOUT_CASSANDRA']}")
    yaml = YAML.format(directory=keystores, secret=SECRET)
    cassandra = CassandraNode(keystores / "cassandra", yaml)
    cassandra.start()
    try:
        ours = node(settings={
            "join_ring": "true", "auto_bootstrap": "false", "cluster_name": "peer",
            "listen_address": ADDRESS, "storage_port": cassandra.storage_port,
            "initial_token": TOKEN, "storage_compatibility_mode": "NONE",
            "seed_provider": SEEDS.format(port=cassandra.storage_port),
            "server_encryption_options.internode_encryption": "all",
            "server_encryption_options.keystore": keystores / "ours.pem",
            "server_encryption_options.truststore": keystores / "authority.pem",
            "server_encryption_options.require_client_auth": "true",
        })
        theirs = lambda host: host.endpoint.port == cassandra.port
        session = connect(cassandra, policy=HostFilterPolicy(RoundRobinPolicy(), theirs))
        wait_until(lambda: status(cassandra) == {"127.0.0.1": "UN", ADDRESS: "UN"}, 60, "both up")
        session.execute("CREATE KEYSPACE ring WITH replication = {'class': 'SimpleStrategy', "
                        "'replication_factor': 2}")
        session.execute("CREATE TABLE ring.t (k int PRIMARY KEY, v text)")
        wait_until(lambda: agreed(session), what="agreement on the schema")
        ask = lambda text: list(session.execute(
            SimpleStatement(text, consistency_level=ConsistencyLevel.ALL)
        ))
        for k in range(50):
            ask(f"INSERT INTO ring.t (k, v) VALUES ({k}, '{'x' * 3000}')")
        assert sorted(ask("SELECT k FROM ring.t")) == [(k,) for k in range(50)]
        assert ask("INSERT INTO ring.t (k, v) VALUES (50, 'new') IF NOT EXISTS") == [(True,)]
        assert nodetool(ours, "reloadssl") == "the certificates have not changed\n"
        with open(keystores / "ours.pem", "a") as pem:
            pem.write("\n")
        assert nodetool(ours, "reloadssl") == "new certificates are used from now on\n"
        assert counter(ours, "connections_broken") == 0
        assert "TLS" not in ours.log(), ours.log()
    finally:
        cassandra.stop()
