"""Spark SQL over tables of a benchmark: a round runs every query once, and answers with the CPU and wall time and the
bytes read of each.

A program of its own (``python -m bench.clustering_spark``): a JVM keeps what an earlier benchmark loaded.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import psutil

from bench.cpu import measured
from bench.round_program import answer_rounds
from floeberg.java.maven_jars import ICEBERG_SPARK, MavenArtifact, class_path, resolve_jars

_SQLITE_DRIVER = (MavenArtifact.parse("org.xerial:sqlite-jdbc:3.50.3.0", alone=True),)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--queries", required=True, help="JSON: name to SQL")
    arguments = parser.parse_args()
    data_dir: Path = arguments.data_dir
    queries: dict[str, str] = json.loads(arguments.queries)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraClassPath": class_path((*resolve_jars(ICEBERG_SPARK), *resolve_jars(_SQLITE_DRIVER))),
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalog.floeberg": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.floeberg.type": "jdbc",
        "spark.sql.catalog.floeberg.uri": f"jdbc:sqlite:{data_dir / 'catalog.db'}",
        "spark.sql.catalog.floeberg.warehouse": (data_dir / "warehouse").as_uri(),
        "spark.sql.catalog.floeberg.cache-enabled": "false",
    }
    builder = SparkSession.builder.appName("clustering").master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
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
