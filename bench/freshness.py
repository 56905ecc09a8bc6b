"""From produce to visible: how long after a record was produced DuckDB finds it, through the REST catalog.

A broker, ``floeberg run`` and a producer that keeps to a rate. Fifty records a second, spread over the partitions, are
watched: when each was handed to the producer, and at the end of which query its partition's newest offset had reached
it. The query's own time is part of what is measured, and so is the pause between two.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from confluent_kafka import Producer

from bench.cpu import MIB, measured
from bench.measurement import Measurement
from bench.native_stage import start_daemon
from bench.order_topic import write_schema_folder
from engine.errors import Invalid
from floeberg.child_process import end_process
from floeberg.duckdb_session import DuckdbSession
from floeberg.free_ports import free_ports
from floeberg.local_broker import LocalBroker
from floeberg.sample_orders import sample_orders

Orders: TypeAlias = list[tuple[bytes, bytes, int]]

RATES_MIB = (1, 10, 30)
FRESHNESS_SECONDS = (5, 60)
_PARTITIONS = 4
_ROUNDS = 3
"""Times ``freshness_ms`` that a rate is kept up, after the first, which is not counted."""
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

    def delivered(self, produced_at: float) -> Callable[[Any, Any], None]:
        def note(error: Any, message: Any) -> None:
            assert error is None, error
            self.produced.setdefault(message.partition(), []).append((message.offset(), produced_at))

        return note

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
    orders = list(sample_orders(200_000))
    for seconds in freshness_seconds:
        for rate in rates:
            found += _turn(folder / f"{rate}-{seconds}", orders, rate, seconds)
    return found


def _turn(folder: Path, orders: Orders, rate: int, seconds: int) -> list[Measurement]:
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
            _produce_and_look(broker.bootstrap, topic, door, orders, rate, max(seconds, 10), warm)
            with measured(daemon.pid) as spent:
                kept = _produce_and_look(broker.bootstrap, topic, door, orders, rate, _ROUNDS * seconds, counted)
        finally:
            end_process(daemon)
    return _figures(f"{rate}_mib_{seconds}_s", f"{rate} MiB/s, freshness {seconds} s", counted, kept, spent, seconds)


def _produce_and_look(
    bootstrap: str,
    topic: str,
    door: str,
    orders: Orders,
    rate: int,
    seconds: int,
    watched: _Watched,
) -> float:
    """Keeps the rate up for ``seconds``, then waits until all watched records are visible. MiB/s that were kept."""
    ended = threading.Event()
    looking = threading.Thread(target=_look, args=(f"http://{door}", topic, watched, ended), daemon=True)
    looking.start()
    try:
        return _produce(bootstrap, topic, orders, rate * MIB, seconds, watched)
    finally:
        ended.set()
        looking.join(_LATE_SECONDS + seconds)
        assert watched.is_all_seen, f"records were not visible after {_LATE_SECONDS:.0f} s"


def _produce(bootstrap: str, topic: str, orders: Orders, rate: int, seconds: int, watched: _Watched) -> float:
    """``rate`` in bytes of values a second."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": "zstd",
            "linger.ms": 20,
            "batch.size": 65_536,
            # Less than a second of the highest rate that the machine keeps: what waits in it is not the daemon's doing.
            "queue.buffering.max.messages": 50_000,
        }
    )
    partitions, records = cycle(range(_PARTITIONS)), cycle(orders)
    began, sent = time.monotonic(), 0
    while (now := time.monotonic()) - began < seconds:
        due, note = int((now - began) * rate) - sent, watched.delivered(now)
        first = True
        while due > 0:
            key, value, _ = next(records)
            try:
                producer.produce(topic, value, key, next(partitions), on_delivery=note if first else None)
            except BufferError:
                producer.poll(0.05)  # the broker takes less than the rate: the rate that was kept says so
                break
            first = False
            due -= len(value)
            sent += len(value)
        producer.poll(0)
        time.sleep(_TICK_SECONDS)
    producer.flush(60)
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


def _figures(key: str, title: str, watched: _Watched, kept: float, spent: Any, seconds: int) -> list[Measurement]:
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
        figure("cores", "The daemon with its Spark", "cores", spent.cpu_seconds / spent.wall_seconds),
    ]
