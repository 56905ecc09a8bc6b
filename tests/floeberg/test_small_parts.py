"""The daemon's own parts: the lock of a data directory, the doors' token, a server on a socket, the jar."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from engine.errors import Invalid, Unavailable
from engine.file_lock import owner_of
from floeberg.daemon.data_dir_lock import LOCK_FILE, lock_data_dir
from floeberg.daemon.door_token import TOKEN_FILE, log_door_tokens
from floeberg.http.server import HttpServer
from floeberg.java.plugin_jar import broker_properties
from floeberg.settings import BrokerSettings, Settings
from floeberg.settings.doors import Listen, LogDoorSettings
from floeberg.settings.registry import RegistrySettings
from floeberg.settings.schema_sources import registry_access

HOLD_LOCK = """
import sys, time
from pathlib import Path
from floeberg.daemon.data_dir_lock import lock_data_dir
lock = lock_data_dir(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def settings_in(folder: Path, token: str | None = None) -> Settings:
    broker = BrokerSettings(bootstrap="localhost:1", log_dirs=(folder,))
    return Settings(broker=broker, data_dir=folder / "data", log_door=LogDoorSettings(token=token))


def test_second_process_in_a_data_dir_is_refused_and_a_dead_ones_lock_is_not_in_the_way(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD_LOCK, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert owner_of(tmp_path / LOCK_FILE) == holder.pid
        with pytest.raises(Invalid, match=f"process {holder.pid}"):
            lock_data_dir(tmp_path)
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    with lock_data_dir(tmp_path):
        assert owner_of(tmp_path / LOCK_FILE) != holder.pid


def test_token_is_made_once_for_its_owner_only_and_the_settings_win(tmp_path: Path) -> None:
    token = log_door_tokens(settings_in(tmp_path))[0]
    assert len(token) >= 32
    assert log_door_tokens(settings_in(tmp_path))[0] == token
    assert (tmp_path / "data" / TOKEN_FILE).stat().st_mode & 0o077 == 0
    assert [path.name for path in (tmp_path / "data").iterdir()] == [TOKEN_FILE]
    assert log_door_tokens(settings_in(tmp_path, token="given")) == ("given",)


def test_server_answers_at_a_free_port_until_it_is_stopped() -> None:
    routes = [Route("/", lambda _request: PlainTextResponse("here"))]
    with HttpServer(routes, Listen(host="127.0.0.1", port=0), setting="[x] listen") as server:
        url = server.url
        assert httpx.get(url).text == "here"
        with pytest.raises(Unavailable, match=r"\[x\] listen"):
            HttpServer(routes, server.listen, setting="[x] listen")
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)


def test_broker_lines_have_the_prefix_that_the_plugin_reads_its_settings_under() -> None:
    lines = broker_properties(jar=Path("/x/p.jar"), door_url="http://h:1", token="t")
    assert lines[lines["remote.log.storage.manager.impl.prefix"] + "floeberg.url"] == "http://h:1"
    assert lines["remote.log.storage.manager.class.path"] == "/x/p.jar"


def test_registry_url_gives_up_its_user_and_password() -> None:
    access = registry_access(RegistrySettings.model_validate("https://me:p%40ss@registry:8081/apis/ccompat/v7"))
    assert (access.urls, access.user, access.password) == (("https://registry:8081/apis/ccompat/v7",), "me", "p@ss")
    assert registry_access(RegistrySettings.model_validate("http://registry")).user is None
