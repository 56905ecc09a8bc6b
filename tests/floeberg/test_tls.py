"""A door with a certificate, under its renewal and under clients that never finish their greeting."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from structlog.testing import capture_logs

from engine.errors import Invalid
from floeberg.http import certificate as certificates
from floeberg.http.certificate import Certificate, client_trust
from floeberg.http.connection import ConnectionLimits
from floeberg.http.server import HttpServer
from floeberg.settings.doors import DoorSettings, Listen, TlsSettings
from tests.support.certificates import Authority

HERE = Route("/here", lambda _request: PlainTextResponse("here" * 100_000))
LOOPBACK = Listen(host="127.0.0.1", port=0)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = Authority(tmp_path)
    made.issue(tmp_path)
    return made


def tls_in(folder: Path) -> TlsSettings:
    return TlsSettings(cert_file=folder / "door.pem", key_file=folder / "door.key", ca_file=folder / "ca.pem")


def serial_of(server: HttpServer, authority: Authority) -> int:
    """Of the certificate that a new connection is shown."""
    with (
        socket.create_connection((server.listen.host, server.listen.port), timeout=30) as bare,
        authority.trust().wrap_socket(bare, server_hostname="127.0.0.1") as client,
    ):
        shown = client.getpeercert()
        assert shown is not None
        return int(str(shown["serialNumber"]), 16)


def test_new_certificate_counts_from_the_next_connection_and_a_half_one_never(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificates, "LOOK_AGAIN_SECONDS", 0.0)
    with (
        HttpServer([HERE], LOOPBACK, setting="x", tls=tls_in(tmp_path)) as server,
        httpx.Client(verify=authority.trust()) as kept,
        capture_logs() as logs,
    ):
        assert server.url.startswith("https://")
        assert kept.get(f"{server.url}/here").text == "here" * 100_000
        first = serial_of(server, authority)
        second = authority.issue(tmp_path)
        assert second != first
        assert serial_of(server, authority) == second
        # Written one after the other: between the two, they don't belong together.
        (tmp_path / "door.key").write_text("half")
        assert serial_of(server, authority) == second
        third = authority.issue(tmp_path)
        assert serial_of(server, authority) == third
        assert kept.get(f"{server.url}/here").is_success, "a connection outlives its certificate"
    assert [line["event"] for line in logs] == [
        "certificate_read_again",
        "certificate_not_read",
        "certificate_read_again",
    ]


def test_clients_that_never_greet_keep_nobody_out(tmp_path: Path, authority: Authority) -> None:
    limits = ConnectionLimits(connections=4)
    with (
        HttpServer([HERE], LOOPBACK, setting="x", tls=tls_in(tmp_path), limits=limits) as server,
        ExitStack() as clients,
    ):
        address = (server.listen.host, server.listen.port)
        silent = [clients.enter_context(socket.create_connection(address, timeout=30)) for _ in range(12)]
        assert httpx.get(f"{server.url}/here", verify=authority.trust(), timeout=30).is_success
        # All but the newest had to make room.
        assert all(client.recv(1) == b"" for client in silent[:8])
        with socket.create_connection(address, timeout=30) as plain:
            plain.sendall(b"GET /here HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"here" not in plain.recv(1 << 16)
    assert not [thread for thread in threading.enumerate() if thread.name == f"http-{server.listen.port}"]


def test_old_protocols_are_refused(tmp_path: Path, authority: Authority) -> None:
    old = authority.trust()
    old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    with HttpServer([HERE], LOOPBACK, setting="x", tls=tls_in(tmp_path)) as server, pytest.raises(httpx.ConnectError):
        httpx.get(f"{server.url}/here", verify=old)


@pytest.mark.parametrize("broken", ["door.pem", "door.key"])
def test_certificate_that_can_not_be_used_is_told_at_the_start(
    tmp_path: Path, authority: Authority, broken: str
) -> None:
    assert authority.ca_file.exists()
    (tmp_path / broken).write_text("no PEM")
    with pytest.raises(Invalid, match="certificate and key can't be used"):
        Certificate(tls_in(tmp_path))
    (tmp_path / "ca.pem").unlink()
    with pytest.raises(Invalid, match="can't be read"):
        client_trust(DoorSettings(listen=LOOPBACK, tls=tls_in(tmp_path)))


def test_url_has_the_certificates_name_where_one_is_set(tmp_path: Path) -> None:
    door = DoorSettings(listen=Listen(host="0.0.0.0", port=7), tls=tls_in(tmp_path))
    assert door.url == "https://127.0.0.1:7"
    named = tls_in(tmp_path).model_copy(update={"name": "kafka-1.example"})
    assert door.model_copy(update={"tls": named}).url == "https://kafka-1.example:7"
