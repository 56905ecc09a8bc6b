"""An unmodified consumer through broker and plugin: the whole history, against the same orders from local segments."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer, TopicPartition

from bench.cpu import GIB, own_cpu_seconds
from bench.measurement import Measurement, ratio
from bench.running.native_stage import HISTORY_TOPIC, NativeStage

LOCAL_TOPIC = "local"
_MEGABYTE = 1_000_000
_MESSAGES_PER_CALL = 10_000
_SILENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRun:
    """One consumer from offset 0 to ``ends``. CPU of consumer, broker and daemon together, its idle Spark left out."""

    record_bytes: int
    wall_seconds: float
    cpu_seconds: float


def consume(stage: NativeStage, topic: str, ends: Mapping[int, int]) -> ConsumerRun:
    """Read every record below ``ends`` by partition, and check that none is missing, doubled or out of order."""
    consumer = Consumer(
        {
            "bootstrap.servers": stage.broker.bootstrap,
            "group.id": f"bench-{os.getpid()}",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "max.partition.fetch.bytes": 8 << 20,
        }
    )
    broker_pid = stage.broker.pid
    assert broker_pid is not None, "the broker runs"
    others = (broker_pid, stage.daemon_pid)
    cpu_before = time.process_time() + sum(map(own_cpu_seconds, others))
    wall_before = time.perf_counter()
    consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
    expected = dict.fromkeys(ends, 0)
    missing = sum(ends.values())
    total = 0
    while missing:
        messages = consumer.consume(_MESSAGES_PER_CALL, timeout=_SILENCE_SECONDS)
        assert messages, f"nothing came for {_SILENCE_SECONDS:.0f} s with {missing} records to go"
        for message in messages:
            assert message.error() is None, str(message.error())
            partition, offset = message.partition(), message.offset()
            if offset >= ends[partition]:
                continue
            assert offset == expected[partition], f"offset {offset} came, {expected[partition]} was next"
            expected[partition] = offset + 1
            missing -= 1
            total += len(message.key()) + len(message.value())
    wall_seconds = time.perf_counter() - wall_before
    cpu_seconds = time.process_time() + sum(map(own_cpu_seconds, others)) - cpu_before
    consumer.close()
    return ConsumerRun(record_bytes=total, wall_seconds=wall_seconds, cpu_seconds=cpu_seconds)


def measure(stage: NativeStage, *, repetitions: int) -> tuple[Measurement, ...]:
    """Both topics hold the same orders; only ``history`` was tiered and dropped. Turn by turn, first turn left out."""
    ends = stage.closed_ends(HISTORY_TOPIC)
    runs: dict[str, list[ConsumerRun]] = {LOCAL_TOPIC: [], HISTORY_TOPIC: []}
    for number in range(repetitions + 1):
        for topic, found in runs.items():
            run = consume(stage, topic, ends)
            if number > 0:
                found.append(run)
    measured = []
    for topic, key, title in (
        (LOCAL_TOPIC, "local", "Consumer from local segments"),
        (HISTORY_TOPIC, "tiered", "Consumer from tiered history"),
    ):
        measured.append(
            Measurement(
                key=f"replay.{key}_consumer_mb_per_second",
                title=title,
                unit="MB/s",
                samples=tuple(run.record_bytes / _MEGABYTE / run.wall_seconds for run in runs[topic]),
                higher_is_better=True,
            )
        )
        measured.append(
            Measurement(
                key=f"replay.{key}_consumer_cpu_seconds_per_gib",
                title=f"{title}: CPU of consumer, broker and daemon",
                unit="CPU-s/GiB",
                samples=tuple(run.cpu_seconds / (run.record_bytes / GIB) for run in runs[topic]),
                higher_is_better=False,
            )
        )
    share = ratio(
        "replay.share_of_local_consumer",
        "Consumer: tiered against local, wall clock",
        measured[2],
        measured[0],
        goal="≥ 0.5",
    )
    return (*measured, share)
