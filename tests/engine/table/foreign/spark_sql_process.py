"""Another program that changes tables: Spark SQL with Iceberg's own catalog on the same SQLite database.

A process of its own, because Spark knows one session a process: a line of JSON in is a statement, one out its rows.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.embedded_spark import spark_over
from floeberg.processes.tied_process import tied


class SparkSqlProcess:
    """Spark over the catalog and the warehouse below ``data_dir``; a context manager."""

    def __init__(self, data_dir: Path) -> None:
        self._process = subprocess.Popen(
            tied([sys.executable, "-m", "tests.engine.table.foreign.spark_sql_process", str(data_dir)]),
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


def _serve(data_dir: Path) -> None:
    settings = {
        "spark.driver.memory": "768m",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.defaultCatalog": "floeberg",
    }
    session = spark_over(data_dir, settings=settings)
    for line in sys.stdin:
        try:
            rows = [[str(value) for value in row] for row in session.sql(json.loads(line)).collect()]
            print(json.dumps({"rows": rows}), flush=True)
        except Exception as error:  # noqa: BLE001 - the outermost guard of this process
            print(json.dumps({"error": str(error)[:2000]}), flush=True)
    session.stop()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
