"""A small range rewritten and verified, in process and as Spark's two jobs: where it becomes worth to ask Spark.

One range of one partition at a time, of orders in zstd batches, into a table that has its schema and encodings.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.cpu import Spent, measured
from bench.measurement import Measurement
from bench.tiering.tiering_stages import SegmentInput, order_table
from engine.clock import SystemClock
from engine.errors import FloebergError
from engine.kafka_log.compression import Compression
from engine.offset_range import OffsetRange
from engine.table.proof.verifier import Verifier
from engine.table.topic_table import TableFacts
from floeberg.demo.sample_orders import sample_order_blocks
from floeberg.java.jdk import java_command
from tests.tiering.broker_on_disk import BrokerOnDisk
from tiering.rewrite import RewriteTask, Rewritten, rewrite_segment
from workers.spark_session import SparkSettings
from workers.spark_workers import SparkWorkers
from workers.workers import InProcessWorkers, ReadBackTask, Workers, proof_of, read_back

SIZES = {"1_kib": 1 << 10, "64_kib": 64 << 10, "256_kib": 256 << 10, "1_mib": 1 << 20, "4_mib": 4 << 20}
"""Bytes of the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Range:
    segment: SegmentInput
    size_bytes: int


def measure(folder: Path, *, repetitions: int, sizes: Sequence[str] = tuple(SIZES)) -> list[Measurement]:
    """CPU-seconds and wall time of a range by size, the process tree's; each repetition is the mean of some ranges."""
    ranges = {name: _range(folder / name, SIZES[name]) for name in sizes}
    spark = SparkWorkers(SparkSettings(master="local[2]", java_home=Path(java_command()).resolve().parent.parent))
    spark.start()
    try:
        return [
            one
            for key, title, workers, times in (
                ("here", "in process", InProcessWorkers(), 20),
                ("spark", "Spark", spark, 6),
            )
            for name, made in ranges.items()
            for one in _figures(
                f"{key}_{name}", f"{name.replace('_', ' ')}, {title}", made, workers, times, repetitions
            )
        ]
    finally:
        spark.stop()


def _range(folder: Path, size_bytes: int) -> _Range:
    folder.mkdir(parents=True)
    broker = BrokerOnDisk(folder)
    (partition,) = broker.create_topic("orders")
    path = broker.directory(partition) / f"{0:020d}.log"
    count = max(4, size_bytes // 130)  # about what an order takes in the log
    block = next(sample_order_blocks(count))
    while path.stat().st_size < size_bytes:
        left = size_bytes - path.stat().st_size
        taken = slice(0, max(4, min(len(block), left // 130)))
        broker.append(
            partition, block.value.select(taken), keys=block.key.select(taken).to_list(), compression=Compression.ZSTD
        )
    end = broker.view(partition).last_stable_offset
    segment = SegmentInput(partition=partition, path=path, range=OffsetRange(start=0, end=end))
    return _Range(segment=segment, size_bytes=path.stat().st_size)


def _figures(key: str, title: str, made: _Range, workers: Workers, times: int, repetitions: int) -> list[Measurement]:
    table = order_table(made.segment.path.parent.parent / "warehouse" / key, made.segment, None)
    first = _once(workers, made.segment, table)
    table = replace(table, settings=first.settings)
    spent = [_many(lambda: _once(workers, made.segment, table), times) for _ in range(repetitions)]
    return [
        Measurement(
            key=f"small.cpu_ms_{key}",
            title=f"A range rewritten and verified, {title}",
            unit="CPU-ms",
            samples=tuple(each.cpu_seconds / times * 1000 for each in spent),
            higher_is_better=False,
        ),
        Measurement(
            key=f"small.wall_ms_{key}",
            title=f"A range rewritten and verified, {title}: time",
            unit="ms",
            samples=tuple(each.wall_seconds / times * 1000 for each in spent),
            higher_is_better=False,
        ),
    ]


def _many(work: Callable[[], object], times: int) -> Spent:
    with measured(os.getpid()) as spent:
        for _ in range(times):
            work()
    return spent


def _once(workers: Workers, segment: SegmentInput, table: TableFacts) -> Rewritten:
    task = RewriteTask(
        table=table,
        partition=segment.partition,
        range=segment.range,
        leader_epoch=0,
        segment_path=segment.path,
        closed=False,
        aborted=(),
        attempt=SystemClock().new_id(),
    )
    ((_, written),) = workers.run(rewrite_segment, {0: task})
    assert isinstance(written, Rewritten), written
    assert written.file is not None, "there are orders in the range"
    check = ReadBackTask(table=table, file=written.file)
    ((_, found),) = workers.run(read_back, {0: check})
    proof = proof_of(Verifier(), check, found)
    assert not isinstance(proof, FloebergError), proof
    return written
