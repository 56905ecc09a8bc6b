from __future__ import annotations

import pyarrow as pa
import pytest

from engine.errors import Invalid
from engine.table.windows import Clustering, FileWindows

SCHEMA = pa.schema(
    [
        ("region", pa.string()),
        ("amount", pa.decimal128(9, 2)),
        ("id", pa.uuid()),
        ("tags", pa.list_(pa.string())),
        ("where", pa.struct([("city", pa.string())])),
    ]
)


def test_words_of_the_footer_are_read_back() -> None:
    windows = FileWindows(clustering=Clustering(columns=("a", "b"), window_rows=7), first_groups=(0, 4, 6))
    assert FileWindows.from_json(windows.to_json()) == windows


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"columns": ["a"], "window_rows": 5, "first_groups": []}',
        '{"columns": ["a"], "window_rows": 5, "first_groups": [1, 2]}',
        '{"columns": ["a"], "window_rows": 5, "first_groups": [0, 2, 2]}',
        '{"columns": ["a"], "window_rows": 5, "first_groups": [0, 1.5]}',
        '{"columns": [], "window_rows": 5, "first_groups": [0]}',
        '{"columns": ["a", "a"], "window_rows": 5, "first_groups": [0]}',
        '{"columns": ["a"], "window_rows": 0, "first_groups": [0]}',
    ],
)
def test_words_that_say_nothing_sensible_are_refused(text: str) -> None:
    with pytest.raises((ValueError, TypeError, KeyError, Invalid)):
        FileWindows.from_json(text)


@pytest.mark.parametrize(
    ("column", "told"),
    [
        ("regoin", "no such column"),
        ("tags", "its values have parts"),
        ("where", "its values have parts"),
        ("id", "UUID"),
    ],
)
def test_column_that_nothing_can_be_sorted_by_is_invalid_and_left_out(column: str, told: str) -> None:
    clustering = Clustering(columns=("region", column))
    with pytest.raises(Invalid, match=f"by {column}.*{told}"):
        clustering.check(SCHEMA)
    assert clustering.within(SCHEMA) == Clustering(columns=("region",))
    assert Clustering(columns=(column,)).within(SCHEMA) is None


def test_columns_of_simple_types_are_sorted_by() -> None:
    clustering = Clustering(columns=("amount", "region"))
    clustering.check(SCHEMA)
    assert clustering.within(SCHEMA) == clustering
