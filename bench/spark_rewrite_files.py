"""The peer: Iceberg's own ``rewrite_data_files`` in Spark, on the same files (``python -m bench.spark_rewrite_files``).

Round ``n`` rewrites partition ``n``, by its default strategy (bin-pack: rows as they come, read and written whole). It
answers with the CPU-seconds of the whole process tree; what it wrote is verified by nobody. The first round pays for
class loading and the JIT; callers compare the later ones.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from bench.cpu import measured, tree_resident_bytes
from bench.round_program import answer_rounds
from floeberg.java.jdk import java_command
from floeberg.java.maven_jars import ICEBERG_SPARK, MavenArtifact, class_path, resolve_jars

_SQLITE_DRIVER = (MavenArtifact.parse("org.xerial:sqlite-jdbc:3.50.3.0", alone=True),)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    spark = spark_over(parser.parse_args().folder)
    answer_rounds(lambda number: _round(spark, number))
    spark.stop()


def spark_over(folder: Path) -> Any:
    """A session whose catalog ``floeberg`` is the embedded one below ``folder``."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    java_command()
    from pyspark.sql import SparkSession

    catalog = "spark.sql.catalog.floeberg"
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraClassPath": class_path((*resolve_jars(ICEBERG_SPARK), *resolve_jars(_SQLITE_DRIVER))),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "jdbc",
        f"{catalog}.uri": f"jdbc:sqlite:{folder / 'catalog.db'}",
        f"{catalog}.warehouse": (folder / "warehouse").as_uri(),
        f"{catalog}.cache-enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("rewrite-data-files")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _round(spark: Any, partition: int) -> dict[str, float]:
    call = (
        "CALL floeberg.system.rewrite_data_files(table => 'kafka.orders', "
        f"where => 'kafka_partition = {partition}', options => map('rewrite-all', 'true'))"
    )
    with measured(os.getpid()) as spent:
        (done,) = spark.sql(call).collect()
    assert done["failed_data_files_count"] == 0, "all files were rewritten"
    return {
        "cpu_seconds": spent.cpu_seconds,
        "wall_seconds": spent.wall_seconds,
        "peak_bytes": float(tree_resident_bytes(os.getpid())),
        "rewritten_files": float(done["rewritten_data_files_count"]),
    }


if __name__ == "__main__":
    main()
