from __future__ import annotations

from decimal import Decimal
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.parquet.settings import DELTA_BYTE_ARRAY, DICTIONARY, PAGE_ROWS, ParquetSettings
from engine.table.catalog.access import embedded_catalog_properties, open_catalog
from floeberg.sql.spark_session import SparkSession
from serving.tables.catalog_view import CatalogView
from serving.tables.door import table_door_routes
from tests.support.served_routes import served
from tests.support.spark_value import plain

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("sql_jvm")]

GROUP_ROWS = PAGE_ROWS + 1000
"""A row group has a whole page of each column, and one that is not."""
SCHEMA = pa.schema(
    [
        pa.field("n", pa.int64(), False),
        pa.field("s", pa.string()),
        pa.field("id", pa.string()),
        pa.field("note", pa.string()),
        pa.field("d", pa.decimal128(30, 2)),
        pa.field("flag", pa.bool_()),
        pa.field("small", pa.int32()),
        pa.field("l", pa.list_(pa.field("element", pa.struct([("x", pa.float64()), ("y", pa.list_(pa.int32()))])))),
        pa.field("m", pa.map_(pa.string(), pa.int64())),
        pa.field("nothing", pa.string()),
    ]
)
ENCODINGS = {"s": DICTIONARY, "id": DELTA_BYTE_ARRAY, "small": DICTIONARY, "l.list.element.x": DICTIONARY}


def row(n: int) -> dict[str, Any]:
    return {
        "n": n,
        "s": f"key {n % 10}" if n % 3 else None,
        "id": f"order-{n:012d}",
        "note": "é" * (n % 7) if n % 4 else None,
        "d": Decimal(n - 150).quantize(Decimal("0.01")),
        "flag": n % 2 == 0 if n % 5 else None,
        "small": 2**31 - 1 - n,
        "l": [{"x": n / 2, "y": [n, None] * (n % 3)} for _ in range(n % 4)] if n % 6 else None,
        "m": {f"k{k}": n * k for k in range(n % 3)} if n % 7 else None,
        "nothing": None,
    }


def test_spark_reads_the_same_rows_and_filters_by_our_statistics(tmp_path: Path) -> None:
    rows = [row(n) for n in range(2 * GROUP_ROWS)]
    path = tmp_path / "x.parquet"
    with pq.ParquetWriter(path, SCHEMA, **ParquetSettings(encodings=ENCODINGS).writer_options(SCHEMA)) as writer:
        writer.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), row_group_size=GROUP_ROWS)
    no_tables = table_door_routes(CatalogView(open_catalog(embedded_catalog_properties(tmp_path))))
    with served(no_tables) as door, SparkSession(door) as spark:
        names, read = spark.query(f"SELECT * FROM parquet.`{path}`")
        counts = spark.query(
            f"SELECT 'late', count(*) FROM parquet.`{path}` WHERE n >= 250 AND s = 'key 4'"
            f" UNION ALL SELECT 'negative', count(*) FROM parquet.`{path}` WHERE d < -100"
        )[1]
    assert names == SCHEMA.names
    found = [plain(dict(zip(names, values, strict=True))) for values in read]
    assert sorted(found, key=itemgetter("n")) == rows
    assert dict(counts) == {
        "late": sum(row["n"] >= 250 and row["s"] == "key 4" for row in rows),
        "negative": sum(row["d"] < -100 for row in rows),
    }
