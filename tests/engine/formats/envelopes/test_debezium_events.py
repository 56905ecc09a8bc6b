"""Events that Debezium's own envelope makes and Connect's converters write: unwrapped, and whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.values.java_producers import read_values, run_java
from engine.formats.codec import INFERENCE, OPEN, PLAIN_SCHEMA_ID, CodecSpec, Verdict, open_codec, propose_fields
from engine.records.records import ByteSpans
from floeberg.java.maven_jars import MavenArtifact

PROGRAM = Path(__file__).parents[3] / "java_serializers" / "ChangeEventWriter.java"
JARS = (
    MavenArtifact(group="org.apache.avro", name="avro", version="1.12.0"),
    MavenArtifact(group="org.apache.kafka", name="connect-json", version="4.1.1"),
    MavenArtifact(group="io.debezium", name="debezium-core", version="3.2.0.Final", alone=True),
    MavenArtifact(group="io.apicurio", name="apicurio-registry-utils-converter", version="2.6.8.Final", alone=True),
)
"""Debezium's envelope, Connect's JSON converter, and a converter to Avro that maps types as Confluent's does."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("events")
    run_java(JARS, PROGRAM, str(folder), "60")
    return folder


@pytest.mark.catalog
@pytest.mark.xdist_group("debezium")
@pytest.mark.parametrize("name", ["avro", "json", "json_with_schemas"])
def test_events_that_debezium_itself_makes_are_unwrapped_and_whole(written: Path, name: str) -> None:
    values = read_values(written / f"{name}.values")
    format_name = name.partition("_")[0]
    options = {"unwrap": "debezium"}
    if format_name == "avro":
        schema_id, text = 7, (written / "envelope.avsc").read_text()
    else:
        schema_id, text = PLAIN_SCHEMA_ID, _inferred(values, options)
    proposal = propose_fields(format_name, text, (), options=options)
    spec = CodecSpec(
        name=format_name, options=options, schemas={schema_id: text}, placements={schema_id: proposal.placement}
    )
    codec = open_codec(spec, proposal.fields)
    decoded = codec.decode(ByteSpans.from_list(values))
    assert (decoded.verdict == Verdict.EXACT).sum() == len(values), decoded.reasons
    wanted = np.array([value is not None for value in values])
    assert codec.encode(decoded.columns, decoded.schema_id, wanted).to_list() == values
    shown = decoded.columns.to_pylist()
    assert {row["debezium_op"] for row in shown} == {"c", "u", "r", "d", None}
    assert [row["name"] for row in shown[:3]] == ["Kundin 0 €", 'renamed "0"', None]
    assert shown[2]["debezium_before"]["name"] == "Kundin 0 €"
    assert {row.get("debezium_schema") is not None for row in shown if row["debezium_op"]} == {
        name == "json_with_schemas"
    }


def _inferred(values: list[bytes | None], options: dict[str, str]) -> str:
    options = {**options, INFERENCE: OPEN}
    fields = propose_fields("json", "", (), options=options).fields
    decoded = open_codec(CodecSpec(name="json", options=options), fields).decode(ByteSpans.from_list(values))
    assert decoded.proposed_schema is not None
    return decoded.proposed_schema
