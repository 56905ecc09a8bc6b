"""Another program that changes tables: Spark SQL with Iceberg's own catalog on the same SQLite database.

A process of its own, because Spark knows one session a process: a line of JSON in is a statement, one out its rows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from floeberg.java.jdk import java_command
from floeberg.java.maven_jars import ICEBERG_SPARK, MavenArtifact, class_path, resolve_jars
from floeberg.tied_process import tied

SQLITE_DRIVER = (MavenArtifact.parse("org.xerial:sqlite-jdbc:3.50.3.0", alone=True),)


class SparkSqlProcess:
    """Spark over the catalog and the warehouse below ``data_dir``; a context manager."""

    def __init__(self, data_dir: Path) -> None:
        java_command()
        jars = class_path((*resolve_jars(ICEBERG_SPARK), *resolve_jars(SQLITE_DRIVER)))
        self._process = subprocess.Popen(
            tied([sys.executable, "-m", "tests.engine.table.foreign.spark_sql_process", str(data_dir), jars]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[4],
        )

    def __enter__(self) -> SparkSqlProcess:
        return self

    def __exit__(self, *exc_info: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=90)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def sql(self, statement: str) -> list[list[Any]]:
        """The rows of a statement; fails the test with Spark's words where it is refused."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(statement) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            # Java prints what it likes beside the answers.
            if line.startswith("{"):
                answer = json.loads(line)
                assert "error" not in answer, answer["error"]
                rows: list[list[Any]] = answer["rows"]
                return rows
        raise AssertionError(f"Spark ended, with {self._process.poll()}")


def _serve(data_dir: Path, jars: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "768m",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraClassPath": jars,
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.defaultCatalog": "floeberg",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.floeberg": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.floeberg.type": "jdbc",
        "spark.sql.catalog.floeberg.uri": f"jdbc:sqlite:{data_dir / 'catalog.db'}",
        "spark.sql.catalog.floeberg.warehouse": (data_dir / "warehouse").as_uri(),
        "spark.sql.catalog.floeberg.cache-enabled": "false",
    }
    builder = SparkSession.builder.appName("another program").master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    for line in sys.stdin:
        try:
            rows = [[str(value) for value in row] for row in session.sql(json.loads(line)).collect()]
            print(json.dumps({"rows": rows}), flush=True)
        except Exception as error:  # noqa: BLE001 - the outermost guard of this process
            print(json.dumps({"error": str(error)[:2000]}), flush=True)
    session.stop()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), sys.argv[2])
