"""Column facts recomputed from values, held against Parquet's own counts, and against planted false claims."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.table.proof.leaf_facts import Leaf, LeafClaim, LeafFacts, bound_value, false_claims, leaf_facts, merge_facts
from engine.table.rows.parquet_writer import bounds_of


def numbered(name: str, kind: pa.DataType, number: int, *, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable, {b"PARQUET:field_id": str(number).encode()})


ITEM = pa.struct([numbered("price", pa.float64(), 7)])
SCHEMA = pa.schema(
    [
        numbered("id", pa.int64(), 1),
        numbered("address", pa.struct([numbered("city", pa.string(), 3), numbered("fee", pa.decimal128(9, 2), 4)]), 2),
        numbered("items", pa.list_(numbered("element", ITEM, 6)), 5),
        numbered(
            "labels", pa.map_(numbered("key", pa.string(), 9, nullable=False), numbered("value", pa.int32(), 10)), 8
        ),
        numbered("uuid", pa.uuid(), 11),
        numbered("at", pa.timestamp("us", "UTC"), 12),
        numbered("day", pa.date32(), 13),
        numbered("flag", pa.bool_(), 14),
        numbered("code", pa.binary(4), 15),
    ]
)
ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "address": {"city": "Århus", "fee": Decimal("-1.50")},
        "items": [{"price": 1.5}, {"price": float("nan")}, {"price": None}],
        "labels": [("k", 1), ("z", None)],
        "uuid": bytes(15) + b"\x05",
        "at": datetime(2020, 1, 1, tzinfo=UTC),
        "day": date(1960, 1, 1),
        "flag": True,
        "code": b"abcd",
    },
    {"id": -4, "address": {"city": None, "fee": None}, "items": [], "labels": [], "flag": False},
    {"id": None, "address": None, "items": None, "labels": None},
]
TABLE = pa.Table.from_pylist(ROWS, schema=SCHEMA)


def by_path(facts: dict[Leaf, LeafFacts]) -> dict[str, LeafFacts]:
    return {leaf.path: found for leaf, found in facts.items()}


def test_counts_equal_those_parquet_writes_for_every_leaf() -> None:
    sink = io.BytesIO()
    pq.write_table(TABLE, sink)
    group = pq.ParquetFile(sink).metadata.row_group(0)
    facts = list(leaf_facts(TABLE).values())
    assert len(facts) == group.num_columns
    for index, found in enumerate(facts):
        column = group.column(index)
        assert (found.value_count, found.null_count) == (column.num_values, column.statistics.null_count)


def test_extremes_reach_nested_leaves_and_leave_nan_out() -> None:
    facts = by_path(leaf_facts(TABLE))
    assert (facts["id"].least, facts["id"].greatest) == (-4, 1)
    assert facts["address.city"].least == "Århus".encode()
    assert facts["address.fee"].least == -150
    assert (facts["items.element.price"].least, facts["items.element.price"].nan_count) == (1.5, 1)
    assert (facts["labels.key"].least, facts["labels.key"].greatest) == (b"k", b"z")
    assert facts["at"].greatest == int(datetime(2020, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
    assert facts["day"].least == (date(1960, 1, 1) - date(1970, 1, 1)).days


def test_facts_of_parts_merge_to_the_facts_of_the_whole() -> None:
    parts = merge_facts(leaf_facts(TABLE.slice(0, 1)), leaf_facts(TABLE.slice(1)))
    assert parts == leaf_facts(TABLE)


def test_column_of_only_nan_has_no_extremes() -> None:
    table = pa.table([pa.array([float("nan")] * 2)], schema=pa.schema([numbered("x", pa.float64(), 1)]))
    (found,) = leaf_facts(table).values()
    assert found == LeafFacts(value_count=2, nan_count=2)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int32(), -7),
        (pa.int64(), 2**40),
        (pa.float32(), 1.5),
        (pa.float64(), -2.25),
        (pa.bool_(), True),
        (pa.decimal128(20, 3), -123_456_789_012),
        (pa.timestamp("us", "UTC"), -1),
        (pa.date32(), 19_000),
        (pa.string(), b"short"),
        (pa.binary(), b"\x00\xff"),
    ],
)
def test_bounds_that_the_writer_serializes_are_read_back(kind: pa.DataType, value: Any) -> None:
    bounds = bounds_of(kind, value, value)
    assert bounds.lower is not None
    assert bound_value(kind, bounds.lower) == value


CLAIM = LeafClaim(
    value_count=5,
    null_count=1,
    nan_count=None,
    lower=(3).to_bytes(8, "little", signed=True),
    upper=(9).to_bytes(8, "little", signed=True),
)
COLUMN = Leaf(field_id=1, path="amount", kind=pa.int64())


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (LeafFacts(value_count=5, null_count=1, least=3, greatest=9), None),
        (LeafFacts(value_count=5, null_count=1, least=4, greatest=8), None),
        (LeafFacts(value_count=5, null_count=1, least=2, greatest=9), "lower bound 3 excludes the value 2"),
        (LeafFacts(value_count=5, null_count=1, least=3, greatest=10), "upper bound 9 excludes the value 10"),
        (LeafFacts(value_count=6, null_count=1, least=3, greatest=9), "counts 5 values, the file has 6"),
        (LeafFacts(value_count=5, null_count=2, least=3, greatest=9), "counts 1 nulls, the file has 2"),
    ],
)
def test_claims_that_exclude_a_value_or_miscount_are_false(facts: LeafFacts, said: str | None) -> None:
    sentences = list(false_claims({COLUMN: facts}, {1: CLAIM}))
    assert len(sentences) == (said is not None)
    assert all(said is not None and said in sentence for sentence in sentences)


def test_claim_about_a_column_the_file_lacks_is_false() -> None:
    (sentence,) = false_claims({}, {1: CLAIM})
    assert "field id 1" in sentence


def test_bound_of_a_wrong_width_is_false() -> None:
    claim = LeafClaim(value_count=None, null_count=None, nan_count=None, lower=b"\x00", upper=None)
    facts = LeafFacts(value_count=1, least=1.0, greatest=1.0)
    (sentence,) = false_claims({Leaf(field_id=1, path="x", kind=pa.float64()): facts}, {1: claim})
    assert "is no double" in sentence
