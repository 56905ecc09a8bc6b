"""A status page on a socket of its own, over a daemon that is made up: as many topics as a test wants, in any state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import sin
from random import Random

from engine.clock import SystemClock
from floeberg.http.server import HttpServer
from floeberg.settings.doors import Listen
from serving.status.daemon_status import (
    BoundUse,
    CompactionStatus,
    DaemonStatus,
    LatestStatus,
    Phase,
    TableSweepStatus,
)
from serving.status.history import STEP_MS, History, Sample
from serving.status.metrics import DaemonLook, Metrics
from serving.status.page_source import PageSource
from serving.status.routes import StatusAccess, status_routes
from topics.loop_record import LoopState
from topics.partition_status import PartitionStatus

NAMES = ("orders", "payments", "clicks", "telemetry", "shipments", "inventory", "sessions", "audit", "prices", "alerts")
GIB = 1 << 30


class SteppedClock(SystemClock):
    """Goes on by more than an answer stays fresh, however long that took to make: every answer is a new one."""

    def __init__(self) -> None:
        self._steps = 0

    def monotonic_ms(self) -> int:
        self._steps += 1
        return (self._steps + 1) // 2 * 10_000


@dataclass(slots=True)
class PageStage:
    """``status`` is what the daemon is in: a test sets another one."""

    status: DaemonStatus
    history: History = field(default_factory=History)
    access: StatusAccess = field(default_factory=StatusAccess)
    url: str = ""

    def change(self, topic: str, partition: int, /, **values: object) -> None:
        self.status = replace(
            self.status,
            partitions=tuple(
                replace(part, **values) if (part.topic, part.partition) == (topic, partition) else part  # type: ignore[arg-type]
                for part in self.status.partitions
            ),
        )

    def now(self) -> DaemonStatus:
        return replace(self.status, now_ms=SystemClock().now_ms())

    @contextmanager
    def open(self) -> Iterator[PageStage]:
        rates = {part.topic: 10.0 * hash_of(part.topic) for part in self.status.partitions}
        source = PageSource(self.now, clock=SteppedClock(), history=self.history, rates=lambda: rates)
        routes = status_routes(self.now, Metrics(lambda: DaemonLook(status=self.now())), source, access=self.access)
        with HttpServer(routes, Listen(host="127.0.0.1", port=0), setting="test") as server:
            self.url = server.url
            yield self


def made_up(topics: int, partitions: int) -> PageStage:
    """A daemon that has run for a while, with nothing wrong."""
    dice, now_ms = Random(1), SystemClock().now_ms()
    names = [NAMES[number % 10] + (f".{number // 10}" if number >= 10 else "") for number in range(topics)]
    parts = tuple(made_up_partition(dice, name, number) for name in names for number in range(partitions))
    status = DaemonStatus(
        version="0.1.0",
        phase=Phase.RUNNING,
        started_ms=now_ms - 97 * 60_000,
        now_ms=now_ms,
        uptime_ms=97 * 60_000,
        silent_ms=400,
        cluster_id="5L6g3nShT-eMCtK--X86sw",
        last_cycle_ms=now_ms - 400,
        cycle_count=5_730,
        commit_count=712,
        partitions=parts,
        bounds=tuple(
            BoundUse(name=name, used=int(limit * share), limit=limit)
            for name, limit, share in (
                ("spool_max_bytes", 16 * GIB, 0.03),
                ("warehouse_disk_bytes", 900 * GIB, 0.41),
                ("log_disk_bytes", 500 * GIB, 0.83),
                ("row_group_bytes", 256 << 20, 0.6),
                ("open_files", 65_536, 0.01),
            )
        ),
        compaction=CompactionStatus(backlog_files=41, backlog_bytes=93 << 20, merges=36, files=1_204),
        latest=LatestStatus(tables=1, behind_offsets=120),
        sweeps=tuple(
            TableSweepStatus(
                topic=name,
                table=f"kafka.{name}",
                files={"live": 40, "history": 22, "erased": 0, "grace": 9, "unreferenced": 2, "foreign": 0},
                bytes={
                    "live": 3 * GIB,
                    "history": GIB // 2,
                    "erased": 0,
                    "grace": GIB // 4,
                    "unreferenced": 1 << 20,
                    "foreign": 0,
                },
                goes_next_ms=now_ms + 4_000_000,
            )
            for name in names
        ),
        loops=made_up_loops(now_ms),
        memory_bytes={"daemon": 412 << 20, "spark": 900 << 20},
    )
    stage = PageStage(status)
    fill(stage.history, now_ms)
    return stage


def made_up_loops(now_ms: int) -> tuple[LoopState, ...]:
    return (
        LoopState(name="tiering", looked_ms=now_ms - 400, took_ms=12, worked_ms=now_ms - 8_000, next_ms=now_ms + 600),
        LoopState(name="compaction", looked_ms=now_ms - 60_000, took_ms=4_100, worked_ms=now_ms - 300_000),
        LoopState(name="repair", looked_ms=now_ms - 60_000, took_ms=3, next_ms=now_ms + 240_000),
        LoopState(name="horizons", looked_ms=now_ms - 12_000, took_ms=30, next_ms=now_ms + 18_000),
        LoopState(name="sweeps", busy_since_ms=now_ms - 2_000, looked_ms=now_ms - 900_000, took_ms=800),
        LoopState(name="latest", looked_ms=now_ms - 6_000, took_ms=90, worked_ms=now_ms - 6_000),
    )


def made_up_partition(dice: Random, topic: str, number: int) -> PartitionStatus:
    expired = dice.choice((0, 0, dice.randrange(10**6)))
    end = expired + dice.randrange(10**5, 10**7)
    native = hash_of(topic) % 3 == 0
    lag = dice.choice((0, 0, dice.randrange(5_000)))
    rows = (end - expired) // 3
    return PartitionStatus(
        topic=topic,
        partition=number,
        table=f"kafka.{topic}",
        value_format=("json", "avro", "protobuf")[hash_of(topic) % 3],
        native=native,
        tiered_start=expired,
        tiered_end=end,
        verified_start=end - rows,
        verified_end=end,
        stream_start=expired or None,
        stable_end=end + lag,
        lag_ms=dice.randrange(60_000) if lag else 0,
        waiting="newer than freshness_ms" if lag else "nothing new",
        waiting_kind="freshness" if lag else "nothing_new",
        rows=rows,
        log_bytes=rows * 120,
        file_bytes=rows * 55,
        local_log_bytes=dice.randrange(GIB),
    )


def fill(history: History, now_ms: int) -> None:
    """Twenty hours, with a pause in between."""
    dice = Random(2)
    for number in range(now_ms // STEP_MS - 2_400, now_ms // STEP_MS):
        if number % 2_880 in range(500, 520):
            continue
        records = int(30 * (4_000 + 2_500 * sin(number / 180) + dice.randrange(900)))
        history.keep(
            Sample(
                time_ms=number * STEP_MS,
                records=records,
                log_bytes=records * 118,
                file_bytes=records * dice.randrange(50, 58),
                fetches=dice.randrange(60),
                fetched_bytes=dice.choice((0, 0, 40 << 20, 90 << 20)),
                lag_records=records // dice.randrange(8, 14),
                behind_records=2_000 if number % 400 < 12 else 0,
                lag_ms=dice.randrange(60_000),
                local_log_bytes=40 * GIB,
            )
        )


def hash_of(topic: str) -> int:
    return sum(map(ord, topic))
