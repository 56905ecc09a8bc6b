"""The peer: Iceberg's own ``rewrite_data_files`` in Spark, on the same files.

A program of its own (``python -m bench.merging.spark_rewrite_files``).

Round ``n`` rewrites partition ``n``, by its default strategy (bin-pack: rows as they come, read and written whole). It
answers with the CPU-seconds of the whole process tree; what it wrote is verified by nobody. The first round pays for
class loading and the JIT; callers compare the later ones.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from bench.cpu import measured, tree_resident_bytes
from bench.embedded_spark import spark_over
from bench.round_program import answer_rounds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    spark = spark_over(parser.parse_args().folder)
    answer_rounds(lambda number: _round(spark, number))
    spark.stop()


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
