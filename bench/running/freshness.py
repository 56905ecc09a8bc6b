"""From produce to visible: how long after a record was produced DuckDB finds it, through the REST catalog.

A broker, ``floeberg run`` and a producer that keeps to a rate and takes next to nothing of the machine. The last record
of each request is watched: when the request was sent, and at the end of which query its partition's newest offset had
reached it. The query's own time is part of what is measured, and so is the pause between two.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import TypeAlias

import numpy as np

from bench.cpu import MIB, Spent, measured
from bench.measurement import Measurement
from bench.running.native_stage import start_daemon
from bench.running.prebuilt_producer import PrebuiltBatch, PrebuiltProducer, prebuilt_orders
from bench.tiering.order_topic import write_schema_folder
from engine.errors import Invalid
from floeberg.processes.child_process import end_process
from floeberg.processes.free_ports import free_ports
from floeberg.processes.local_broker import LocalBroker
from floeberg.sql.duckdb_session import DuckdbSession

Batches: TypeAlias = Sequence[PrebuiltBatch]

RATES_MIB = (1, 10, 30)
FRESHNESS_SECONDS = (5, 60)
_PARTITIONS = 4
_ROUNDS = 3
"""Times ``freshness_ms`` that a rate is kept up, after the first, which is not counted."""
_WARM_SECONDS = 10
_TICK_SECONDS = 0.02
_LOOK_PAUSE_SECONDS = 0.2
_LATE_SECONDS = 120.0
_SETTINGS = """\
data_dir = "{folder}/data"
[broker]
bootstrap = "{bootstrap}"
log_dirs = ["{log_dir}"]
[spark]
master = "local[2]"
[table_door]
listen = "{table_door}"
[[topics]]
name = "{topic}"
value = "avro"
schemas = "{schemas}"
freshness_ms = {freshness_ms}
"""


@dataclass(slots=True, eq=False)
class _Watched:
    """Records by partition: offset and when it was produced; all of one partition in offset order."""

    produced: dict[int, list[tuple[int, float]]] = field(default_factory=dict)
    waits_seconds: list[float] = field(default_factory=list)

    def note(self, last_offsets: Mapping[int, int], produced_at: float) -> None:
        for partition, offset in last_offsets.items():
            self.produced.setdefault(partition, []).append((offset, produced_at))

    def seen(self, newest: dict[int, int], at: float) -> None:
        """A query that ended ``at`` found these offsets."""
        for partition, offset in newest.items():
            records = self.produced.get(partition, [])
            while records and records[0][0] <= offset:
                self.waits_seconds.append(at - records.pop(0)[1])

    @property
    def is_all_seen(self) -> bool:
        return not any(self.produced.values())


def measure(
    folder: Path, *, rates: Sequence[int] = RATES_MIB, freshness_seconds: Sequence[int] = FRESHNESS_SECONDS
) -> list[Measurement]:
    """p50 and p99 by rate and freshness; the rate that was truly kept; the daemon's share of a core."""
    found: list[Measurement] = []
    batches = prebuilt_orders(200_000)
    for seconds in freshness_seconds:
        for rate in rates:
            found += _turn(folder / f"{rate}-{seconds}", batches, rate, seconds)
    return found


def _turn(folder: Path, batches: Batches, rate: int, seconds: int) -> list[Measurement]:
    topic = "orders"
    with LocalBroker(folder / "broker") as broker:
        broker.create_topic(topic, partitions=_PARTITIONS)
        (port,) = free_ports(1)
        door = f"127.0.0.1:{port}"
        settings = folder / "floeberg.toml"
        settings.write_text(
            _SETTINGS.format(
                folder=folder,
                bootstrap=broker.bootstrap,
                log_dir=broker.log_dirs[0],
                table_door=door,
                topic=topic,
                schemas=write_schema_folder(folder / "schemas"),
                freshness_ms=seconds * 1000,
            )
        )
        daemon = start_daemon(settings, table_door=door, log=folder / "daemon.log")
        try:
            warm, counted = _Watched(), _Watched()
            _produce_and_look(broker.bootstrap, topic, door, batches, rate, _WARM_SECONDS, warm)
            with measured(daemon.pid) as spent, measured() as own:
                kept = _produce_and_look(broker.bootstrap, topic, door, batches, rate, _ROUNDS * seconds, counted)
        finally:
            end_process(daemon)
    key, title = f"{rate}_mib_{seconds}_s", f"{rate} MiB/s, freshness {seconds} s"
    return _figures(key, title, counted, kept, {"daemon": spent, "bench": own}, seconds)


def _produce_and_look(
    bootstrap: str,
    topic: str,
    door: str,
    batches: Batches,
    rate: int,
    seconds: int,
    watched: _Watched,
) -> float:
    """Keeps the rate up for ``seconds``, then waits until all watched records are visible. MiB/s that were kept."""
    ended = threading.Event()
    looking = threading.Thread(target=_look, args=(f"http://{door}", topic, watched, ended), daemon=True)
    looking.start()
    try:
        return _produce(bootstrap, topic, batches, rate * MIB, seconds, watched)
    finally:
        ended.set()
        looking.join(_LATE_SECONDS + seconds)
        assert watched.is_all_seen, f"records were not visible after {_LATE_SECONDS:.0f} s"


def _produce(bootstrap: str, topic: str, batches: Batches, rate: int, seconds: int, watched: _Watched) -> float:
    """``rate`` in bytes of values a second. What the broker did not take in time is sent later, and what it did not
    take until the end never was: the rate that was kept says so."""
    turns, endless = cycle(range(_PARTITIONS)), cycle(batches)
    began, sent = time.monotonic(), 0
    with PrebuiltProducer(bootstrap, topic) as producer:
        while (now := time.monotonic()) - began < seconds:
            request: dict[int, PrebuiltBatch] = {}
            while len(request) < _PARTITIONS and sent < (now - began) * rate:
                request[next(turns)] = batch = next(endless)
                sent += batch.value_bytes
            if request:
                watched.note(producer.send(request), now)
            else:
                time.sleep(_TICK_SECONDS)
        return sent / MIB / (time.monotonic() - began)


def _look(url: str, topic: str, watched: _Watched, ended: threading.Event) -> None:
    """Ask until everything that was produced is visible, and nothing more is."""
    newest: dict[int, int] = {}
    gave_up_at: float | None = None
    with DuckdbSession(url) as duckdb:
        while gave_up_at is None or (time.monotonic() < gave_up_at and not watched.is_all_seen):
            time.sleep(_LOOK_PAUSE_SECONDS)
            if ended.is_set() and gave_up_at is None:
                gave_up_at = time.monotonic() + _LATE_SECONDS
            after = min(newest.values()) if len(newest) == _PARTITIONS else -1
            query = (
                f"SELECT kafka_partition, max(kafka_offset) FROM floeberg.kafka.{topic} "
                f"WHERE kafka_offset > {after} GROUP BY ALL"
            )
            try:
                rows = duckdb.query(query)[1]
            except Invalid:
                continue  # there is no table before the first commit
            newest |= dict(rows)
            watched.seen(newest, time.monotonic())


def _figures(
    key: str, title: str, watched: _Watched, kept: float, spent: Mapping[str, Spent], seconds: int
) -> list[Measurement]:
    waits = np.array(watched.waits_seconds)

    def figure(name: str, what: str, unit: str, value: float, goal: str | None = None) -> Measurement:
        return Measurement(
            key=f"freshness.{name}_{key}",
            title=f"{what}, {title}",
            unit=unit,
            samples=(value,),
            higher_is_better=name == "kept_mib",
            goal=goal,
        )

    return [
        figure("visible_p50_s", "Produced to visible: median", "s", float(np.percentile(waits, 50))),
        figure("visible_p99_s", "Produced to visible: p99", "s", float(np.percentile(waits, 99)), f"≤ {seconds + 5}"),
        figure("kept_mib", "Rate that was kept", "MiB/s", kept),
        figure(
            "cores", "The daemon with its Spark", "cores", spent["daemon"].cpu_seconds / spent["daemon"].wall_seconds
        ),
        figure("bench_cores", "Producer and DuckDB", "cores", spent["bench"].cpu_seconds / spent["bench"].wall_seconds),
    ]
