"""Spark SQL on the tables, through the table door: a session of its own, apart from the daemon's."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from engine.errors import Invalid
from floeberg.java.jdk import java_command
from floeberg.java.maven_jars import ICEBERG_SPARK, class_path, resolve_jars
from floeberg.sql.answer import SqlAnswer, complete_statements, in_batches
from floeberg.sql.plain_value import as_written

CATALOG_NAME = "floeberg"


class SparkSession:
    """A local Spark with the catalog attached as ``floeberg`` and made current; a context manager.

    Takes some seconds to start and about 0.5 GB. One per process: Spark knows no second one with other settings.
    Raises ``Unavailable`` when Iceberg's jar can't be fetched, ``Invalid`` when there is no JDK.
    """

    def __init__(self, endpoint: str, *, token: str | None = None, namespace: str | None = None) -> None:
        java_command()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession as Session

        self._errors = PySparkException
        catalog = f"spark.sql.catalog.{CATALOG_NAME}"
        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.memory": "768m",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
            # On the class path from the start: a jar added later is not seen by the catalog's class loader.
            "spark.driver.extraClassPath": class_path(resolve_jars(ICEBERG_SPARK)),
            "spark.sql.defaultCatalog": CATALOG_NAME,
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            f"{catalog}.type": "rest",
            f"{catalog}.uri": endpoint,
            # Reads local paths as well as s3 URIs, without the S3 client that Iceberg would load for itself.
            f"{catalog}.io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
        }
        if namespace:
            settings[f"{catalog}.default-namespace"] = namespace
        builder = Session.builder.appName("floeberg sql").master("local[2]")
        for key, value in settings.items():
            builder = builder.config(key, value)
        self._session = builder.getOrCreate()
        if token:
            # The session's settings so far stand in the JVM's command line, which every user of the machine can read.
            self._session.conf.set(f"{catalog}.token", token)
        self._session.sparkContext.setLogLevel("ERROR")

    def __enter__(self) -> SparkSession:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def statements(self, text: str) -> list[str]:
        return complete_statements(text)

    @contextmanager
    def answer(self, statement: str) -> Iterator[SqlAnswer]:
        """Rows come partition by partition: what is held is one of them."""
        try:
            frame = self._session.sql(statement)
            is_float = ["float" in kind for _, kind in frame.dtypes]
            rows = (
                tuple(
                    as_written(_with_names(value)) if narrow else _with_names(value)
                    for narrow, value in zip(is_float, row, strict=True)
                )
                for row in frame.toLocalIterator()
            )
            yield SqlAnswer(names=frame.columns, batches=in_batches(rows))
        except self._errors as error:
            raise Invalid(f"Spark refuses the query: {str(error).splitlines()[0]}") from error

    def query(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Column names and all rows of a statement, where they are few."""
        with self.answer(sql) as answer:
            return list(answer.names), list(answer.rows())

    def close(self) -> None:
        self._session.stop()


def _with_names(value: Any) -> Any:
    """Structs, which Spark gives as tuples that know their names, as dicts."""
    if isinstance(value, tuple) and hasattr(value, "__fields__"):
        return {name: _with_names(item) for name, item in zip(value.__fields__, value, strict=True)}
    if isinstance(value, list):
        return [_with_names(item) for item in value]
    if isinstance(value, dict):
        return {key: _with_names(item) for key, item in value.items()}
    return value
