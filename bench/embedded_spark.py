"""Another program on our tables: a Spark session whose catalog ``floeberg`` is the embedded one below a data directory.

Spark knows one session a process.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from floeberg.java.jdk import java_command
from floeberg.java.maven_jars import ICEBERG_SPARK, MavenArtifact, class_path, resolve_jars

_SQLITE_DRIVER = (MavenArtifact.parse("org.xerial:sqlite-jdbc:3.50.3.0", alone=True),)
_CATALOG = "spark.sql.catalog.floeberg"


def spark_over(data_dir: Path, *, master: str = "local[2]", settings: dict[str, str] | None = None) -> Any:
    """A ``pyspark.sql.SparkSession``; ``settings`` win over those here. Raises Unavailable without jars, Invalid
    without a JDK."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    java_command()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master)
    chosen = {
        "spark.app.name": "another program",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraClassPath": class_path((*resolve_jars(ICEBERG_SPARK), *resolve_jars(_SQLITE_DRIVER))),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        _CATALOG: "org.apache.iceberg.spark.SparkCatalog",
        f"{_CATALOG}.type": "jdbc",
        f"{_CATALOG}.uri": f"jdbc:sqlite:{data_dir / 'catalog.db'}",
        f"{_CATALOG}.warehouse": (data_dir / "warehouse").as_uri(),
        f"{_CATALOG}.cache-enabled": "false",
        **(settings or {}),
    }
    for name, value in chosen.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
