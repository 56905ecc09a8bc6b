from __future__ import annotations

import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.table.parquet_file import ParquetFile
from engine.table.parquet_settings import DELTA_BYTE_ARRAY, DICTIONARY, ParquetSettings

pytestmark = pytest.mark.spark

READER = Path(__file__).with_name("spark_parquet_reader.py")
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
    rows = [row(n) for n in range(20_000)]
    out: list[bytes] = []
    file = ParquetFile(out.append, SCHEMA, ParquetSettings(encodings=ENCODINGS))
    for start in range(0, len(rows), 10_000):
        file.append(pa.RecordBatch.from_pylist(rows[start : start + 10_000], schema=SCHEMA))
        file.end_row_group()
    file.finish({})
    path = tmp_path / "x.parquet"
    path.write_bytes(b"".join(out))
    run = subprocess.run(
        [sys.executable, str(READER), str(path)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
    )
    assert run.returncode == 0, run.stderr[-3000:]
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["rows"] == json.loads(json.dumps(rows, default=str))
    assert found["late"] == sum(row["n"] >= 250 and row["s"] == "key 4" for row in rows)
    assert found["negative"] == sum(row["d"] < -100 for row in rows)
