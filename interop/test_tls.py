"""Clients over TLS: the driver and cqlsh, versions, certificates of clients, and new certificates
under load."""
import shutil
import socket
import ssl
import subprocess
import threading
from pathlib import Path

import pytest
from cassandra import Unauthorized
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import NoHostAvailable

from espalier_node import free_port, nodetool, wait_until
from gate import all_or_one
from test_cqlsh import CQLSH

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is missing")
VERSIONS = ("TLSv1.2", "TLSv1.3")


class Authority:
    """A certificate authority in a directory."""

    def __init__(self, directory):
        self.directory = directory
        directory.mkdir()
        self.certificate, self.key = directory / "authority.pem", directory / "authority.key"
        self.openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj",
                     "/CN=authority", "-keyout", self.key, "-out", self.certificate)

    @staticmethod
    def openssl(*arguments):
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)

    def sign(self, name, days=30, uri=None):
        """Returns a PEM file with a key and its certificate."""
        key, request, pem = (self.directory / f"{name}.{kind}" for kind in ("key", "csr", "pem"))
        extensions = self.directory / "extensions"
        names = "IP:127.0.0.1,DNS:localhost" + (f",URI:{uri}" if uri else "")
        extensions.write_text(f"subjectAltName={names}\n")
        self.openssl("req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}",
                     "-keyout", key, "-out", request)
        self.openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key,
                     "-CAcreateserial", "-days", days, "-extfile", extensions, "-out", pem)
        pem.write_text(pem.read_text() + key.read_text())
        return pem


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls") / "ours")


def context(authority, own=None, version=None):
    made = ssl.create_default_context(cafile=authority.certificate)
    made.check_hostname = False
    if version:
        made.minimum_version = made.maximum_version = version
    if own:
        made.load_cert_chain(own)
    return made


def settings(authority, pem, **more):
    return {
        "client_encryption_options.enabled": "true",
        "client_encryption_options.keystore": pem,
        "client_encryption_options.truststore": authority.certificate,
        **{f"client_encryption_options.{name}": value for name, value in more.items()},
    }


def error_of(node, **arguments):
    """Returns the driver's error of a connection that must fail."""
    with pytest.raises(NoHostAvailable) as refused:
        node.connect(**arguments)
    return str(refused.value)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_driver_connects(node, authority, version):
    ours = node(shards=2, settings=settings(authority, authority.sign("node")))
    session = ours.connect(ssl_context=context(authority, version=version))
    clients = list(session.execute("SELECT * FROM system_views.clients"))
    assert clients and all(client.ssl_enabled for client in clients)
    assert {client.ssl_protocol for client in clients} == {version.name.replace("_", ".", 1)}
    assert all(client.ssl_cipher_suite.startswith("TLS_") for client in clients)
    session.execute("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', "
                    "'replication_factor': 1}")
    session.execute("CREATE TABLE ks.t (k int PRIMARY KEY, v text)")
    insert = session.prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)")
    for future in [session.execute_async(insert, (k, str(k) * 3000)) for k in range(300)]:
        future.result()
    rows = {row.k: row.v for row in session.execute("SELECT * FROM ks.t")}
    assert rows == {k: str(k) * 3000 for k in range(300)}
    assert error_of(ours), "a client without TLS is refused"
    wait_until(lambda: "(a client without TLS?)" in ours.log(), what="the line of the log")


@pytest.mark.parametrize("version", all_or_one(VERSIONS))
def test_cqlsh_logs_in(node, authority, tmp_path, version):
    """cqlsh logs in with a password and by certificate, and shows why a log-in fails."""
    encryption = settings(
        authority, authority.sign("node"), require_client_auth="optional", protocol=version
    )
    ours = node(settings={
        **encryption,
        "authenticator": "MutualTlsWithPasswordFallbackAuthenticator",
        "authorizer": "CassandraAuthorizer",
        "auth_superuser_password": "first secret",
    })

    def cqlsh(statement, password="first secret", own=None):
        """Returns True if cqlsh succeeds, and its output."""
        cqlshrc = tmp_path / "cqlshrc"
        keys = f"usercert = {own}\nuserkey = {own}\n" if own else ""
        cqlshrc.write_text(f"[ssl]\ncertfile = {authority.certificate}\nvalidate = true\n{keys}")
        done = subprocess.run(
            [CQLSH, ours.host, str(ours.port), "--ssl", "--cqlshrc", cqlshrc, "-u", "cassandra",
             "-p", password, "-e", statement],
            capture_output=True, text=True, timeout=120,
        )
        return done.returncode == 0, done.stdout + done.stderr

    clients = "SELECT username, ssl_protocol FROM system_views.clients"
    succeeds, text = cqlsh(clients)
    assert succeeds and version in text and "cassandra" in text, text
    succeeds, text = cqlsh(clients, password="wrong")
    assert not succeeds and "Provided username cassandra and/or password are incorrect" in text
    identity = "spiffe://example.org/shop"
    assert cqlsh("CREATE ROLE shop WITH LOGIN = true; "
                 f"ADD IDENTITY '{identity}' TO ROLE 'shop'")[0]
    shop = authority.sign("shop", uri=identity)
    succeeds, text = cqlsh("LIST ROLES", password="wrong", own=shop)
    assert succeeds and "shop" in text and "cassandra" not in text, text
    stranger = Authority(tmp_path / "foreign").sign("shop", uri=identity)
    for own in (stranger, authority.sign("expired", days=-1, uri=identity)):
        succeeds, text = cqlsh("LIST ROLES", own=own)
        assert not succeeds and "Unable to connect to any servers" in text, text


def test_certificates_of_clients(node, authority, tmp_path):
    pem, stranger = authority.sign("node"), Authority(tmp_path / "foreign")
    ours = node(settings=settings(authority, pem, require_client_auth="true"))
    session = ours.connect(ssl_context=context(authority, own=authority.sign("client")))
    assert session.execute("SELECT key FROM system.local").one()
    for own in (None, stranger.sign("client"), authority.sign("expired", days=-1)):
        assert error_of(ours, ssl_context=context(authority, own=own)), own
    assert ours.metrics()["espalier_transport_failed_handshakes"] >= 3
    wait_until(lambda: "a TLS handshake failed" in ours.log(), what="the line of the log")


def test_log_in_by_certificate(node, authority):
    """The identity of a certificate is a role; without a certificate, a password counts."""
    pem, identity = authority.sign("node"), "spiffe://example.org/shop"
    asks = settings(authority, pem, require_client_auth="optional")
    with pytest.raises(AssertionError, match="require_client_auth: true"):
        node("plain", settings={"authenticator": "MutualTlsAuthenticator"})
    ours = node(settings={
        **asks,
        "authenticator": "MutualTlsWithPasswordFallbackAuthenticator",
        "authorizer": "CassandraAuthorizer",
        "auth_superuser_password": "first secret",
    })

    def connect(own=None, role="cassandra", password="first secret"):
        provider = PlainTextAuthProvider(role, password)
        return ours.connect(auth_provider=provider, ssl_context=context(authority, own=own))

    root, shop = connect(), authority.sign("shop", uri=identity)
    refused = error_of(ours, auth_provider=PlainTextAuthProvider("x", "x"),
                       ssl_context=context(authority, own=shop))
    assert "Certificate identity" in refused and identity in refused
    root.execute("CREATE ROLE shop WITH LOGIN = true")
    root.execute(f"ADD IDENTITY '{identity}' TO ROLE 'shop'")
    session = connect(own=shop, role="cassandra", password="wrong")
    users = {client.username for client in root.execute("SELECT username FROM system_views.clients")}
    assert users == {"cassandra", "shop"}
    with pytest.raises(Unauthorized):
        session.execute("SELECT * FROM system_auth.roles")
    for own, text in [(authority.sign("other", uri="spiffe://example.org/other"), "not authorized"),
                      (authority.sign("nobody"), "Unable to extract")]:
        assert text in error_of(ours, auth_provider=PlainTextAuthProvider("cassandra", "first secret"),
                                ssl_context=context(authority, own=own))
    root.execute("ALTER ROLE shop WITH LOGIN = false")
    assert "shop is not permitted to log in" in error_of(
        ours, auth_provider=PlainTextAuthProvider("x", "x"), ssl_context=context(authority, own=shop))
    assert ours.stop() == 0
    ours.settings["authenticator"] = "MutualTlsAuthenticator"
    ours.start()
    assert "Invalid or not supported certificate" in error_of(
        ours, auth_provider=PlainTextAuthProvider("cassandra", "first secret"),
        ssl_context=context(authority))


def test_two_ports_and_optional_tls(node, authority):
    pem, port = authority.sign("node"), free_port()
    both = node(settings={**settings(authority, pem), "native_transport_port_ssl": port})
    assert both.connect().execute("SELECT key FROM system.local").one()
    both.port = port
    session = both.connect(ssl_context=context(authority))
    assert session.execute("SELECT key FROM system.local").one()
    one = node(settings=settings(authority, pem, optional="true"))
    assert one.connect().execute("SELECT key FROM system.local").one()
    session = one.connect(ssl_context=context(authority))
    assert session.execute("SELECT key FROM system.local").one()


def test_new_certificates_under_load(node, authority, tmp_path):
    """Clients continue while the certificate is replaced, and new connections get the new
    certificate."""
    pem = tmp_path / "node.pem"
    shutil.copy(authority.sign("before"), pem)
    ours = node(settings=settings(authority, pem))
    session = ours.connect(ssl_context=context(authority))
    query, over, faults, count = session.prepare("SELECT key FROM system.local"), [], [], [0]

    def load():
        while not over:
            try:
                session.execute(query)
                with socket.create_connection((ours.host, ours.port)) as plain:
                    context(authority).wrap_socket(plain).close()
                count[0] += 1
            except Exception as error:
                faults.append(error)

    threads = [threading.Thread(target=load) for _ in range(3)]
    for thread in threads:
        thread.start()
    for name in ("second", "third"):
        signed, done = authority.sign(name), count[0]
        temporary = Path(f"{pem}.new")
        shutil.copy(signed, temporary)
        temporary.rename(pem)
        assert nodetool(ours, "reloadssl") == "new certificates are used from now on\n"
        assert subject(ours, authority) == name
        wait_until(lambda: count[0] > done + 20, what="more requests")
    assert nodetool(ours, "reloadssl") == "the certificates have not changed\n"
    pem.write_text("nothing")
    with pytest.raises(RuntimeError, match="keeps certificates"):
        nodetool(ours, "reloadssl")
    assert subject(ours, authority) == "third"
    over.append(True)
    for thread in threads:
        thread.join()
    assert faults == []


def subject(node, authority):
    with socket.create_connection((node.host, node.port)) as plain:
        with context(authority).wrap_socket(plain) as encrypted:
            return dict(part[0] for part in encrypted.getpeercert()["subject"])["commonName"]


def test_slow_and_silent_clients_hold_nothing(node, authority):
    """Handshakes that do not end stop no other client, and the node closes them after 10 s."""
    ours = node(settings=settings(authority, authority.sign("node")))
    silent = [socket.create_connection((ours.host, ours.port)) for _ in range(200)]
    for number, client in enumerate(silent):
        client.sendall(b"\x16\x03\x01\x02"[:number % 5])
    session = ours.connect(ssl_context=context(authority))
    assert session.execute("SELECT key FROM system.local").one()
    for client in silent:
        client.settimeout(30)
        assert client.recv(100) == b"", "the time for a handshake is limited"
        client.close()
