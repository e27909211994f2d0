"""Log-ins by the drivers of five languages: passwords and certificates, over TLS 1.2 and 1.3.

The gate runs one language over one version, and chooses both by the day."""
import os
import shutil
import subprocess

import pytest

from driver_programs import LANGUAGES, program
from gate import all_or_one
from test_tls import Authority, settings

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is missing")
PASSWORDS = {
    "authenticator": "PasswordAuthenticator",
    "authorizer": "CassandraAuthorizer",
    "auth_superuser_password": "a secret",
}
VERSIONS = all_or_one(["1.2", "1.3"])
USER = {"CQL_USER": "cassandra", "CQL_PASSWORD": "a secret"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture(scope="module")
def passwords_over_tls(start_node, authority):
    pem = authority.sign("node")
    return start_node("passwords", settings={**settings(authority, pem), **PASSWORDS})


@pytest.fixture(scope="module")
def certificates_of_clients(start_node, authority):
    pem = authority.sign("node")
    return start_node("certificates", settings=settings(authority, pem, require_client_auth="true"))


@pytest.fixture(params=all_or_one(LANGUAGES))
def log_in(request):
    """Returns a function that logs in by a language's driver and returns its program's output."""
    command = program(request.param)

    def log_in(node, **environment):
        done = subprocess.run(
            [str(one) for one in (*command, "login", node.host, node.port)],
            env={**os.environ, **{name: str(value) for name, value in environment.items()}},
            capture_output=True, text=True, timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr[-3000:]
        return done.stdout

    return log_in


@pytest.mark.parametrize("version", VERSIONS)
def test_a_password_over_tls(passwords_over_tls, authority, log_in, version):
    said = log_in(
        passwords_over_tls, **USER, CQL_AUTHORITY=authority.certificate, CQL_TLS=version
    )
    assert said.startswith("ok: "), said


def test_a_wrong_password(passwords_over_tls, authority, log_in):
    wrong = {**USER, "CQL_PASSWORD": "another"}
    said = log_in(passwords_over_tls, **wrong, CQL_AUTHORITY=authority.certificate)
    assert "error: " in said
    assert "Provided username cassandra and/or password are incorrect" in said


def test_a_node_of_another_authority(passwords_over_tls, log_in, tmp_path):
    foreign = Authority(tmp_path / "foreign")
    said = log_in(passwords_over_tls, **USER, CQL_AUTHORITY=foreign.certificate)
    assert "error: " in said


@pytest.mark.parametrize("version", VERSIONS)
def test_a_certificate(certificates_of_clients, authority, log_in, tmp_path, version):
    environment = {"CQL_AUTHORITY": authority.certificate, "CQL_TLS": version}
    said = log_in(certificates_of_clients, **environment, CQL_CERTIFICATE=authority.sign("client"))
    assert said.startswith("ok: "), said
    expired, stranger = authority.sign("expired", days=-1), Authority(tmp_path / "foreign")
    for own in (expired, stranger.sign("client")):
        said = log_in(certificates_of_clients, **environment, CQL_CERTIFICATE=own)
        assert "error: " in said, own
    assert "error: " in log_in(certificates_of_clients, **environment)
