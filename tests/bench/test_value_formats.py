"""Realistic values by the ecosystem's own serializers: which need raw bytes; and each format is measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench import value_formats, value_shares
from bench.java_producers import read_values, run_java
from bench.value_records import KINDS
from engine.formats.value_codec import CodecSpec, Verdict, open_codec, propose_fields
from engine.records import ByteSpans
from floeberg.maven_jars import MavenArtifact

CHANGE_EVENTS = Path(__file__).parent.parent / "java_serializers" / "ChangeEventWriter.java"
DEBEZIUM = (
    MavenArtifact(group="org.apache.avro", name="avro", version="1.12.0"),
    MavenArtifact(group="org.apache.kafka", name="connect-json", version="4.1.1"),
    MavenArtifact(group="io.debezium", name="debezium-core", version="3.2.0.Final", alone=True),
    MavenArtifact(group="io.apicurio", name="apicurio-registry-utils-converter", version="2.6.8.Final", alone=True),
)

KEYS = (
    *("decode_mb_per_second_core", "encode_mb_per_second_core", "records_per_second", "share_exact", "times_library"),
    *("library_decode_mb_per_second_core", "library_encode_mb_per_second_core", "times_library_encode"),
)


@pytest.mark.parametrize("format_name", ["avro", "protobuf", "json"])
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
    assert found.keys() >= {"avro_confluent", "avro_java"}


@pytest.mark.catalog
def test_events_that_debezium_itself_makes_are_unwrapped_and_whole(tmp_path: Path) -> None:
    run_java(DEBEZIUM, CHANGE_EVENTS, str(tmp_path), "60")
    schema = (tmp_path / "envelope.avsc").read_text()
    values = read_values(tmp_path / "avro.values")
    options = {"unwrap": "debezium"}
    fields = propose_fields("avro", schema, (), options=options).fields
    codec = open_codec(CodecSpec(name="avro", options=options, schemas={7: schema}), fields)
    decoded = codec.decode(ByteSpans.from_list(values))
    assert decoded.count_of(Verdict.EXACT) == len(values)
    wanted = np.array([value is not None for value in values])
    assert codec.encode(decoded.columns, decoded.schema_id, wanted).to_list() == values
    assert [field.name for field in fields][:4] == ["id", "name", "email", "balance"]
    assert set(decoded.columns.field("debezium_op").to_pylist()) == {"c", "u", "r", "d", None}
