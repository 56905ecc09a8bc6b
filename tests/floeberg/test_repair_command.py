"""``floeberg repair`` over tables as a daemon left them: what it does, what it tells, and how it ends."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from engine.errors import Invalid
from engine.schemas.folder import SchemaFolder
from floeberg.cli import app
from floeberg.commands import repair as repair_command
from floeberg.commands.status import shown
from floeberg.daemon.data_dir_lock import lock_data_dir
from serving.status.daemon_status import DaemonStatus, Phase
from tests.tiering.order_schemas import TEXTS, order
from tests.tiering.tiering_world import TieringWorld
from topics.partition_status import PartitionStatus
from topics.topic_rule import TopicRule


@dataclass
class Stored:
    """Two segments of ``orders`` in a table of the embedded catalog: schema 2 was nowhere when they were tiered."""

    root: Path
    world: TieringWorld

    @property
    def schemas(self) -> Path:
        return self.root / "schemas"

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(app, ["--config", str(self.root / "floeberg.toml"), *words])

    def report(self, *words: str) -> tuple[int, dict[str, Any]]:
        result = self.run("repair", "orders", "--json", *words)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, json.loads(result.stdout)

    def write_settings(self, schemas: str) -> None:
        (self.root / "floeberg.toml").write_text(
            f'data_dir = "{self.root / "data"}"\n'
            f'[broker]\nbootstrap = "127.0.0.1:1"\nlog_dirs = ["{self.world.broker.log_dir}"]\n'
            f'[table_door]\nlisten = "127.0.0.1:0"\n'
            f'[[topics]]\nname = "orders"\nvalue = "avro"\nschemas = "{schemas}"\n'
        )


@pytest.fixture
def stored(tmp_path: Path, quiet: None) -> Stored:
    world = TieringWorld(tmp_path)
    found = Stored(root=tmp_path, world=world)
    found.schemas.mkdir()
    (found.schemas / "1.avsc").write_text(TEXTS[1])
    found.write_settings(str(found.schemas))
    (partition,) = world.broker.create_topic("orders")
    world.broker.append_segment(partition, [order(1, {"id": 0}), order(2, {"id": 1, "note": "gift"}), b"broken"])
    world.broker.append_segment(partition, [order(2, {"id": 3, "note": "late"})])
    rule = TopicRule(pattern="*", value_format="avro", schema_source=SchemaFolder(found.schemas))
    assert world.loop(rules=(rule,)).cycle().commits == 1
    return found


def test_missing_schema_is_named_until_it_comes_and_then_sql_has_its_columns(stored: Stored) -> None:
    code, report = stored.report()
    assert (code, report["good"], report["files_tried"]) == (1, False, 0)
    assert report["missing_schemas"] == {"2": 2}
    assert report["records_left"] == 3
    (stored.schemas / "2.avsc").write_text(TEXTS[2])
    with lock_data_dir(stored.root / "data"):
        # As a daemon holds it: the command needs nothing of its data directory.
        code, report = stored.report()
    assert (code, report["good"]) == (0, True)
    assert (report["files_replaced"], report["records_repaired"], report["missing_schemas"]) == (2, 2, {})
    assert list(report["reasons"].values()) == [1], "what is broken for good is told, and no reason to come again"
    rows = stored.run("sql", "--json", "SELECT kafka_offset, id, note FROM kafka.orders ORDER BY 1")
    assert [tuple(row.values()) for row in json.loads(rows.stdout)] == [
        (0, 0, None),
        (1, 1, "gift"),
        (2, None, None),
        (3, 3, "late"),
    ]


def test_dry_run_tells_what_would_be_done_and_changes_nothing(stored: Stored) -> None:
    (stored.schemas / "2.avsc").write_text(TEXTS[2])
    before = stored.world.catalog.load_table("kafka.orders").metadata_location
    code, report = stored.report("--dry-run")
    assert (code, report["dry_run"], report["files_tried"], report["records_repaired"]) == (1, True, 2, 2)
    assert stored.world.catalog.load_table("kafka.orders").metadata_location == before
    assert stored.report()[0] == 0
    assert stored.report("--dry-run")[0] == 0


def test_report_for_a_person_says_what_was_done_and_what_is_left(stored: Stored) -> None:
    result = stored.run("repair", "orders")
    assert "0 records repaired in 0 of 2 files" in result.stdout
    assert "2 records for schema 2, which the schema source does not have" in result.stdout
    (stored.schemas / "2.avsc").write_text(TEXTS[2])
    result = stored.run("repair", "orders")
    assert result.exit_code == 0
    assert "2 records repaired in 2 of 2 files" in result.stdout
    assert "1 keep their bytes" in result.stdout


def test_registry_that_is_away_ends_the_command_with_the_problem(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repair_command, "SOURCE_PATIENCE_MS", 0)
    stored.write_settings("http://127.0.0.1:1")
    code, report = stored.report()
    assert (code, report["files_replaced"]) == (1, 0)
    assert report["problems"]


def test_topic_without_table_or_rule_is_a_wrong_use(stored: Stored) -> None:
    assert isinstance(stored.run("repair", "nothing").exception, Invalid)
    text = (stored.root / "floeberg.toml").read_text()
    (stored.root / "floeberg.toml").write_text(text.replace('name = "orders"', 'name = "others"'))
    assert isinstance(stored.run("repair", "orders").exception, Invalid)


def test_damaged_file_is_named_and_the_rest_is_repaired(stored: Stored) -> None:
    (stored.schemas / "2.avsc").write_text(TEXTS[2])
    damaged = min((stored.root / "data").rglob("*.parquet"))
    damaged.unlink()
    code, report = stored.report()
    assert (code, report["files_replaced"]) == (1, 1)
    assert str(damaged) in report["problems"][0]


def test_status_of_a_daemon_that_stored_records_without_columns_names_the_command() -> None:
    partitions = (
        PartitionStatus(topic="orders", partition=0, reason_rows=3, awaiting_rows=3),
        PartitionStatus(topic="b", partition=0),
    )
    found = DaemonStatus(version="1", phase=Phase.RUNNING, started_ms=0, now_ms=1, partitions=partitions)
    text = "\n".join(map(str, shown(found, daemon_runs=True, topic=None, width=80)))
    assert "floeberg repair orders" in text
    assert "floeberg repair b" not in text
