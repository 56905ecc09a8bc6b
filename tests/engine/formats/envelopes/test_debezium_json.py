"""Debezium's events in JSON, Kafka Connect's schema beside them or not: the conformance suite, and inference."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from engine.formats.codec import INFERENCE, OPEN, PLAIN_SCHEMA_ID, CodecSpec, Verdict, open_codec, propose_fields
from engine.records.records import ByteSpans
from tests.engine.formats.conformance import ValueCodecConformance
from tests.engine.formats.envelopes.debezium_examples import changes

UNWRAP = {"unwrap": "debezium"}
CONNECT_SCHEMA = {"type": "struct", "fields": [{"type": "struct", "field": "after"}], "name": "shop.Envelope"}
ROW = {
    "type": ["object", "null"],
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": "string"},
        "email": {"type": ["string", "null"]},
        "balance": {"type": "string"},
        "tier": {"type": ["object", "null"], "properties": {"level": {"type": "integer"}}},
    },
}
SOURCE = {"type": "object", "properties": {"db": {"type": "string"}, "pos": {"type": "integer"}}}
SCHEMA = {
    "type": "object",
    "properties": {
        "before": ROW,
        "after": ROW,
        "source": SOURCE,
        "op": {"type": "string"},
        "ts_ms": {"type": "integer"},
    },
}


def as_json(value: dict[str, Any]) -> bytes:
    """As JsonConverter writes it: compact, decimals as base64, the members of the schema above."""
    for row in (value["before"], value["after"]):
        if row is not None:
            row["balance"] = "BNU="
    kept = {name: value[name] for name in ("before", "after", "source", "op", "ts_ms")}
    kept["source"] = {name: kept["source"][name] for name in ("db", "pos")}
    return json.dumps(kept, separators=(",", ":"), ensure_ascii=False).encode()


PLAIN = tuple(as_json(value) for _, value in changes(8) if value is not None)
BESIDE = tuple(
    b'{"schema":%s,"payload":%s}' % (json.dumps(CONNECT_SCHEMA, separators=(",", ":")).encode(), value)
    for value in PLAIN
)


class TestUnwrappedJson(ValueCodecConformance):
    schema_text = json.dumps(SCHEMA)
    spec = CodecSpec(name="json", options=UNWRAP, schemas={PLAIN_SCHEMA_ID: schema_text})
    exact_values = (*PLAIN, *BESIDE)
    inexact_values = (b"", PLAIN[0][:-1], BESIDE[0][:-2], b"[" * 50, b'{"op":7}')


def test_columns_are_inferred_from_payloads_and_every_event_comes_back() -> None:
    options = {**UNWRAP, INFERENCE: OPEN}
    values: list[bytes | None] = [*PLAIN, None, *BESIDE]
    before = propose_fields("json", "", (), options=options)
    found = open_codec(CodecSpec(name="json", options=options), before.fields).decode(ByteSpans.from_list(values))
    assert found.proposed_schema is not None
    proposal = propose_fields("json", found.proposed_schema, before.fields, options=options)
    schemas = {PLAIN_SCHEMA_ID: found.proposed_schema}
    spec = CodecSpec(name="json", options=options, schemas=schemas, placements={PLAIN_SCHEMA_ID: proposal.placement})
    codec = open_codec(spec, proposal.fields)
    decoded = codec.decode(ByteSpans.from_list(values))
    assert (decoded.verdict == Verdict.EXACT).sum() == len(values)
    shown = decoded.columns.to_pylist()
    assert [row["id"] for row in shown[: len(PLAIN)]] == [row["id"] for row in shown[len(PLAIN) + 1 :]]
    assert {row["debezium_op"] for row in shown} == {"c", "u", "r", "d", None}
    assert [row["debezium_schema"] is not None for row in shown] == [False] * (len(PLAIN) + 1) + [True] * len(BESIDE)
    wanted = np.array([value is not None for value in values])
    assert codec.encode(decoded.columns, decoded.schema_id, wanted).to_list() == values
