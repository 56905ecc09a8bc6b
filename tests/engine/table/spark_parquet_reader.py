"""``python spark_parquet_reader.py <file>``: the rows as Spark reads them, and what its filters find, as JSON."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession


def main(path: str) -> None:
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = (
        builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1").getOrCreate()
    )
    rows = spark.read.parquet(path)
    found = {
        "rows": [row.asDict(recursive=True) for row in rows.orderBy("n").collect()],
        "late": rows.where("n >= 250 and s = 'key 4'").count(),
        "negative": rows.where("d < -100").count(),
    }
    spark.stop()
    print(json.dumps(found, default=str))


if __name__ == "__main__":
    main(sys.argv[1])
