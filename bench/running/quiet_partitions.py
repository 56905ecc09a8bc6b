"""What quiet partitions cost: in the daemon's interpreter, which serves fetches too, and in the broker.

``floeberg run`` itself, over a broker where nothing happens. First without any partition: what a daemon costs at rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.cpu import own_cpu_seconds
from bench.measurement import Measurement
from bench.running.native_stage import start_daemon
from compaction.compaction_loop import MOST_LOOKS
from engine.errors import Unavailable
from floeberg.processes.child_process import end_process
from floeberg.processes.free_ports import free_ports
from floeberg.processes.local_broker import LocalBroker

PARTITIONS_OF_A_TOPIC = 10
_TOPICS_A_REQUEST = 50
_TABLES_TIMEOUT_SECONDS = 240.0
_AT_REST_AFTER_SECONDS = 33.0
"""So long after a log grew followers are no longer waited for (30 s)."""
_ALONE_SECONDS = 5.0
_SCRAPES = 5
_GOALS = {1_000: "≤ 1", 5_000: "≤ 5"}
_SETTINGS = """\
data_dir = "{folder}/data"
[broker]
bootstrap = "{bootstrap}"
log_dirs = ["{log_dir}"]
[spark]
master = "local[2]"
[log_door]
listen = "{log_door}"
[table_door]
listen = "{table_door}"
[[topics]]
name = "quiet-*"
value = "string"
freshness_ms = 20000
"""
"""From 20 s of freshness on, active segments are looked at every 5 s, as with the default of a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rates:
    """Parts of a core, over some seconds: the daemon without its Spark, its Spark, the broker with it and without; and
    CPU-seconds of one scrape of the metrics."""

    daemon: float
    spark: float
    broker: float
    broker_alone: float
    scrape_seconds: float


def measure(folder: Path, *, sizes: Sequence[int], seconds: float) -> list[Measurement]:
    """``sizes``: how many partitions, rising. Each is measured for ``seconds``, when it has come to rest; a multiple of
    30 has everything in it that is done so often.

    Every topic has a table, and freshness is on.
    """
    # An index file that waits for records takes 10 MiB of address space; thousands of logs take their time to close.
    with LocalBroker(folder / "broker", heap_mb=1024) as broker, ExitStack() as running:
        log_door, table_door = (f"127.0.0.1:{port}" for port in free_ports(2))
        settings = folder / "floeberg.toml"
        settings.write_text(
            _SETTINGS.format(
                folder=folder,
                bootstrap=broker.bootstrap,
                log_dir=broker.log_dirs[0],
                log_door=log_door,
                table_door=table_door,
            )
        )
        daemon = start_daemon(settings, table_door=table_door, log=folder / "daemon.log")
        running.callback(end_process, daemon)
        rates = {0: _rates(daemon.pid, broker, table_door, seconds)}
        for before, size in zip((0, *sizes), sizes, strict=False):
            _add_topics(broker.bootstrap, [f"quiet-{number}" for number in range(*map(_topics, (before, size)))])
            _await_rest(folder / "data" / "warehouse", _topics(size), new=_topics(size - before))
            rates[size] = _rates(daemon.pid, broker, table_door, seconds)
            seen = httpx.get(f"http://{table_door}/status", timeout=60).json()["partitions"]
            assert len(seen) == size, f"{len(seen)} partitions are seen, not {size}"
    return _figures(rates)


def _topics(partitions: int) -> int:
    return partitions // PARTITIONS_OF_A_TOPIC


def _add_topics(bootstrap: str, names: Sequence[str]) -> None:
    """Topics with one record each, so that each gets a table."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for begin in range(0, len(names), _TOPICS_A_REQUEST):
        made = admin.create_topics(
            [
                NewTopic(name, PARTITIONS_OF_A_TOPIC, 1, config={"retention.ms": "-1"})
                for name in names[begin : begin + _TOPICS_A_REQUEST]
            ],
            operation_timeout=60,
        )
        for future in made.values():
            future.result(timeout=_TABLES_TIMEOUT_SECONDS)
    # A broker that is busy does not know its new topics at once.
    deadline = time.monotonic() + _TABLES_TIMEOUT_SECONDS
    while missing := set(names).difference(admin.list_topics(timeout=60).topics):
        if time.monotonic() > deadline:
            raise Unavailable(f"the broker does not tell of {len(missing)} topics", next_step="look at its log")
        time.sleep(1)
    producer, wanted = Producer({"bootstrap.servers": bootstrap}), set(names)

    def note(error: object, message: Message) -> None:
        if error is None:
            wanted.discard(str(message.topic()))

    for name in names:
        producer.produce(name, b"the only record", partition=0, on_delivery=note)
    producer.flush(_TABLES_TIMEOUT_SECONDS)
    assert not wanted, f"every topic has its record, but for {sorted(wanted)}"


def _await_rest(warehouse: Path, topics: int, *, new: int) -> None:
    """Until every topic's record has been tiered for a while, and compaction has looked at the ``new`` ones' tables,
    once a second at some of them. Raises Unavailable."""
    deadline = time.monotonic() + _TABLES_TIMEOUT_SECONDS
    while (written := sum(1 for _ in warehouse.rglob("*.parquet"))) < topics:
        if time.monotonic() > deadline:
            raise Unavailable(f"{written} of {topics} topics were tiered", file=str(warehouse))
        time.sleep(1)
    time.sleep(max(_AT_REST_AFTER_SECONDS, 1.1 * new / MOST_LOOKS))


def _rates(pid: int, broker: LocalBroker, door: str, seconds: float) -> _Rates:
    daemon = psutil.Process(pid)
    spark = daemon.children(recursive=True)
    assert broker.pid is not None, "the broker runs"
    pids = (pid, broker.pid, *(child.pid for child in spark))
    own, of_broker, *of_spark = _cores(pids, lambda: time.sleep(seconds))
    before = own_cpu_seconds(pid)
    for _ in range(_SCRAPES):
        httpx.get(f"http://{door}/metrics", timeout=60).raise_for_status()
    scrapes = own_cpu_seconds(pid) - before
    daemon.suspend()
    try:
        (alone,) = _cores((broker.pid,), lambda: time.sleep(_ALONE_SECONDS))
    finally:
        daemon.resume()
    return _Rates(
        daemon=own, spark=sum(of_spark), broker=of_broker, broker_alone=alone, scrape_seconds=scrapes / _SCRAPES
    )


def _cores(pids: Sequence[int], body: Callable[[], None]) -> list[float]:
    """What part of a core each process took meanwhile."""
    began, before = time.monotonic(), list(map(own_cpu_seconds, pids))
    body()
    wall_seconds = time.monotonic() - began
    return [(own_cpu_seconds(pid) - earlier) / wall_seconds for pid, earlier in zip(pids, before, strict=True)]


def _figures(rates: dict[int, _Rates]) -> list[Measurement]:
    def figure(
        key: str, title: str, value: float, *, unit: str = "% of a core", goal: str | None = None
    ) -> Measurement:
        key = f"idle.{key}"
        return Measurement(key=key, title=title, unit=unit, samples=(value,), higher_is_better=False, goal=goal)

    nothing = rates[0]
    found = [
        figure("daemon_percent", "A daemon without partitions, its Spark apart", 100 * nothing.daemon),
        figure("spark_percent", "Its Spark, with nothing to do", 100 * nothing.spark),
    ]
    for size, each in list(rates.items())[1:]:
        quiet = f"{size:,} quiet partitions"
        beyond, asked = 100 * (each.daemon - nothing.daemon), 100 * (each.broker - each.broker_alone)
        found += [
            figure(f"core_percent_{size}", f"{quiet}: the daemon", 100 * each.daemon),
            figure(f"partitions_percent_{size}", f"{quiet}: beyond a daemon without", beyond, goal=_GOALS.get(size)),
            figure(f"broker_percent_{size}", f"{quiet}: the broker, beyond what it takes alone", asked),
            figure(f"scrape_ms_{size}", f"{quiet}: one scrape, CPU", 1000 * each.scrape_seconds, unit="ms"),
        ]
    return found
