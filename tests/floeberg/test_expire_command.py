"""``floeberg expire`` over a table as a daemon left it: what it would do and why, what it does, and how it ends."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import structlog
from typer.testing import CliRunner, Result

from engine.table import history
from engine.topic_partition import TopicIdPartition
from floeberg.cli import app
from floeberg.commands import expire as expire_command
from floeberg.processes.tied_process import tied
from retention.sweep_limits import SHORTEST_GRACE_MS
from tests.retention.sweep_world import MovedClock
from tests.tiering.tiering_world import TieringWorld

SLICES = 4


@dataclass
class Kept:
    """One topic in a table of the embedded catalog, of four commits, and what a killed daemon left beside it."""

    root: Path
    world: TieringWorld
    orders: TopicIdPartition
    clock: MovedClock
    left: str
    foreign: str

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(app, ["--config", str(self.root / "floeberg.toml"), "expire", *words])

    def report(self, *words: str) -> tuple[int, dict[str, Any]]:
        result = self.run("--json", *words)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, json.loads(result.stdout)

    def files(self) -> set[str]:
        table = self.world.table(self.orders)
        return {file.path for file in table.warehouse.list(table.location)}


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    # The command's set-up of the log would outlive the runner's streams.
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    monkeypatch.setattr(expire_command, "configure_logging", lambda **_: None)
    clock = MovedClock()
    monkeypatch.setattr(expire_command, "SystemClock", lambda: clock)
    monkeypatch.setattr(history, "MAY_BE_UNANSWERED_MS", 0)
    world = TieringWorld(tmp_path)
    (orders,) = world.broker.create_topic("orders")
    for number in range(SLICES):
        world.broker.append_segment(orders, [b"v%d" % number])
        assert world.loop().cycle().is_good
    table = world.table(orders)
    name = f"p=0/{0:020d}-{1:020d}-e0-left.parquet"
    left, foreign = f"{table.location}/data/{table.topic_id}/{name}", f"{table.location}/data/of-others.parquet"
    for path in (left, foreign):
        table.warehouse.write_bytes(path, b"nothing names this")
    (tmp_path / "floeberg.toml").write_text(
        f'data_dir = "{tmp_path / "data"}"\n'
        f'[broker]\nbootstrap = "127.0.0.1:1"\nlog_dirs = ["{world.broker.log_dir}"]\n'
        f"[history]\nmin_snapshots = 1\nmax_age_ms = 1\ngrace_ms = {SHORTEST_GRACE_MS}\n"
        '[[topics]]\nvalue = "string"\n'
    )
    yield Kept(root=tmp_path, world=world, orders=orders, clock=clock, left=left, foreign=foreign)
    structlog.configure(**before)


def test_dry_run_tells_of_each_file_why_it_is_there_and_changes_nothing(kept: Kept) -> None:
    before = kept.files()
    result = kept.run("--dry-run")
    assert result.exit_code == 0, result.output
    assert f"{SLICES - 1} snapshots would go now, and nothing is changed" in result.output
    lines = result.output.splitlines()
    assert any(line.split()[:3] == ["grace", "1", "files"] for line in lines), result.output
    assert any(kept.left in line and "  for 59 min" in line for line in lines), result.output
    assert any(line.split()[:3] == ["foreign", "1", "files"] for line in lines), result.output
    told = {word for line in lines for word in line.split() if word.startswith("file://")}
    assert told == before
    code, report = kept.report("--dry-run", "orders")
    (table,) = report["tables"]
    assert (code, table["dry_run"], table["snapshots_expired"]) == (0, True, SLICES - 1)
    reasons = {file["path"]: file["reason"] for file in table["files"]}
    assert (reasons[kept.left], reasons[kept.foreign]) == ("grace", "foreign")
    assert reasons.keys() == before
    assert kept.files() == before
    assert not (kept.root / "data" / "sweep").exists()


def test_snapshots_go_at_once_and_files_after_the_grace(kept: Kept) -> None:
    code, report = kept.report()
    (table,) = report["tables"]
    assert (code, table["snapshots_expired"], table["files_removed"]) == (0, SLICES - 1, 0)
    assert table["amounts"]["grace"]["files"] > 1
    kept.clock.ahead_ms += SHORTEST_GRACE_MS
    result = kept.run("orders")
    assert result.exit_code == 0, result.output
    assert f"0 snapshots gone; {SLICES} files" in result.output, result.output
    assert kept.left not in kept.files()
    assert kept.foreign in kept.files()
    assert kept.world.offsets(kept.orders) == list(range(SLICES))


def test_table_that_can_not_be_swept_is_told_and_the_others_are(kept: Kept) -> None:
    table = kept.world.table(kept.orders)
    (kept.world.root / "data" / "sweep").mkdir()
    held = (kept.world.root / "data" / "sweep" / f"{table.topic_id}.lock").open("w")
    fcntl.flock(held, fcntl.LOCK_EX)
    code, report = kept.report()
    assert (code, report["good"]) == (1, False)
    assert "another process sweeps" in report["tables"][0]["problem"]
    held.close()
    assert kept.report()[0] == 0


def test_lines_go_whole_into_a_pipe_while_the_terminal_shows_how_far_it_is(kept: Kept) -> None:
    ours, its = pty.openpty()
    done = subprocess.run(
        tied([sys.executable, "-m", "floeberg", "expire", "orders", "--dry-run"]),
        cwd=kept.root,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TERM": "xterm"},
        stdout=subprocess.PIPE,
        stderr=its,
        text=True,
        timeout=120,
        check=True,
    )
    os.close(its)
    os.close(ours)
    files = [line for line in done.stdout.splitlines() if "file://" in line]
    assert {word for line in files for word in line.split() if word.startswith("file://")} == kept.files()
