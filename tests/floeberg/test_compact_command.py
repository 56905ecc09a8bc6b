"""``floeberg compact`` over tables as a daemon left them: what it would do and why, what it does, and how it ends."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from engine.topic_partition import TopicIdPartition
from floeberg.cli import app
from tests.compaction.damaged_file import damage
from tests.tiering.tiering_world import TieringWorld


@dataclass
class Stored:
    """Two topics of one partition in tables of the embedded catalog: five slices of ``orders``, one of ``notes``."""

    root: Path
    world: TieringWorld
    orders: TopicIdPartition
    notes: TopicIdPartition

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(app, ["--config", str(self.root / "floeberg.toml"), "compact", *words])

    def report(self, *words: str) -> tuple[int, dict[str, Any]]:
        result = self.run("--json", *words)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, json.loads(result.stdout)

    def files(self) -> list[str]:
        loaded = self.world.catalog.load_table(self.world.table(self.orders).identifier)
        return sorted(task.file.file_path for task in loaded.scan().plan_files())

    def write_settings(self, value: str = "string") -> None:
        (self.root / "floeberg.toml").write_text(
            f'data_dir = "{self.root / "data"}"\n'
            f'[broker]\nbootstrap = "127.0.0.1:1"\nlog_dirs = ["{self.world.broker.log_dir}"]\n'
            f'[compaction]\ntarget_file_bytes = 1048576\n[[topics]]\nname = "orders"\nvalue = "{value}"\n'
            f'[[topics]]\nvalue = "string"\n'
        )


@pytest.fixture
def stored(tmp_path: Path, quiet: None) -> Stored:
    world = TieringWorld(tmp_path)
    (orders,), (notes,) = world.broker.create_topic("orders"), world.broker.create_topic("notes")
    for number in range(5):
        world.broker.append_segment(orders, [b"v%d" % number])
    world.broker.append_segment(notes, [b"n"])
    assert world.loop().cycle().is_good
    found = Stored(root=tmp_path, world=world, orders=orders, notes=notes)
    found.write_settings()
    return found


def test_dry_run_tells_of_each_file_why_and_changes_nothing(stored: Stored) -> None:
    before = stored.files()
    result = stored.run("--dry-run")
    assert result.exit_code == 0, result.output
    assert "5 files would become 1; 0 would stay" in result.output
    assert "partition 0 [0, 5)  5 files" in result.output
    assert "become one: somebody asked for it" in result.output
    assert all(path.rpartition("/")[2] in result.output for path in before)
    assert "stays: no file that could be merged is beside it" in result.output
    assert stored.files() == before


def test_report_of_a_dry_run_has_each_file_once(stored: Stored) -> None:
    code, report = stored.report("--dry-run", "orders")
    (table,) = report["tables"]
    (group,) = table["groups"]
    assert (code, report["good"], table["topic"], table["dry_run"]) == (0, True, "orders", True)
    assert (group["partition"], group["start"], group["end"], group["reason"]) == (0, 0, 5, "asked")
    assert [file["path"] for file in group["files"]] == stored.files()
    assert (table["merges"], table["left"]) == (0, [])


def test_files_become_one_and_a_second_run_finds_nothing(stored: Stored) -> None:
    rows = stored.world.rows(stored.orders)
    code, report = stored.report()
    tables = {table["topic"]: table for table in report["tables"]}
    assert (code, tables["orders"]["merges"], tables["orders"]["files_merged"]) == (0, 1, 5)
    assert tables["notes"]["merges"] == 0
    assert len(stored.files()) == 1
    assert stored.world.rows(stored.orders) == rows
    code, report = stored.report("orders")
    assert (code, report["tables"][0]["merges"]) == (0, 0)
    assert [left["reason"] for left in report["tables"][0]["left"]] == ["alone"]


def test_damaged_file_is_named_and_the_others_are_merged(stored: Stored) -> None:
    third = stored.files()[2]
    damage(third)
    code, report = stored.report("orders")
    (table,) = report["tables"]
    assert (code, report["good"], table["merges"]) == (1, False, 2)
    (problem,) = table["problems"]
    assert third in problem
    assert "offset 2" in problem
    assert len(stored.files()) == 3
    assert "problem" in stored.run("orders").output


def test_settings_of_another_format_are_a_problem_of_that_table_alone(stored: Stored) -> None:
    stored.write_settings(value="raw")
    code, report = stored.report()
    tables = {table["topic"]: table for table in report["tables"]}
    assert (code, tables["orders"]["good"], tables["notes"]["good"]) == (1, False, True)
    assert "the settings say raw" in tables["orders"]["problems"][0]


def test_topic_without_a_table_is_wrong_usage(stored: Stored) -> None:
    result = stored.run("nowhere")
    assert "There is no table for this topic" in str(result.exception)


def test_settings_bound_what_they_say() -> None:
    from floeberg.settings import CompactionSettings, Settings
    from floeberg.settings.rooms import compaction_limits

    settings = Settings(
        broker={"bootstrap": "b:1", "log_dirs": ["/l"]},  # type: ignore[arg-type]
        compaction=CompactionSettings(enabled=False, target_file_bytes=8 << 20, max_parallel=3, cpu_share=0.5),
    )
    limits = compaction_limits(settings)
    assert (limits.enabled, limits.merge.target_file_bytes) == (False, 8 << 20)
    assert (limits.max_parallel, limits.cpu_share) == (3, 0.5)
