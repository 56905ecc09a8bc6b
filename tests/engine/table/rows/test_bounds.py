from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg import types as iceberg
from pyiceberg.conversions import from_bytes, to_bytes

from engine.table.rows.parquet_writer import NO_BOUNDS, TRUNCATED_LENGTH, bounds_of, comparable

texts = st.text(max_size=40)


@given(texts)
def test_text_lies_between_its_own_truncated_bounds(text: str) -> None:
    raw = text.encode()
    found = bounds_of(pa.string(), raw, raw)
    assert found.lower is not None
    assert found.lower <= raw
    assert len(found.lower.decode()) <= TRUNCATED_LENGTH
    if found.upper is not None:
        assert raw <= found.upper
        assert len(found.upper.decode()) <= TRUNCATED_LENGTH


@given(st.binary(max_size=40))
def test_bytes_lie_between_their_own_truncated_bounds(raw: bytes) -> None:
    found = bounds_of(pa.binary(), raw, raw)
    assert found.lower is not None
    assert found.lower <= raw
    assert found.upper is None or raw <= found.upper


@pytest.mark.parametrize(
    ("text", "upper"),
    [
        ("a" * 17, "a" * 15 + "b"),
        ("a" * 15 + "\U0010ffff" + "z", "a" * 14 + "b"),
        ("\U0010ffff" * 17, None),
        ("a" * 15 + "\ud7ffz", "a" * 15 + "\ue000"),
    ],
)
def test_upper_bound_steps_over_characters_that_have_no_next(text: str, upper: str | None) -> None:
    found = bounds_of(pa.string(), b"", text.encode()).upper
    assert found == (None if upper is None else upper.encode())


def test_upper_bound_of_the_highest_bytes_does_not_exist() -> None:
    assert bounds_of(pa.binary(), b"", b"\xff" * 17).upper is None
    assert bounds_of(pa.binary(), b"", b"\xff" * 16).upper == b"\xff" * 16
    assert bounds_of(pa.binary(), b"", b"\x01" + b"\xff" * 20).upper == b"\x02"


@given(st.integers(-(10**20) + 1, 10**20 - 1))
def test_decimal_is_serialized_as_the_library_reads_it(unscaled: int) -> None:
    kind = iceberg.DecimalType(20, 2)
    found = bounds_of(pa.decimal128(20, 2), unscaled, unscaled)
    assert found.lower == found.upper == to_bytes(kind, Decimal(unscaled).scaleb(-2))
    raw = unscaled.to_bytes(9, "big", signed=True)
    assert comparable(pa.decimal128(20, 2), raw) == unscaled


@pytest.mark.parametrize(
    ("arrow", "kind", "raw", "value"),
    [
        (pa.bool_(), iceberg.BooleanType(), True, True),
        (pa.int32(), iceberg.IntegerType(), -5, -5),
        (pa.int64(), iceberg.LongType(), 2**62, 2**62),
        (pa.float32(), iceberg.FloatType(), 1.5, 1.5),
        (pa.float64(), iceberg.DoubleType(), -0.1, -0.1),
        (pa.date32(), iceberg.DateType(), 20_000, 20_000),
        (pa.time64("us"), iceberg.TimeType(), 86_399_999_999, 86_399_999_999),
        (pa.timestamp("us", "UTC"), iceberg.TimestamptzType(), -1000, -1000),
    ],
)
def test_numbers_are_serialized_as_the_library_reads_them(
    arrow: pa.DataType, kind: iceberg.PrimitiveType, raw: object, value: object
) -> None:
    found = bounds_of(arrow, raw, raw)
    assert found.lower is not None
    assert from_bytes(kind, found.lower) == value


def test_uuids_have_no_bounds() -> None:
    assert bounds_of(pa.uuid(), b"\x00" * 16, b"\xff" * 16) == NO_BOUNDS
