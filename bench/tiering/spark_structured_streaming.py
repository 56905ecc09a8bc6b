"""The peer: Spark Structured Streaming reads the same topic with Kafka's client and writes with Iceberg's own writer.

A program of its own (``python -m bench.tiering.spark_structured_streaming``), because a JVM keeps what an earlier
benchmark loaded. A round answers with its CPU-seconds over the whole process tree, and the rows. The first round pays
for class loading and the JIT, like a restarted daemon's; callers compare the later ones.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from bench.cpu import measured
from bench.round_program import answer_rounds
from floeberg.demo.sample_orders import ORDER_SCHEMA
from floeberg.java.maven_jars import ICEBERG_SPARK, MavenArtifact, resolve_jars

# The newest combination whose every part the registry has.
_KAFKA_SOURCE = tuple(
    MavenArtifact.parse(text, alone=True)
    for text in (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.1",
        "org.apache.commons:commons-pool2:2.12.0",
        "org.apache.spark:spark-avro_2.13:4.1.1",
    )
)
_CONFLUENT_HEADER_BYTES = 5


def main() -> None:
    arguments = _arguments()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    jars = ",".join(map(str, (*resolve_jars(_KAFKA_SOURCE), *resolve_jars(ICEBERG_SPARK))))
    settings = {
        "spark.jars": jars,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalog.bench": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.bench.type": "hadoop",
        "spark.sql.catalog.bench.warehouse": str(arguments.warehouse),
    }
    builder = SparkSession.builder.master("local[2]").appName("structured-streaming")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    answer_rounds(lambda number: _round(spark, arguments, number))
    spark.stop()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--warehouse", type=Path, required=True)
    return parser.parse_args()


def _round(spark, arguments: argparse.Namespace, number: int) -> dict[str, float]:  # type: ignore[no-untyped-def]
    """The whole topic into a fresh table, to the end of what is there (``availableNow``)."""
    from pyspark.sql.avro.functions import from_avro
    from pyspark.sql.functions import col, expr

    table = f"bench.db.round_{number}"
    source = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", arguments.bootstrap)
        .option("subscribe", arguments.topic)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
    )
    body = expr(f"substring(value, {_CONFLUENT_HEADER_BYTES + 1}, length(value) - {_CONFLUENT_HEADER_BYTES})")
    metadata = [
        col("partition").alias("kafka_partition"),
        col("offset").alias("kafka_offset"),
        col("timestamp").alias("kafka_timestamp"),
        col("timestampType").alias("kafka_timestamp_type"),
        expr("cast(key as string)").alias("kafka_key"),
        col("headers").alias("kafka_headers"),
    ]
    frame = source.select(*metadata, from_avro(body, ORDER_SCHEMA).alias("v"))
    frame = frame.select(*[column for column in frame.columns if column != "v"], "v.*")
    empty = spark.createDataFrame([], frame.schema)
    empty.writeTo(table).tableProperty("write.parquet.compression-codec", "zstd").create()
    with measured(os.getpid()) as spent:
        query = (
            frame.writeStream.format("iceberg")
            .outputMode("append")
            .trigger(availableNow=True)
            .option("checkpointLocation", str(arguments.warehouse / f"checkpoint-{number}"))
            .toTable(table)
        )
        query.awaitTermination()
    return {
        "cpu_seconds": spent.cpu_seconds,
        "wall_seconds": spent.wall_seconds,
        "rows": spark.table(table).count(),
    }


if __name__ == "__main__":
    main()
