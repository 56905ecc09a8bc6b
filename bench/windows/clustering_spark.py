"""Spark SQL over tables of a benchmark: a round runs every query once, and answers with the CPU and wall time and the
bytes read of each.

A program of its own (``python -m bench.windows.clustering_spark``): a JVM keeps what an earlier benchmark loaded.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import psutil

from bench.cpu import measured
from bench.embedded_spark import spark_over
from bench.round_program import answer_rounds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--queries", required=True, help="JSON: name to SQL")
    arguments = parser.parse_args()
    data_dir: Path = arguments.data_dir
    queries: dict[str, str] = json.loads(arguments.queries)
    session = spark_over(data_dir, master="local[1]", settings={"spark.sql.shuffle.partitions": "1"})
    jvm = next(child for child in psutil.Process().children(recursive=True) if child.name() == "java")

    def run_all(_: int) -> dict[str, Any]:
        answers: dict[str, Any] = {}
        for name, query in queries.items():
            before = jvm.io_counters().read_chars
            with measured(jvm.pid) as spent:
                rows = [[str(value) for value in row] for row in session.sql(query).collect()]
            read_bytes = jvm.io_counters().read_chars - before
            took = {"cpu_ms": spent.cpu_seconds * 1000, "wall_ms": spent.wall_seconds * 1000}
            answers[name] = {**took, "read_bytes": read_bytes, "rows": rows}
        return answers

    answer_rounds(run_all)
    session.stop()


if __name__ == "__main__":
    main()
