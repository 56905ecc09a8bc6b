"""What quiet partitions cost: in the interpreter of the daemon, which serves fetches too, and in the broker."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.cpu import own_cpu_seconds
from bench.measurement import Measurement
from bench.round_program import RoundProgram
from floeberg.local_broker import LocalBroker

PARTITIONS_OF_A_TOPIC = 10
_TOPICS_A_REQUEST = 50
_GOALS = {1_000: "≤ 1", 5_000: "≤ 5"}


def measure(folder: Path, *, sizes: Sequence[int], seconds: float) -> list[Measurement]:
    """``sizes``: how many partitions, rising. Each is measured for ``seconds``, when it has come to rest.

    Every topic has a table, and freshness is on.
    """
    found: list[Measurement] = []
    # An index file that waits for records takes 10 MiB of address space; thousands of logs take their time to close.
    with LocalBroker(folder / "broker", heap_mb=1024) as broker:
        topics = 0
        for size in sizes:
            wanted = size // PARTITIONS_OF_A_TOPIC
            _add_topics(broker.bootstrap, [f"quiet-{number}" for number in range(topics, wanted)])
            topics = wanted
            found += _measured(folder / str(size), broker, size, seconds)
    return found


def _add_topics(bootstrap: str, names: Sequence[str]) -> None:
    """Topics with one record each, so that each gets a table."""
    admin, producer = AdminClient({"bootstrap.servers": bootstrap}), Producer({"bootstrap.servers": bootstrap})
    for begin in range(0, len(names), _TOPICS_A_REQUEST):
        some = names[begin : begin + _TOPICS_A_REQUEST]
        made = admin.create_topics(
            [NewTopic(name, PARTITIONS_OF_A_TOPIC, 1, config={"retention.ms": "-1"}) for name in some],
            operation_timeout=60,
        )
        for future in made.values():
            future.result(timeout=120)
        for name in some:
            producer.produce(name, b"the only record", partition=0)
    assert producer.flush(120) == 0, "every topic has its record"


def _measured(folder: Path, broker: LocalBroker, size: int, seconds: float) -> list[Measurement]:
    assert broker.pid is not None, "the broker runs"
    reached = [word for log_dir in broker.log_dirs for word in ("--log-dir", str(log_dir))]
    options = ("--bootstrap", broker.bootstrap, *reached, "--folder", str(folder), "--seconds", str(seconds))
    with RoundProgram("bench.quiet_program", *options, log=folder.with_suffix(".log")) as program:
        program.round()
        began, cpu_before = time.monotonic(), own_cpu_seconds(broker.pid)
        answer = program.round()
        with_daemon = (own_cpu_seconds(broker.pid) - cpu_before) / (time.monotonic() - began)
    assert answer["partitions"] == size, f"{answer['partitions']} partitions are seen, not {size}"
    began, cpu_before = time.monotonic(), own_cpu_seconds(broker.pid)
    time.sleep(seconds)
    alone = (own_cpu_seconds(broker.pid) - cpu_before) / (time.monotonic() - began)
    return [
        Measurement(
            key=f"idle.core_percent_{size}",
            title=f"{size:,} quiet partitions: the daemon's loops",
            unit="% of a core",
            samples=(100 * answer["cpu_seconds"] / answer["wall_seconds"],),
            higher_is_better=False,
            goal=_GOALS.get(size),
        ),
        Measurement(
            key=f"idle.broker_percent_{size}",
            title=f"{size:,} quiet partitions: the broker, beyond what it takes alone",
            unit="% of a core",
            samples=(100 * (with_daemon - alone),),
            higher_is_better=False,
        ),
        Measurement(
            key=f"idle.scrape_ms_{size}",
            title=f"{size:,} quiet partitions: one scrape of the metrics, CPU",
            unit="ms",
            samples=(answer["scrape_ms"],),
            higher_is_better=False,
        ),
    ]
