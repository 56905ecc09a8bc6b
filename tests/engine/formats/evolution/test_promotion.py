"""Arrays of older files as wide as the table has them: every value the same, every bit of a NaN kept."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.formats.evolution.promotion import can_become, holds, is_promotion, promoted

INT, LONG, TEXT = pa.int32(), pa.int64(), pa.string()
PAIRS = [
    (INT, LONG, [1, None, -(2**31), 2**31 - 1]),
    (pa.float32(), pa.float64(), [0.5, None, -0.0, float("inf"), 1e-45]),
    (pa.decimal128(5, 2), pa.decimal128(30, 2), [Decimal("1.25"), None, Decimal("-999.99")]),
]


@pytest.mark.parametrize(("narrow", "wide", "values"), PAIRS)
def test_values_are_the_same_at_every_level_and_in_slices(narrow: pa.DataType, wide: pa.DataType, values: Any) -> None:
    shapes = [
        (lambda kind: kind, values),
        (pa.list_, [values, None, [], values[::-1]]),
        (lambda kind: pa.map_(TEXT, kind), [[("k", value) for value in values], None, []]),
        (lambda kind: pa.struct([("a", kind), ("b", TEXT)]), [{"a": value, "b": "x"} for value in values] + [None]),
        (
            lambda kind: pa.list_(pa.struct([("m", pa.map_(TEXT, pa.list_(kind)))])),
            [[{"m": [("k", values), ("n", None)]}, None, {"m": None}], None],
        ),
    ]
    for shape, rows in shapes:
        array = pa.array(rows, shape(narrow))
        for part in (array, array[1:], array[:1], array[:0], pa.concat_arrays([array, array])[1:-1]):
            made = promoted(part, shape(wide))
            made.validate(full=True)
            assert made.type == shape(wide)
            assert made.to_pylist() == part.to_pylist()
            assert made.null_count == part.null_count


def test_struct_of_an_older_file_goes_on_lacking_what_it_lacks() -> None:
    array = pa.array([{"a": 1, "c": "x"}], pa.struct([("a", INT), ("c", TEXT)]))
    made = promoted(array, pa.struct([("z", TEXT), ("a", LONG), ("c", TEXT)]))
    assert made.type == pa.struct([("a", LONG), ("c", TEXT)])
    assert made.to_pylist() == array.to_pylist()


def test_every_bit_of_a_nan_is_kept() -> None:
    bits = np.array([0x7F800001, 0xFFC00000, 0x7FBFFFFF, 0x7FC12345, 0x7F800000, 0x80000000, 0x3F800000], np.uint32)
    wide = promoted(pa.array(bits.view(np.float32)), pa.float64()).to_numpy().view(np.uint64)
    expected = [0x7FF0000020000000, 0xFFF8000000000000, 0x7FF7FFFFE0000000, 0x7FF82468A0000000]
    assert wide.tolist() == [*expected, 0x7FF0000000000000, 1 << 63, 0x3FF0000000000000]


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pa.array([1], LONG), INT),
        (pa.array([1], INT), pa.float64()),
        (pa.array(["x"]), LONG),
        (pa.array(["x"]).dictionary_encode(), TEXT),
        (pa.array([Decimal("1.5")], pa.decimal128(5, 1)), pa.decimal128(9, 2)),
        (pa.array([[1]], pa.list_(LONG)), pa.list_(TEXT)),
    ],
)
def test_what_is_no_promotion_stays_as_it_is_for_the_codec_to_refuse(array: pa.Array, kind: pa.DataType) -> None:
    assert promoted(array, kind) is array


@pytest.mark.parametrize(("narrow", "wide", "_values"), PAIRS)
def test_column_holds_what_is_narrower_and_becomes_what_is_wider(
    narrow: pa.DataType, wide: pa.DataType, _values: Any
) -> None:
    for shape in (lambda kind: kind, pa.list_, lambda kind: pa.map_(TEXT, pa.list_(kind))):
        assert holds(shape(wide), shape(narrow))
        assert not holds(shape(narrow), shape(wide))
        assert can_become(shape(narrow), shape(wide))
        assert can_become(shape(wide), shape(narrow))
        assert not can_become(shape(narrow), shape(pa.bool_()))
    assert is_promotion(narrow, wide)
    assert not is_promotion(wide, narrow)
    assert not is_promotion(narrow, narrow)
    assert not can_become(pa.map_(narrow, TEXT), pa.map_(wide, TEXT)), "keys are never promoted"
