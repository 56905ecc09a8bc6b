"""Tokens that lie in files change while the daemon runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner

from engine.errors import Invalid
from floeberg.cli import app
from floeberg.daemon.door_token import TOKEN_FILE
from tests.floeberg.running_daemon import Running, running_daemon

OF_DOOR = ("/", "/status", "/metrics", "/v1/config")


class MountedSecret:
    """As Kubernetes mounts one: files that lead through a link, which is exchanged for all of them at once."""

    def __init__(self, folder: Path, **tokens: str) -> None:
        self._folder = folder
        self._versions = 0
        folder.mkdir()
        self.change(**tokens)
        for name in tokens:
            (folder / name).symlink_to(Path("..data") / name)

    def change(self, **tokens: str) -> None:
        self._versions += 1
        version = self._folder / f"..{self._versions}"
        version.mkdir()
        for name, token in tokens.items():
            (version / name).write_text(token)
        link = self._folder / "..data_tmp"
        link.symlink_to(version.name)
        link.rename(self._folder / "..data")

    def setting(self, *names: str) -> str:
        """Of a section: ``tokens = […]``."""
        return "tokens = [" + ", ".join(f'{{file = "{self._folder / name}"}}' for name in names) + "]\n"


@contextmanager
def guarded_by_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Running, MountedSecret, list[Any]]]:
    secret = MountedSecret(folder / "secret", new="first", old="zeroth", broker="of-the-broker", monitor="watching")
    with (
        capture_logs() as logs,
        running_daemon(
            folder,
            monkeypatch,
            top=f"[metrics]\n{secret.setting('monitor')}",
            log_door=secret.setting("broker"),
            table_door=secret.setting("new", "old"),
        ) as running,
    ):
        yield running, secret, logs


def let_in(running: Running, token: str, *paths: str) -> set[bool]:
    return {running.ask(path, token=token).status_code == 200 for path in paths}


def records_status(running: Running, token: str) -> int:
    """404: let in, to records that are in no table yet."""
    path = f"/v1/log/{running.world.bad.topic_id}/0/records?start=0&end=10"
    return running.ask(path, token=token, door=running.log_door).status_code


def events(logs: list[Any], name: str) -> list[str]:
    return [Path(line["file"]).name for line in logs if line["event"] == name]


def test_exchanged_secret_counts_from_the_next_request_at_every_door(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with guarded_by_files(tmp_path, monkeypatch) as (running, secret, logs):
        assert [let_in(running, token, *OF_DOOR) for token in ("first", "zeroth", "second")] == [
            {True},
            {True},
            {False},
        ]
        assert (let_in(running, "watching", "/metrics"), records_status(running, "of-the-broker") == 401) == (
            {True},
            False,
        )
        secret.change(new="second", old="first", broker="another-broker", monitor="looking")
        assert [let_in(running, token, *OF_DOOR) for token in ("second", "first", "zeroth")] == [
            {True},
            {True},
            {False},
        ]
        assert [let_in(running, token, "/metrics") for token in ("looking", "watching")] == [{True}, {False}]
        assert [records_status(running, token) == 401 for token in ("another-broker", "of-the-broker")] == [False, True]
    assert sorted(events(logs, "token_read_again")) == ["broker", "monitor", "new", "old"]
    assert not any(token in str(logs) for token in ("first", "second", "another-broker", "looking"))


def test_token_file_that_can_not_be_read_leaves_the_token_there_was_and_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with guarded_by_files(tmp_path, monkeypatch) as (running, secret, logs):
        # One file is missing, one is empty, one holds what no header can carry.
        secret.change(old="two\nlines", broker="", monitor="watching")
        for _ in range(2):
            assert [let_in(running, token, *OF_DOOR) for token in ("first", "zeroth", "")] == [{True}, {True}, {False}]
            assert [records_status(running, token) == 401 for token in ("of-the-broker", "")] == [False, True]
        # Once for each, not with each request.
        assert sorted(events(logs, "token_not_read")) == ["broker", "new", "old"]
        told = CliRunner().invoke(app, ["-c", str(running.settings), "check", "--no-spark"])
        assert isinstance(told.exception, Invalid)
        for setting, problem in (("[log_door] tokens.0", "broker is empty"), ("[table_door] tokens.0", "No such file")):
            assert re.search(rf"{re.escape(setting)}[^;]*{problem}", str(told.exception)), told.exception
        secret.change(new="second", old="first", broker="another-broker", monitor="watching")
        assert [let_in(running, token, *OF_DOOR) for token in ("second", "zeroth")] == [{True}, {False}]
        assert records_status(running, "another-broker") != 401


def test_token_kept_in_the_data_directory_may_be_exchanged_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_daemon(tmp_path, monkeypatch) as running:
        kept = running.world.root / "data" / TOKEN_FILE
        before = kept.read_text()
        assert records_status(running, before) != 401
        (another := kept.with_name("another")).write_text("another-token")
        another.rename(kept)
        assert [records_status(running, token) == 401 for token in ("another-token", before)] == [False, True]
