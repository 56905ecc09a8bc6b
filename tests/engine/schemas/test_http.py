"""Questions to a registry: credentials, TLS, several URLs, and everything that can answer in its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.errors import Unavailable
from engine.schemas import http as schema_http
from engine.schemas.http import ATTEMPTS, Absent, NoAnswer, RegistryAccess, RegistryHttp
from tests.engine.schemas.certificates import Certificates, make_certificates
from tests.engine.schemas.patient_clock import PatientClock
from tests.engine.schemas.registry_server import RegistryServer, running_registry

SCHEMA = {"schema": '"string"'}
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def clock() -> PatientClock:
    return PatientClock()


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with running_registry() as server:
        server.schemas[1] = SCHEMA
        yield server


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def ask(access: RegistryAccess | str, clock: PatientClock, schema_id: int = 1) -> Any:
    access = RegistryAccess(urls=(access,)) if isinstance(access, str) else access
    with RegistryHttp(access, clock).question() as question:
        return question.ask(f"/schemas/ids/{schema_id}", f"schema {schema_id}")


def test_trouble_that_passes_is_not_noticed(server: RegistryServer, clock: PatientClock) -> None:
    server.faults = [(500, b"{}"), (503, b"busy"), (429, b"")]
    assert ask(server.url, clock) == SCHEMA
    assert len(clock.waits_ms) == 3
    assert clock.waits_ms == sorted(clock.waits_ms)


def test_trouble_that_stays_is_unavailable_after_a_bounded_number_of_attempts(
    server: RegistryServer, clock: PatientClock
) -> None:
    server.faults = [(500, b"{}")] * 50
    with pytest.raises(Unavailable, match="status 500") as caught:
        ask(server.url, clock)
    assert not isinstance(caught.value, NoAnswer)
    assert len(server.requests) == ATTEMPTS


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b"<html>no such page</html>"),
        (404, b'{"error_code": 404, "message": "HTTP 404 Not Found"}'),
        (404, b'{"error_code": "none"}'),
        (200, b"<html>log in</html>"),
        (200, b"\xff\x00garbage"),
        (200, b"[" * 100_000),
        (204, b""),
        (302, b"{}"),
    ],
)
def test_answer_that_no_registry_gives_is_unavailable_not_a_missing_schema(
    server: RegistryServer, clock: PatientClock, status: int, body: bytes
) -> None:
    server.faults = [(status, body)] * ATTEMPTS
    with pytest.raises(Unavailable, match=f"status {status}"):
        ask(server.url, clock)
    assert ask(server.url, clock) == SCHEMA


def test_answer_larger_than_any_schema_is_unavailable(
    server: RegistryServer, clock: PatientClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_http, "MAX_ANSWER_BYTES", 10)
    with pytest.raises(Unavailable, match="larger"):
        ask(server.url, clock)


def test_answer_a_byte_at_a_time_ends_at_the_time_limit(
    server: RegistryServer, clock: PatientClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_http, "QUESTION_TIMEOUT_S", 0.3)
    server.dripping.set()
    server.schemas[1] = {"schema": "x" * 100_000}
    with pytest.raises(NoAnswer, match="no whole answer"):
        ask(server.url, clock)


def test_silence_ends_with_the_step(
    server: RegistryServer, clock: PatientClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_http, "TIMEOUT_S", 0.1)
    server.silent.set()
    with pytest.raises(NoAnswer, match="timed out"):
        ask(server.url, clock)


def test_basic_and_bearer_credentials_are_sent(server: RegistryServer, clock: PatientClock) -> None:
    server.ask_for_basic("ana", "pass:wörd")
    assert ask(RegistryAccess(urls=(server.url,), user="ana", password="pass:wörd"), clock) == SCHEMA
    server.credentials = "Bearer t0ken"
    assert ask(RegistryAccess(urls=(server.url,), token="t0ken"), clock) == SCHEMA


@pytest.mark.parametrize(
    "credentials", [{}, {"user": "ana", "password": "s3cret"}, {"user": "ana"}, {"token": "s3cret"}]
)
def test_wrong_credentials_are_told_without_their_secret_and_not_tried_again(
    server: RegistryServer, clock: PatientClock, credentials: dict[str, str]
) -> None:
    server.credentials = "Bearer t0ken"
    access = RegistryAccess(urls=(server.url,), **credentials)
    with pytest.raises(NoAnswer, match=r"refuses the credentials \(status 401\)") as caught:
        ask(access, clock)
    assert len(server.requests) == 1
    assert "s3cret" not in f"{caught.value} {caught.value!r} {access!r}"


def test_url_that_does_not_answer_is_passed_over_and_the_next_one_preferred(
    server: RegistryServer, clock: PatientClock
) -> None:
    http = RegistryHttp(RegistryAccess(urls=(NOWHERE, server.url + "/")), clock)
    for _ in range(2):
        with http.question() as question:
            assert question.ask("/schemas/ids/1", "schema 1") == SCHEMA
    assert len(clock.waits_ms) == 1


def test_schema_that_one_registry_of_several_has_not_read_yet_is_had_from_another(
    server: RegistryServer, clock: PatientClock
) -> None:
    with running_registry() as behind:
        assert ask(RegistryAccess(urls=(behind.url, NOWHERE, server.url)), clock) == SCHEMA
        with pytest.raises(Absent, match="schema 2 is not in the registry"):
            ask(RegistryAccess(urls=(behind.url, server.url)), clock, schema_id=2)
        server.credentials = "Bearer t0ken"
        with pytest.raises(Absent, match="schema 1 is not in the registry"):
            ask(RegistryAccess(urls=(behind.url, server.url)), clock)
    assert clock.waits_ms == []


def test_registry_with_a_certificate_of_our_own_authority_is_trusted_when_that_is_named(
    certificates: Certificates, clock: PatientClock, tmp_path: Path
) -> None:
    with running_registry(certificates.server_context(asks_clients=False)) as server:
        server.schemas[1] = SCHEMA
        assert ask(RegistryAccess(urls=(server.url,), ca_file=certificates.authority), clock) == SCHEMA
        with pytest.raises(NoAnswer, match="CERTIFICATE_VERIFY_FAILED"):
            ask(server.url, clock)
        (tmp_path / "other").mkdir()
        stranger = make_certificates(tmp_path / "other")
        with pytest.raises(NoAnswer, match="CERTIFICATE_VERIFY_FAILED"):
            ask(RegistryAccess(urls=(server.url,), ca_file=stranger.authority), clock)
        with pytest.raises(NoAnswer):
            ask(server.url.replace("https", "http"), clock)
        assert len(server.requests) == 1


def test_registry_that_asks_for_a_clients_certificate_gets_ours(
    certificates: Certificates, clock: PatientClock
) -> None:
    with running_registry(certificates.server_context(asks_clients=True)) as server:
        server.schemas[1] = SCHEMA
        ours = {
            "ca_file": certificates.authority,
            "cert_file": certificates.client,
            "key_file": certificates.client_key,
        }
        access = RegistryAccess(urls=(server.url,), **ours, key_password=certificates.password)
        assert ask(access, clock) == SCHEMA
        assert certificates.password not in repr(access)
        with pytest.raises(NoAnswer, match="certificate"):
            ask(RegistryAccess(urls=(server.url,), ca_file=certificates.authority), clock)
        for wrong in ({"key_password": "wrong"}, {"key_password": None}, {"key_file": certificates.server_key}):
            with pytest.raises(NoAnswer, match=r"certificate .* can't be used"):
                ask(RegistryAccess(urls=(server.url,), **{**ours, **wrong}), clock)


def test_certificate_that_is_not_there_is_named(clock: PatientClock, tmp_path: Path) -> None:
    missing = tmp_path / "absent.pem"
    with pytest.raises(NoAnswer, match="certificate") as caught:
        ask(RegistryAccess(urls=("https://127.0.0.1:9",), ca_file=missing), clock)
    assert caught.value.file == str(missing)


def test_registries_are_told_apart_by_their_urls_and_by_nothing_secret() -> None:
    one = RegistryAccess(urls=("http://a/", "http://b"), user="ana", password="x")
    assert one.identity == RegistryAccess(urls=("http://b", "http://a"), token="y").identity == "http://a http://b"
    assert one.identity != RegistryAccess(urls=("http://a",)).identity
