"""What ``floeberg status`` shows: what fits the terminal, one topic in detail, and again and again."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from floeberg.commands.status import shown
from floeberg.processes.tied_process import tied
from serving.status.daemon_status import BoundUse, DaemonStatus, Phase
from tests.floeberg.command import floeberg, hear_interrupts
from tests.floeberg.status_door import status_door
from topics.partition_status import PartitionStatus

BUSY = PartitionStatus(
    topic="orders.of.all.the.shops",
    partition=3,
    table="kafka.orders_of_all_the_shops",
    native=True,
    tiered_start=1_000_000,
    tiered_end=1_234_567,
    stable_end=1_235_000,
    log_start=1_100_000,
    lag_ms=61_000,
    waiting="waits for its segment to close, which [broker] log.roll.ms says",
    local_log_bytes=123 << 20,
    spool_bytes=45 << 20,
    rows=100,
    reason_rows=7,
    awaiting_rows=2,
    copied_end=1_200_000,
)
QUIET = PartitionStatus(topic="clicks", partition=0, table="kafka.clicks", tiered_start=0, tiered_end=5, stable_end=5)
FOUND = DaemonStatus(
    version="1",
    phase=Phase.RUNNING,
    started_ms=0,
    now_ms=5_000,
    partitions=(QUIET, BUSY),
    bounds=(BoundUse(name="spool_max_bytes", used=9, limit=10),),
)


def text_of(found: DaemonStatus, *, width: int, topic: str | None = None, daemon_runs: bool = True) -> str:
    file = io.StringIO()
    console = Console(file=file, width=width, highlight=False, color_system=None)
    for part in shown(found, daemon_runs=daemon_runs, topic=topic, width=width):
        console.print(part)
    return file.getvalue()


@pytest.mark.parametrize("width", [80, 100, 160])
def test_table_fits_and_names_the_columns_that_gave_way(width: int) -> None:
    text = text_of(FOUND, width=width)
    assert max(map(len, text.splitlines())) <= width
    head = next(line for line in text.splitlines() if line.startswith("topic"))
    gave_way = [line for line in text.splitlines() if line.startswith("no room for: ")]
    named = gave_way[0].removeprefix("no room for: ").split(", ") if gave_way else []
    order = ["from", "local log", "spool", "bytes kept", "mode"]
    assert named == order[len(order) - {80: 4, 100: 3, 160: 0}[width] :]
    for column in ("from", "to", "lag", "local log", "spool", "bytes kept", "mode", "state"):
        assert (column in head) == (column not in named)
    for never_left_out in ("1,234,567", "433", "log.roll.ms"):
        assert never_left_out in text


def test_topic_in_detail_has_all_that_is_known_of_it() -> None:
    text = " ".join(text_of(FOUND, width=80, topic=BUSY.topic).split())
    for fact in (
        "1,000,000 to 1,234,567",
        "up to 1,235,000",
        "433 records, the oldest for 1 min 1 s",
        "123.0 MiB",
        "45.0 MiB",
        "native",
        "7 rows, of which 2 await a schema",
        "up to 1,200,000",
        "1,100,000",
    ):
        assert fact in text


def test_what_leaves_a_table_next_is_told_of_each_topic_that_is_bounded_with_its_time() -> None:
    kept = replace(BUSY, stream_start=1_050_000, table_start=1_020_000, next_to_leave="[1, 9): it is young")
    soon = replace(kept, leaves_at_ms=FOUND.now_ms + 7_200_000)
    later = replace(kept, partition=7, leaves_at_ms=FOUND.now_ms + 9_900_000)
    overview = text_of(replace(FOUND, partitions=(later, soon)), width=160)
    line = f"leaves the table of {BUSY.topic} next: partition {BUSY.partition}, [1, 9): it is young for 2 h more"
    assert line in overview
    assert "leaves the table" not in text_of(FOUND, width=160)
    detail = " ".join(text_of(replace(FOUND, partitions=(kept,)), width=80, topic=BUSY.topic).split())
    for fact in ("consumers from 1,050,000 on", "SQL from 1,020,000 on", "leaves SQL next [1, 9): it is young"):
        assert fact in detail


def test_status_of_a_topic_leaves_the_others_out_and_an_unknown_one_is_wrong_usage(tmp_path: Path) -> None:
    with status_door(tmp_path, FOUND):
        done = floeberg("status", "clicks", cwd=tmp_path)
        refused = floeberg("status", "klicks", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "clicks" in done.stdout
    assert "orders" not in done.stdout
    assert refused.returncode == 2
    assert "clicks, orders.of.all.the.shops" in refused.stderr


def test_watch_looks_again_until_it_is_interrupted(tmp_path: Path) -> None:
    hear_interrupts()
    with status_door(tmp_path, FOUND) as asked:
        watching = subprocess.Popen(
            tied([sys.executable, "-m", "floeberg", "status", "--watch", "--interval", "0.1"]),
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert watching.stdout is not None
        looks = 0
        for line in watching.stdout:
            looks += line.startswith("running for")
            if looks == 3:
                break
        watching.send_signal(signal.SIGINT)
        watching.stdout.read()
        assert watching.wait(30) == 0
    assert len(asked) >= 3


def test_watch_is_not_for_programs(tmp_path: Path) -> None:
    refused = floeberg("status", "--watch", "--json", cwd=tmp_path)
    assert refused.returncode == 2
    assert "floeberg status --json" in refused.stderr
