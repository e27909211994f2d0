"""Access outside CQL: the guards of the admin API, and the limits of a client before its log-in."""

import socket
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest

from espalier_node import BINARY
from test_auth import SETTINGS
from test_tls import Authority, context

TOKEN = "a token of some length"


def status(url, ssl_context=None, **headers):
    """Returns the status of a request with these headers."""
    request = urllib.request.Request(url, headers={k.replace("_", "-"): v for k, v in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=60, context=ssl_context) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


def nodetool(*arguments):
    command = [BINARY, "nodetool", *map(str, arguments), "version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def test_web_pages_and_rebound_names_get_nothing(node):
    ours = node()
    url = f"http://127.0.0.1:{ours.api_port}/storage_service/release_version"
    assert status(url) == 200
    assert status(url, Host="evil.example") == 403
    assert status(url, Host="0.0.0.0") == 403
    assert status(url, Origin="http://evil.example") == 403
    assert status(url, Sec_Fetch_Site="cross-site") == 403
    assert status(url, Origin=f"http://127.0.0.1:{ours.api_port}") == 200


def test_other_machines_need_a_token(node, tmp_path):
    with pytest.raises(AssertionError, match="set api_token, or api_encryption_options"):
        node("open", settings={"api_address": "0.0.0.0"})
    ours = node(settings={"api_address": "0.0.0.0", "api_token": TOKEN})
    url = f"http://127.0.0.1:{ours.api_port}/storage_service/release_version"
    assert status(url) == 401
    assert status(url, Authorization="Bearer another token of it") == 401
    assert status(url, Authorization=f"Bearer {TOKEN}", Host="a-name-of-the-node") == 200
    address, file = f"127.0.0.1:{ours.api_port}", tmp_path / "token"
    assert "api_token" in nodetool("--node", address)[1]
    file.write_text(TOKEN + "\n")
    code, text = nodetool("--node", address, "--token-file", file)
    assert code == 0, text
    assert TOKEN not in ours.log()


def test_tls_of_the_admin_api(node, tmp_path):
    authority = Authority(tmp_path / "authority")
    own, stranger = authority.sign("client"), Authority(tmp_path / "foreign")
    ours = node(settings={
        "api_address": "0.0.0.0",
        "api_encryption_options.enabled": "true",
        "api_encryption_options.keystore": authority.sign("node"),
        "api_encryption_options.truststore": authority.certificate,
        "api_encryption_options.require_client_auth": "true",
    })
    assert f"admin API on https://0.0.0.0:{ours.api_port}" in ours.ready_line
    url = f"https://127.0.0.1:{ours.api_port}/storage_service/release_version"
    assert status(url, context(authority, own=own)) == 200
    for wrong in (None, stranger.sign("client")):
        with pytest.raises((urllib.error.URLError, ssl.SSLError, ConnectionError)):
            status(url, context(authority, own=wrong))
    address = f"https://localhost:{ours.api_port}"
    tls = ("--ca-file", authority.certificate, "--certificate-file", own)
    code, text = nodetool("--node", address, *tls)
    assert code == 0, text
    code, text = nodetool("--node", address, "--ca-file", stranger.certificate,
                          "--certificate-file", own)
    assert code and "certificate" in text, text
    assert "needs --ca-file" in nodetool("--node", address)[1]


def test_clients_that_do_not_log_in_are_closed_within_ten_seconds(start_node):
    """A client that sends requests and never reads is closed after 16 messages. A client that sends
    a byte a second, or nothing, is closed after ten seconds."""
    ours = start_node("admin_access", settings=SETTINGS)
    ended = {}

    def run(name, work):
        began = time.monotonic()
        client = socket.create_connection((ours.host, ours.port))
        client.settimeout(60)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        try:
            work(client)
        except OSError:
            pass
        ended[name] = time.monotonic() - began
        client.close()

    def deaf(client):
        while True:
            client.sendall(b"\x04\0\0\0\x05\0\0\0\0" * 500)

    def slow(client):
        for byte in b"\x04\0\0\0\x01\0\0\0\x16" + b"\0" * 40:
            client.sendall(bytes([byte]))
            time.sleep(1)

    def silent(client):
        assert client.recv(1) == b""

    threads = [
        threading.Thread(target=run, args=(work.__name__, work)) for work in (deaf, slow, silent)
    ]
    [thread.start() for thread in threads]
    [thread.join(120) for thread in threads]
    assert set(ended) == {"deaf", "slow", "silent"}, ended
    assert ended["deaf"] < 9, ended
    assert 9 < ended["slow"] < 30 and 9 < ended["silent"] < 30, ended
