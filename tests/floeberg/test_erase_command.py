"""``floeberg erase`` over tables as a daemon left them: what it tells, what it does, and how it ends."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import structlog
from typer.testing import CliRunner, Result

from engine.errors import Invalid
from engine.topic_partition import TopicIdPartition
from floeberg.cli import app
from floeberg.commands import erase as erase_command
from tests.compaction.damaged_file import damage
from tests.tiering.tiering_world import TieringWorld


@dataclass
class Stored:
    """A topic of two partitions in the embedded catalog, whose log is still there: three segments in the first, in
    each a record of alice and one of bob, and one of carol in the second."""

    root: Path
    world: TieringWorld
    partitions: tuple[TopicIdPartition, ...]

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(app, ["--config", str(self.root / "floeberg.toml"), "erase", *words])

    def report(self, *words: str) -> tuple[int, dict[str, Any]]:
        result = self.run(*words, "--json")
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, json.loads(result.stdout)

    def sql(self, query: str) -> Any:
        words = ["--config", str(self.root / "floeberg.toml"), "sql", "--json", query]
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def fsck(self) -> Result:
        return CliRunner().invoke(app, ["--config", str(self.root / "floeberg.toml"), "fsck"])


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The command's set-up of the log would outlive the runner's streams."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    monkeypatch.setattr(erase_command, "configure_logging", lambda **_: None)
    yield
    structlog.configure(**before)


@pytest.fixture
def stored(tmp_path: Path, quiet: None) -> Stored:
    world = TieringWorld(tmp_path)
    partitions = world.broker.create_topic("people", partitions=2)
    for number in range(3):
        values = [b"{}%d" % number, b"{}"]
        world.broker.append_segment(partitions[0], values, keys=[b"alice", b"bob"])
    world.broker.append_segment(partitions[1], [b"x"], keys=[b"carol"])
    loop = world.loop()
    assert loop.cycle().is_good
    (tmp_path / "floeberg.toml").write_text(
        f'data_dir = "{tmp_path / "data"}"\n'
        f'[broker]\nbootstrap = "127.0.0.1:1"\nlog_dirs = ["{world.broker.log_dir}"]\n'
        '[[topics]]\nvalue = "string"\n'
    )
    return Stored(root=tmp_path, world=world, partitions=partitions)


def keys(stored: Stored) -> list[str]:
    return [
        row["kafka_key"] for row in stored.sql("SELECT kafka_key FROM people ORDER BY kafka_partition, kafka_offset")
    ]


def test_dry_run_tells_and_changes_nothing(stored: Stored) -> None:
    code, told = stored.report("people", "--key", "alice", "--dry-run")
    assert (code, told["good"], told["records"]) == (0, True, 3)
    (partition,) = told["partitions"]
    assert {name: partition[name] for name in ("partition", "records", "start", "end")} == {
        "partition": 0,
        "records": 3,
        "start": 0,
        "end": 5,
    }
    assert "3 records would go" in stored.run("people", "--key", "alice", "--dry-run").output
    assert len(keys(stored)) == 7


def test_records_go_and_sql_and_fsck_agree(stored: Stored) -> None:
    code, told = stored.report("people", "--key", "alice")
    assert (code, told["good"], told["records"]) == (0, True, 3)
    assert told["partitions"]["0"]["up_to"] == 6
    (local,) = told["local"]
    assert "the broker still has and serves 3 segments" in local
    assert "gone below offset 0" in local
    assert keys(stored) == ["bob", "bob", "bob", "carol"]
    assert "3 erased" in stored.fsck().output
    assert "ok" in stored.fsck().output, "the log still has what was erased, and that is no damage"
    code, again = stored.report("people", "--key", "alice")
    assert (code, again["records"]) == (0, 0)


def test_keys_of_a_file_and_in_hex_and_a_condition(stored: Stored) -> None:
    names = stored.root / "names.txt"
    names.write_text("alice\n\ncarol\n")
    code, told = stored.report("people", "--keys-file", str(names), "--key-hex", b"dave".hex(), "--dry-run")
    assert (code, told["records"]) == (0, 4)
    code, told = stored.report("people", "--where", "kafka_key = 'bob' AND value = '{}' AND kafka_offset > 1")
    assert (code, told["records"]) == (0, 2)
    assert keys(stored) == ["alice", "bob", "alice", "alice", "carol"]


def test_report_is_shown_again_and_looks_for_what_is_left(stored: Stored) -> None:
    _, told = stored.report("people", "--key", "alice")
    short = told["id"][:8]
    shown = stored.run("people", "--report", short)
    assert shown.exit_code == 0
    assert "3 records erased, 3 files replaced" in shown.output.replace("\n", " ")
    assert "history names old files" in shown.output
    code, looked = stored.report("people", "--report", short, "--verify", "--key", "alice")
    assert (code, looked["scan"]["clean"]) == (1, False)
    assert sum(looked["scan"]["records"].values()) == 3
    assert isinstance(stored.run("people", "--report", short, "--verify", "--key", "bob").exception, Invalid)


def test_file_that_can_not_be_read_ends_it_with_1(stored: Stored) -> None:
    loaded = stored.world.catalog.load_table(stored.world.table(stored.partitions[0]).identifier)
    paths = sorted(task.file.file_path for task in loaded.scan(row_filter="kafka_partition = 0").plan_files())
    damage(paths[0])
    result = stored.run("people", "--key", "alice")
    assert result.exit_code == 1
    assert "left" in result.output
    assert paths[0] in result.output.replace("\n", "")


@pytest.mark.parametrize(
    "words",
    [
        ("people",),
        ("people", "--key", "a", "--where", "true"),
        ("people", "--where", "no_column = 1"),
        ("people", "--where", "kafka_offset"),
        ("people", "--key-hex", "0"),
        ("people", "--keys-file", "/does/not/exist"),
        ("people", "--verify"),
        ("people", "--report", "abc"),
        ("nobody", "--key", "a"),
    ],
)
def test_wrong_usage_is_invalid_and_changes_nothing(stored: Stored, words: tuple[str, ...]) -> None:
    assert isinstance(stored.run(*words).exception, Invalid)
    assert len(keys(stored)) == 7
