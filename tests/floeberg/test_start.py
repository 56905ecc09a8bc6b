"""What a daemon shows and tells while it starts, and while it works off what waited for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from engine.clock import SystemClock
from engine.fault_points import FaultPoint, armed
from floeberg.daemon.client import ask_daemon
from floeberg.daemon.daemon import Daemon
from floeberg.daemon.status_board import StatusBoard
from floeberg.processes.free_ports import free_ports
from floeberg.settings.file import load_settings
from serving.status.backlog import backlog_line
from serving.status.daemon_status import BacklogStatus, DaemonStatus, Phase
from tests.support.fault_hooks import once
from tests.tiering.tiering_world import TieringWorld
from tiering.tiering_limits import TieringLimits
from workers.workers import InProcessWorkers

PATIENCE_SECONDS = 60.0


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


LIMITS = TieringLimits(
    max_tasks_per_cycle=2, small_range_bytes=0, lag_interval_ms=0, leaders_interval_ms=0, config_interval_ms=0
)


def test_backlog_is_told_before_the_first_commit_followed_and_ended(tmp_path: Path) -> None:
    world = TieringWorld(tmp_path)
    (partition,) = world.broker.create_topic("orders")
    for _ in range(5):
        world.broker.append_segment(partition, [b"x" * 100] * 50)
    board = StatusBoard(version="1", clock=world.clock, limits=LIMITS)
    loop = world.loop(limits=LIMITS)
    loop.on_found(board.note_found)
    loop.on_cycle(board.note_cycle)
    first: list[DaemonStatus] = []
    with capture_logs() as logs:
        with armed(once(FaultPoint.RANGES_WRITTEN, lambda: first.append(board.status()))):
            loop.cycle()
        (status,) = first
        assert (status.cycle_count, status.partitions[0].ready_segments, status.partitions[0].tiered_end) == (
            0,
            5,
            None,
        )
        assert status.backlog is not None
        assert (status.backlog.done_segments, status.backlog.left_segments) == (0, 5)
        assert status.backlog.bytes_per_second is None
        after = board.status().backlog
        assert after is not None
        assert (after.done_segments, after.left_segments) == (2, 3)
        assert (after.done_bytes > 0, after.left_bytes > 0) == (True, True)
        assert after.bytes_per_second
        assert DaemonStatus.from_dict(board.status().to_dict()).backlog == after
        loop.cycle()
        loop.cycle()
    assert board.status().backlog is None
    told = [log["event"] for log in logs]
    assert told == ["found", "committed", "committed", "committed", "backlog_worked_off"]
    assert (logs[0]["segments"], logs[-1]["segments"]) == (5, 5)
    assert {log["log_level"] for log in logs} == {"info"}
    world.broker.append_segment(partition, [b"one more"])
    loop.cycle()
    assert board.status().backlog is None, "one segment that was just closed is no backlog"


def test_backlog_in_words() -> None:
    left = BacklogStatus(done_segments=3, left_segments=117, done_bytes=3 << 20, left_bytes=117 << 20, elapsed_ms=3_000)
    assert backlog_line(left) == "segment 4 of 120: 3.0 MiB done, 117.0 MiB left"
    going = BacklogStatus(
        done_segments=3,
        left_segments=117,
        done_bytes=3 << 20,
        left_bytes=117 << 20,
        elapsed_ms=3_000,
        bytes_per_second=1 << 20,
        left_ms=117_000,
    )
    assert backlog_line(going).endswith("117.0 MiB left, 1.0 MiB/s, about 1 min 57 s to go")


def test_offsets_in_the_tables_show_while_the_daemon_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = TieringWorld(tmp_path / "world")
    (partition,) = world.broker.create_topic("orders")
    world.broker.append_segment(partition, [b"a", b"b"])
    world.loop().cycle()
    may_start = threading.Event()
    monkeypatch.setattr("floeberg.daemon.assembly.KafkaBroker", lambda **_: world.broker.port)
    monkeypatch.setattr(InProcessWorkers, "start", lambda _: may_start.wait(60))
    log_door, table_door = (f"127.0.0.1:{port}" for port in free_ports(2))
    file = tmp_path / "floeberg.toml"
    file.write_text(
        f'data_dir = "{world.root / "data"}"\n[broker]\nbootstrap = "unused:1"\nlog_dirs = ["{world.broker.log_dir}"]\n'
        f'[log_door]\nlisten = "{log_door}"\n[table_door]\nlisten = "{table_door}"\n'
        '[[topics]]\nname = "*"\nvalue = "string"\n'
    )

    def seen() -> DaemonStatus:
        found = ask_daemon(load_settings(file))
        assert found is not None
        return found

    with Daemon(load_settings(file), SystemClock(), in_process=True):
        until(lambda: bool(seen().partitions))
        starting = seen()
        assert starting.phase is Phase.STARTING
        assert [(one.topic, one.partition, one.tiered_end) for one in starting.partitions] == [("orders", 0, 2)]
        assert starting.is_healthy
        may_start.set()
        until(lambda: seen().cycle_count > 0)
        assert seen().partitions[0].stable_end == 2
