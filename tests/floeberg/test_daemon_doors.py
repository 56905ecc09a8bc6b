"""Who is let in at a daemon's doors: names, tokens, certificates; met as clients meet them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from pyiceberg.catalog.rest import RestCatalog
from structlog.testing import capture_logs
from typer.testing import CliRunner

from engine.clock import SystemClock
from engine.errors import Invalid, Unavailable
from floeberg.cli import app
from floeberg.daemon.client import ask_daemon
from floeberg.daemon.daemon import Daemon
from floeberg.daemon.door_access import exposures
from floeberg.native.checks import door as check_door
from floeberg.settings import Settings
from floeberg.settings.file import load_settings
from floeberg.setup.check_result import Verdict
from floeberg.setup.daemon_checks import check_doors
from floeberg.sql.duckdb_session import DuckdbSession
from tests.floeberg.running_daemon import Running, running_daemon
from tests.support.certificates import Authority

GUARDED = ("/", "/status", "/metrics", "/v1/config", "/v1/namespaces", "/v1/anything")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Authority]]:
    """Both doors with two tokens and TLS, under an authority that the system doesn't know; ten records in a table."""
    folder = tmp_path_factory.mktemp("guarded")
    authority = Authority(folder)
    authority.issue(folder)
    tls = 'tls = {cert_file = "door.pem", key_file = "door.key", ca_file = "ca.pem"}\n'
    (folder / "old-token").write_text("the-old\n")
    tokens = f'tokens = ["the-new", {{file = "{folder}/old-token"}}]\n'
    with (
        pytest.MonkeyPatch.context() as monkeypatch,
        running_daemon(
            folder,
            monkeypatch,
            top='[metrics]\ntokens = ["of-the-monitor"]\n',
            log_door=tls + tokens,
            table_door=tls + tokens + 'allowed_hosts = ["*.kafka.svc"]\n',
            trust=authority.trust(),
        ) as running,
    ):
        running.world.produce(running.world.bad, running.world.good)
        running.until(lambda: running.ends() == {10})
        yield running, authority


def test_either_token_opens_everything_and_none_or_another_nothing(guarded: tuple[Running, Authority]) -> None:
    running, _ = guarded
    for token, status in (("the-new", 200), ("the-old", 200), ("", 401), ("the-ne", 401), ("of-the-monitor", 401)):
        for path in set(GUARDED) - {"/metrics", "/v1/anything"}:
            assert running.ask(path, token=token).status_code == status, (token, path)
    for token, status in (("the-old", 404), ("", 401)):
        assert running.ask("/v1/anything", token=token).status_code == status
    records = f"/v1/log/{running.world.bad.topic_id}/0/records?start=0&end=10"
    for token, status in (("the-new", 200), ("the-old", 200), ("", 401), ("wrong", 401)):
        assert running.ask(records, token=token, door=running.log_door).status_code == status


def test_metrics_have_a_token_that_opens_nothing_else(guarded: tuple[Running, Authority]) -> None:
    running, _ = guarded
    assert [running.ask("/metrics", token=token).status_code for token in ("of-the-monitor", "the-new")] == [200, 200]
    assert [running.ask("/metrics", token=token).status_code for token in ("", "wrong")] == [401, 401]
    assert running.ask("/status", token="of-the-monitor").status_code == 401


def test_browser_is_asked_for_a_password_and_a_token_is_one(guarded: tuple[Running, Authority]) -> None:
    running, _ = guarded
    assert running.ask("/", token="").headers["WWW-Authenticate"].startswith("Basic")
    for password, status in (("the-old", 200), ("wrong", 401)):
        given = base64.b64encode(f"anybody:{password}".encode()).decode()
        assert running.ask("/", token="", Authorization=f"Basic {given}").status_code == status
        # Engines send bearer tokens; what a browser remembers is not taken there.
        assert running.ask("/v1/config", token="", Authorization=f"Basic {given}").status_code == 401
    for broken in ("Basic", "Basic %%%", "Basic dGhlLW9sZA=="):
        assert running.ask("/", token="", Authorization=broken).status_code == 401


def test_supervisor_needs_no_token_and_is_told_nothing(guarded: tuple[Running, Authority]) -> None:
    running, _ = guarded
    for path in ("/healthz", "/readyz"):
        answer = running.ask(path, token="", Host="anything.example")
        assert (answer.status_code, answer.text) == (200, "ok\n")


def test_page_of_a_stranger_that_is_resolved_to_us_is_refused(guarded: tuple[Running, Authority]) -> None:
    running, _ = guarded
    for path in GUARDED:
        answer = running.ask(path, Host="evil.example")
        assert answer.status_code == 421, path
        assert "[table_door] allowed_hosts" in answer.text
        assert running.ask(path, Host="a.kafka.svc:7811").status_code in {200, 404}
    records = f"/v1/log/{running.world.bad.topic_id}/0/records?start=0&end=10"
    refused = running.ask(records, door=running.log_door, Host="a.kafka.svc")
    assert (refused.status_code, "[log_door] allowed_hosts" in refused.text) == (421, True)


def test_our_own_commands_duckdb_and_pyiceberg_come_in_through_tls(
    guarded: tuple[Running, Authority], monkeypatch: pytest.MonkeyPatch
) -> None:
    running, authority = guarded
    # They would win over what a session of the library's is told.
    for variable in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(variable, raising=False)
    settings = load_settings(running.settings)
    found = ask_daemon(settings)
    assert found is not None
    assert {one.tiered_end for one in found.partitions} == {10}
    assert [one.verdict for one in check_door(settings, "the-old")] == [Verdict.GOOD]
    query = ["-c", str(running.settings), "sql", "--json", "SELECT count(*) AS n FROM orders"]
    shown = CliRunner().invoke(app, query)
    assert json.loads(shown.stdout) == [{"n": 20}], shown.output
    catalog = RestCatalog("floeberg", uri=running.table_door, token="the-old", ssl={"cabundle": str(authority.ca_file)})
    assert catalog.load_table("kafka.orders").scan().to_arrow().num_rows == 20


def test_certificate_that_nobody_vouches_for_is_not_taken(
    guarded: tuple[Running, Authority],
) -> None:
    running, _ = guarded
    stranger = load_settings(running.settings)
    assert stranger.table_door.tls is not None
    bare = stranger.table_door.model_copy(update={"tls": stranger.table_door.tls.model_copy(update={"ca_file": None})})
    with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
        ask_daemon(stranger.model_copy(update={"table_door": bare}))
    with pytest.raises(Unavailable, match="DuckDB can't attach"):
        DuckdbSession(running.table_door, token="the-new")
    with pytest.raises(httpx.HTTPError):
        httpx.get(running.table_door.replace("https://", "http://"), timeout=60)


def settings_of(folder: Path, **sections: object) -> Settings:
    broker = {"bootstrap": "none:1", "log_dirs": [str(folder)]}
    return Settings.model_validate({"broker": broker, "data_dir": folder / "data", **sections})


@pytest.mark.parametrize("host", ["0.0.0.0", "10.1.2.3", "[::]", "kafka-1"])
def test_door_beyond_this_machine_without_a_token_is_refused_before_anything_is_done(tmp_path: Path, host: str) -> None:
    settings = settings_of(tmp_path, table_door={"listen": f"{host}:0"})
    with pytest.raises(Invalid, match="asks nobody for a token"), Daemon(settings, SystemClock(), in_process=True):
        pass
    assert not settings.data_dir.exists()
    assert [one.name for one in check_doors(settings) if one.verdict is Verdict.WRONG] == ["[table_door] tokens"]


def test_doors_that_other_machines_reach_are_told_of_and_those_of_this_machine_are_not(tmp_path: Path) -> None:
    open_door = {"listen": "0.0.0.0:0", "tokens": ["t"]}
    tls = {"tls": {"cert_file": "/c", "key_file": "/k"}}
    settings = settings_of(tmp_path, log_door={"listen": "0.0.0.0:0"}, table_door={**open_door, **tls})
    assert [(section, warns) for section, _, warns in exposures(settings)] == [
        ("log_door", True),
        ("table_door", False),
    ]
    assert [(one.name, one.verdict) for one in check_doors(settings)] == [
        ("[log_door] listen", Verdict.NOTE),
        ("[table_door] listen", Verdict.GOOD),
    ]
    for host in ("127.0.0.1", "127.8.8.8", "[::1]", "localhost"):
        assert not list(check_doors(settings_of(tmp_path, table_door={"listen": f"{host}:0"})))


def test_daemon_with_a_door_beyond_this_machine_warns_as_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("floeberg.settings.doors.Listen.is_loopback", False)
    with capture_logs() as logs, running_daemon(tmp_path, monkeypatch, table_door='token = "secret"'):
        pass
    warned = [line["door"] for line in logs if line["event"] == "door_beyond_this_machine"]
    assert warned == ["log_door", "table_door"]
    assert "secret" not in str(logs)
