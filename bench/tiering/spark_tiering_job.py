"""Tiering as the daemon does it: the loop with its Spark, a fresh table each round, until no closed segment is left.

A program of its own (``python -m bench.tiering.spark_tiering_job``) for the same reason as the peer's. A round
answers with its CPU-seconds over the whole process tree (driver, JVM, Python workers), value bytes, and the durations
of commits and of idle cycles. The table of a round stays in ``<folder>/round-<number>``.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

from bench.cpu import measured
from bench.round_program import answer_rounds
from engine.broker import KafkaBroker
from engine.clock import SystemClock
from engine.schemas.folder import SchemaFolder
from engine.table.catalog.access import embedded_catalog_properties, open_catalog
from engine.table.commit.writer import TableWriter
from engine.table.proof.verifier import Verifier
from floeberg.java.jdk import java_command
from tiering.cycle_report import CycleReport
from tiering.loop import TieringLoop
from tiering.tiering_limits import TieringLimits
from topics.topic_rule import TopicRule
from workers.spark_session import SparkSettings
from workers.spark_workers import SparkWorkers

_IDLE_CYCLES = 20
_MOST_CYCLES = 1_000
"""A bound on a round: more cycles than this without an end means that some partition does not move."""


def main() -> None:
    arguments = _arguments()
    workers = SparkWorkers(
        SparkSettings(master=arguments.master, java_home=Path(java_command()).resolve().parent.parent)
    )
    workers.start()
    answer_rounds(lambda number: _round(arguments, workers, number))
    workers.stop()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--log-dir", type=Path, action="append", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--schemas", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--master", default="local[2]")
    return parser.parse_args()


def _round(arguments: argparse.Namespace, workers: SparkWorkers, number: int) -> dict[str, Any]:
    # A table's first segment finds the schema and chooses the encodings: once in a topic's life, so not counted here.
    _loop(arguments, workers, number, TieringLimits(max_bytes_per_cycle=1)).cycle()
    loop = _loop(arguments, workers, number, TieringLimits())
    with measured(os.getpid()) as spent:
        reports = _until_nothing_is_left(loop)
    idle_ms = []
    for _ in range(_IDLE_CYCLES):
        before = time.perf_counter()
        report = loop.cycle()
        idle_ms.append((time.perf_counter() - before) * 1000)
        assert not report.commits, "a cycle counts as idle only when it commits nothing"
    return {
        "cpu_seconds": spent.cpu_seconds,
        "wall_seconds": spent.wall_seconds,
        "value_bytes": sum(report.value_bytes for report in reports),
        "records": sum(report.records for report in reports),
        "commit_ms": [report.durations_ms["commit"] for report in reports if report.commits],
        "idle_ms": idle_ms,
    }


def _loop(arguments: argparse.Namespace, workers: SparkWorkers, number: int, limits: TieringLimits) -> TieringLoop:
    clock = SystemClock()
    catalog = open_catalog(embedded_catalog_properties(arguments.folder / f"round-{number}"))
    return TieringLoop(
        broker=KafkaBroker(bootstrap=arguments.bootstrap),
        log_dirs=arguments.log_dir,
        writer=TableWriter(catalog, clock),
        verifier=Verifier(),
        workers=workers,
        rules=[TopicRule(pattern=arguments.topic, value_format="avro", schema_source=SchemaFolder(arguments.schemas))],
        clock=clock,
        limits=limits,
    )


def _until_nothing_is_left(loop: TieringLoop) -> list[CycleReport]:
    reports: list[CycleReport] = []
    for _ in range(_MOST_CYCLES):
        report = loop.cycle()
        problems = [*report.problems, *(part.problem for part in report.partitions if part.problem is not None)]
        if problems:
            raise problems[0]
        if not report.commits:
            waiting = [str(part.waiting) for part in report.partitions]
            assert reports, f"nothing was there to be tiered: {waiting}"
            return reports
        reports.append(report)
    raise AssertionError(f"{_MOST_CYCLES} cycles did not end the work")


if __name__ == "__main__":
    main()
