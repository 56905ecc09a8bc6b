"""Realistic values by the ecosystem's own serializers: which need raw bytes; and each format is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.values import value_formats, value_shares
from bench.values.value_records import KINDS

KEYS = (
    *("decode_mb_per_second_core", "encode_mb_per_second_core", "records_per_second", "share_exact", "times_library"),
    *("library_decode_mb_per_second_core", "library_encode_mb_per_second_core", "times_library_encode"),
)


@pytest.mark.parametrize("format_name", ["avro", "protobuf", "json", "csv"])
def test_every_figure_of_a_format_is_measured(format_name: str) -> None:
    measured = value_formats.measure(
        repetitions=1, record_count=40, formats=[format_name], kinds=KINDS[:1], least_seconds=0.0
    )
    found = {each.key: each.middle for each in measured}
    assert found.keys() >= {f"values.{format_name}.{key}" for key in KEYS}
    assert all(value > 0 for value in found.values())
    assert found[f"values.{format_name}.share_exact"] == 1.0


def test_records_are_the_same_for_the_same_seed_and_valid_by_their_schemas() -> None:
    for kind in KINDS:
        assert kind.records(3) == kind.records(9)[:3]
        assert kind.records(3, seed=2) != kind.records(3)


@pytest.mark.catalog
def test_values_of_the_ecosystems_own_serializers_need_no_raw_bytes(tmp_path: Path) -> None:
    found = value_shares.shares(tmp_path, 300)
    assert found == dict.fromkeys(found, 1.0)
    assert found.keys() == {
        *("avro_confluent", "avro_java", "protobuf_confluent", "protobuf_java", "json_confluent", "json_dumps"),
        *("json_dumps_compact", "json_orjson", "json_jackson", "json_gson"),
    }
