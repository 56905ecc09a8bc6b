"""Who on the machine may read what is written: nobody but the daemon's user, whatever the umask it was started with."""

from __future__ import annotations

import grp
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner

from engine.errors import Invalid
from engine.warehouse.warehouse import Warehouse
from floeberg.cli import app
from floeberg.daemon.door_token import TOKEN_FILE
from floeberg.daemon.private_files import looser, tightened
from floeberg.settings import Settings
from floeberg.settings.file_access import keep_private
from floeberg.setup.check_result import Verdict
from floeberg.setup.file_checks import check_files
from tests.floeberg.running_daemon import running_daemon
from tiering.spool import spool_root
from workers.spark_workers import SparkWorkers


@pytest.fixture(autouse=True)
def _open_umask() -> Iterator[None]:
    """The worst that a daemon may be started with."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    """As ``ls -l`` shows them."""
    paths = (folder, *folder.rglob("*"))
    return {str(path.relative_to(folder)): stat.filemode(path.stat().st_mode) for path in paths}


def a_group() -> grp.struct_group:
    """One that this user may give files to, another than their own where there is one."""
    own = os.getegid()
    mine = [one.gr_gid for one in grp.getgrall()] if os.geteuid() == 0 else os.getgroups()
    return grp.getgrgid(next((found for found in mine if found != own), own))


def settings_of(folder: Path, **more: object) -> Settings:
    broker = {"bootstrap": "none:1", "log_dirs": [str(folder / "kafka")]}
    return Settings.model_validate({"broker": broker, "data_dir": folder / "data", **more})


def test_all_that_a_daemon_writes_or_finds_is_its_users_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with capture_logs() as logs, running_daemon(tmp_path, monkeypatch) as running:
        running.world.produce(running.world.bad, running.world.good)
        running.until(lambda: running.ends() == {10})
        data, spool = running.world.root / "data", spool_root(running.world.broker.log_dir)
        found = modes(data)
    assert {Path(name).suffix for name in found} >= {".parquet", ".json", ".avro", ".db", ".token", ".lock"}
    assert {name: mode for name, mode in found.items() if not mode.endswith("------")} == {}
    assert stat.filemode(spool.stat().st_mode) == "drwx------"
    # The catalog was there before.
    changes = [line["change"] for line in logs if line["event"] == "file_access_changed"]
    assert [str(data) in change for change in changes] == [True]


def test_group_of_the_settings_reads_tables_and_catalog_and_neither_token_nor_spool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = a_group()
    with running_daemon(tmp_path, monkeypatch, top=f'file_group = "{group.gr_name}"') as running:
        running.world.produce(running.world.bad, running.world.good)
        running.until(lambda: running.ends() == {10})
        data, spool = running.world.root / "data", spool_root(running.world.broker.log_dir)
        found = {path: path.stat() for path in (data, *data.rglob("*")) if path.name != TOKEN_FILE}
    assert {stat.filemode(one.st_mode) for one in found.values()} == {"drwxr-s---", "-rw-r-----"}
    assert {one.st_gid for one in found.values()} == {group.gr_gid}
    assert stat.filemode((data / TOKEN_FILE).stat().st_mode) == "-rw-------"
    assert stat.filemode(spool.stat().st_mode) == "drwx------"


def test_what_others_may_read_is_found_by_check_and_mended_by_the_daemon(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": lake.as_uri()}
    settings = settings_of(tmp_path, catalog=catalog)
    for folder in (settings.data_dir, lake / "kafka" / "table", lake / "of-others", spool_root(tmp_path / "kafka")):
        folder.mkdir(parents=True)
    for file in (tmp_path / "catalog.db", tmp_path / "catalog.db-wal", lake / "kafka" / "table" / "a.parquet"):
        file.touch()
    segment = spool_root(tmp_path / "kafka") / "0.log"
    segment.touch()
    loose = [settings.data_dir, lake / "kafka", *sorted(tmp_path.glob("catalog.db*")), segment.parent]
    assert list(looser(settings)) == [(path, True) for path in loose]
    (told,) = check_files(settings)
    assert (told.verdict, told.next_step) == (Verdict.NOTE, f"floeberg run changes {', '.join(map(str, loose))}")

    assert len(list(tightened(settings))) == len(loose)
    assert list(looser(settings)) == []
    assert [one.verdict for one in check_files(settings)] == [Verdict.GOOD]
    assert list(tightened(settings)) == [], "what is right is left alone"
    assert modes(lake) == {
        ".": "drwxrwxrwx",
        "of-others": "drwxrwxrwx",
        "kafka": "drwx------",
        "kafka/table": "drwx------",
        "kafka/table/a.parquet": "-rw-------",
    }
    assert stat.filemode(segment.stat().st_mode) == "-rw-rw-rw-", "it is the broker's"


def test_folder_of_another_user_is_told_and_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(tmp_path)
    settings.data_dir.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    (told,) = tightened(settings)
    assert "belongs to another user" in told
    assert stat.filemode(settings.data_dir.stat().st_mode) == "drwxrwxrwx"
    assert [one.next_step for one in check_files(settings)] == [f"give {settings.data_dir} to the daemon's user"]


def test_group_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="no group 'nobody-has-this'"):
        keep_private(settings_of(tmp_path, file_group="nobody-has-this"))


def test_what_a_command_makes_is_private_and_a_file_that_its_user_asks_for_is_theirs(tmp_path: Path) -> None:
    os.umask(0o022)
    (tmp_path / "floeberg.toml").write_text('[broker]\nbootstrap = "none:1"\nlog_dirs = ["kafka"]\n')
    command = ["-c", str(tmp_path / "floeberg.toml"), "sql", "--format", "csv", "-o", str(tmp_path / "rows.csv")]
    done = CliRunner().invoke(app, [*command, "SELECT 1 AS a"])
    assert done.exit_code == 0, done.output
    data = modes(tmp_path / "floeberg-data")
    assert "catalog.db" in data
    assert {mode[4:] for mode in data.values()} == {"------"}
    assert stat.filemode((tmp_path / "rows.csv").stat().st_mode) == "-rw-r--r--"


@pytest.mark.spark
@pytest.mark.xdist_group("spark-workers")
def test_workers_of_spark_write_with_the_umask_that_spark_was_started_with(spark: SparkWorkers, tmp_path: Path) -> None:
    file = tmp_path / "new folder" / "file"
    assert dict(spark.run(_write, {0: str(file)})) == {0: None}
    assert modes(file.parent) == {".": "drwx------", "file": "-rw-------"}


def _write(path: str) -> None:
    Warehouse().write_bytes(path, b"x")
